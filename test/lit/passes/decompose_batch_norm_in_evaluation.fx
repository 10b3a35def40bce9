# Beside the output eager gives nothing on a CPU, and the running statistics on a GPU.
# RUN: coil opt --pass decompose %s | FileCheck %s
graph():
    %x : f32[2, 3, 4] = placeholder[target=x]
    %m : f32[3] = placeholder[target=m]
    %v : f32[3] = placeholder[target=v]
    %n : [f32[2, 3, 4], f32[3], f32[3]] = call_function[target=aten._native_batch_norm_legit_no_training.default](args = (%x, None, None, %m, %v, 0.1, 0.001), kwargs = {})
    %y : f32[2, 3, 4] = call_function[target=_operator.getitem](args = (%n, 0), kwargs = {})
    %mean : f32[3] = call_function[target=_operator.getitem](args = (%n, 1), kwargs = {})
    %rstd : f32[3] = call_function[target=_operator.getitem](args = (%n, 2), kwargs = {})
    return (%y, %mean, %rstd)
# CHECK:      %[[M:.*]] : f32[3] = call_function[target=aten.clone.default](args = (%m,), kwargs = {})
# CHECK-NEXT: %[[A:.*]] : f32[3] = call_function[target=aten.add.Tensor](args = (%v, 0.001), kwargs = {})
# CHECK-NEXT: %[[R:.*]] : f32[3] = call_function[target=aten.rsqrt.default](args = (%[[A]],), kwargs = {})
# CHECK:      return ({{.*}}, %[[M]], %[[R]])
