# A region that torch.vmap opened becomes a map over the batched dimension, with the region as its body.
# RUN: coil opt --pass outline-vmap %s | FileCheck %s
graph():
    %x : f32[4, 6] = placeholder[target=x]
    %w : f32[6] = get_attr[target=w]
    %on = call_function[target=torch._functorch.predispatch._vmap_increment_nesting](args = (4, "error"), kwargs = {})
    %row : f32[6] = call_function[target=torch._functorch.predispatch._add_batch_dim](args = (%x, 0, 1), kwargs = {})
    %mul : f32[6] = call_function[target=aten.mul.Tensor](args = (%row, %w), kwargs = {})
    %sum : f32[] = call_function[target=aten.sum.default](args = (%mul,), kwargs = {})
    %all : f32[4] = call_function[target=torch._functorch.predispatch._remove_batch_dim](args = (%sum, 1, 4, 0), kwargs = {})
    %off = call_function[target=torch._functorch.predispatch._vmap_decrement_nesting](args = (), kwargs = {})
    return (%all,)
# CHECK:      %[[X:.*]] : f32[4, 6] = call_function[target=aten.movedim.int](args = (%x, 0, 0), kwargs = {})
# CHECK-NEXT: %[[V:.*]] : [f32[4]] = call_function[target=higher_order.map_impl](args = (@vmap_body, [%[[X]]], [%w]), kwargs = {})
# CHECK-NEXT: %[[R:.*]] : f32[4] = call_function[target=_operator.getitem](args = (%[[V]], 0), kwargs = {})
# CHECK-NEXT: return (%[[R]],)
# CHECK-NEXT: subgraph vmap_body:
# CHECK:      %mul : f32[6] = call_function[target=aten.mul.Tensor](args = (%row, %w), kwargs = {})
