# Attention that is written by einsum, heads before or behind positions.
# RUN: coil opt --pass fuse-attention %s | FileCheck %s
graph():
    %q : f32[2, 5, 4, 16] = placeholder[target=q]
    %k : f32[2, 7, 4, 16] = placeholder[target=k]
    %v : f32[2, 7, 4, 16] = placeholder[target=v]
    %scores : f32[2, 4, 5, 7] = call_function[target=aten.einsum.default](args = ("bqhd,bkhd->bhqk", [%q, %k]), kwargs = {})
    %scaled : f32[2, 4, 5, 7] = call_function[target=aten.mul.Tensor](args = (%scores, 0.25), kwargs = {})
    %weights : f32[2, 4, 5, 7] = call_function[target=aten.softmax.int](args = (%scaled, -1), kwargs = {})
    %result : f32[2, 5, 4, 16]{320, 16, 80, 1} = call_function[target=aten.einsum.default](args = ("bhqk,bkhd->bqhd", [%weights, %v]), kwargs = {})
    return (%result,)
# CHECK: %[[Q:.*]] : {{.*}} = call_function[target=aten.permute.default](args = (%q, [0, 2, 1, 3]), kwargs = {})
# CHECK: %[[K:.*]] : {{.*}} = call_function[target=aten.permute.default](args = (%k, [0, 2, 1, 3]), kwargs = {})
# CHECK: %[[V:.*]] : {{.*}} = call_function[target=aten.permute.default](args = (%v, [0, 2, 1, 3]), kwargs = {})
# CHECK: aten.scaled_dot_product_attention.default](args = (%[[Q]], %[[K]], %[[V]])
# CHECK-NOT: aten.einsum
