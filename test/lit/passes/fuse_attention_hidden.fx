# Attention by hand whose scores a low number takes the place of: a number that is added hides as well, if it is low enough.
# RUN: coil opt --pass fuse-attention %s | FileCheck %s
graph():
    %q : bf16[2, 4, 8, 16] = placeholder[target=q]
    %k : bf16[2, 4, 10, 16] = placeholder[target=k]
    %v : bf16[2, 4, 10, 16] = placeholder[target=v]
    %none : b8[8, 10] = placeholder[target=none]
    %kt = call_function[target=aten.transpose.int](args = (%k, -2, -1), kwargs = {})
    %s = call_function[target=aten.matmul.default](args = (%q, %kt), kwargs = {})
    %m = call_function[target=aten.masked_fill.Scalar](args = (%s, %none, -1000000000.0), kwargs = {})
    %p = call_function[target=aten.softmax.int](args = (%m, -1), kwargs = {})
    %o = call_function[target=aten.matmul.default](args = (%p, %v), kwargs = {})
    %m2 = call_function[target=aten.masked_fill.Scalar](args = (%s, %none, -10000.0), kwargs = {})
    %p2 = call_function[target=aten.softmax.int](args = (%m2, -1), kwargs = {})
    %o2 = call_function[target=aten.matmul.default](args = (%p2, %v), kwargs = {})
    return (%o, %o2)
# CHECK:      %[[LOW:.*]] : bf16[] = call_function[target=aten.full.default](args = ([], -3.3895313892515355e+38)
# CHECK:      %[[ZERO:.*]] : bf16[] = call_function[target=aten.full.default](args = ([], 0.0)
# CHECK:      %[[MASK:.*]] : bf16[8, 10] = call_function[target=aten.where.self](args = (%none, %[[LOW]], %[[ZERO]])
# CHECK:      %[[A:.*]] : bf16[2, 4, 8, 16] = call_function[target=aten.scaled_dot_product_attention.default](args = (%q, %k, %v, %[[MASK]]), kwargs = {scale: 1.0})
# CHECK:      %o2 : bf16[2, 4, 8, 16] = call_function[target=aten.matmul.default]
# CHECK-NEXT: return (%[[A]], %o2)
