# Fourier transforms wait for the device. The library of CPUs has those of any length; short ones become products.
# RUN: coil opt --pass decompose %s | FileCheck %s --check-prefix=BEFORE
# RUN: coil opt --pass decompose-for-device %s | FileCheck %s
graph():
    %many : f32[8, 64] = placeholder[target=many]
    %short : f32[8, 16] = placeholder[target=short]
    %one : f32[1, 64] = placeholder[target=one]
    %prime : f32[1, 4099] = placeholder[target=prime]
    %a : [f32[8, 33], f32[8, 33]] = call_function[target=coil.fourier.default](args = (%many, None, 1, False, True), kwargs = {})
    %a0 = call_function[target=_operator.getitem](args = (%a, 0), kwargs = {})
    %b : [f32[8, 16], f32[8, 16]] = call_function[target=coil.fourier.default](args = (%short, %short, 1, True, False), kwargs = {})
    %b0 = call_function[target=_operator.getitem](args = (%b, 0), kwargs = {})
    %c : [f32[1, 64], f32[1, 64]] = call_function[target=coil.fourier.default](args = (%one, None, 1, False, False), kwargs = {})
    %c1 = call_function[target=_operator.getitem](args = (%c, 1), kwargs = {})
    %d : [f32[1, 4099], f32[1, 4099]] = call_function[target=coil.fourier.default](args = (%prime, None, 1, False, False), kwargs = {})
    %d0 = call_function[target=_operator.getitem](args = (%d, 0), kwargs = {})
    return (%a0, %b0, %c1, %d0)
# BEFORE-COUNT-4: coil.fourier.default
# CHECK: coil.fourier.default](args = (%many,
# CHECK-NOT: coil.fourier.default](args = (%short
# CHECK: coil.fourier.default](args = (%one,
# CHECK: coil.fourier.default](args = (%prime,
# CHECK-NOT: coil.fourier
