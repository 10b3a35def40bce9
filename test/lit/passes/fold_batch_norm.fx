# Batch norm in inference goes into the convolution before it; not where its statistics are an input, nor where the convolution has another user.
# RUN: coil opt --pass fold-batch-norm %s | FileCheck %s
graph():
    %x : f32[1, 3, 8, 8] = placeholder[target=x]
    %stat : f32[5] = placeholder[target=stat]
    %w : f32[5, 3, 3, 3] = get_attr[target=w]
    %g : f32[5] = get_attr[target=g]
    %b : f32[5] = get_attr[target=b]
    %m : f32[5] = get_attr[target=m]
    %v : f32[5] = get_attr[target=v]
    %conv = call_function[target=aten.conv2d.default](args = (%x, %w), kwargs = {})
    %bn = call_function[target=aten.batch_norm.default](args = (%conv, %g, %b, %m, %v, False, 0.1, 1e-05, True), kwargs = {})
    %conv2 = call_function[target=aten.conv2d.default](args = (%x, %w), kwargs = {})
    %bn2 = call_function[target=aten.batch_norm.default](args = (%conv2, %g, %b, %stat, %v, False, 0.1, 1e-05, True), kwargs = {})
    %conv3 = call_function[target=aten.conv2d.default](args = (%x, %w), kwargs = {})
    %bn3 = call_function[target=aten.batch_norm.default](args = (%conv3, %g, %b, %m, %v, False, 0.1, 1e-05, True), kwargs = {})
    return (%bn, %bn2, %bn3, %conv3)
# CHECK:      %[[VE:.*]] : f32[5] = call_function[target=aten.add.Scalar](args = (%v, 1e-05), kwargs = {})
# CHECK-NEXT: %[[RS:.*]] : f32[5] = call_function[target=aten.rsqrt.default](args = (%[[VE]],), kwargs = {})
# CHECK-NEXT: %[[SC:.*]] : f32[5] = call_function[target=aten.mul.Tensor](args = (%[[RS]], %g), kwargs = {})
# CHECK-NEXT: %[[SV:.*]] : f32[5, 1, 1, 1] = call_function[target=aten.view.default](args = (%[[SC]], [-1, 1, 1, 1]), kwargs = {})
# CHECK-NEXT: %[[W:.*]] : f32[5, 3, 3, 3] = call_function[target=aten.mul.Tensor](args = (%w, %[[SV]]), kwargs = {})
# CHECK-NEXT: %[[NM:.*]] : f32[5] = call_function[target=aten.neg.default](args = (%m,), kwargs = {})
# CHECK-NEXT: %[[SH:.*]] : f32[5] = call_function[target=aten.mul.Tensor](args = (%[[NM]], %[[SC]]), kwargs = {})
# CHECK-NEXT: %[[B:.*]] : f32[5] = call_function[target=aten.add.Tensor](args = (%[[SH]], %b), kwargs = {})
# CHECK-NEXT: %conv : f32[1, 5, 6, 6] = call_function[target=aten.conv2d.default](args = (%x, %[[W]], %[[B]]), kwargs = {})
# CHECK-NEXT: %conv2 :
# CHECK-NEXT: %bn2 :
# CHECK-NEXT: %conv3 :
# CHECK-NEXT: %bn3 :
# CHECK-NEXT: return (%conv, %bn2, %bn3, %conv3)
