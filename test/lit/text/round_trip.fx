# What coil opt prints, it reads: twice through gives the same text.
# RUN: coil opt %s > %t.once && coil opt %t.once | diff %t.once -
# RUN: coil opt --locations --origins %s | FileCheck %s
graph(s0: [2, 64] = 8, u0: unbacked [0, inf]):
    %x : f32[s0, 2*s0 + 1]{2*s0 + 1, 1}+3 = placeholder[target=x]
    %h : bf16[s0]@cuda:1 = placeholder[target=h]
    %n = call_function[target=aten.sym_size.int](args = (%x, 1), kwargs = {})
    %m = call_function[target=_operator.floordiv](args = (%n, 2), kwargs = {})
    %y = call_function[target=aten.clamp.default](args = (%x, -inf, 1e-05), kwargs = {})  # at model.py:3  # from a, b
    return (%y, %m, None)
input %x "state.x" goes 1 4096
input %h "state.h"
output "y.0"
output "y.1"
mutation input h = 2
# CHECK:      graph(s0: [2, 64] = 8, u0: unbacked [0, inf]):
# CHECK-NEXT: %x : f32[s0, 2*s0 + 1]{2*s0 + 1, 1}+3 = placeholder[target=x]
# CHECK-NEXT: %h : bf16[s0]@cuda:1 = placeholder[target=h]
# CHECK-NEXT: %n : 2*s0 + 1 =
# CHECK-NEXT: %m : s0 =
# CHECK-NEXT: %y : f32[s0, 2*s0 + 1]{2*s0 + 1, 1} = call_function[target=aten.clamp.default](args = (%x, -inf, 1e-05), kwargs = {})  # at model.py:3  # from a, b
# CHECK:      input %x "state.x" goes 1 4096
# CHECK-NEXT: input %h "state.h"
# CHECK:      mutation input h = 2
