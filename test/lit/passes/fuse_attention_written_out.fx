# Attention by hand: fused without a mask; with one that may be -inf it stays, for a row without any unmasked score is NaN there.
# RUN: coil opt --pass fuse-attention %s | FileCheck %s
graph():
    %q : f32[2, 4, 8, 16] = placeholder[target=q]
    %k : f32[2, 4, 10, 16] = placeholder[target=k]
    %v : f32[2, 4, 10, 16] = placeholder[target=v]
    %mask : f32[8, 10] = placeholder[target=mask]
    %kt = call_function[target=aten.transpose.int](args = (%k, -2, -1), kwargs = {})
    %s = call_function[target=aten.matmul.default](args = (%q, %kt), kwargs = {})
    %d = call_function[target=aten.div.Tensor](args = (%s, 8.0), kwargs = {})
    %p = call_function[target=aten.softmax.int](args = (%d, -1), kwargs = {})
    %o = call_function[target=aten.matmul.default](args = (%p, %v), kwargs = {})
    %s2 = call_function[target=aten.matmul.default](args = (%q, %kt), kwargs = {})
    %m2 = call_function[target=aten.add.Tensor](args = (%s2, %mask), kwargs = {})
    %p2 = call_function[target=aten.softmax.int](args = (%m2, -1), kwargs = {})
    %o2 = call_function[target=aten.matmul.default](args = (%p2, %v), kwargs = {})
    return (%o, %o2)
# CHECK:      %[[A:.*]] : f32[2, 4, 8, 16] = call_function[target=aten.scaled_dot_product_attention.default](args = (%q, %k, %v), kwargs = {scale: 0.125})
# CHECK:      %o2 : f32[2, 4, 8, 16] = call_function[target=aten.matmul.default]
# CHECK-NEXT: return (%[[A]], %o2)
