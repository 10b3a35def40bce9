# Cosines of all pairs: the vectors are broadcast before their lengths are taken, which are computed once for each.
# RUN: coil opt --pass contract-sums %s | FileCheck %s
graph():
    %x : f32[200, 1, 64] = placeholder[target=x]
    %y : f32[1, 150, 64] = placeholder[target=y]
    %xe = call_function[target=aten.expand.default](args = (%x, [200, 150, 64]), kwargs = {})
    %ye = call_function[target=aten.expand.default](args = (%y, [200, 150, 64]), kwargs = {})
    %xx = call_function[target=aten.mul.Tensor](args = (%xe, %xe), kwargs = {})
    %xs = call_function[target=aten.sum.dim_IntList](args = (%xx, [2], True), kwargs = {})
    %xl = call_function[target=aten.sqrt.default](args = (%xs,), kwargs = {})
    %xn = call_function[target=aten.div.Tensor](args = (%xe, %xl), kwargs = {})
    %p = call_function[target=aten.mul.Tensor](args = (%xn, %ye), kwargs = {})
    %z = call_function[target=aten.sum.dim_IntList](args = (%p, [-1]), kwargs = {})
    return (%z,)
# CHECK:     %[[S:.*]] : f32[200, 1, 1] = call_function[target=aten.sum.dim_IntList]
# CHECK:     %[[L:.*]] : f32[200, 1, 1] = call_function[target=aten.sqrt.default](args = (%[[S]],), kwargs = {})
# CHECK:     %[[N:.*]] : f32[200, 1, 64] = call_function[target=aten.div.Tensor](args = (%x, %[[L]]), kwargs = {})
# CHECK:     f32[200, 150] = call_function[target=coil.contraction.default]
# CHECK-NOT: [200, 150, 64]
