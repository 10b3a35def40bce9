# Of a program on the CPU and on another device, that other's part moves. On the CPU, or where it is asked for, all does.
# RUN: coil opt --device cuda --set cuda.arch=sm_90 --pass find-devices --pass place-on-devices %s | FileCheck %s
# RUN: coil opt --pass find-devices --pass place-on-devices %s | FileCheck %s --check-prefix=CPU
# RUN: coil opt --device cuda --set one_device=true --set cuda.arch=sm_90 --pass find-devices --pass place-on-devices %s | FileCheck %s --check-prefix=ONE
graph():
    %x : f32[4]@cuda:1 = placeholder[target=x]
    %y : f32[4] = placeholder[target=y]
    %z : f32[4] = call_function[target=aten._to_copy.default](args = (%x,), kwargs = {device: cpu})
    %f : f32[4]@cuda:1 = call_function[target=aten.full.default](args = ([4], 1.0), kwargs = {device: cuda:1})
    %s : f32[4] = call_function[target=aten.add.Tensor](args = (%y, %z), kwargs = {})
    return (%s, %f)
# CHECK:      %x : f32[4]@cuda:0 = placeholder
# CHECK-NEXT: %y : f32[4] = placeholder
# CHECK-NEXT: %z : f32[4] = call_function[target=aten._to_copy.default](args = (%x,), kwargs = {device: cpu})
# CHECK-NEXT: %f : f32[4]@cuda:0 = call_function[target=aten.full.default](args = ([4], 1.0), kwargs = {device: cuda:0})
# CHECK-NEXT: %s : f32[4] = call_function
# CPU-NOT:    cuda
# ONE:        %y : f32[4]@cuda:0 = placeholder
# ONE-NEXT:   %z : f32[4]@cuda:0 = call_function[target=aten._to_copy.default](args = (%x,), kwargs = {device: cuda:0})
