# A gradient must have the sizes of what its operator made.
# RUN: not coil opt --pass check-calls %s 2>&1 | FileCheck %s
# CHECK: aten.avg_pool2d_backward.default: sizes of `grad_output`: 4 is not 2
graph():
    %grad : f32[1, 3, 4, 4] = placeholder[target=grad]
    %x : f32[1, 3, 4, 4] = placeholder[target=x]
    %made : f32[1, 3, 4, 4] = call_function[target=aten.avg_pool2d_backward.default](args = (%grad, %x, [2, 2], [2, 2], [0, 0], False, True, None), kwargs = {})
    return (%made,)
