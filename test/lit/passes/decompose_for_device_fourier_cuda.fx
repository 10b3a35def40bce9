# A GPU's library has no Fourier transforms: the first half of one is a product with as many columns.
# RUN: coil opt --device cuda --set cuda.arch=sm_90a --pass decompose-for-device %s | FileCheck %s
graph():
    %x : f32[8, 64]@cuda:0 = placeholder[target=x]
    %a : [f32[8, 33]@cuda:0, f32[8, 33]@cuda:0] = call_function[target=coil.fourier.default](args = (%x, None, 1, False, True), kwargs = {})
    %re = call_function[target=_operator.getitem](args = (%a, 0), kwargs = {})
    %im = call_function[target=_operator.getitem](args = (%a, 1), kwargs = {})
    return (%re, %im)
# CHECK-NOT: coil.fourier
# CHECK-COUNT-2: f32[8, 33]@cuda:0 = call_function[target=aten.mm.default](args = (%x,
