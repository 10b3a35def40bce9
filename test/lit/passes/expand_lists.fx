# One call on a list becomes one for each of its tensors.
# RUN: coil opt --pass expand-lists %s | FileCheck %s
graph():
    %a : f32[4] = placeholder[target=a]
    %b : f32[2, 3] = placeholder[target=b]
    %sum = call_function[target=aten._foreach_add.Scalar](args = ([%a, %b], 2.0), kwargs = {})
    %first : f32[4] = call_function[target=_operator.getitem](args = (%sum, 0), kwargs = {})
    %second : f32[2, 3] = call_function[target=_operator.getitem](args = (%sum, 1), kwargs = {})
    return (%first, %second)
# CHECK:      %[[A:.*]] : f32[4] = call_function[target=aten.add.Scalar](args = (%a, 2.0), kwargs = {})
# CHECK-NEXT: %[[B:.*]] : f32[2, 3] = call_function[target=aten.add.Scalar](args = (%b, 2.0), kwargs = {})
# CHECK-NEXT: return (%[[A]], %[[B]])
