// Conversions between register types, masks, selection and bit casts.
#include <fmt/format.h>

#include "codegen/cpp/prelude_pieces.h"

namespace coil::codegen {

namespace {

struct RegisterType {
  std::string_view name;
  int bits;
  char kind;  ///< 'f', 'i' or 'u'
};

constexpr RegisterType kTypes[] = {{"f32", 32, 'f'}, {"f64", 64, 'f'}, {"i8", 8, 'i'}, {"i16", 16, 'i'},
                                   {"i32", 32, 'i'}, {"i64", 64, 'i'}, {"u8", 8, 'u'}, {"u16", 16, 'u'},
                                   {"u32", 32, 'u'}, {"u64", 64, 'u'}};

std::string convert(std::string_view x, std::string_view to) { return fmt::format("COIL_CV({}, {})", x, to); }

/// `x`, an integer vector `sign``from` (such as u8v), as `sign``to`; by factors of two in width, which GCC has
/// instructions for.
std::string resize(std::string x, char sign, int from, int to) {
  while (from != to) {
    from = from < to ? from * 2 : from / 2;
    x = convert(x, fmt::format("{}{}v", sign, from));
  }
  return x;
}

/// An expression of a 32-bit L-lane vector (kind `f`, `i` or `u`), from a source of at most 32 bits.
std::string to_32(const RegisterType& from, std::string x) {
  return from.kind == 'f' ? x : resize(std::move(x), from.kind, from.bits, 32);
}

/// A value of type `from` (32 bits or less) as `to` (32 bits or less).
std::string narrow_cast(const RegisterType& from, const RegisterType& to, std::string x) {
  if (to.kind == 'f') return from.kind == 'f' ? x : convert(to_32(from, x), "f32v");
  if (from.kind == 'f') {
    if (to.name == "u32")
      return fmt::format("c_cast_u32(i64v{{COIL_CV(COIL_LO({0}), i64h), COIL_CV(COIL_HI({0}), i64h)}})", x);
    return narrow_cast(kTypes[4], to, convert(x, "i32v"));
  }
  if (to.bits >= from.bits) return fmt::format("({}v){}", to.name, resize(x, from.kind, from.bits, to.bits));
  return resize(fmt::format("({}{}v){}", to.kind, from.bits, x), to.kind, from.bits, to.bits);
}

std::string vector_cast(const RegisterType& from, const RegisterType& to) {
  if (from.name == to.name) return "x";
  bool wide_from = from.bits == 64, wide_to = to.bits == 64;
  if (!wide_from && !wide_to) return narrow_cast(from, to, "x");
  if (wide_from && wide_to) return fmt::format("{{COIL_CV(x.a, {0}h), COIL_CV(x.b, {0}h)}}", to.name);
  if (wide_to) return fmt::format("{{COIL_CV(COIL_LO(y), {0}h), COIL_CV(COIL_HI(y), {0}h)}}", to.name);
  // Floats go to the narrow unsigned types by way of i64, as torch's scalar conversions do; the others by way of i32.
  bool by_i64 = from.kind == 'f' && (to.name == "u8" || to.name == "u32");
  std::string_view half = to.kind == 'f' ? "f32h" : "i32h";
  std::string cat = by_i64 ? "COIL_CAT(COIL_CV(COIL_CV(x.a, i64h), i32h), COIL_CV(COIL_CV(x.b, i64h), i32h))"
                           : fmt::format("COIL_CAT(COIL_CV(x.a, {0}), COIL_CV(x.b, {0}))", half);
  return to.kind == 'f' ? cat : narrow_cast(kTypes[4], to, cat);
}

std::string cast_text(const RegisterType& to) {
  // A float becomes u8 or u32 through i64 and the other small integers through i32: what the scalar instructions of
  // torch's kernels do.
  std::string_view way = to.name == "u8" || to.name == "u32" ? "(i64)" : to.kind != 'f' && to.bits < 32 ? "(i32)" : "";
  std::string out =
      fmt::format("template <class T> COIL_FN {0} c_cast_{0}(T x) {{ return ({0}){1}x; }}\n", to.name, way);
  // u32 from f32 goes through u32 from i64, which therefore comes first.
  for (int wide = 1; wide >= 0; --wide) {
    for (const RegisterType& from : kTypes) {
      if ((from.bits == 64) != (wide == 1)) continue;
      std::string before = from.bits < 64 && to.bits == 64 ? fmt::format("auto y = {}; ", to_32(from, "x")) : "";
      out += fmt::format("COIL_FN {0}v c_cast_{0}({1}v x) {{ {2}return {3}; }}\n", to.name, from.name, before,
                         vector_cast(from, to));
    }
  }
  out += fmt::format("COIL_FN {0}v c_cast_{0}(boolv x) {{ return c_cast_{0}(x.m & 1); }}\n", to.name);
  return out;
}

constexpr std::string_view kMask = R"(
COIL_FN bool c_mask(bool m) { return m; }
COIL_FN boolv c_mask(boolv m) { return m; }
COIL_FN boolv c_mask(i32v m) { return {m}; }
COIL_FN boolv c_mask(i16v m) { return {COIL_CV(m, i32v)}; }
COIL_FN boolv c_mask(i8v m) { return {COIL_CV(COIL_CV(m, i16v), i32v)}; }
COIL_FN boolv c_mask(i64v m) { return {COIL_CAT(COIL_CV(m.a, i32h), COIL_CV(m.b, i32h))}; }
)";

// A comparison's own result as the condition: a bool, an integer vector as wide as the operands, or two of them.
constexpr std::string_view kPick = R"(
template <class M, class T> COIL_FN T c_pick(M m, T x, T y) { return m ? x : y; }
template <class M, class H> COIL_FN twice<H> c_pick(twice<M> m, twice<H> x, twice<H> y) { return {m.a ? x.a : y.a, m.b ? x.b : y.b}; }
)";

/// A float of 8 bits: digits of the mantissa, the exponent of the least normal number, the bits of the least f32 that
/// overflows, and what overflow gives.
struct Float8 {
  std::string_view name;
  int digits, least;
  std::string_view limit;
  int overflow;
};

/// As f16 is made without F16C. `from` of the bits h, in a vector also by their u32 w.
void add_float8(std::vector<PreludePiece>& out, const Float8& f, std::string_view from, std::string_view from_v) {
  const int shift = 23 - f.digits, least = (127 + f.least) << 23;
  const std::string bits = fmt::format("c_bits_{}", f.name), back = fmt::format("c_from_{}", f.name);
  std::string text = R"(
COIL_FN u32 $bits(f32 x) {
  u32 u = __builtin_bit_cast(u32, x), s = (u >> 24) & 0x80u, e, r;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return s | 0x7fu;
  if (u >= $limit) return s | $over;
  e = (u & 0x7f800000u) < $least ? $least : u & 0x7f800000u;
  f32 big = __builtin_bit_cast(f32, e + ($shift << 23));
  r = __builtin_bit_cast(u32, __builtin_bit_cast(f32, u) + big) - __builtin_bit_cast(u32, big);
  return s | (r + ((e - $least) >> $shift));
}
COIL_FN u32v $bits(f32v x) {
  u32v u = (u32v)x, s = (u >> 24) & 0x80u;
  u &= 0x7fffffffu;
  u32v e = u & 0x7f800000u;
  e = e < $least ? (u32v{} + $least) : e;
  u32v big = e + ($shift << 23), r = (u32v)((f32v)u + (f32v)big) - big + ((e - $least) >> $shift);
  r = u >= $limit ? (u32v{} + $over) : r;
  return s | (u > 0x7f800000u ? (u32v{} + 0x7fu) : r);
}
)";
  for (auto [what, by] : {std::pair<std::string_view, std::string>{"$bits", bits},
                          {"$limit", std::string(f.limit)},
                          {"$over", fmt::format("{:#x}u", f.overflow)},
                          {"$least", fmt::format("{:#x}u", least)},
                          {"$shift", fmt::format("{}u", shift)}})
    text = replace_all(text, what, by);
  out.push_back({bits, text});
  out.push_back(
      {back,
       fmt::format("COIL_FN f32 {0}(u8 h) {{ return {1}; }}\nCOIL_FN f32v {0}(u8v h) {{ {3}return {2}; }}\n", back,
                   from, from_v,
                   from_v.find("w ") == std::string_view::npos ? "" : "u32v w = COIL_CV(COIL_CV(h, u16v), u32v); ")});
  out.push_back(
      {fmt::format("c_round_{}", f.name),
       fmt::format(
           "COIL_FN f32 c_round_{0}(f32 x) {{ return c_from_{0}((u8)c_bits_{0}(x)); }}\n"
           "COIL_FN f32v c_round_{0}(f32v x) {{ return c_from_{0}(COIL_CV(COIL_CV(c_bits_{0}(x), u16v), u8v)); }}\n",
           f.name)});
}

}  // namespace

void add_convert_pieces(std::vector<PreludePiece>& out) {
  out.push_back({"c_mask", std::string(kMask)});
  out.push_back({"c_pick", std::string(kPick)});
  for (const RegisterType& to : kTypes) out.push_back({fmt::format("c_cast_{}", to.name), cast_text(to)});

  std::string to_bool = "template <class T> COIL_FN bool c_cast_b8(T x) { return x != 0; }\n";
  for (const RegisterType& from : kTypes) {
    to_bool +=
        from.bits == 64
            ? fmt::format(
                  "COIL_FN boolv c_cast_b8({}v x) {{ return c_mask(i64v{{(i64h)(x.a != 0), (i64h)(x.b != 0)}}); }}\n",
                  from.name)
            : fmt::format("COIL_FN boolv c_cast_b8({0}v x) {{ return c_mask((i{1}v)(x != 0)); }}\n", from.name,
                          from.bits);
  }
  out.push_back({"c_cast_b8", to_bool + "COIL_FN boolv c_cast_b8(boolv x) { return x; }\n"});

  std::string where = "template <class T> COIL_FN T c_where(bool c, T x, T y) { return c ? x : y; }\n";
  where += for_each("COIL_FN $tv c_where(boolv c, $tv x, $tv y) { return c.m ? x : y; }\n", "t", {"f32", "i32", "u32"});
  where += for_each("COIL_FN $tv c_where(boolv c, $tv x, $tv y) { return COIL_CV(c.m, i16v) ? x : y; }\n", "t",
                    {"i16", "u16"});
  where += for_each("COIL_FN $tv c_where(boolv c, $tv x, $tv y) { return COIL_CV(COIL_CV(c.m, i16v), i8v) ? x : y; }\n",
                    "t", {"i8", "u8"});
  where += for_each(
      "COIL_FN $tv c_where(boolv c, $tv x, $tv y) { return {COIL_CV(COIL_LO(c.m), i64h) ? x.a : y.a, "
      "COIL_CV(COIL_HI(c.m), i64h) ? x.b : y.b}; }\n",
      "t", {"f64", "i64", "u64"});
  where += "COIL_FN boolv c_where(boolv c, boolv x, boolv y) { return {(c.m & x.m) | (~c.m & y.m)}; }\n";
  out.push_back({"c_where", where});

  for (const RegisterType& to : kTypes) {
    std::string text = fmt::format(
        "template <class T> COIL_FN {0} c_bitcast_{0}(T x) {{ return __builtin_bit_cast({0}, x); }}\n", to.name);
    for (const RegisterType& from : kTypes) {
      if (from.bits == to.bits)
        text += fmt::format("COIL_FN {0}v c_bitcast_{0}({1}v x) {{ return __builtin_bit_cast({0}v, x); }}\n", to.name,
                            from.name);
    }
    out.push_back({fmt::format("c_bitcast_{}", to.name), text});
  }

  // The lower halves of 32-bit lanes, in the one instruction that GCC does not find.
  out.push_back({"c_narrow16", R"(
#if COIL_L == 16 && defined(__AVX512F__)
typedef short c_short16n COIL_VECTOR(short, 16);
COIL_FN u16v c_narrow16(u32v x) { return (u16v)__builtin_ia32_pmovdw512_mask((i32v)x, c_short16n{}, (u16)-1); }
#elif COIL_L == 8 && defined(__AVX2__)
typedef i32 c_int4n COIL_VECTOR(i32, 4);
COIL_FN u16v c_narrow16(u32v x) { return (u16v)__builtin_ia32_packusdw128((c_int4n)COIL_LO(x), (c_int4n)COIL_HI(x)); }  // what is narrowed has no upper halves
#else
COIL_FN u16v c_narrow16(u32v x) { return COIL_CV(x, u16v); }
#endif
)"});
  // Round to nearest, ties to even; NaN stays NaN. The bits of a bf16 are the upper half of an f32's.
  out.push_back({"c_bits_bf16", R"(
COIL_FN u32 c_bits_bf16(f32 x) { u32 u = __builtin_bit_cast(u32, x); return x != x ? 0x7fc0u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16; }
COIL_FN u32v c_bits_bf16(f32v x) {
  u32v u = (u32v)x, r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return x != x ? (u32v{} + 0x7fc0u) : r;
}
)"});
  out.push_back({"c_narrow_bf16", R"(
COIL_FN u16v c_narrow_bf16(f32v x) {
#if COIL_L == 16 && defined(__AVX512BF16__) && defined(__AVX512DQ__) && !defined(__clang__)
  // The instruction takes denormals for zeros.
  if (__builtin_expect(__builtin_ia32_fpclassps512_mask(x, 0x20, (u16)-1) == 0, 1)) return (u16v)__builtin_ia32_cvtneps2bf16_v16sf(x);
#endif
  return c_narrow16(c_bits_bf16(x));
}
)"});
  out.push_back({"c_round_bf16", R"(
COIL_FN f32 c_round_bf16(f32 x) { return __builtin_bit_cast(f32, c_bits_bf16(x) << 16); }
COIL_FN f32v c_round_bf16(f32v x) { return (f32v)(c_bits_bf16(x) << 16); }
)"});
  // Without F16C: add a power of two that makes f32's own rounding cut at f16's last bit, also for f16's denormals;
  // then rebias. And back: move the bits, multiply by 2^112, which also scales denormals right.
  out.push_back({"c_bits_f16", R"(
COIL_FN u32 c_bits_f16(f32 x) {
  u32 u = __builtin_bit_cast(u32, x), s = (u >> 16) & 0x8000u, e, r;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return s | 0x7e00u;
  if (u >= 0x477ff000u) return s | 0x7c00u;
  e = (u & 0x7f800000u) < 0x38800000u ? 0x38800000u : u & 0x7f800000u;
  f32 big = __builtin_bit_cast(f32, e + (13u << 23));
  r = __builtin_bit_cast(u32, __builtin_bit_cast(f32, u) + big) - __builtin_bit_cast(u32, big);
  return s | (r + ((e - 0x38800000u) >> 13));
}
#if COIL_L == 16 && defined(__AVX512F__)
typedef short c_i16x16 __attribute__((vector_size(32)));
COIL_FN u32v c_bits_f16(f32v x) { return COIL_CV((u16v)(c_i16x16)__builtin_ia32_vcvtps2ph512_mask(x, 0, c_i16x16{}, (u16)-1), u32v); }
#elif COIL_L == 8 && defined(__F16C__)
typedef short c_i16x8 __attribute__((vector_size(16)));
COIL_FN u32v c_bits_f16(f32v x) { return COIL_CV((u16v)(c_i16x8)__builtin_ia32_vcvtps2ph256(x, 0), u32v); }
#else
COIL_FN u32v c_bits_f16(f32v x) {
  u32v u = (u32v)x, s = (u >> 16) & 0x8000u;
  u &= 0x7fffffffu;
  u32v e = u & 0x7f800000u;
  e = e < 0x38800000u ? (u32v{} + 0x38800000u) : e;
  u32v big = e + (13u << 23), r = (u32v)((f32v)u + (f32v)big) - big + ((e - 0x38800000u) >> 13);
  r = u >= 0x477ff000u ? (u32v{} + 0x7c00u) : r;
  return s | (u > 0x7f800000u ? (u32v{} + 0x7e00u) : r);
}
#endif
)"});
  out.push_back({"c_from_f16", R"(
COIL_FN f32 c_from_f16(u16 h) {
  u32 u = (h & 0x7fffu) << 13;
  f32 x = __builtin_bit_cast(f32, u) * 0x1p112f;
  u = __builtin_bit_cast(u32, x) | ((h & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u);
  return __builtin_bit_cast(f32, u | (h & 0x8000u) << 16);
}
#if COIL_L == 16 && defined(__AVX512F__)
typedef short c_i16x16h __attribute__((vector_size(32)));
COIL_FN f32v c_from_f16(u16v h) { return (f32v)__builtin_ia32_vcvtph2ps512_mask((c_i16x16h)h, f32v{}, (u16)-1, 4); }
#elif COIL_L == 8 && defined(__F16C__)
typedef short c_i16x8h __attribute__((vector_size(16)));
COIL_FN f32v c_from_f16(u16v h) { return (f32v)__builtin_ia32_vcvtph2ps256((c_i16x8h)h); }
#else
COIL_FN f32v c_from_f16(u16v h) {
  u32v w = COIL_CV(h, u32v), u = (w & 0x7fffu) << 13;
  u = (u32v)((f32v)u * 0x1p112f);
  u |= (w & 0x7c00u) == 0x7c00u ? (u32v{} + 0x7f800000u) : u32v{};
  return (f32v)(u | (w & 0x8000u) << 16);
}
#endif
)"});
  out.push_back({"c_round_f16", R"(
COIL_FN f32 c_round_f16(f32 x) { return c_from_f16((u16)c_bits_f16(x)); }
COIL_FN f32v c_round_f16(f32v x) { return c_from_f16(c_narrow16(c_bits_f16(x))); }
)"});
  add_float8(out, {"f8e5m2", 2, -14, "0x47800000u", 0x7c}, "c_from_f16((u16)(h << 8))",
             "c_from_f16((u16v)(COIL_CV(h, u16v) << 8))");
  add_float8(out, {"f8e4m3fn", 3, -6, "0x43e80000u", 0x7e},
             "__builtin_bit_cast(f32, ((h & 0x7fu) == 0x7fu ? 0x7fc00000u : __builtin_bit_cast(u32, "
             "__builtin_bit_cast(f32, (h & 0x7fu) << 20) * 0x1p120f)) | (h & 0x80u) << 24)",
             "(f32v)(((w & 0x7fu) == 0x7fu ? u32v{} + 0x7fc00000u : (u32v)((f32v)((w & 0x7fu) << 20) * 0x1p120f)) | (w "
             "& 0x80u) << 24)");
  for (std::string_view d : {"f16", "bf16", "f8e4m3fn", "f8e5m2"}) {
    out.push_back(
        {fmt::format("c_cast_{}", d),
         fmt::format("template <class T> COIL_FN auto c_cast_{0}(T x) {{ return c_round_{0}(c_cast_f32(x)); }}\n", d)});
  }
}

}  // namespace coil::codegen
