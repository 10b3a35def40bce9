# Positions that a weight goes into are computed with it; those alone stay where they are read.
# RUN: coil opt --pass fold-constants %s | FileCheck %s
graph():
    %w : f32[256, 256] = get_attr[target=w]
    %x : f32[256, 256] = placeholder[target=x]
    %places : f32[256, 1] = call_function[target=aten.full.default](args = ([256, 1], 2.0), kwargs = {})
    %angles : f32[256, 256] = call_function[target=aten.mul.Tensor](args = (%places, %w), kwargs = {})
    %waves : f32[256, 256] = call_function[target=aten.cos.default](args = (%angles,), kwargs = {})
    %wide : f32[256, 256] = call_function[target=aten.full.default](args = ([256, 256], 3.0), kwargs = {})
    %third : f32[256, 256] = call_function[target=aten.reciprocal.default](args = (%wide,), kwargs = {})
    %turned : f32[256, 256] = call_function[target=aten.mul.Tensor](args = (%x, %waves), kwargs = {})
    %y : f32[256, 256] = call_function[target=aten.mul.Tensor](args = (%turned, %third), kwargs = {})
    return (%y,)
# CHECK:     %[[F:.*]] : f32[256, 256] = get_attr[target=folded.waves]
# CHECK:     aten.reciprocal
# CHECK:     aten.mul.Tensor](args = (%x, %[[F]]), kwargs = {})
