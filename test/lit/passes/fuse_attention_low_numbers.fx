# Attention by hand where a mask is told by two numbers: a low one that is added is a mask as it stands.
# RUN: coil opt --pass fuse-attention %s | FileCheck %s
graph():
    %q : bf16[2, 4, 8, 16] = placeholder[target=q]
    %k : bf16[2, 4, 10, 16] = placeholder[target=k]
    %v : bf16[2, 4, 10, 16] = placeholder[target=v]
    %seen : b8[2, 1, 8, 10] = placeholder[target=seen]
    %zero = call_function[target=aten.zeros.default](args = ([],), kwargs = {dtype: bf16})
    %mask = call_function[target=aten.where.ScalarOther](args = (%seen, %zero, -3.3895313892515355e+38), kwargs = {})
    %kt = call_function[target=aten.transpose.int](args = (%k, -2, -1), kwargs = {})
    %s = call_function[target=aten.matmul.default](args = (%q, %kt), kwargs = {})
    %m = call_function[target=aten.add.Tensor](args = (%s, %mask), kwargs = {})
    %p = call_function[target=aten.softmax.int](args = (%m, -1), kwargs = {})
    %o = call_function[target=aten.matmul.default](args = (%p, %v), kwargs = {})
    return (%o,)
# CHECK:      %[[A:.*]] : bf16[2, 4, 8, 16] = call_function[target=aten.scaled_dot_product_attention.default](args = (%q, %k, %v, %mask), kwargs = {scale: 1.0})
# CHECK-NEXT: return (%[[A]],)
