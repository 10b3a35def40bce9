# RUN: not coil opt --pass functionalize %s 2>&1 | FileCheck %s
# CHECK: coil: error: aten.add_.Tensor: more than one element of the written-to tensor refers to a single memory location; clone() it first (at model.py:7)
graph():
    %x : f32[6] = placeholder[target=x]
    %w = call_function[target=aten.unfold.default](args = (%x, 0, 3, 1), kwargs = {})
    %f = call_function[target=aten.add_.Tensor](args = (%w, 1.0), kwargs = {})  # at model.py:7
    return (%f,)
