graph(s77: [1, inf] = 2):
    %x : f32[s77, 2, 3, 3] = placeholder[target=x]
    %i : i64[2] = placeholder[target=i]
    %sym_size_int_1 : s77 = call_function[target=aten.sym_size.int](args = (%x, 0), kwargs = {})  # at runtime_assert.py:24
    %gt : b8[s77, 2, 3, 3] = call_function[target=aten.gt.Scalar](args = (%x, 0), kwargs = {})  # at fixture_programs.py:107
    %masked_fill : f32[s77, 2, 3, 3] = call_function[target=aten.masked_fill.Scalar](args = (%x, %gt, -inf), kwargs = {})  # at fixture_programs.py:107
    %_assert_tensor_metadata_default = call_function[target=aten._assert_tensor_metadata.default](args = (%masked_fill, None, None, f32), kwargs = {device: cpu, layout: strided})  # at fixture_programs.py:107
    %to : f16[s77, 2, 3, 3] = call_function[target=aten.to.dtype](args = (%masked_fill, f16), kwargs = {})  # at fixture_programs.py:107
    %slice_1 : f32[s77, 2, 3, 3] = call_function[target=aten.slice.Tensor](args = (%x, 0, 0, 9223372036854775807), kwargs = {})  # at fixture_programs.py:108
    %unsqueeze : f32[s77, 2, 1, 3, 3] = call_function[target=aten.unsqueeze.default](args = (%slice_1, 2), kwargs = {})  # at fixture_programs.py:108
    %index : f32[s77, 2, 1, 3, 3] = call_function[target=aten.index.Tensor](args = (%unsqueeze, [None, %i]), kwargs = {})  # at fixture_programs.py:108
    %gelu : f32[s77, 2, 3, 3] = call_function[target=aten.gelu.default](args = (%x,), kwargs = {approximate: "tanh"})  # at fixture_programs.py:109
    %clone : f32[s77, 2, 3, 3]{18, 1, 6, 2} = call_function[target=aten.clone.default](args = (%gelu,), kwargs = {memory_format: channels_last})  # at fixture_programs.py:109
    %empty_like : f32[s77, 2, 3, 3] = call_function[target=aten.empty_like.default](args = (%x,), kwargs = {pin_memory: False, memory_format: contiguous_format})  # at fixture_programs.py:110
    %fill_ : f32[s77, 2, 3, 3] = call_function[target=aten.fill_.Scalar](args = (%empty_like, True), kwargs = {})  # at fixture_programs.py:110
    %arange : i32[4] = call_function[target=aten.arange.default](args = (4,), kwargs = {dtype: i32, layout: strided, device: cpu, pin_memory: False})  # at fixture_programs.py:111
    %upsample_nearest2d : f32[s77, 2, 6, 6] = call_function[target=aten.upsample_nearest2d.vec](args = (%x, None, [2.0, 2.0]), kwargs = {})  # at fixture_programs.py:112
    %cat : f32[s77, 2, 3, 6] = call_function[target=aten.cat.default](args = ([%x, %fill_], -1), kwargs = {})  # at fixture_programs.py:113
    %sum_1 : f64[s77, 1, 1, 6] = call_function[target=aten.sum.dim_IntList](args = (%cat, [1, 2], True), kwargs = {dtype: f64})  # at fixture_programs.py:113
    %div : f32[s77, 2, 3, 3] = call_function[target=aten.div.Tensor_mode](args = (%x, 3), kwargs = {rounding_mode: "floor"})  # at fixture_programs.py:114
    %expand : f32[s77, 2, 3, 3] = call_function[target=aten.expand.default](args = (%div, [%sym_size_int_1, 2, 3, 3]), kwargs = {})  # at fixture_programs.py:114
    %ones : f32[2, 2, 1, 1] = call_function[target=aten.ones.default](args = ([2, 2, 1, 1],), kwargs = {device: cpu, pin_memory: False})  # at fixture_programs.py:115
    %conv2d : f32[s77, 2, 3, 3] = call_function[target=aten.conv2d.padding](args = (%x, %ones, None, [1, 1], "same"), kwargs = {})  # at fixture_programs.py:115
    %gt_1 : b8[s77, 2, 3, 3] = call_function[target=aten.gt.Scalar](args = (%x, 1), kwargs = {})  # at fixture_programs.py:116
    %where : f32[s77, 2, 3, 3] = call_function[target=aten.where.ScalarOther](args = (%gt_1, %x, nan), kwargs = {})  # at fixture_programs.py:116
    return (%to, %index, %clone, %arange, %upsample_nearest2d, %sum_1, %expand, %conv2d, %where)
