# On a GPU, kernels transform lengths with small factors; a length that has none is a convolution by a chirp, of which
# the transforms are such; others go in two steps.
# RUN: coil opt --device cuda --set cuda.arch=sm_90a --pass decompose-for-device %s | FileCheck %s
graph():
    %x : f32[8, 64]@cuda:0 = placeholder[target=x]
    %y : f32[8, 509]@cuda:0 = placeholder[target=y]
    %z : f32[8, 202]@cuda:0 = placeholder[target=z]
    %a : [f32[8, 33]@cuda:0, f32[8, 33]@cuda:0] = call_function[target=coil.fourier.default](args = (%x, None, 1, False, True), kwargs = {})
    %a_re = call_function[target=_operator.getitem](args = (%a, 0), kwargs = {})
    %b : [f32[8, 509]@cuda:0, f32[8, 509]@cuda:0] = call_function[target=coil.fourier.default](args = (%y, %y, 1, False, False), kwargs = {})
    %b_re = call_function[target=_operator.getitem](args = (%b, 0), kwargs = {})
    %c : [f32[8, 202]@cuda:0, f32[8, 202]@cuda:0] = call_function[target=coil.fourier.default](args = (%z, %z, 1, False, False), kwargs = {})
    %c_re = call_function[target=_operator.getitem](args = (%c, 0), kwargs = {})
    return (%a_re, %b_re, %c_re)
# CHECK: %a : [f32[8, 33]@cuda:0, f32[8, 33]@cuda:0] = call_function[target=coil.fourier.default](args = (%x, None, 1, False, True)
# CHECK-DAG: [f32[8, 1024]@cuda:0, f32[8, 1024]@cuda:0] = call_function[target=coil.fourier.default]({{.*}}, 1, False, False)
# CHECK-DAG: [f32[1024]@cuda:0, f32[1024]@cuda:0] = call_function[target=coil.fourier.default]
# CHECK: [f32[8, 1024]@cuda:0, f32[8, 1024]@cuda:0] = call_function[target=coil.fourier.default]({{.*}}, 1, True, False)
# CHECK: [f32[8, 101, 2]@cuda:0, f32[8, 101, 2]@cuda:0] = call_function[target=coil.fourier.default]({{.*}}, 2, False, False)
# CHECK: call_function[target=aten.mm.default]
