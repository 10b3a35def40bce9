# What a call gives several of is computed now as well: weights that are standardized.
# RUN: coil opt --pass fold-constants %s | FileCheck %s
graph():
    %w : f32[256, 256] = get_attr[target=w]
    %x : f32[256, 256] = placeholder[target=x]
    %both : [f32[256, 1], f32[256, 1]] = call_function[target=aten.var_mean.correction](args = (%w, [1]), kwargs = {correction: 0, keepdim: True})
    %mean : f32[256, 1] = call_function[target=_operator.getitem](args = (%both, 1), kwargs = {})
    %centred : f32[256, 256] = call_function[target=aten.sub.Tensor](args = (%w, %mean), kwargs = {})
    %halves : [f32[128, 256], f32[128, 256]] = call_function[target=aten.split.Tensor](args = (%centred, 128), kwargs = {})
    %half : f32[128, 256] = call_function[target=_operator.getitem](args = (%halves, 1), kwargs = {})
    %turned : f32[256, 128] = call_function[target=aten.permute.default](args = (%half, [1, 0]), kwargs = {})
    %y : f32[256, 128] = call_function[target=aten.mm.default](args = (%x, %turned), kwargs = {})
    return (%y,)
# CHECK:     %[[F:.*]] : f32[256, 256] = get_attr[target=folded.centred]
# CHECK-NOT: aten.var_mean
# CHECK:     %[[S:.*]] : [f32[128, 256], f32[128, 256]] = call_function[target=aten.split.Tensor](args = (%[[F]], 128), kwargs = {})
# CHECK-NEXT: %[[H:.*]] : f32[128, 256] = call_function[target=_operator.getitem](args = (%[[S]], 1), kwargs = {})
# CHECK:     aten.permute.default](args = (%[[H]], [1, 0]), kwargs = {})
