# torch 2.11 records an LSTM's last states with a dimension too many; what follows from them is mended with them.
# RUN: coil opt --pass correct-records %s | FileCheck %s
graph():
    %x : f32[5, 2, 3] = placeholder[target=x]
    %h : f32[1, 2, 4] = placeholder[target=h]
    %c : f32[1, 2, 4] = placeholder[target=c]
    %w : f32[16, 3] = placeholder[target=w]
    %u : f32[16, 4] = placeholder[target=u]
    %lstm : [f32[5, 2, 4], f32[1, 1, 2, 4], f32[1, 1, 2, 4]] = call_function[target=aten.lstm.input](args = (%x, [%h, %c], [%w, %u], False, 1, 0.0, False, False, False), kwargs = {})
    %y : f32[5, 2, 4] = call_function[target=_operator.getitem](args = (%lstm, 0), kwargs = {})
    %last : f32[1, 1, 2, 4] = call_function[target=_operator.getitem](args = (%lstm, 1), kwargs = {})
    %one : f32[1, 2, 4] = call_function[target=aten.select.int](args = (%last, 0, -1), kwargs = {})
    %twice : f32[1, 2, 4] = call_function[target=aten.mul.Tensor](args = (%one, 2.0), kwargs = {})
    return (%y, %twice)
# CHECK:      %lstm : [f32[5, 2, 4], f32[1, 2, 4], f32[1, 2, 4]] =
# CHECK-NEXT: %y : f32[5, 2, 4] =
# CHECK-NEXT: %last : f32[1, 2, 4] =
# CHECK-NEXT: %one : f32[2, 4] =
# CHECK-NEXT: %twice : f32[2, 4] =
