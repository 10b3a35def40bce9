graph(s6: [2, 64] = 3, s17: [1, inf] = 5, s86: [1, inf] = 3):
    %x : f32[2*s6, 4] = placeholder[target=x]
    %y : f32[s17, 4] = placeholder[target=y]
    %n : s86 = placeholder[target=n]
    %sym_size_int_4 : s17 = call_function[target=aten.sym_size.int](args = (%y, 0), kwargs = {})  # at runtime_assert.py:24
    %cat : f32[2*s6 + s17, 4] = call_function[target=aten.cat.default](args = ([%x, %y],), kwargs = {})  # at fixture_programs.py:56
    %sym_size_int : 2*s6 + s17 = call_function[target=aten.sym_size.int](args = (%cat, 0), kwargs = {})  # at fixture_programs.py:57
    %floordiv : s6 + FloorDiv(s17, 2) = call_function[target=_operator.floordiv](args = (%sym_size_int, 2), kwargs = {})  # at fixture_programs.py:57
    %slice_1 : f32[s6 + FloorDiv(s17, 2), 4] = call_function[target=aten.slice.Tensor](args = (%cat, 0, None, %floordiv), kwargs = {})  # at fixture_programs.py:57
    %t : f32[4, 2*s6]{1, 4} = call_function[target=aten.t.default](args = (%x,), kwargs = {})  # at fixture_programs.py:58
    %unsqueeze : f32[1, 4, 2*s6]{4, 1, 4} = call_function[target=aten.unsqueeze.default](args = (%t, 0), kwargs = {})  # at fixture_programs.py:58
    %avg_pool1d : f32[1, 4, s6]{4*s6, s6, 1} = call_function[target=aten.avg_pool1d.default](args = (%unsqueeze, [2]), kwargs = {})  # at fixture_programs.py:58
    %select : f32[4, s6]{s6, 1} = call_function[target=aten.select.int](args = (%avg_pool1d, 0, 0), kwargs = {})  # at fixture_programs.py:58
    %reshape : f32[s6, 2, 4] = call_function[target=aten.reshape.default](args = (%x, [-1, 2, 4]), kwargs = {})  # at fixture_programs.py:59
    %sym_size_int_1 : 2*s6 = call_function[target=aten.sym_size.int](args = (%x, 0), kwargs = {})  # at fixture_programs.py:60
    %mul : 6*s6 = call_function[target=_operator.mul](args = (%sym_size_int_1, 3), kwargs = {})  # at fixture_programs.py:60
    %sub : 6*s6 - s17 = call_function[target=_operator.sub](args = (%mul, %sym_size_int_4), kwargs = {})  # at fixture_programs.py:60
    %zeros : i64[s86] = call_function[target=aten.zeros.default](args = ([%n],), kwargs = {dtype: i64, device: cpu, pin_memory: False})  # at fixture_programs.py:60
    %sym_max : Max(5, 2*s6) = call_function[target=torch.sym_max](args = (%sym_size_int_1, 5), kwargs = {})  # at fixture_programs.py:60
    %full : f32[Max(5, 2*s6)] = call_function[target=aten.full.default](args = ([%sym_max], 1.5), kwargs = {device: cpu, pin_memory: False})  # at fixture_programs.py:60
    return (%slice_1, %select, %reshape, %sub, %zeros, %full)
