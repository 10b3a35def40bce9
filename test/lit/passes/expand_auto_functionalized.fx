# torch's wrapper of an operator that writes becomes the operator, on a copy of what it writes to.
# RUN: coil opt --pass expand-auto-functionalized %s | FileCheck %s
graph():
    %x : f32[4] = placeholder[target=x]
    %y : f32[4] = placeholder[target=y]
    %w : [None, f32[4]] = call_function[target=higher_order.auto_functionalized_v2](args = ("torch.ops.aten.add_.Tensor",), kwargs = {other: %y, _self_base_index: 0, _all_bases: [%x]})
    %n : f32[4] = call_function[target=_operator.getitem](args = (%w, 1), kwargs = {})
    return (%n,)
# CHECK:      %[[C:.*]] : f32[4] = call_function[target=aten.clone.default](args = (%x,), kwargs = {})
# CHECK-NEXT: call_function[target=aten.add_.Tensor](args = (%[[C]], %y), kwargs = {})
# CHECK-NEXT: return (%[[C]],)
