# Pieces of split and unbind, reshape that copies, a dtype that the result must go back to, and unsqueeze_ which writes nothing.
# RUN: coil opt --pass functionalize %s | FileCheck %s
graph():
    %x : i32[4, 6] = placeholder[target=x]
    %y = call_function[target=aten.clone.default](args = (%x,), kwargs = {})
    %parts = call_function[target=aten.split.Tensor](args = (%y, 4, 1), kwargs = {})
    %p = call_function[target=_operator.getitem](args = (%parts, 1), kwargs = {})
    %z = call_function[target=aten.zero_.default](args = (%p,), kwargs = {})
    %t = call_function[target=aten.t.default](args = (%y,), kwargs = {})
    %apart = call_function[target=aten.reshape.default](args = (%t, [24]), kwargs = {})
    %m = call_function[target=aten.mul_.Tensor](args = (%apart, 2), kwargs = {})
    %wide : i64[6] = placeholder[target=wide]
    %rows = call_function[target=aten.unbind.int](args = (%y,), kwargs = {})
    %row = call_function[target=_operator.getitem](args = (%rows, 3), kwargs = {})
    %a = call_function[target=aten.add_.Tensor](args = (%row, %wide), kwargs = {})
    %u = call_function[target=aten.unsqueeze_.default](args = (%row, 0), kwargs = {})
    return (%y, %m, %u)
# CHECK:      %y : i32[4, 6] = call_function[target=aten.clone.default](args = (%x,), kwargs = {})
# CHECK:      %[[Z:.*]] : i32[4, 2] = call_function[target=aten.zero.default](args = (%p,), kwargs = {})
# CHECK-NEXT: %[[Y1:.*]] : i32[4, 6] = call_function[target=aten.slice_scatter.default](args = (%y, %[[Z]], 1, 4, 6), kwargs = {})
# CHECK-NEXT: %t : i32[6, 4]{1, 6} = call_function[target=aten.t.default](args = (%[[Y1]],), kwargs = {})
# CHECK-NEXT: %apart : i32[24] = call_function[target=aten.reshape.default](args = (%t, [24]), kwargs = {})
# CHECK-NEXT: %[[M:.*]] : i32[24] = call_function[target=aten.mul.Tensor](args = (%apart, 2), kwargs = {})
# CHECK:      %rows : {{.*}}(args = (%[[Y1]],), kwargs = {})
# CHECK:      %[[A:.*]] : i64[6] = call_function[target=aten.add.Tensor](args = (%row, %wide), kwargs = {})
# CHECK-NEXT: %[[B:.*]] : i32[6] = call_function[target=aten._to_copy.default](args = (%[[A]],), kwargs = {dtype: i32})
# CHECK-NEXT: %[[Y2:.*]] : i32[4, 6] = call_function[target=aten.select_scatter.default](args = (%[[Y1]], %[[B]], 0, 3), kwargs = {})
# CHECK:      return (%[[Y2]], %[[M]], %{{.*}})
# CHECK-NOT:  mutation
