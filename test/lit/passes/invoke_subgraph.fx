# A region that is called twice is put in the place of each call, and so are the branches in it, whose names were taken.
# RUN: coil opt --pass remove-noops %s | FileCheck %s
graph():
    %x : f32[2, 3] = placeholder[target=x]
    %p : b8[] = placeholder[target=p]
    %own : [f32[2, 3]] = call_function[target=higher_order.cond](args = (%p, @yes, @no, [%x]), kwargs = {})
    %first : f32[2, 3] = call_function[target=_operator.getitem](args = (%own, 0), kwargs = {})
    %call : [f32[2, 3]] = call_function[target=higher_order.invoke_subgraph](args = (@region, "region_0", %first, %p), kwargs = {})
    %second : f32[2, 3] = call_function[target=_operator.getitem](args = (%call, 0), kwargs = {})
    %again : [f32[2, 3]] = call_function[target=higher_order.invoke_subgraph](args = (@region, "region_0", %second, %p), kwargs = {})
    %third : f32[2, 3] = call_function[target=_operator.getitem](args = (%again, 0), kwargs = {})
    return (%third,)
subgraph no:
    graph():
        %a : f32[2, 3] = placeholder[target=a]
        %cos : f32[2, 3] = call_function[target=aten.cos.default](args = (%a,), kwargs = {})
        return (%cos,)
subgraph region:
    graph():
        %b : f32[2, 3] = placeholder[target=b]
        %q : b8[] = placeholder[target=q]
        %inner : [f32[2, 3]] = call_function[target=higher_order.cond](args = (%q, @yes, @no, [%b]), kwargs = {})
        %item : f32[2, 3] = call_function[target=_operator.getitem](args = (%inner, 0), kwargs = {})
        %exp : f32[2, 3] = call_function[target=aten.exp.default](args = (%item,), kwargs = {})
        return (%exp,)
    subgraph no:
        graph():
            %c : f32[2, 3] = placeholder[target=c]
            %tan : f32[2, 3] = call_function[target=aten.tan.default](args = (%c,), kwargs = {})
            return (%tan,)
    subgraph yes:
        graph():
            %d : f32[2, 3] = placeholder[target=d]
            %tanh : f32[2, 3] = call_function[target=aten.tanh.default](args = (%d,), kwargs = {})
            return (%tanh,)
subgraph yes:
    graph():
        %e : f32[2, 3] = placeholder[target=e]
        %sin : f32[2, 3] = call_function[target=aten.sin.default](args = (%e,), kwargs = {})
        return (%sin,)
# CHECK:     cond](args = (%p, @yes, @no, [%x])
# CHECK:     cond](args = (%p, @region_yes, @region_no, [%first])
# CHECK:     %[[E1:.*]] : f32[2, 3] = {{.*}}aten.exp.default
# CHECK:     cond](args = (%p, @region_yes, @region_no, [%[[E1]]])
# CHECK-NOT: invoke_subgraph
# CHECK:     subgraph region_no:
# CHECK:     aten.tan.default
