# A mask of a free size that is the lower triangle becomes the flag that attention has for it.
# RUN: coil opt --pass simplify-symbolic-masks %s | FileCheck %s
graph(s0: [2, 64] = 3):
    %q : f32[1, 2, s0, 8] = placeholder[target=q]
    %k : f32[1, 2, s0, 8] = placeholder[target=k]
    %v : f32[1, 2, s0, 8] = placeholder[target=v]
    %i : i64[s0] = call_function[target=aten.arange.start_step](args = (0, s0, 1), kwargs = {dtype: i64, device: cpu})
    %row : i64[s0, 1] = call_function[target=aten.unsqueeze.default](args = (%i, 1), kwargs = {})
    %col : i64[1, s0] = call_function[target=aten.unsqueeze.default](args = (%i, 0), kwargs = {})
    %mask : b8[s0, s0] = call_function[target=aten.le.Tensor](args = (%col, %row), kwargs = {})
    %y : f32[1, 2, s0, 8] = call_function[target=aten.scaled_dot_product_attention.default](args = (%q, %k, %v, %mask), kwargs = {})
    return (%y,)
# CHECK:      %v :
# CHECK-NEXT: call_function[target=aten.scaled_dot_product_attention.default](args = (%q, %k, %v, None, 0.0, True
