# RUN: not coil opt --pass functionalize %s 2>&1 | FileCheck %s
# CHECK: coil: error: a write to an expanded tensor, where several elements share one place in memory (at model.py:7)
graph():
    %x : f32[1, 4] = placeholder[target=x]
    %e = call_function[target=aten.expand.default](args = (%x, [3, 4]), kwargs = {})
    %f = call_function[target=aten.fill_.Scalar](args = (%e, 1.0), kwargs = {})  # at model.py:7
    return (%f,)
