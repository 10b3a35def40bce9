graph():
    %p_lin_weight : f32[4, 4] = get_attr[target=lin.weight]
    %p_lin_bias : f32[4] = get_attr[target=lin.bias]
    %x : f32[2, 4] = placeholder[target=x]
    %mul : [f32[2, 4]] = call_function[target=higher_order.wrap_with_set_grad_enabled](args = (False, @submod_1, %x, %p_lin_weight, %p_lin_bias), kwargs = {})
    %getitem : f32[2, 4] = call_function[target=_operator.getitem](args = (%mul, 0), kwargs = {})
    %sum_1 : f32[] = call_function[target=aten.sum.default](args = (%x,), kwargs = {})  # at fixture_programs.py:131
    %gt : b8[] = call_function[target=aten.gt.Scalar](args = (%sum_1, 0), kwargs = {})  # at fixture_programs.py:131
    %cond : [f32[2, 4]] = call_function[target=higher_order.cond](args = (%gt, @true_graph_0, @false_graph_0, [%x, %getitem]), kwargs = {})  # at fixture_programs.py:131
    %getitem_1 : f32[2, 4] = call_function[target=_operator.getitem](args = (%cond, 0), kwargs = {})  # at fixture_programs.py:131
    %add : f32[2, 4] = call_function[target=aten.add.Tensor](args = (%getitem_1, 1), kwargs = {})  # at fixture_programs.py:132
    return (%add,)
subgraph false_graph_0:
    graph():
        %x : f32[2, 4] = placeholder[target=x]
        %getitem : f32[2, 4] = placeholder[target=getitem]
        %sub : f32[2, 4] = call_function[target=aten.sub.Tensor](args = (%x, %getitem), kwargs = {})  # at fixture_programs.py:131
        return (%sub,)
    output "0"
subgraph submod_1:
    graph():
        %x : f32[2, 4] = placeholder[target=x]
        %p_lin_weight : f32[4, 4] = placeholder[target=p_lin_weight]
        %p_lin_bias : f32[4] = placeholder[target=p_lin_bias]
        %linear : f32[2, 4] = call_function[target=aten.linear.default](args = (%x, %p_lin_weight, %p_lin_bias), kwargs = {})  # at fixture_programs.py:130
        %mul : f32[2, 4] = call_function[target=aten.mul.Tensor](args = (%linear, 2), kwargs = {})  # at fixture_programs.py:130
        return (%mul,)
    output "0"
subgraph true_graph_0:
    graph():
        %x : f32[2, 4] = placeholder[target=x]
        %getitem : f32[2, 4] = placeholder[target=getitem]
        %add : f32[2, 4] = call_function[target=aten.add.Tensor](args = (%x, %getitem), kwargs = {})  # at fixture_programs.py:131
        return (%add,)
    output "0"
