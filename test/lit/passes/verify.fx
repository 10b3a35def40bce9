# A graph that holds comes out as it was.
# RUN: coil opt --pass verify %s | FileCheck %s
graph():
    %x : f32[4] = placeholder[target=x]
    return (%x,)
# CHECK:      %x : f32[4] = placeholder[target=x]
# CHECK-NEXT: return (%x,)
