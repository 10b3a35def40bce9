# Where gradients are wanted each step gives what those need as well: the gates, and what the state adds to the last one.
# RUN: coil opt --pass loop-recurrences %s | FileCheck %s
graph():
    %g : f32[7, 2, 9] = placeholder[target=g]
    %h : f32[2, 3] = placeholder[target=h]
    %w : f32[9, 3] = get_attr[target=w]
    %b : f32[9] = get_attr[target=b]
    %l = call_function[target=coil.gru_training.default](args = (%g, %h, %w, %b, False), kwargs = {})
    %y : f32[7, 2, 3] = call_function[target=_operator.getitem](args = (%l, 0), kwargs = {})
    %s : f32[7, 2, 12] = call_function[target=_operator.getitem](args = (%l, 2), kwargs = {})
    return (%y, %s)
# CHECK:      %[[S:.*]] : {{.*}} = call_function[target=higher_order.scan](args = (@recurrence, [%h], [%g], [%w, %b]), kwargs = {})
# CHECK-NEXT: %[[Y:.*]] : f32[7, 2, 3] = call_function[target=_operator.getitem](args = (%[[S]], 1), kwargs = {})
# CHECK-NEXT: %[[G:.*]] : f32[7, 2, 12] = call_function[target=_operator.getitem](args = (%[[S]], 2), kwargs = {})
# CHECK-NEXT: return (%[[Y]], %[[G]])
# CHECK:      %[[A:.*]] : f32[2, 12] = call_function[target=aten.cat.default]
# CHECK:      return (%[[H:.*]], %[[H]], %[[A]])
