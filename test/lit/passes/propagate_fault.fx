# What was recorded must be what the operator gives.
# RUN: not coil opt --pass propagate %s 2>&1 | FileCheck %s
graph():
    %x : f32[4, 8] = placeholder[target=x]
    %y : f32[4, 9] = call_function[target=aten.relu.default](args = (%x,), kwargs = {})
    return (%y,)
# CHECK: coil: error: aten.relu.default: %y is recorded as f32[4, 9], but its arguments give f32[4, 8]
