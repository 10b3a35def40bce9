// Reductions across the lanes of a vector.
#include <fmt/format.h>

#include "codegen/cpp/prelude_pieces.h"

namespace coil::codegen {

void add_lane_pieces(std::vector<PreludePiece>& out) {
  // Halves are combined until one lane is left: an order that does not depend on the values.
  out.push_back({"COIL_FOLD", R"(
#if COIL_L == 16
#define COIL_FOLD(x, op) \
  x = op(x, __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)); \
  x = op(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)); \
  x = op(x, __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)); \
  x = op(x, __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
#elif COIL_L == 8
#define COIL_FOLD(x, op) \
  x = op(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3)); \
  x = op(x, __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5)); \
  x = op(x, __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6));
#else
#define COIL_FOLD(x, op) \
  x = op(x, __builtin_shufflevector(x, x, 2, 3, 0, 1)); \
  x = op(x, __builtin_shufflevector(x, x, 1, 0, 3, 2));
#endif
)"});
  out.push_back({"c_lane", R"(
template <class V> COIL_FN auto c_lane(V x, i64 i) { return x[i]; }
COIL_FN bool c_lane(boolv x, i64 i) { return x.m[i] != 0; }
)"});
  struct Fold {
    std::string_view name, op;
  };
  for (Fold fold : {Fold{"c_hsum", "c_add"}, {"c_hprod", "c_mul"}, {"c_hmax", "c_max"}, {"c_hmin", "c_min"}, {"c_hxor", "c_xor"}, {"c_hor", "c_or"}, {"c_hand", "c_and"}}) {
    std::string text = R"(
template <class V> COIL_FN auto $n(V x) { COIL_FOLD(x, $op) return x[0]; }
template <class H> COIL_FN auto $n(twice<H> x) {
  auto r = $op(x.a[0], x.b[0]);
  for (int i = 1; i < COIL_L / 2; i++) r = $op(r, $op(x.a[i], x.b[i]));
  return r;
}
)";
    out.push_back({std::string(fold.name), replace_all(replace_all(text, "$n", fold.name), "$op", fold.op)});
  }
  out.push_back({"c_hany", R"(
COIL_FN bool c_hany(bool x) { return x; }
COIL_FN bool c_hany(boolv x) { return c_hor(x.m) != 0; }
)"});
  out.push_back({"c_hall", R"(
COIL_FN bool c_hall(bool x) { return x; }
COIL_FN bool c_hall(boolv x) { return c_hand(x.m) != 0; }
)"});
}

}  // namespace coil::codegen
