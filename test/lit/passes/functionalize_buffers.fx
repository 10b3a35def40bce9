# Attributes that are written to: by an in-place operator, by copy_ in another dtype, by batch norm in training.
# RUN: coil opt --pass functionalize %s | FileCheck %s
graph():
    %x : f32[2, 3, 4, 4] = placeholder[target=x]
    %mean : f32[3] = get_attr[target=bn.running_mean]
    %var : f32[3] = get_attr[target=bn.running_var]
    %count : i64[] = get_attr[target=bn.num_batches_tracked]
    %last : bf16[4, 4] = get_attr[target=last]
    %more = call_function[target=aten.add_.Tensor](args = (%count, 1), kwargs = {})
    %y = call_function[target=aten.batch_norm.default](args = (%x, None, None, %mean, %var, True, 0.1, 1e-05, True), kwargs = {})
    %one = call_function[target=aten.select.int](args = (%y, 0, 0), kwargs = {})
    %two = call_function[target=aten.select.int](args = (%one, 0, 0), kwargs = {})
    %c = call_function[target=aten.copy_.default](args = (%last, %two), kwargs = {})
    return (%y,)
# CHECK:      %[[N:.*]] : i64[] = call_function[target=aten.add.Tensor](args = (%count, 1), kwargs = {})
# CHECK:      %[[BN:.*]] : [{{.*}}] = call_function[target=aten._native_batch_norm_legit_functional.default](args = (%x, None, None, %mean, %var, True, 0.1, 1e-05), kwargs = {})
# CHECK-DAG:  %[[Y:.*]] : f32[2, 3, 4, 4] = call_function[target=_operator.getitem](args = (%[[BN]], 0), kwargs = {})
# CHECK-DAG:  %[[M:.*]] : f32[3] = call_function[target=_operator.getitem](args = (%[[BN]], 3), kwargs = {})
# CHECK-DAG:  %[[V:.*]] : f32[3] = call_function[target=_operator.getitem](args = (%[[BN]], 4), kwargs = {})
# CHECK:      %[[C:.*]] : bf16[4, 4] = call_function[target=aten.copy.default](args = (%last, %two), kwargs = {})
# CHECK-NEXT: return (%[[Y]], %[[M]], %[[V]], %[[N]], %[[C]])
# CHECK-NEXT: mutation attribute bn.running_mean = 1
# CHECK-NEXT: mutation attribute bn.running_var = 2
# CHECK-NEXT: mutation attribute bn.num_batches_tracked = 3
# CHECK-NEXT: mutation attribute last = 4
