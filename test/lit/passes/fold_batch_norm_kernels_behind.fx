# Where weights are inputs, batch norm stays where a kernel stands behind it anyway: what the library does has no
# activation in it, or not this one. It is folded where the next layer takes it as it lies, through views too.
# RUN: coil opt --pass fold-batch-norm-of-inputs %s | FileCheck %s
graph():
    %few : f32[2, 3, 8, 8] = placeholder[target=few]
    %wide : f32[2, 8, 8, 8] = placeholder[target=wide]
    %half : bf16[2, 8, 8, 8] = placeholder[target=half]
    %w3 : f32[8, 3, 3, 3] = placeholder[target=w3]
    %w8 : f32[8, 8, 3, 3] = placeholder[target=w8]
    %h8 : bf16[8, 8, 3, 3] = placeholder[target=h8]
    %c : f32[8] = placeholder[target=c]
    %m : f32[6, 5] = placeholder[target=m]
    %conv_few = call_function[target=aten.conv2d.default](args = (%few, %w3), kwargs = {})
    %bn_few = call_function[target=aten.batch_norm.default](args = (%conv_few, %c, %c, %c, %c, False, 0.1, 1e-05, True), kwargs = {})
    %relu_few = call_function[target=aten.relu.default](args = (%bn_few,), kwargs = {})
    %conv_wide = call_function[target=aten.conv2d.default](args = (%wide, %w8), kwargs = {})
    %bn_wide = call_function[target=aten.batch_norm.default](args = (%conv_wide, %c, %c, %c, %c, False, 0.1, 1e-05, True), kwargs = {})
    %relu_wide = call_function[target=aten.relu.default](args = (%bn_wide,), kwargs = {})
    %conv_half = call_function[target=aten.conv2d.default](args = (%half, %h8), kwargs = {})
    %bn_half = call_function[target=aten.batch_norm.default](args = (%conv_half, %c, %c, %c, %c, False, 0.1, 1e-05, True), kwargs = {})
    %relu_half = call_function[target=aten.relu.default](args = (%bn_half,), kwargs = {})
    %conv_silu = call_function[target=aten.conv2d.default](args = (%half, %h8), kwargs = {})
    %bn_silu = call_function[target=aten.batch_norm.default](args = (%conv_silu, %c, %c, %c, %c, False, 0.1, 1e-05, True), kwargs = {})
    %silu = call_function[target=aten.silu.default](args = (%bn_silu,), kwargs = {})
    %conv_next = call_function[target=aten.conv2d.default](args = (%wide, %w8), kwargs = {})
    %bn_next = call_function[target=aten.batch_norm.default](args = (%conv_next, %c, %c, %c, %c, False, 0.1, 1e-05, True), kwargs = {})
    %next = call_function[target=aten.conv2d.default](args = (%bn_next, %w8), kwargs = {})
    %conv_view = call_function[target=aten.conv2d.default](args = (%wide, %w8), kwargs = {})
    %bn_view = call_function[target=aten.batch_norm.default](args = (%conv_view, %c, %c, %c, %c, False, 0.1, 1e-05, True), kwargs = {})
    %rows = call_function[target=aten.reshape.default](args = (%bn_view, [96, 6]), kwargs = {})
    %product = call_function[target=aten.mm.default](args = (%rows, %m), kwargs = {})
    return (%relu_few, %relu_wide, %relu_half, %silu, %next, %product)
# CHECK: %relu_few : {{.*}}(args = (%conv_few,)
# CHECK: %relu_wide : {{.*}}(args = (%bn_wide,)
# CHECK: %relu_half : {{.*}}(args = (%conv_half,)
# CHECK: %silu : {{.*}}(args = (%bn_silu,)
# CHECK: %next : {{.*}}(args = (%conv_next,
# CHECK: %rows : {{.*}}(args = (%conv_view,
