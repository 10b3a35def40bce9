graph(s77: [1, 100] = 3):
    %p_lin_weight : f32[4, 8] = get_attr[target=lin.weight]
    %p_lin_bias : f32[4] = get_attr[target=lin.bias]
    %b_calls : f32[] = get_attr[target=calls]
    %x : f32[s77, 8] = placeholder[target=x]
    %state_h : f32[4] = placeholder[target=state_h]
    %sym_size_int_1 : s77 = call_function[target=aten.sym_size.int](args = (%x, 0), kwargs = {})  # at runtime_assert.py:24
    %add_ : f32[] = call_function[target=aten.add_.Tensor](args = (%b_calls, 1), kwargs = {})  # at fixture_programs.py:30
    %mul_ : f32[4] = call_function[target=aten.mul_.Tensor](args = (%state_h, 0.5), kwargs = {})  # at fixture_programs.py:31
    %linear : f32[s77, 4] = call_function[target=aten.linear.default](args = (%x, %p_lin_weight, %p_lin_bias), kwargs = {})  # at fixture_programs.py:31
    %sum_1 : f32[4] = call_function[target=aten.sum.dim_IntList](args = (%linear, [0]), kwargs = {})  # at fixture_programs.py:31
    %add__1 : f32[4] = call_function[target=aten.add_.Tensor](args = (%mul_, %sum_1), kwargs = {})  # at fixture_programs.py:31
    %linear_1 : f32[s77, 4] = call_function[target=aten.linear.default](args = (%x, %p_lin_weight, %p_lin_bias), kwargs = {})  # at fixture_programs.py:32
    %tanh : f32[s77, 4] = call_function[target=aten.tanh.default](args = (%linear_1,), kwargs = {})  # at fixture_programs.py:32
    %mul : f32[] = call_function[target=aten.mul.Tensor](args = (%add_, 1.0), kwargs = {})  # at fixture_programs.py:32
    %add : s77 + 1 = call_function[target=_operator.add](args = (%sym_size_int_1, 1), kwargs = {})  # at fixture_programs.py:32
    %copy__default : f32[] = call_function[target=aten.copy_.default](args = (%b_calls, %add_), kwargs = {})  # at fixture_programs.py:30
    return (%tanh, %mul, %add)
input %x "x"
input %state_h "state.h"
output "y.0"
output "y.1"
output "n"
