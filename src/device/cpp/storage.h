// Loads and stores of each dtype, with the conversion between what is stored and its register: a template that
// codegen/cpp/prelude_storage.cpp fills for each. $d: the dtype; $r and $V: its registers, scalar and vector; $w: the
// bits of an element. $from and $to convert a vector x, $sfrom and $sto a scalar.
#pragma once
#include "memory.h"

// @piece c_load_$d
COIL_FN $r c_load_$d(const void* p) {
  u$w x = ((const c_unaligned<u$w>*)p)->v;
  return $sfrom;
}

// @piece c_load_$dv
COIL_FN $V c_load_$dv(const void* p) {
  auto x = c_raw$w(p);
  return $from;
}

// @piece c_loadn_$dv
COIL_FN $V c_loadn_$dv(const void* p, i64 n) {
  auto x = c_rawn$w(p, n);
  return $from;
}

// @piece c_loads_$dv
COIL_FN $V c_loads_$dv(const void* p, i64 stride) {
  auto x = c_raws$w(p, stride);
  return $from;
}

// @piece c_loadsn_$dv
COIL_FN $V c_loadsn_$dv(const void* p, i64 stride, i64 n) {
  auto x = c_rawsn$w(p, stride, n);
  return $from;
}

// @for $k: 2, 4
// @piece c_loads$k_$dv
COIL_FN $V c_loads$k_$dv(const void* p) {
  auto x = c_raws$kx$w(p);
  return $from;
}

// @piece c_loadsn$k_$dv
COIL_FN $V c_loadsn$k_$dv(const void* p, i64 n) {
  auto x = c_rawsn$kx$w(p, n);
  return $from;
}
// @end

// @piece c_gather_$dv
COIL_FN $V c_gather_$dv(const void* p, i64v index) {
  auto x = c_rawg$w(p, index);
  return $from;
}

// @piece c_gathern_$dv
COIL_FN $V c_gathern_$dv(const void* p, i64v index, i64 n) {
  auto x = c_rawgn$w(p, index, n);
  return $from;
}

// @piece c_store_$d
COIL_FN void c_store_$d(void* p, $r x) { ((c_unaligned<u$w>*)p)->v = $sto; }
COIL_FN void c_store_$d(void* p, $V x) { c_put$w(p, $to); }

// @piece c_stream_$d
COIL_FN void c_stream_$d(void* p, $V x, u64 past) { c_past$w(p, $to, past); }

// @piece c_storen_$d
COIL_FN void c_storen_$d(void* p, $V x, i64 n) { c_putn$w(p, $to, n); }

// @piece c_storesn_$d
COIL_FN void c_storesn_$d(void* p, i64 stride, $V x, i64 n) {
  u$wv y = $to;
  c_puts$w(p, stride, y, n);
}

// @piece c_stores_$d
COIL_FN void c_stores_$d(void* p, i64 stride, $V x) {
  u$wv y = $to;
  c_puts$w(p, stride, y, COIL_L);
}

// @piece c_scattern_$d
COIL_FN void c_scattern_$d(void* p, i64v index, $V x, i64 n) {
  i64 t[COIL_L];
  ((c_unaligned<i64v>*)t)->v = index;
  u$wv y = $to;
  c_puts$w(p, (const i64*)t, y, n);
}

// @piece c_scatter_$d
COIL_FN void c_scatter_$d(void* p, i64v index, $V x) { c_scattern_$d(p, index, x, COIL_L); }

// @piece c_splat_$dv
COIL_FN $V c_splat_$dv($r x) { return $splat; }
