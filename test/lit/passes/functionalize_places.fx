# Writes by places in memory: to a window of overlapping ones, to one of an expansion, one number to all of it, and to
# strided views of what a tensor's memory is in another type.
# RUN: coil opt --pass functionalize %s | FileCheck %s
graph():
    %x : f32[9] = placeholder[target=x]
    %w = call_function[target=aten.unfold.default](args = (%x, 0, 3, 1), kwargs = {})
    %s = call_function[target=aten.select.int](args = (%w, 0, 2), kwargs = {})
    %a = call_function[target=aten.add_.Tensor](args = (%s, 1), kwargs = {})
    %y : f32[1, 4] = placeholder[target=y]
    %e = call_function[target=aten.expand.default](args = (%y, [3, 4]), kwargs = {})
    %one = call_function[target=aten.select.int](args = (%e, 0, 2), kwargs = {})
    %b = call_function[target=aten.mul_.Tensor](args = (%one, 2), kwargs = {})
    %c = call_function[target=aten.fill_.Scalar](args = (%e, 1.0), kwargs = {})
    %z : f32[4, 6] = placeholder[target=z]
    %bits = call_function[target=aten.view.dtype](args = (%z, i16), kwargs = {})
    %some = call_function[target=aten.as_strided.default](args = (%bits, [2, 2], [4, 1], 1), kwargs = {})
    %d = call_function[target=aten.add_.Tensor](args = (%some, 1), kwargs = {})
    %q : c64[4, 6] = placeholder[target=q]
    %real = call_function[target=aten.real.default](args = (%q,), kwargs = {})
    %parts = call_function[target=aten.as_strided.default](args = (%real, [2, 2], [4, 2], 1), kwargs = {})
    %f = call_function[target=aten.add_.Tensor](args = (%parts, 1), kwargs = {})
    return ()
# CHECK: %[[X:.*]] : f32[9] = call_function[target=aten.as_strided_scatter.default](args = (%x, %{{.*}}, [3], [1], 2), kwargs = {})
# CHECK: %[[Y:.*]] : f32[1, 4] = call_function[target=aten.as_strided_scatter.default](args = (%y, %{{.*}}, [4], [1], 0), kwargs = {})
# CHECK: %[[Y2:.*]] : f32[1, 4] = call_function[target=aten.as_strided_scatter.default](args = (%[[Y]], %{{.*}}, [3, 4], [0, 1], 0), kwargs = {})
# CHECK: %[[I:.*]] : i16[4, 12] = call_function[target=aten.as_strided_scatter.default](args = (%{{.*}}, %{{.*}}, [2, 2], [4, 1], 1), kwargs = {})
# CHECK: %[[Z:.*]] : f32[4, 6] = call_function[target=aten.view.dtype](args = (%[[I]], f32), kwargs = {})
# CHECK: %[[P:.*]] : f32[4, 6, 2] = call_function[target=aten.as_strided_scatter.default](args = (%{{.*}}, %{{.*}}, [2, 2], [4, 2], 1), kwargs = {})
# CHECK: %[[Q:.*]] : c64[4, 6] = call_function[target=aten.complex.default]
# CHECK: return (%[[X]], %[[Y2]], %[[Z]], %[[Q]])
