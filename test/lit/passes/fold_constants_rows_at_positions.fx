# Rows of a table at positions are read where they lie by whatever needs them; at numbers that are computed from
# positions, or of a table that is computed, they are worth a constant.
# RUN: coil opt --pass fold-constants %s | FileCheck %s
graph():
    %table : f32[1024, 256] = get_attr[target=table]
    %x : f32[1, 256, 256] = placeholder[target=x]
    %arange : i64[256] = call_function[target=aten.arange.default](args = (256,), kwargs = {})
    %moved : i64[256] = call_function[target=aten.add.Tensor](args = (%arange, 2), kwargs = {})
    %places : i64[1, 256] = call_function[target=aten.unsqueeze.default](args = (%moved, 0), kwargs = {})
    %rows : f32[1, 256, 256] = call_function[target=aten.embedding.default](args = (%table, %places), kwargs = {})
    %half : i64[1, 256] = call_function[target=aten.bitwise_right_shift.Tensor_Scalar](args = (%places, 1), kwargs = {})
    %others : f32[1, 256, 256] = call_function[target=aten.embedding.default](args = (%table, %half), kwargs = {})
    %wide : f32[1024, 256] = call_function[target=aten.exp.default](args = (%table,), kwargs = {})
    %computed : f32[1, 256, 256] = call_function[target=aten.embedding.default](args = (%wide, %places), kwargs = {})
    %sum : f32[1, 256, 256] = call_function[target=aten.add.Tensor](args = (%x, %rows), kwargs = {})
    %product : f32[1, 256, 256] = call_function[target=aten.mul.Tensor](args = (%sum, %others), kwargs = {})
    %y : f32[1, 256, 256] = call_function[target=aten.mul.Tensor](args = (%product, %computed), kwargs = {})
    return (%y,)
# CHECK:      %rows : f32[1, 256, 256] = call_function[target=aten.embedding.default](args = (%table, %places), kwargs = {})
# CHECK-NEXT: %[[F:.*]] : f32[1, 256, 256] = get_attr[target=folded.others]
# CHECK-NEXT: %[[C:.*]] : f32[1, 256, 256] = get_attr[target=folded.computed]
# CHECK:      aten.mul.Tensor](args = (%sum, %[[F]]), kwargs = {})
# CHECK-NEXT: aten.mul.Tensor](args = (%product, %[[C]]), kwargs = {})
