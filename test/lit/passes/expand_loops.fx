# A loop that keeps every turn's values is counted by a loop over what its condition depends on, here a counter, and then run as a scan; of no turns, the first values are kept.
# RUN: coil opt --pass expand-loops %s | FileCheck %s
graph(u0: unbacked [1, inf]):
    %i : i64[] = placeholder[target=i]
    %x : f32[4] = placeholder[target=x]
    %w : f32[4] = placeholder[target=w]
    %loop : [i64[u0], f32[u0, 4]] = call_function[target=higher_order.while_loop_stack_output](args = (@more, @turn, [%i, %x], [%w]), kwargs = {})
    %xs : f32[u0, 4] = call_function[target=_operator.getitem](args = (%loop, 1), kwargs = {})
    return (%xs,)
subgraph more:
    graph():
        %a : i64[] = placeholder[target=a]
        %b : f32[4] = placeholder[target=b]
        %c : f32[4] = placeholder[target=c]
        %lt : b8[] = call_function[target=aten.lt.Scalar](args = (%a, 3), kwargs = {})
        return (%lt,)
subgraph turn:
    graph():
        %d : i64[] = placeholder[target=d]
        %e : f32[4] = placeholder[target=e]
        %f : f32[4] = placeholder[target=f]
        %add : i64[] = call_function[target=aten.add.Tensor](args = (%d, 1), kwargs = {})
        %mul : f32[4] = call_function[target=aten.mul.Tensor](args = (%e, %f), kwargs = {})
        return (%add, %mul)
# CHECK:     higher_order.while_loop](args = (@more_counting, @turn_counting, [%{{.*}}, %i], [%w])
# CHECK:     %[[N:.*]] : [[U:u[0-9]+]] = call_function[target=aten._local_scalar_dense.default]
# CHECK:     higher_order.scan](args = (@turn_step, [%i, %x], [%{{.*}}], [%w])
# CHECK:     f32[[[U]], 4] = call_function[target=_operator.getitem](args = (%{{.*}}, 3)
# CHECK:     aten.expand.default
# CHECK:     %[[XS:.*]] : f32[u0, 4] = call_function[target=aten.cat.default]
# CHECK:     return (%[[XS]],)
# CHECK:     subgraph turn_counting:
# CHECK-NOT: aten.mul.Tensor
# CHECK:     subgraph turn_step:
# CHECK:     return (%add, %mul, %add, %mul)
