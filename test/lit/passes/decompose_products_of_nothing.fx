# A product whose sum has no elements is what is added to it; one over elements stays.
# RUN: coil opt --pass decompose %s | FileCheck %s
graph():
    %c : f32[3] = placeholder[target=c]
    %a : f32[4, 0] = placeholder[target=a]
    %b : f32[0, 3] = placeholder[target=b]
    %x : f32[4, 5] = placeholder[target=x]
    %y : f32[5, 3] = placeholder[target=y]
    %p : f32[4, 3] = call_function[target=aten.addmm.default](args = (%c, %a, %b), kwargs = {beta: 0.5})
    %q : f32[4, 3] = call_function[target=aten.addmm.default](args = (%c, %x, %y), kwargs = {beta: 0.5})
    return (%p, %q)
# CHECK-NOT:  args = (%c, %a, %b)
# CHECK:      aten.mul.Tensor](args = (%c, 0.5), kwargs = {})
# CHECK-NOT:  args = (%c, %a, %b)
# CHECK:      aten.addmm.default](args = (%c, %x, %y), kwargs = {beta: 0.5})
