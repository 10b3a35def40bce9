# Composite operators go by the tables; linear, which a library does better whole, stays.
# RUN: coil opt --pass decompose %s | FileCheck %s
graph():
    %x : f32[4, 8] = placeholder[target=x]
    %w : f32[16, 8] = get_attr[target=w]
    %a : f32[4, 8] = call_function[target=aten.addcmul.default](args = (%x, %x, %x), kwargs = {value: 2})
    %l : f32[4, 16] = call_function[target=aten.linear.default](args = (%a, %w), kwargs = {})
    %n : f32[4, 16] = call_function[target=aten.layer_norm.default](args = (%l, [16]), kwargs = {})
    return (%n,)
# CHECK:      %[[M:.*]] : f32[4, 8] = call_function[target=aten.mul.Tensor](args = (%x, %x), kwargs = {})
# CHECK-NEXT: %[[T:.*]] : f32[4, 8] = call_function[target=aten.mul.Tensor](args = (%[[M]], 2), kwargs = {})
# CHECK-NEXT: %[[A:.*]] : f32[4, 8] = call_function[target=aten.add.Tensor](args = (%x, %[[T]]), kwargs = {})
# CHECK-NEXT: %l : f32[4, 16] = call_function[target=aten.linear.default](args = (%[[A]], %w), kwargs = {})
# CHECK-NEXT: call_function[target=aten.native_layer_norm.default](args = (%l, [16], None, None, 1e-05), kwargs = {})
