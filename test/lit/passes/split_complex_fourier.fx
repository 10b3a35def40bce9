# Transforms become Coil's own operators on real and imaginary parts, one for each dimension.
# RUN: coil opt --pass split-complex %s | FileCheck %s
graph():
    %x : f32[6, 40] = placeholder[target=x]
    %z : c64[6, 21] = call_function[target=aten.fft_rfft2.default](args = (%x, None, [-2, -1], None), kwargs = {})
    %y : f32[6, 40] = call_function[target=aten.fft_irfft.default](args = (%z, 40, -1, None), kwargs = {})
    return (%y,)
# CHECK:      %[[ROWS:.*]] : [f32[6, 21], f32[6, 21]] = call_function[target=coil.fourier.default](args = (%x, None, 1, False, True)
# CHECK:      coil.fourier.default](args = (%[[RE:.*]], %[[IM:.*]], 0, False, False)
# CHECK:      coil.fourier_to_real.default](args = (%{{.*}}, %{{.*}}, 1, 40)
# CHECK-NOT:  c64
