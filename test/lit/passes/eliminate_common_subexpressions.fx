# Equal calls become one, sums and products of the same two in either order too; random ones do not, nor two results that the caller gets as separate tensors.
# RUN: coil opt --pass eliminate-common-subexpressions %s | FileCheck %s
graph():
    %x : f32[4] = placeholder[target=x]
    %a = call_function[target=aten.add.Tensor](args = (%x, 1.0), kwargs = {})
    %b = call_function[target=aten.add.Tensor](args = (%x, 1.0), kwargs = {})
    %other = call_function[target=aten.add.Tensor](args = (%x, 1.0), kwargs = {alpha: 2})
    %c = call_function[target=aten.mul.Tensor](args = (%a, %b), kwargs = {})
    %d = call_function[target=aten.sub.Tensor](args = (%a, %c), kwargs = {})
    %e = call_function[target=aten.sub.Tensor](args = (%c, %a), kwargs = {})
    %f = call_function[target=aten.mul.Tensor](args = (%d, %e), kwargs = {})
    %g = call_function[target=aten.mul.Tensor](args = (%e, %d), kwargs = {})
    %h = call_function[target=aten.add.Tensor](args = (%f, %g), kwargs = {})
    %r = call_function[target=aten.rand_like.default](args = (%x,), kwargs = {})
    %s = call_function[target=aten.rand_like.default](args = (%x,), kwargs = {})
    %y = call_function[target=aten.neg.default](args = (%c,), kwargs = {})
    %z = call_function[target=aten.neg.default](args = (%c,), kwargs = {})
    return (%y, %z, %r, %s, %other, %h)
# CHECK:      %a : f32[4] = call_function[target=aten.add.Tensor](args = (%x, 1.0), kwargs = {})
# CHECK-NEXT: %other : f32[4] = call_function[target=aten.add.Tensor](args = (%x, 1.0), kwargs = {alpha: 2})
# CHECK-NEXT: %c : f32[4] = call_function[target=aten.mul.Tensor](args = (%a, %a), kwargs = {})
# CHECK-NEXT: %d :
# CHECK-NEXT: %e :
# CHECK-NEXT: %f : f32[4] = call_function[target=aten.mul.Tensor](args = (%d, %e), kwargs = {})
# CHECK-NEXT: %h : f32[4] = call_function[target=aten.add.Tensor](args = (%f, %f), kwargs = {})
# CHECK-NEXT: %r :
# CHECK-NEXT: %s :
# CHECK-NEXT: %y :
# CHECK-NEXT: %z :
# CHECK-NEXT: return (%y, %z, %r, %s, %other, %h)
