// Reductions across the lanes of a vector.
#include <fmt/format.h>

#include "codegen/cpp/prelude_pieces.h"

namespace coil::codegen {

namespace {

/// L vectors as rows of a matrix, turned into its columns: blocks off the diagonal change places, halves first.
std::string transpose_text(int lanes) {
  std::string out;
  for (int s = lanes / 2; s > 0; s /= 2) {
    std::string low, high;
    for (int l = 0; l < lanes; ++l) {
      low += fmt::format(", {}", l & s ? lanes + l - s : l);
      high += fmt::format(", {}", l & s ? lanes + l : l + s);
    }
    for (int i = 0; i < lanes; ++i)
      if (!(i & s))
        out += fmt::format(
            "  x = __builtin_shufflevector(r[{0}], r[{1}]{2}); r[{1}] = __builtin_shufflevector(r[{0}], r[{1}]{3}); "
            "r[{0}] = x;\n",
            i, i + s, low, high);
  }
  return out;
}

/// c_prefix_add and its kin: lane l is x[0] op … op x[l], by shifts of 1, 2, 4, …; `fill` stands before the first lane.
std::string prefix_text(std::string_view name, std::string_view op, std::string_view fill) {
  auto shifts = [&](int lanes) {
    std::string text;
    for (int s = 1; s < lanes; s *= 2) {
      std::string list;
      for (int l = 0; l < lanes; ++l) list += fmt::format(", {}", l < s ? lanes : l - s);
      text += fmt::format("  x = {}(x, __builtin_shufflevector(x, e{}));\n", op, list);
    }
    return text;
  };
  std::string out;
  for (int lanes : {16, 8, 4})
    out += fmt::format(
        "#if COIL_L == {0}\ntemplate <class V> COIL_FN V {1}(V x) {{\n  V e = {2};\n{3}  return x;\n}}\n"
        "template <class V> COIL_FN V {1}_half(V x) {{\n  V e = {2};\n{4}  return x;\n}}\n#endif\n",
        lanes, name, fill, shifts(lanes), shifts(lanes / 2));
  return out + fmt::format(
                   "template <class H> COIL_FN twice<H> {0}(twice<H> x) {{\n  H a = {0}_half(x.a);\n  return {{a, "
                   "{1}(H{{}} + a[COIL_L / 2 - 1], {0}_half(x.b))}};\n}}\n",
                   name, op);
}

}  // namespace

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
  for (Fold fold : {Fold{"c_hsum", "c_add"},
                    {"c_hprod", "c_mul"},
                    {"c_hmax", "c_max"},
                    {"c_hmin", "c_min"},
                    {"c_hxor", "c_xor"},
                    {"c_hor", "c_or"},
                    {"c_hand", "c_and"}}) {
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
  // One bit for each lane.
  out.push_back({"c_bits", R"(
#if COIL_L == 16 && defined(__AVX512DQ__)
COIL_FN u32 c_bits(boolv x) { typedef int c_int16 COIL_VECTOR(int, 16); return (u16)__builtin_ia32_cvtd2mask512((c_int16)x.m); }
#elif COIL_L == 8 && defined(__AVX__)
COIL_FN u32 c_bits(boolv x) { return (u32)__builtin_ia32_movmskps256((f32v)x.m); }
#elif COIL_L == 4 && defined(__SSE__)
COIL_FN u32 c_bits(boolv x) { return (u32)__builtin_ia32_movmskps((f32v)x.m); }
#else
COIL_FN u32 c_bits(boolv x) { u32 r = 0; for (int i = 0; i < COIL_L; i++) r |= (u32)(x.m[i] != 0) << i; return r; }
#endif
)"});
  out.push_back({"c_hany", R"(
COIL_FN bool c_hany(bool x) { return x; }
COIL_FN bool c_hany(boolv x) { return c_bits(x) != 0; }
)"});
  out.push_back({"c_hall", R"(
COIL_FN bool c_hall(bool x) { return x; }
COIL_FN bool c_hall(boolv x) { return c_bits(x) == (1u << COIL_L) - 1u; }
)"});
  // Lane l is lane i[l] of x; of indices only the low bits count.
  out.push_back({"c_permute", R"(
#if COIL_L == 16 && defined(__AVX512F__) && defined(__clang__)
COIL_FN f32v c_permute(f32v x, i32v i) { return (f32v)__builtin_ia32_permvarsf512(x, i); }
#elif COIL_L == 16 && defined(__AVX512F__)
COIL_FN f32v c_permute(f32v x, i32v i) { return (f32v)__builtin_ia32_permvarsf512_mask(x, i, x, (u16)-1); }
#elif COIL_L == 8 && defined(__AVX2__)
COIL_FN f32v c_permute(f32v x, i32v i) { return (f32v)__builtin_ia32_permvarsf256(x, i); }
#else
COIL_FN f32v c_permute(f32v x, i32v i) { f32v r; for (int l = 0; l < COIL_L; l++) r[l] = x[i[l] & (COIL_L - 1)]; return r; }
#endif
COIL_FN i32v c_permute(i32v x, i32v i) { return (i32v)c_permute((f32v)x, i); }
COIL_FN u32v c_permute(u32v x, i32v i) { return (u32v)c_permute((f32v)x, i); }
)"});
  std::string transpose = "template <class V> COIL_FN void c_transpose(V* r) {\n  V x;\n";
  for (int lanes : {16, 8, 4}) transpose += fmt::format("#if COIL_L == {}\n{}#endif\n", lanes, transpose_text(lanes));
  out.push_back({"c_transpose", transpose + "}\n"});
  // Rows of n lanes' worth, `stride` elements apart, as columns.
  for (std::string_view d : {"f32", "f16", "bf16", "f8e4m3fn", "f8e5m2", "i32", "u32"}) {
    const std::string_view reg = d == "i32" || d == "u32" ? d : "f32";
    out.push_back({fmt::format("c_tile_{}v", d),
                   fmt::format("COIL_FN void c_tile_{0}v({1}v* r, const void* p, i64 stride, i64 n) {{\n"
                               "  for (i64 l = 0; l < COIL_L; l++) r[l] = l < n ? c_load_{0}v((const char*)p + {2} * l "
                               "* stride) : {1}v{{}};\n  c_transpose(r);\n}}\n",
                               d, reg,
                               reg == d              ? 4
                               : d.starts_with("f8") ? 1
                                                     : 2)});
  }
  // The last lane in all.
  out.push_back({"c_last", R"(
template <class V> COIL_FN V c_last(V x) { return V{} + x[COIL_L - 1]; }
template <class H> COIL_FN twice<H> c_last(twice<H> x) { H y = H{} + x.b[COIL_L / 2 - 1]; return {y, y}; }
)"});
  out.push_back({"c_prefix_add", prefix_text("c_prefix_add", "c_add", "V{}"), {"c_prefix_add_half"}});
  out.push_back({"c_prefix_mul", prefix_text("c_prefix_mul", "c_mul", "V{} + 1"), {"c_prefix_mul_half"}});
  // An extreme of a lane with itself is the lane: it stands for what is missing.
  out.push_back({"c_prefix_max", prefix_text("c_prefix_max", "c_max", "V{} + x[0]"), {"c_prefix_max_half"}});
  out.push_back({"c_prefix_min", prefix_text("c_prefix_min", "c_min", "V{} + x[0]"), {"c_prefix_min_half"}});
  // Indices into a dimension of this size, of the first n lanes: negative ones count from the end, others outside set
  // the status and become 0.
  out.push_back({"c_check", R"(
COIL_FN i64v c_check(i64v x, i64 size, i64 n, i64* status) {
  x = {x.a < 0 ? x.a + size : x.a, x.b < 0 ? x.b + size : x.b};
  const boolv in = c_and(c_mask(i64v{(i64h)((u64h)x.a < (u64)size), (i64h)((u64h)x.b < (u64)size)}), c_firstn(n));
  if (__builtin_expect(c_bits(in) != (n == COIL_L ? (1u << COIL_L) - 1u : (1u << n) - 1u), 0)) *status = 1;
  return c_where(in, x, i64v{});
}
)"});
}

}  // namespace coil::codegen
