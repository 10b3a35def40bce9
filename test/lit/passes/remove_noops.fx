# Metadata asserts, casts and views that change nothing, dropout in inference; the wrapper of torch.no_grad() is inlined.
# RUN: coil opt --pass remove-noops %s | FileCheck %s
graph():
    %x : f32[2, 3] = placeholder[target=x]
    %check = call_function[target=aten._assert_tensor_metadata.default](args = (%x, None, None, f32), kwargs = {})
    %to = call_function[target=aten.to.dtype](args = (%x, f32), kwargs = {})
    %half = call_function[target=aten.to.dtype](args = (%to, bf16), kwargs = {})
    %copied = call_function[target=aten.to.dtype](args = (%to, f32, False, True), kwargs = {})
    %d = call_function[target=aten.dropout.default](args = (%copied, 0.1, False), kwargs = {})
    %train = call_function[target=aten.dropout.default](args = (%d, 0.1, True), kwargs = {})
    %v = call_function[target=aten.view.default](args = (%train, [2, 3]), kwargs = {})
    %e = call_function[target=aten.detach.default](args = (%v,), kwargs = {})
    %wrap : [f32[2, 3], f32[]] = call_function[target=higher_order.wrap_with_set_grad_enabled](args = (False, @body, %e), kwargs = {})
    %add : f32[2, 3] = call_function[target=_operator.getitem](args = (%wrap, 0), kwargs = {})
    %sum : f32[] = call_function[target=_operator.getitem](args = (%wrap, 1), kwargs = {})
    return (%add, %sum, %half)
subgraph body:
    graph():
        %arg : f32[2, 3] = placeholder[target=arg]
        %plus : f32[2, 3] = call_function[target=aten.add.Tensor](args = (%arg, 1.0), kwargs = {})
        %total : f32[] = call_function[target=aten.sum.default](args = (%plus,), kwargs = {})
        return (%plus, %total)
# CHECK:      %x : f32[2, 3]
# CHECK-NEXT: %half : bf16[2, 3] = call_function[target=aten.to.dtype](args = (%x, bf16), kwargs = {})
# CHECK-NEXT: %copied : f32[2, 3] = call_function[target=aten.to.dtype](args = (%x, f32, False, True), kwargs = {})
# CHECK-NEXT: %train : f32[2, 3] = call_function[target=aten.dropout.default](args = (%copied, 0.1, True), kwargs = {})
# CHECK-NEXT: %plus : f32[2, 3] = call_function[target=aten.add.Tensor](args = (%train, 1.0), kwargs = {})
# CHECK-NEXT: %total : f32[] = call_function[target=aten.sum.default](args = (%plus,), kwargs = {})
# CHECK-NEXT: return (%plus, %total, %half)
# CHECK-NOT:  subgraph
