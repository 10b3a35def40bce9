# A program on one device moves as a whole: tensors, and devices among the arguments.
# RUN: coil opt --device cuda --set cuda.arch=sm_90 --pass place-on-devices %s | FileCheck %s
graph():
    %x : f32[4] = placeholder[target=x]
    %f : f32[4] = call_function[target=aten.full.default](args = ([4], 1.0), kwargs = {device: cpu})
    %y : f32[4] = call_function[target=aten.add.Tensor](args = (%x, %f), kwargs = {})
    return (%y,)
# CHECK:      %x : f32[4]@cuda:0 = placeholder
# CHECK-NEXT: %f : f32[4]@cuda:0 = call_function[target=aten.full.default](args = ([4], 1.0), kwargs = {device: cuda:0})
# CHECK-NEXT: %y : f32[4]@cuda:0 = call_function
