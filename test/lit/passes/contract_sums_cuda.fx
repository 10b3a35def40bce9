# On a GPU a batch of two dimensions that take steps of their own is copied into one, rows as they lie.
# RUN: coil opt --device cuda --set cuda.arch=sm_90 --pass contract-sums %s | FileCheck %s
graph():
    %x : f32[4, 128, 8, 64] = placeholder[target=x]
    %w : f32[4, 96, 8, 64] = placeholder[target=w]
    %xs = call_function[target=aten.unsqueeze.default](args = (%x, 2), kwargs = {})
    %ws = call_function[target=aten.unsqueeze.default](args = (%w, 1), kwargs = {})
    %p = call_function[target=aten.mul.Tensor](args = (%xs, %ws), kwargs = {})
    %y = call_function[target=aten.sum.dim_IntList](args = (%p, [-1]), kwargs = {})
    return (%y,)
# CHECK: %[[X:.*]] : f32[32, 128, 64] = call_function[target=aten.view.default]
# CHECK: %[[W:.*]] : f32[32, 64, 96]{6144, 1, 64} = call_function[target=aten.permute.default]
# CHECK: %[[C:.*]] : f32[32, 128, 96] = call_function[target=coil.contraction.default](args = (%[[X]], %[[W]]), kwargs = {})
