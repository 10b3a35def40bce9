# All rows of the one with all of the other, in each batch: a product of matrices. What is summed of one side alone, and
# products that something else reads, stay.
# RUN: coil opt --pass contract-sums %s | FileCheck %s
graph():
    %x : f32[4, 64, 32] = placeholder[target=x]
    %w : f32[4, 48, 32] = placeholder[target=w]
    %xs = call_function[target=aten.unsqueeze.default](args = (%x, 2), kwargs = {})
    %ws = call_function[target=aten.unsqueeze.default](args = (%w, 1), kwargs = {})
    %p = call_function[target=aten.mul.Tensor](args = (%xs, %ws), kwargs = {})
    %y = call_function[target=aten.sum.dim_IntList](args = (%p, [-1]), kwargs = {})
    %q = call_function[target=aten.mul.Tensor](args = (%ws, %xs), kwargs = {})
    %z = call_function[target=aten.sum.dim_IntList](args = (%q, [1, 3]), kwargs = {})
    %r = call_function[target=aten.mul.Tensor](args = (%xs, %ws), kwargs = {})
    %u = call_function[target=aten.sum.dim_IntList](args = (%r, [-1]), kwargs = {})
    return (%y, %z, %r, %u)
# CHECK:     %[[B:.*]] : f32[4, 32, 48]{1536, 1, 32} = call_function[target=aten.view.default]
# CHECK:     %[[C:.*]] : f32[4, 64, 48] = call_function[target=coil.contraction.default](args = (%{{.*}}, %[[B]]), kwargs = {})
# CHECK-NOT: coil.contraction
# CHECK:     return (%[[C]], %z, %r, %u)
