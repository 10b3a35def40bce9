# What is made on the CPU of no input and read on the other device alone is made there; what the CPU reads too, and what
# is drawn, stays.
# RUN: coil opt --device cuda --set cuda.arch=sm_90 --pass find-devices --pass make-where-read --pass place-on-devices --pass propagate %s | FileCheck %s
graph():
    %x : f32[4]@cuda:1 = placeholder[target=x]
    %y : f32[4] = placeholder[target=y]
    %places : i64[4] = call_function[target=aten.arange.default](args = (4,), kwargs = {})
    %mask : b8[4] = call_function[target=aten.gt.Scalar](args = (%places, 1), kwargs = {})
    %far_mask : b8[4]@cuda:1 = call_function[target=aten._to_copy.default](args = (%mask,), kwargs = {device: cuda:1})
    %kept : f32[4] = call_function[target=aten.full.default](args = ([4], 1.0), kwargs = {device: cpu})
    %far_kept : f32[4]@cuda:1 = call_function[target=aten._to_copy.default](args = (%kept,), kwargs = {device: cuda:1})
    %sum : f32[4] = call_function[target=aten.add.Tensor](args = (%kept, %y), kwargs = {})
    %drawn : f32[4] = call_function[target=aten.rand.default](args = ([4],), kwargs = {device: cpu})
    %far_drawn : f32[4]@cuda:1 = call_function[target=aten._to_copy.default](args = (%drawn,), kwargs = {device: cuda:1})
    %a : f32[4]@cuda:1 = call_function[target=aten.where.self](args = (%far_mask, %x, %far_kept), kwargs = {})
    %b : f32[4]@cuda:1 = call_function[target=aten.add.Tensor](args = (%a, %far_drawn), kwargs = {})
    return (%b, %sum)
# CHECK:      %places : i64[4]@cuda:0 = call_function[target=aten.arange.default](args = (4,), kwargs = {device: cuda:0})
# CHECK-NEXT: %mask : b8[4]@cuda:0 = call_function
# CHECK-NEXT: %far_mask : b8[4]@cuda:0 = call_function
# CHECK-NEXT: %kept : f32[4] = call_function
# CHECK-NEXT: %far_kept : f32[4]@cuda:0
# CHECK-NEXT: %sum : f32[4] =
# CHECK-NEXT: %drawn : f32[4] = call_function
