# Calls without users go, last to first; asserts and inputs stay.
# RUN: coil opt --pass eliminate-dead-code %s | FileCheck %s
graph():
    %x : f32[4] = placeholder[target=x]
    %unused : f32[4] = placeholder[target=unused]
    %w : f32[4] = get_attr[target=w]
    %a = call_function[target=aten.add.Tensor](args = (%x, %w), kwargs = {})
    %b = call_function[target=aten.relu.default](args = (%a,), kwargs = {})
    %c = call_function[target=aten.neg.default](args = (%x,), kwargs = {})
    %ok = call_function[target=aten.scalar_tensor.default](args = (True,), kwargs = {dtype: b8})
    %assert = call_function[target=aten._assert_async.msg](args = (%ok, "no"), kwargs = {})
    return (%c,)
# CHECK:      graph():
# CHECK-NEXT: %x :
# CHECK-NEXT: %unused :
# CHECK-NEXT: %c : f32[4] = call_function[target=aten.neg.default]
# CHECK-NEXT: %ok
# CHECK-NEXT: aten._assert_async.msg
# CHECK-NEXT: return (%c,)
