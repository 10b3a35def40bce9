# A fault is one line that says where.
# RUN: not coil opt %s 2>&1 | FileCheck %s
# RUN: not coil opt --pass no-such-pass %s 2>&1 | FileCheck %s --check-prefix=PASS
# CHECK: coil: error: line 8, column 61: no node is named %y
# PASS:  coil: error: there is no pass no-such-pass; there are
graph():
    %x : f32[2] = placeholder[target=x]
    %z = call_function[target=aten.add.Tensor](args = (%x, %y), kwargs = {})
    return (%z,)
