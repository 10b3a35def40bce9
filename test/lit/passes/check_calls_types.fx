# Element types that eager has no kernel for are refused, and the message names the call and its line.
# RUN: not coil opt --pass check-calls %s 2>&1 | FileCheck %s
# CHECK: aten.bitwise_and.Tensor: takes integral types, not float32 (node %and) (at model.py:7)
graph():
    %f : f32[4] = placeholder[target=f]
    %and = call_function[target=aten.bitwise_and.Tensor](args = (%f, %f), kwargs = {})  # at model.py:7
    return (%and,)
