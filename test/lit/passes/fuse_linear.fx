# A batch times one matrix, and a bias: one product of all rows.
# RUN: coil opt --pass fuse-linear %s | FileCheck %s
graph():
    %x : bf16[8, 128, 64] = placeholder[target=x]
    %w : bf16[32, 64] = get_attr[target=w]
    %b : bf16[32] = get_attr[target=b]
    %t = call_function[target=aten.permute.default](args = (%w, [1, 0]), kwargs = {})
    %e = call_function[target=aten.expand.default](args = (%t, [8, 64, 32]), kwargs = {})
    %p = call_function[target=aten.bmm.default](args = (%x, %e), kwargs = {})
    %y = call_function[target=aten.add.Tensor](args = (%p, %b), kwargs = {})
    %z = call_function[target=aten.relu.default](args = (%y,), kwargs = {})
    return (%z,)
# CHECK:      %[[R:.*]] : bf16[1024, 64] = call_function[target=aten.reshape.default](args = (%x, [1024, 64]), kwargs = {})
# CHECK-NEXT: %[[A:.*]] : bf16[1024, 32] = call_function[target=aten.addmm.default](args = (%b, %[[R]], %t), kwargs = {})
# CHECK-NEXT: %[[V:.*]] : bf16[8, 128, 32] = call_function[target=aten.view.default](args = (%[[A]], [8, 128, 32]), kwargs = {})
# CHECK-NEXT: %z : bf16[8, 128, 32] = call_function[target=aten.relu.default](args = (%[[V]],), kwargs = {})
