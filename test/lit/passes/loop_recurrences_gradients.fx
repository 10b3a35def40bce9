# The gradients of a layer become a scan that begins with the layer's last step; those of both directions one scan, where
# products of the first one's stand before the second.
# RUN: coil opt --pass loop-recurrences %s | FileCheck %s
graph():
    %d : f32[7, 2, 3] = placeholder[target=d]
    %e : f32[7, 2, 3] = placeholder[target=e]
    %h : f32[2, 3] = placeholder[target=h]
    %s : f32[7, 2, 12] = placeholder[target=s]
    %t : f32[7, 2, 12] = placeholder[target=t]
    %c : f32[7, 2, 3] = placeholder[target=c]
    %p : f32[7, 2, 3] = placeholder[target=p]
    %w : f32[12, 3] = get_attr[target=w]
    %v : f32[12, 3] = get_attr[target=v]
    %l = call_function[target=coil.lstm_backward.default](args = (%d, %h, %h, %s, %c, %p, %w, None, False), kwargs = {})
    %g : f32[7, 2, 12] = call_function[target=_operator.getitem](args = (%l, 0), kwargs = {})
    %n : f32[7, 2, 12] = call_function[target=aten.neg.default](args = (%g,), kwargs = {})
    %o : f32[7, 2, 3] = call_function[target=aten.neg.default](args = (%e,), kwargs = {})
    %r = call_function[target=coil.lstm_backward.default](args = (%o, %h, %h, %t, %c, %p, %v, None, True), kwargs = {})
    %k : f32[7, 2, 12] = call_function[target=_operator.getitem](args = (%r, 0), kwargs = {})
    %first : f32[2, 3] = call_function[target=_operator.getitem](args = (%r, 1), kwargs = {})
    return (%n, %k, %first)
# CHECK:      %[[F:.*]] : f32[7, 2, 3] = call_function[target=aten.flip.default](args = (%d, [0]), kwargs = {})
# CHECK:      aten.stack.default](args = ([%[[F]], %o], 1), kwargs = {})
# CHECK:      higher_order.scan](args = (@recurrence,
# CHECK-NOT:  higher_order.scan
# CHECK:      aten.neg.default
# CHECK:      return
# CHECK:      aten.cat.default
# CHECK:      aten.bmm.default
