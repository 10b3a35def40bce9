// Truth values of lanes: masks, and the choice by a comparison's own result.
#pragma once
#include "types.h"

// @piece c_mask
COIL_FN bool c_mask(bool m) { return m; }
COIL_FN boolv c_mask(boolv m) { return m; }
COIL_FN boolv c_mask(i32v m) { return {m}; }
COIL_FN boolv c_mask(i16v m) { return {COIL_CV(m, i32v)}; }
COIL_FN boolv c_mask(i8v m) { return {COIL_CV(COIL_CV(m, i16v), i32v)}; }
COIL_FN boolv c_mask(i64v m) { return {COIL_CAT(COIL_CV(m.a, i32h), COIL_CV(m.b, i32h))}; }

// @piece c_pick
// A comparison's own result as the condition: a bool, an integer vector as wide as the operands, or two of them.
template <class M, class T> COIL_FN T c_pick(M m, T x, T y) { return m ? x : y; }
template <class M, class H> COIL_FN twice<H> c_pick(twice<M> m, twice<H> x, twice<H> y) {
  return {m.a ? x.a : y.a, m.b ? x.b : y.b};
}
