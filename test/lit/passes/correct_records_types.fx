# torch 2.11 records where `unique` found each element, and sums of weights by `bincount`, with another result's type; names
# of sizes that data tell stay. The statistics of norms have the type of wider weights.
# RUN: coil opt --pass correct-records %s | FileCheck %s
graph(u0: unbacked [0, inf], u1: unbacked [0, inf]):
    %x : f32[9] = placeholder[target=x]
    %n : i64[9] = placeholder[target=n]
    %unique : [f32[u0], f32[9], f32[u0]] = call_function[target=aten._unique2.default](args = (%x, True, True, True), kwargs = {})
    %values : f32[u0] = call_function[target=_operator.getitem](args = (%unique, 0), kwargs = {})
    %places : f32[9] = call_function[target=_operator.getitem](args = (%unique, 1), kwargs = {})
    %counts : f32[u0] = call_function[target=_operator.getitem](args = (%unique, 2), kwargs = {})
    %twice : f32[u0] = call_function[target=aten.mul.Tensor](args = (%counts, 2), kwargs = {})
    %sums : i64[u1] = call_function[target=aten.bincount.default](args = (%n, %x), kwargs = {})
    %h : bf16[4, 16] = placeholder[target=h]
    %w : f32[16] = placeholder[target=w]
    %norm : [bf16[4, 16], bf16[4, 1], bf16[4, 1]] = call_function[target=aten.native_layer_norm.default](args = (%h, [16], %w, %w, 1e-05), kwargs = {})
    %normed : bf16[4, 16] = call_function[target=_operator.getitem](args = (%norm, 0), kwargs = {})
    %mean : bf16[4, 1] = call_function[target=_operator.getitem](args = (%norm, 1), kwargs = {})
    return (%normed, %mean, %values, %places, %twice, %sums)
# CHECK:      %unique : [f32[u0], i64[9], i64[u0]] =
# CHECK-NEXT: %values : f32[u0] =
# CHECK-NEXT: %places : i64[9] =
# CHECK-NEXT: %counts : i64[u0] =
# CHECK-NEXT: %twice : i64[u0] =
# CHECK-NEXT: %sums : f32[u1] =
# CHECK:      %norm : [bf16[4, 16], f32[4, 1], f32[4, 1]] =
# CHECK-NEXT: %normed : bf16[4, 16] =
# CHECK-NEXT: %mean : f32[4, 1] =
