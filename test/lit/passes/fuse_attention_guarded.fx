# What run_decompositions() leaves of scaled_dot_product_attention with a bool mask: scale on both sides, the guard against rows without any unmasked score.
# RUN: coil opt --pass fuse-attention %s | FileCheck %s
graph():
    %q : f32[1, 4, 8, 16] = placeholder[target=q]
    %k : f32[1, 4, 10, 16] = placeholder[target=k]
    %v : f32[1, 4, 10, 16] = placeholder[target=v]
    %mask : b8[1, 1, 8, 10] = placeholder[target=mask]
    %low = call_function[target=aten.scalar_tensor.default](args = (-inf,), kwargs = {dtype: f32})
    %zero = call_function[target=aten.scalar_tensor.default](args = (0.0,), kwargs = {dtype: f32})
    %bias = call_function[target=aten.where.self](args = (%mask, %zero, %low), kwargs = {})
    %qs = call_function[target=aten.mul.Scalar](args = (%q, 0.5), kwargs = {})
    %kt = call_function[target=aten.permute.default](args = (%k, [0, 1, 3, 2]), kwargs = {})
    %ks = call_function[target=aten.mul.Scalar](args = (%kt, 0.5), kwargs = {})
    %q3 = call_function[target=aten.view.default](args = (%qs, [4, 8, 16]), kwargs = {})
    %k3 = call_function[target=aten.view.default](args = (%ks, [4, 16, 10]), kwargs = {})
    %bmm = call_function[target=aten.bmm.default](args = (%q3, %k3), kwargs = {})
    %s = call_function[target=aten.view.default](args = (%bmm, [1, 4, 8, 10]), kwargs = {})
    %masked = call_function[target=aten.add.Tensor](args = (%s, %bias), kwargs = {})
    %p = call_function[target=aten._softmax.default](args = (%masked, -1, False), kwargs = {})
    %eq = call_function[target=aten.eq.Scalar](args = (%masked, -inf), kwargs = {})
    %ne = call_function[target=aten.logical_not.default](args = (%eq,), kwargs = {})
    %some = call_function[target=aten.any.dim](args = (%ne, -1, True), kwargs = {})
    %none = call_function[target=aten.logical_not.default](args = (%some,), kwargs = {})
    %zeros = call_function[target=aten.full_like.default](args = (%p, 0), kwargs = {})
    %guarded = call_function[target=aten.where.self](args = (%none, %zeros, %p), kwargs = {})
    %p3 = call_function[target=aten.view.default](args = (%guarded, [4, 8, 10]), kwargs = {})
    %v3 = call_function[target=aten.view.default](args = (%v, [4, 10, 16]), kwargs = {})
    %o3 = call_function[target=aten.bmm.default](args = (%p3, %v3), kwargs = {})
    %o = call_function[target=aten.view.default](args = (%o3, [1, 4, 8, 16]), kwargs = {})
    %r = call_function[target=aten.permute.default](args = (%o, [2, 0, 1, 3]), kwargs = {})
    %c = call_function[target=aten.clone.default](args = (%r,), kwargs = {memory_format: contiguous_format})
    %back = call_function[target=aten.permute.default](args = (%c, [1, 2, 0, 3]), kwargs = {})
    %heads = call_function[target=aten.permute.default](args = (%back, [0, 2, 1, 3]), kwargs = {})
    %joined = call_function[target=aten.reshape.default](args = (%heads, [8, 64]), kwargs = {})
    %w : f32[64, 64] = placeholder[target=w]
    %out = call_function[target=aten.mm.default](args = (%joined, %w), kwargs = {})
    return (%out,)
# CHECK:      %mask :
# CHECK-NEXT: %[[A:.*]] : f32[1, 4, 8, 16] = call_function[target=aten.scaled_dot_product_attention.default](args = (%q, %k, %v, %mask), kwargs = {})
# CHECK-NEXT: %heads : f32[1, 8, 4, 16]{512, 16, 128, 1} = call_function[target=aten.permute.default](args = (%[[A]], [0, 2, 1, 3]), kwargs = {})
# CHECK-NEXT: %joined : f32[8, 64] =
