# Where weights are inputs, batch norm goes into the convolution while there are fewer of them than elements that it makes (for GPUs), and not where a parameter is computed.
# RUN: coil opt --pass fold-batch-norm-of-inputs %s | FileCheck %s
graph():
    %x : f32[1, 3, 8, 8] = placeholder[target=x]
    %w : f32[5, 3, 3, 3] = placeholder[target=w]
    %large : f32[300, 3, 7, 7] = placeholder[target=large]
    %c : f32[5] = placeholder[target=c]
    %d : f32[300] = placeholder[target=d]
    %conv = call_function[target=aten.conv2d.default](args = (%x, %w), kwargs = {})
    %bn = call_function[target=aten.batch_norm.default](args = (%conv, %c, %c, %c, %c, False, 0.1, 1e-05, True), kwargs = {})
    %conv2 = call_function[target=aten.conv2d.default](args = (%x, %large), kwargs = {})
    %bn2 = call_function[target=aten.batch_norm.default](args = (%conv2, %d, %d, %d, %d, False, 0.1, 1e-05, True), kwargs = {})
    %doubled = call_function[target=aten.add.Tensor](args = (%c, %c), kwargs = {})
    %conv4 = call_function[target=aten.conv2d.default](args = (%x, %w), kwargs = {})
    %bn4 = call_function[target=aten.batch_norm.default](args = (%conv4, %doubled, %c, %c, %c, False, 0.1, 1e-05, True), kwargs = {})
    return (%bn, %bn2, %bn4)
# CHECK-NOT: target=aten.batch_norm
# CHECK: %conv :
# CHECK-NOT: target=aten.batch_norm
# CHECK: %conv2 :
# CHECK-NEXT: %bn2 :
# CHECK: %conv4 :
# CHECK-NEXT: %bn4 :
# CHECK-NEXT: return (%conv, %bn2, %bn4)
