# Free sizes of a complex tensor are asked of a part of it, since the whole is not made.
# RUN: coil opt --pass split-complex %s | FileCheck %s
graph(s0: [1, 64] = 3):
    %x : f32[s0, 4] = placeholder[target=x]
    %z : c64[s0, 4] = call_function[target=aten.complex.default](args = (%x, %x), kwargs = {})
    %w : c64[s0, 4] = call_function[target=aten.mul.Tensor](args = (%z, %z), kwargs = {})
    %rows = call_function[target=aten.sym_size.int](args = (%w, 0), kwargs = {})
    %all = call_function[target=aten.sym_numel.default](args = (%w,), kwargs = {})
    return (%rows, %all)
# CHECK:      %[[PART:.*]] : f32[s0, 4] = call_function[target=aten.sub.Tensor]
# CHECK-NOT:  aten.view_as_complex
# CHECK:      call_function[target=aten.sym_size.int](args = (%[[PART]], 0)
# CHECK:      call_function[target=aten.sym_numel.default](args = (%[[PART]],)
