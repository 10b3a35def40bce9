# Operators that give views although their schemas say nothing of it: atleast_2d, conj_physical of real tensors,
# broadcast_tensors, meshgrid.
# RUN: coil opt --pass functionalize %s | FileCheck %s
graph():
    %x : f32[4] = placeholder[target=x]
    %y : f32[3, 4] = placeholder[target=y]
    %row = call_function[target=aten.atleast_2d.default](args = (%x,), kwargs = {})
    %a = call_function[target=aten.add_.Tensor](args = (%row, 1), kwargs = {})
    %same = call_function[target=aten.conj_physical.default](args = (%x,), kwargs = {})
    %b = call_function[target=aten.mul_.Tensor](args = (%same, 2), kwargs = {})
    %both = call_function[target=aten.broadcast_tensors.default](args = ([%x, %y],), kwargs = {})
    %wide = call_function[target=_operator.getitem](args = (%both, 0), kwargs = {})
    %whole = call_function[target=_operator.getitem](args = (%both, 1), kwargs = {})
    %c = call_function[target=aten.neg_.default](args = (%whole,), kwargs = {})
    %line = call_function[target=aten.select.int](args = (%wide, 0, 1), kwargs = {})
    %d = call_function[target=aten.exp_.default](args = (%line,), kwargs = {})
    %grids = call_function[target=aten.meshgrid.indexing](args = ([%x, %x],), kwargs = {indexing: "ij"})
    %grid = call_function[target=_operator.getitem](args = (%grids, 0), kwargs = {})
    %column = call_function[target=aten.select.int](args = (%grid, 1, 3), kwargs = {})
    %e = call_function[target=aten.sin_.default](args = (%column,), kwargs = {})
    return ()
# CHECK: %[[A:.*]] : f32[1, 4] = call_function[target=aten.add.Tensor]
# CHECK: %[[X1:.*]] : f32[4] = call_function[target=aten.reshape.default](args = (%[[A]], [4]), kwargs = {})
# CHECK: %[[X2:.*]] : f32[4] = call_function[target=aten.mul.Tensor](args = (%[[X1]], 2), kwargs = {})
# CHECK: %[[Y:.*]] : f32[3, 4] = call_function[target=aten.neg.default](args = (%y,), kwargs = {})
# CHECK: %[[E:.*]] : f32[4] = call_function[target=aten.exp.default]
# CHECK: %[[X3:.*]] : f32[4] = call_function[target=aten.as_strided_scatter.default](args = (%[[X2]], %[[E]], [4], [1], 0), kwargs = {})
# CHECK: %[[S:.*]] : f32[4] = call_function[target=aten.sin.default]
# CHECK: %[[X4:.*]] : f32[4] = call_function[target=aten.as_strided_scatter.default](args = (%[[X3]], %[[S]], [4], [1], 0), kwargs = {})
# CHECK: return (%[[X4]], %[[Y]])
