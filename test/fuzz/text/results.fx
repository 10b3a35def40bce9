graph():
    %x : f32[2, 6] = placeholder[target=x]
    %split_with_sizes : [f32[2, 1]{6, 1}, f32[2, 2]{6, 1}+1, f32[2, 3]{6, 1}+3] = call_function[target=aten.split_with_sizes.default](args = (%x, [1, 2, 3], 1), kwargs = {})  # at fixture_programs.py:93
    %getitem : f32[2, 1]{6, 1} = call_function[target=_operator.getitem](args = (%split_with_sizes, 0), kwargs = {})  # at fixture_programs.py:93
    %getitem_1 : f32[2, 2]{6, 1}+1 = call_function[target=_operator.getitem](args = (%split_with_sizes, 1), kwargs = {})  # at fixture_programs.py:93
    %getitem_2 : f32[2, 3]{6, 1}+3 = call_function[target=_operator.getitem](args = (%split_with_sizes, 2), kwargs = {})  # at fixture_programs.py:93
    %topk : [f32[2, 2], i64[2, 2]] = call_function[target=aten.topk.default](args = (%x, 2), kwargs = {})  # at fixture_programs.py:94
    %getitem_3 : f32[2, 2] = call_function[target=_operator.getitem](args = (%topk, 0), kwargs = {})  # at fixture_programs.py:94
    %getitem_4 : i64[2, 2] = call_function[target=_operator.getitem](args = (%topk, 1), kwargs = {})  # at fixture_programs.py:94
    %max_1 : [f32[2], i64[2]] = call_function[target=aten.max.dim](args = (%x, 1), kwargs = {})  # at fixture_programs.py:95
    %getitem_5 : f32[2] = call_function[target=_operator.getitem](args = (%max_1, 0), kwargs = {})  # at fixture_programs.py:95
    %getitem_6 : i64[2] = call_function[target=_operator.getitem](args = (%max_1, 1), kwargs = {})  # at fixture_programs.py:95
    %unbind : [f32[6], f32[6]{1}+6] = call_function[target=aten.unbind.int](args = (%x,), kwargs = {})  # at fixture_programs.py:96
    %getitem_7 : f32[6] = call_function[target=_operator.getitem](args = (%unbind, 0), kwargs = {})  # at fixture_programs.py:96
    %getitem_8 : f32[6]{1}+6 = call_function[target=_operator.getitem](args = (%unbind, 1), kwargs = {})  # at fixture_programs.py:96
    %native_layer_norm : [f32[2, 6], f32[2, 1], f32[2, 1]] = call_function[target=aten.native_layer_norm.default](args = (%x, [6], None, None, 1e-05), kwargs = {})  # at fixture_programs.py:97
    %getitem_9 : f32[2, 6] = call_function[target=_operator.getitem](args = (%native_layer_norm, 0), kwargs = {})  # at fixture_programs.py:97
    %getitem_10 : f32[2, 1] = call_function[target=_operator.getitem](args = (%native_layer_norm, 1), kwargs = {})  # at fixture_programs.py:97
    %getitem_11 : f32[2, 1] = call_function[target=_operator.getitem](args = (%native_layer_norm, 2), kwargs = {})  # at fixture_programs.py:97
    return (%getitem_1, %getitem_4, %getitem_5, %getitem_8, %getitem_9, %getitem_10)
