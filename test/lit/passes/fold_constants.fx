# What follows from a weight alone is computed now, where that saves enough; what is small stays.
# RUN: coil opt --pass fold-constants %s | FileCheck %s
graph():
    %w : f32[256, 256] = get_attr[target=w]
    %small : f32[4] = get_attr[target=small]
    %x : f32[256, 256] = placeholder[target=x]
    %e : f32[256, 256] = call_function[target=aten.exp.default](args = (%w,), kwargs = {})
    %y : f32[256, 256] = call_function[target=aten.mul.Tensor](args = (%x, %e), kwargs = {})
    return (%y,)
# CHECK:     %[[F:.*]] : f32[256, 256] = get_attr[target=folded.e]
# CHECK-NOT: aten.exp
# CHECK:     aten.mul.Tensor](args = (%x, %[[F]]), kwargs = {})
