// Indices that data decides. `C_GLOBAL` is what a pointer to the device's memory says in a language with address
// spaces.
#pragma once

// @piece indices
template <class I> C_FN bool c_outside(I index, i64 size) { return (u64)(i64)index >= (u64)size; }
template <class I, class S> C_FN i64 c_check(I index, i64 size, S status) {
  const i64 i = (i64)index;
  if ((u64)i >= (u64)size) {
    c_fail(status);
    return 0;
  }
  return i;
}
