# Under autocast a layer's states and gates are in 16 bits and its cells are not: what is kept of the gates is cast.
# RUN: coil opt --pass loop-recurrences %s | FileCheck %s
graph():
    %g : bf16[7, 2, 12] = placeholder[target=g]
    %h : bf16[2, 3] = placeholder[target=h]
    %c : f32[2, 3] = placeholder[target=c]
    %w : bf16[12, 3] = get_attr[target=w]
    %b : bf16[12] = get_attr[target=b]
    %l = call_function[target=coil.lstm_training.default](args = (%g, %h, %c, %w, %b, None, False), kwargs = {})
    %y : bf16[7, 2, 3] = call_function[target=_operator.getitem](args = (%l, 0), kwargs = {})
    %s : bf16[7, 2, 12] = call_function[target=_operator.getitem](args = (%l, 3), kwargs = {})
    return (%y, %s)
# CHECK: %[[S:.*]] : {{.*}} = call_function[target=higher_order.scan](args = (@recurrence, [%h, %c], [%g], [%w, %b]), kwargs = {})
# CHECK: %{{.*}} : bf16[2, 3] = call_function[target=aten._to_copy.default](args = (%{{.*}},), kwargs = {dtype: bf16})
# CHECK: %{{.*}} : bf16[2, 12] = call_function[target=aten.cat.default]
