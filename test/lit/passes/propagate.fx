# Types that are not there are computed; strides follow those of the operands.
# RUN: coil opt --pass propagate %s | FileCheck %s
graph(s0: [1, 64] = 3):
    %x : f32[s0, 8] = placeholder[target=x]
    %t = call_function[target=aten.permute.default](args = (%x, [1, 0]), kwargs = {})
    %y = call_function[target=aten.add.Tensor](args = (%t, 1), kwargs = {})
    %s = call_function[target=aten.sum.dim_IntList](args = (%y, [0]), kwargs = {})
    return (%s,)
# CHECK:      %t : f32[8, s0]{1, 8} = call_function
# CHECK-NEXT: %y : f32[8, s0]{1, 8} = call_function
# CHECK-NEXT: %s : f32[s0] = call_function
