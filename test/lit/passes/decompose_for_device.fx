# Attention's gradient waits for the device: a GPU's library has it in 16 bits, all else gets products.
# RUN: coil opt --pass decompose %s | FileCheck %s --check-prefix=BEFORE
# RUN: coil opt --device cuda --set cuda.arch=sm_90a --pass decompose-for-device %s | FileCheck %s
graph():
    %q : bf16[2, 4, 8, 16] = placeholder[target=q]
    %k : bf16[2, 2, 9, 16] = placeholder[target=k]
    %logs : f32[2, 4, 8]{32, 1, 4} = placeholder[target=logs]
    %cq : bf16[2, 4, 8, 16]@cuda:0 = placeholder[target=cq]
    %ck : bf16[2, 2, 9, 16]@cuda:0 = placeholder[target=ck]
    %clogs : f32[2, 4, 8]{32, 1, 4}@cuda:0 = placeholder[target=clogs]
    %w : f32[2, 4, 8, 16]@cuda:0 = placeholder[target=w]
    %here : [bf16[2, 4, 8, 16]{512, 16, 64, 1}, bf16[2, 2, 9, 16]{288, 16, 32, 1}, bf16[2, 2, 9, 16]{288, 16, 32, 1}] = call_function[target=aten._scaled_dot_product_flash_attention_for_cpu_backward.default](args = (%q, %q, %k, %k, %q, %logs, 0.0, True), kwargs = {})
    %a = call_function[target=_operator.getitem](args = (%here, 0), kwargs = {})
    %there : [bf16[2, 4, 8, 16]{512, 16, 64, 1}@cuda:0, bf16[2, 2, 9, 16]{288, 16, 32, 1}@cuda:0, bf16[2, 2, 9, 16]{288, 16, 32, 1}@cuda:0] = call_function[target=aten._scaled_dot_product_flash_attention_for_cpu_backward.default](args = (%cq, %cq, %ck, %ck, %cq, %clogs, 0.0, True), kwargs = {})
    %b = call_function[target=_operator.getitem](args = (%there, 0), kwargs = {})
    %wide : [f32[2, 4, 8, 16]{512, 16, 64, 1}@cuda:0, f32[2, 4, 8, 16]{512, 16, 64, 1}@cuda:0, f32[2, 4, 8, 16]{512, 16, 64, 1}@cuda:0] = call_function[target=aten._scaled_dot_product_flash_attention_for_cpu_backward.default](args = (%w, %w, %w, %w, %w, %clogs, 0.0, True), kwargs = {})
    %c = call_function[target=_operator.getitem](args = (%wide, 0), kwargs = {})
    return (%a, %b, %c)
# BEFORE-COUNT-3: flash_attention_for_cpu_backward
# CHECK-NOT: backward.default](args = (%q,
# CHECK: bmm
# CHECK: backward.default](args = (%cq, %cq, %ck, %ck, %cq, %clogs, 0.0, True)
# CHECK-NOT: backward
# CHECK: bmm
