# Complex tensors become their real and imaginary parts; at the border their memory is copied as pairs.
# RUN: coil opt --pass split-complex %s | FileCheck %s
graph():
    %z : c64[3] = placeholder[target=z]
    %x : f32[3] = placeholder[target=x]
    %w : c64[3] = call_function[target=aten.mul.Tensor](args = (%z, %x), kwargs = {})
    %a : f32[3] = call_function[target=aten.abs.default](args = (%w,), kwargs = {})
    %c : c64[3] = call_function[target=aten.conj_physical.default](args = (%z,), kwargs = {})
    return (%a, %c)
# CHECK-NOT:  aten.conj_physical
# CHECK:      = call_function[target=aten.view_as_real.default](args = (%z,), kwargs = {})
# CHECK:      aten.mul.Tensor
# CHECK:      aten.mul.Tensor
# CHECK:      %[[A:.*]] : f32[3] = call_function[target=aten.hypot.default]
# CHECK:      aten.neg.default
# CHECK:      aten.stack.default
# CHECK:      %[[C:.*]] : c64[3] = call_function[target=aten.view_as_complex.default]
# CHECK-NEXT: return (%[[A]], %[[C]])
