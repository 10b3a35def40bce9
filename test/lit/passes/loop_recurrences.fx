# A layer of a recurrent network becomes a scan over its steps; one that runs from the end turns the sequence round.
# RUN: coil opt --pass loop-recurrences %s | FileCheck %s
graph():
    %g : f32[7, 2, 12] = placeholder[target=g]
    %h : f32[2, 3] = placeholder[target=h]
    %c : f32[2, 3] = placeholder[target=c]
    %w : f32[12, 3] = get_attr[target=w]
    %b : f32[12] = get_attr[target=b]
    %l = call_function[target=coil.lstm_layer.default](args = (%g, %h, %c, %w, %b, None, True), kwargs = {})
    %y : f32[7, 2, 3] = call_function[target=_operator.getitem](args = (%l, 0), kwargs = {})
    %last : f32[2, 3] = call_function[target=_operator.getitem](args = (%l, 2), kwargs = {})
    return (%y, %last)
# CHECK:      %[[G:.*]] : f32[7, 2, 12] = call_function[target=aten.flip.default](args = (%g, [0]), kwargs = {})
# CHECK-NEXT: %[[S:.*]] : {{.*}} = call_function[target=higher_order.scan](args = (@recurrence, [%h, %c], [%[[G]]], [%w, %b]), kwargs = {})
# CHECK-NEXT: %[[I:.*]] : f32[7, 2, 3] = call_function[target=_operator.getitem](args = (%[[S]], 2), kwargs = {})
# CHECK-NEXT: %[[Y:.*]] : f32[7, 2, 3] = call_function[target=aten.flip.default](args = (%[[I]], [0]), kwargs = {})
# CHECK-NEXT: %[[L:.*]] : f32[2, 3] = call_function[target=_operator.getitem](args = (%[[S]], 1), kwargs = {})
# CHECK-NEXT: return (%[[Y]], %[[L]])
# CHECK:      aten.linear.default
# CHECK:      return (%[[H:.*]], %{{.*}}, %[[H]])
