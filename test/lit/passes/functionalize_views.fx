# A write through transpose and select reaches the input; the view of it that was taken before is taken again.
# RUN: coil opt --pass functionalize %s | FileCheck %s
graph():
    %x : f32[4, 6] = placeholder[target=x]
    %t = call_function[target=aten.t.default](args = (%x,), kwargs = {})
    %s = call_function[target=aten.select.int](args = (%t, 0, 2), kwargs = {})
    %flat = call_function[target=aten.view.default](args = (%x, [24]), kwargs = {})
    %a = call_function[target=aten.add_.Tensor](args = (%s, 1.0), kwargs = {})
    %r = call_function[target=aten.relu.default](args = (%flat,), kwargs = {})
    return (%r, %a)
# CHECK:      %[[T:.*]] : f32[6, 4]{1, 6} = call_function[target=aten.t.default](args = (%x,), kwargs = {})
# CHECK-NEXT: %[[S:.*]] : f32[4]{6}+2 = call_function[target=aten.select.int](args = (%[[T]], 0, 2), kwargs = {})
# CHECK-NEXT: %[[ADD:.*]] : f32[4] = call_function[target=aten.add.Tensor](args = (%[[S]], 1.0), kwargs = {})
# CHECK-NEXT: %[[PUT:.*]] : f32[6, 4]{1, 6} = call_function[target=aten.select_scatter.default](args = (%[[T]], %[[ADD]], 0, 2), kwargs = {})
# CHECK-NEXT: %[[NEW:.*]] : f32[4, 6] = call_function[target=aten.permute.default](args = (%[[PUT]], [1, 0]), kwargs = {})
# CHECK-NEXT: %[[FLAT:.*]] : f32[24] = call_function[target=aten.view.default](args = (%[[NEW]], [24]), kwargs = {})
# CHECK-NEXT: %r : f32[24] = call_function[target=aten.relu.default](args = (%[[FLAT]],), kwargs = {})
# The result is a view of the input's new value, as it is in eager.
# CHECK-NEXT: %[[T2:.*]] : f32[6, 4]{1, 6} = call_function[target=aten.t.default](args = (%[[NEW]],), kwargs = {})
# CHECK-NEXT: %[[S2:.*]] : f32[4]{6}+2 = call_function[target=aten.select.int](args = (%[[T2]], 0, 2), kwargs = {})
# CHECK-NEXT: return (%r, %[[S2]], %[[NEW]])
# CHECK-NEXT: mutation input x = 2
