graph(u0: unbacked [2, 10], u1: unbacked [0, 3]):
    %x : f32[3] = placeholder[target=x]
    %n : i64[] = placeholder[target=n]
    %item : u0 = call_function[target=aten.item.default](args = (%n,), kwargs = {})  # at fixture_programs.py:141
    %ge_1 : Bool(2 <= u0) = call_function[target=_operator.ge](args = (%item, 2), kwargs = {})  # at fixture_programs.py:141
    %_assert_scalar_default = call_function[target=aten._assert_scalar.default](args = (%ge_1, "Runtime assertion failed for expression u0 >= 2 on node 'ge_1'"), kwargs = {})  # at fixture_programs.py:141
    %le_1 : Bool(u0 <= 10) = call_function[target=_operator.le](args = (%item, 10), kwargs = {})  # at fixture_programs.py:141
    %_assert_scalar_default_1 = call_function[target=aten._assert_scalar.default](args = (%le_1, "Runtime assertion failed for expression u0 <= 10 on node 'le_1'"), kwargs = {})  # at fixture_programs.py:141
    %new_zeros : f32[u0] = call_function[target=aten.new_zeros.default](args = (%x, [%item]), kwargs = {pin_memory: False})  # at fixture_programs.py:144
    %add : f32[u0] = call_function[target=aten.add.Tensor](args = (%new_zeros, 1), kwargs = {})  # at fixture_programs.py:144
    %mul : 2*u0 = call_function[target=_operator.mul](args = (%item, 2), kwargs = {})  # at fixture_programs.py:144
    %nonzero : i64[u1, 1]{1, u1} = call_function[target=aten.nonzero.default](args = (%x,), kwargs = {})  # at fixture_programs.py:144
    %sym_size_int : u1 = call_function[target=aten.sym_size.int](args = (%nonzero, 0), kwargs = {})  # at fixture_programs.py:144
    %ge_2 : Bool(0 <= u1) = call_function[target=_operator.ge](args = (%sym_size_int, 0), kwargs = {})  # at fixture_programs.py:144
    %_assert_scalar_default_2 = call_function[target=aten._assert_scalar.default](args = (%ge_2, "Runtime assertion failed for expression u1 >= 0 on node 'ge_2'"), kwargs = {})  # at fixture_programs.py:144
    %le_2 : Bool(u1 <= 3) = call_function[target=_operator.le](args = (%sym_size_int, 3), kwargs = {})  # at fixture_programs.py:144
    %_assert_scalar_default_3 = call_function[target=aten._assert_scalar.default](args = (%le_2, "Runtime assertion failed for expression u1 <= 3 on node 'le_2'"), kwargs = {})  # at fixture_programs.py:144
    return (%add, %mul, %nonzero)
