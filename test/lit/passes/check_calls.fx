# Calls that eager takes stay as they are.
# RUN: coil opt --pass check-calls %s | FileCheck %s
# CHECK: aten.bitwise_and.Tensor
# CHECK: aten.add.Tensor
graph():
    %i : i64[4] = placeholder[target=i]
    %f : f32[4] = placeholder[target=f]
    %and = call_function[target=aten.bitwise_and.Tensor](args = (%i, %i), kwargs = {})
    %sum = call_function[target=aten.add.Tensor](args = (%f, 1.0), kwargs = {})
    return (%and, %sum)
