# Both directions of a layer of a recurrent network become one scan, with a dimension in front for the two.
# RUN: coil opt --pass loop-recurrences %s | FileCheck %s
graph():
    %g : f32[7, 2, 9] = placeholder[target=g]
    %k : f32[7, 2, 9] = placeholder[target=k]
    %h : f32[2, 3] = placeholder[target=h]
    %w : f32[9, 3] = get_attr[target=w]
    %v : f32[9, 3] = get_attr[target=v]
    %b : f32[9] = get_attr[target=b]
    %l = call_function[target=coil.recurrent_layer.default](args = (%g, %h, %w, %b, "gru", False), kwargs = {})
    %y : f32[7, 2, 3] = call_function[target=_operator.getitem](args = (%l, 0), kwargs = {})
    %r = call_function[target=coil.recurrent_layer.default](args = (%k, %h, %v, %b, "gru", True), kwargs = {})
    %z : f32[7, 2, 3] = call_function[target=_operator.getitem](args = (%r, 0), kwargs = {})
    %last : f32[2, 3] = call_function[target=_operator.getitem](args = (%r, 1), kwargs = {})
    return (%y, %z, %last)
# CHECK:      %[[G:.*]] : f32[7, 2, 2, 9] = call_function[target=aten.stack.default](args = ([%g, %{{.*}}], 1), kwargs = {})
# CHECK:      %[[W:.*]] : f32[2, 9, 3] = call_function[target=aten.stack.default](args = ([%w, %v],), kwargs = {})
# CHECK:      higher_order.scan](args = (@recurrence, [%{{.*}}], [%[[G]]], [%[[W]], %{{.*}}])
# CHECK-NOT:  higher_order.scan
# CHECK:      return
# CHECK:      aten.bmm.default
