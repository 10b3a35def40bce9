// Loads and stores: whole vectors, the first n lanes, strided and indexed lanes, with the conversion from storage to
// register.
#include <fmt/format.h>

#include "codegen/cpp/prelude_pieces.h"

namespace coil::codegen {

namespace {

// Whole and partial vectors of raw bits, by width. Partial ones use masked instructions where the machine has them.
constexpr std::string_view kRawBasics = R"(
typedef u8 c_u8m __attribute__((may_alias)); typedef u16 c_u16m __attribute__((may_alias, aligned(1)));
typedef u32 c_u32m __attribute__((may_alias, aligned(1))); typedef u64 c_u64m __attribute__((may_alias, aligned(1)));
template <class V> struct __attribute__((packed, may_alias)) c_unaligned { V v; };
#if COIL_L == 16 && defined(__AVX512VL__) && defined(__AVX512BW__)
#define COIL_MASKED 512
#ifdef __clang__
#define COIL_P8(p) (char COIL_VECTOR(char, 16)*)(p)
#define COIL_P16(p) (short COIL_VECTOR(short, 16)*)(p)
#else
#define COIL_P8(p) (char*)(p)
#define COIL_P16(p) (short*)(p)
#endif
typedef char c_char16 COIL_VECTOR(char, 16); typedef short c_short16 COIL_VECTOR(short, 16); typedef long long c_long8 COIL_VECTOR(long long, 8);
COIL_FN u32 c_ones(i64 n) { return (1u << n) - 1u; }
#elif COIL_L == 8 && defined(__AVX2__)
#define COIL_MASKED 256
typedef long long c_long4 COIL_VECTOR(long long, 4);
COIL_FN i32v c_ones(i64 n) { return i32v{0, 1, 2, 3, 4, 5, 6, 7} < (i32)n; }
#endif
)";

// The whole vector, and its first n lanes by memcpy where there is no masked instruction.
constexpr std::string_view kRaw = R"(
COIL_FN u$wv c_raw$w(const void* p) { return ((const c_unaligned<u$wv>*)p)->v; }
COIL_FN void c_put$w(void* p, u$wv x) { ((c_unaligned<u$wv>*)p)->v = x; }
#if $available
$masked#else
COIL_FN u$wv c_rawn$w(const void* p, i64 n) { u$wv x = {}; __builtin_memcpy(&x, p, n * ($w / 8)); return x; }
COIL_FN void c_putn$w(void* p, u$wv x, i64 n) { __builtin_memcpy(p, &x, n * ($w / 8)); }
#endif
)";

constexpr std::string_view kMasked8 =
    R"(COIL_FN u8v c_rawn8(const void* p, i64 n) { return (u8v)__builtin_ia32_loaddquqi128_mask(COIL_P8(p), c_char16{}, c_ones(n)); }
COIL_FN void c_putn8(void* p, u8v x, i64 n) { __builtin_ia32_storedquqi128_mask(COIL_P8(p), (c_char16)x, c_ones(n)); }
)";

constexpr std::string_view kMasked16 =
    R"(COIL_FN u16v c_rawn16(const void* p, i64 n) { return (u16v)__builtin_ia32_loaddquhi256_mask(COIL_P16(p), c_short16{}, c_ones(n)); }
COIL_FN void c_putn16(void* p, u16v x, i64 n) { __builtin_ia32_storedquhi256_mask(COIL_P16(p), (c_short16)x, c_ones(n)); }
)";

constexpr std::string_view kMasked32 =
    R"(COIL_FN u32v c_rawn32(const void* p, i64 n) { return (u32v)__builtin_ia32_loaddqusi512_mask((int*)p, i32v{}, c_ones(n)); }
COIL_FN void c_putn32(void* p, u32v x, i64 n) { __builtin_ia32_storedqusi512_mask((int*)p, (i32v)x, c_ones(n)); }
#elif COIL_MASKED == 256
COIL_FN u32v c_rawn32(const void* p, i64 n) { return (u32v)__builtin_ia32_maskloadd256((const i32v*)p, c_ones(n)); }
COIL_FN void c_putn32(void* p, u32v x, i64 n) { __builtin_ia32_maskstored256((i32v*)p, c_ones(n), (i32v)x); }
)";

constexpr std::string_view kMasked64 = R"(COIL_FN u64v c_rawn64(const void* p, i64 n) {
  u32 m = c_ones(n);
  return {(u64h)__builtin_ia32_loaddqudi512_mask((long long*)p, c_long8{}, (u8)m), (u64h)__builtin_ia32_loaddqudi512_mask((long long*)p + 8, c_long8{}, (u8)(m >> 8))};
}
COIL_FN void c_putn64(void* p, u64v x, i64 n) {
  u32 m = c_ones(n);
  __builtin_ia32_storedqudi512_mask((long long*)p, (c_long8)x.a, (u8)m);
  __builtin_ia32_storedqudi512_mask((long long*)p + 8, (c_long8)x.b, (u8)(m >> 8));
}
#elif COIL_MASKED == 256
COIL_FN u64v c_rawn64(const void* p, i64 n) {
  i32v m = c_ones(n);
  return {(u64h)__builtin_ia32_maskloadq256((const c_long4*)p, COIL_CV(COIL_LO(m), c_long4)), (u64h)__builtin_ia32_maskloadq256((const c_long4*)p + 1, COIL_CV(COIL_HI(m), c_long4))};
}
COIL_FN void c_putn64(void* p, u64v x, i64 n) {
  i32v m = c_ones(n);
  __builtin_ia32_maskstoreq256((c_long4*)p, COIL_CV(COIL_LO(m), c_long4), (c_long4)x.a);
  __builtin_ia32_maskstoreq256((c_long4*)p + 1, COIL_CV(COIL_HI(m), c_long4), (c_long4)x.b);
}
)";

// Lists of lanes: COIL_EACH(F) is F(0), F(1), …; the halves likewise.
constexpr std::string_view kEach = R"(
#if COIL_L == 16
#define COIL_EACH_LO(F) F(0), F(1), F(2), F(3), F(4), F(5), F(6), F(7)
#define COIL_EACH_HI(F) F(8), F(9), F(10), F(11), F(12), F(13), F(14), F(15)
#elif COIL_L == 8
#define COIL_EACH_LO(F) F(0), F(1), F(2), F(3)
#define COIL_EACH_HI(F) F(4), F(5), F(6), F(7)
#else
#define COIL_EACH_LO(F) F(0), F(1)
#define COIL_EACH_HI(F) F(2), F(3)
#endif
#define COIL_EACH(F) COIL_EACH_LO(F), COIL_EACH_HI(F)
#define COIL_STRIDED(i) q[i * s]
#define COIL_STRIDED_N(i) (u64)(i < n ? q[i * s] : 0)
#define COIL_INDEXED_LO(i) q[s.a[i]]
#define COIL_INDEXED_HI(i) q[s.b[i - COIL_L / 2]]
#define COIL_INDEXED_N_LO(i) (u64)(i < n ? q[s.a[i]] : 0)
#define COIL_INDEXED_N_HI(i) (u64)(i < n ? q[s.b[i - COIL_L / 2]] : 0)
)";

/// Strided and indexed raw lanes of `width` bits.
std::string scattered_text(int width) {
  std::string out;
  auto add = [&](std::string_view name, std::string_view at, std::string_view count, std::string_view low,
                 std::string_view high) {
    std::string cast =
        fmt::format("#define COIL_LANE_LO(i) (u{0}){1}(i)\n#define COIL_LANE_HI(i) (u{0}){2}(i)\n", width, low, high);
    std::string lanes = width == 64
                            ? "{u64h{COIL_EACH_LO(COIL_LANE_LO)}, u64h{COIL_EACH_HI(COIL_LANE_HI)}}"
                            : fmt::format("u{}v{{COIL_EACH_LO(COIL_LANE_LO), COIL_EACH_HI(COIL_LANE_HI)}}", width);
    out += fmt::format(
        "{0}COIL_FN u{1}v {2}{1}(const void* p, {3} s{4}) {{ const c_u{1}m* q = (const c_u{1}m*)p; return {5}; "
        "}}\n#undef COIL_LANE_LO\n#undef COIL_LANE_HI\n",
        cast, width, name, at, count, lanes);
  };
  add("c_raws", "i64", "", "COIL_STRIDED", "COIL_STRIDED");
  add("c_rawsn", "i64", ", i64 n", "COIL_STRIDED_N", "COIL_STRIDED_N");
  add("c_rawg", "i64v", "", "COIL_INDEXED_LO", "COIL_INDEXED_HI");
  add("c_rawgn", "i64v", ", i64 n", "COIL_INDEXED_N_LO", "COIL_INDEXED_N_HI");
  return out;
}

// Every second and every fourth element by whole loads. The second load ends with the last element wanted, so that none
// behind it is touched.
constexpr std::string_view kEvens = R"(
#if COIL_L == 16
#define COIL_EVENS 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31
#define COIL_EVENS_HALF 0, 2, 4, 6, 9, 11, 13, 15
#elif COIL_L == 8
#define COIL_EVENS 0, 2, 4, 6, 9, 11, 13, 15
#define COIL_EVENS_HALF 0, 2, 5, 7
#else
#define COIL_EVENS 0, 2, 5, 7
#define COIL_EVENS_HALF 0, 3
#endif
)";

constexpr std::string_view kStepped = R"(
COIL_FN u$wv c_raws2x$w(const void* p) { return __builtin_shufflevector(c_raw$w(p), c_raw$w((const c_u$wm*)p + (COIL_L - 1)), COIL_EVENS); }
COIL_FN u$wv c_raws4x$w(const void* p) { return __builtin_shufflevector(c_raws2x$w(p), c_raws2x$w((const c_u$wm*)p + 2 * (COIL_L - 1)), COIL_EVENS); }
COIL_FN u$wv c_rawsn2x$w(const void* p, i64 n) {
  const i64 m = 2 * n - 1;
  return __builtin_shufflevector(c_rawn$w(p, m < COIL_L ? m : COIL_L), c_rawn$w((const c_u$wm*)p + (COIL_L - 1), m > COIL_L - 1 ? m - (COIL_L - 1) : 0), COIL_EVENS);
}
COIL_FN u$wv c_rawsn4x$w(const void* p, i64 n) { return c_rawsn$w(p, 4, n); }
)";

constexpr std::string_view kStepped64 = R"(
COIL_FN u64h c_half2(const void* p) {
  return __builtin_shufflevector(((const c_unaligned<u64h>*)p)->v, ((const c_unaligned<u64h>*)((const c_u64m*)p + (COIL_L / 2 - 1)))->v, COIL_EVENS_HALF);
}
COIL_FN u64v c_raws2x64(const void* p) { return {c_half2(p), c_half2((const c_u64m*)p + COIL_L)}; }
COIL_FN u64v c_raws4x64(const void* p) { return c_raws64(p, 4); }
COIL_FN u64v c_rawsn2x64(const void* p, i64 n) { return c_rawsn64(p, 2, n); }
COIL_FN u64v c_rawsn4x64(const void* p, i64 n) { return c_rawsn64(p, 4, n); }
)";

constexpr std::string_view kStepped8 = R"(
COIL_FN u8v c_raws2x8(const void* p) { return c_raws8(p, 2); }
COIL_FN u8v c_raws4x8(const void* p) { return c_raws8(p, 4); }
COIL_FN u8v c_rawsn2x8(const void* p, i64 n) { return c_rawsn8(p, 2, n); }
COIL_FN u8v c_rawsn4x8(const void* p, i64 n) { return c_rawsn8(p, 4, n); }
)";

constexpr std::string_view kScatter = R"(
template <class S, class V> COIL_FN void c_puts$w(void* p, S s, V x, i64 n) {
  c_u$wm* q = (c_u$wm*)p; u$w t[COIL_L];
  c_put$w(t, x);
  for (i64 i = 0; i < n; i++) q[c_at(s, i)] = t[i];
}
)";

// Stores past the cache. `past` is 0, or all ones where the cache is to be kept (c_past_cache): the address then never
// looks aligned.
constexpr std::string_view kStreamBasics = R"(
#ifdef __x86_64__
COIL_FN u64 c_cache_of(u32 leaf) {
  u32 a = leaf, b, c = 3, d;
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return a & 31 ? (u64)((b >> 22) + 1) * ((b >> 12 & 1023) + 1) * ((b & 4095) + 1) * ((u64)c + 1) : 0;
}
COIL_FN u64 c_last_cache() {
  u32 a = 0x80000000, b, c = 0, d;
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  const u64 intel = c_cache_of(4);
  return intel ? intel : a >= 0x8000001d ? c_cache_of(0x8000001d) : 0;
}
static const u64 c_cache = c_last_cache();
COIL_FN u64 c_past_cache(i64 bytes) { return c_cache != 0 && 2 * (u64)bytes >= c_cache ? 0 : ~(u64)0; }
COIL_FN void c_stream_end(u64 past) { if (past == 0) __builtin_ia32_sfence(); }
#else
COIL_FN u64 c_past_cache(i64) { return ~(u64)0; }
COIL_FN void c_stream_end(u64) {}
#endif
#if defined(__x86_64__) && !defined(__clang__)
typedef long long c_quads2 COIL_VECTOR(long long, 2); typedef long long c_quads4 COIL_VECTOR(long long, 4); typedef long long c_quads8 COIL_VECTOR(long long, 8);
#if COIL_L == 16 && defined(__AVX512F__)
#define COIL_STREAM_32(p, x) __builtin_ia32_movntdq512((c_quads8*)(p), (c_quads8)(x))
#define COIL_STREAM_16(p, x) __builtin_ia32_movntdq256((c_quads4*)(p), (c_quads4)(x))
#elif COIL_L == 8 && defined(__AVX__)
#define COIL_STREAM_32(p, x) __builtin_ia32_movntdq256((c_quads4*)(p), (c_quads4)(x))
#define COIL_STREAM_16(p, x) __builtin_ia32_movntdq((c_quads2*)(p), (c_quads2)(x))
#endif
#elif defined(__x86_64__) && COIL_L >= 8
#define COIL_STREAM_32(p, x) __builtin_nontemporal_store(x, (decltype(x)*)(p))
#define COIL_STREAM_16(p, x) COIL_STREAM_32(p, x)
#endif
)";

constexpr std::string_view kStream = R"(
COIL_FN void c_past$w(void* p, u$wv x, u64 past) {
#ifdef COIL_STREAM_$w
  if (((u64)p & (past | (sizeof(x) - 1))) == 0) { COIL_STREAM_$w(p, x); return; }
#endif
  c_put$w(p, x);
}
)";

constexpr std::string_view kStream64 = R"(
COIL_FN void c_past64(void* p, u64v x, u64 past) {
#ifdef COIL_STREAM_32
  if (((u64)p & (past | (sizeof(u64h) - 1))) == 0) { COIL_STREAM_32(p, x.a); COIL_STREAM_32((c_u64m*)p + COIL_L / 2, x.b); return; }
#endif
  c_put64(p, x);
}
)";

struct Storage {
  std::string_view name, reg;  ///< dtype, and the scalar type its values have in registers
  int width;
  std::string_view from_raw_v, to_raw_v, from_raw, to_raw;  ///< `$x` is the value
};

constexpr Storage kStorage[] = {
    {"f32", "f32", 32, "(f32v)$x", "(u32v)$x", "__builtin_bit_cast(f32, $x)", "__builtin_bit_cast(u32, $x)"},
    {"f64", "f64", 64, "__builtin_bit_cast(f64v, $x)", "__builtin_bit_cast(u64v, $x)", "__builtin_bit_cast(f64, $x)",
     "__builtin_bit_cast(u64, $x)"},
    {"i8", "i8", 8, "(i8v)$x", "(u8v)$x", "(i8)$x", "(u8)$x"},
    {"i16", "i16", 16, "(i16v)$x", "(u16v)$x", "(i16)$x", "(u16)$x"},
    {"i32", "i32", 32, "(i32v)$x", "(u32v)$x", "(i32)$x", "(u32)$x"},
    {"i64", "i64", 64, "{(i64h)$x.a, (i64h)$x.b}", "{(u64h)$x.a, (u64h)$x.b}", "(i64)$x", "(u64)$x"},
    {"u8", "u8", 8, "$x", "$x", "$x", "$x"},
    {"u16", "u16", 16, "$x", "$x", "$x", "$x"},
    {"u32", "u32", 32, "$x", "$x", "$x", "$x"},
    {"u64", "u64", 64, "$x", "$x", "$x", "$x"},
    {"b8", "bool", 8, "c_mask((i8v)($x != 0))", "COIL_CV(COIL_CV((u32v)($x.m & 1), u16v), u8v)", "$x != 0", "(u8)$x"},
    {"f16", "f32", 16, "c_from_f16($x)", "c_narrow16(c_bits_f16($x))", "c_from_f16($x)", "(u16)c_bits_f16($x)"},
    {"bf16", "f32", 16, "c_from_bf16($x)", "c_narrow_bf16($x)", "c_from_bf16($x)", "(u16)c_bits_bf16($x)"},
    {"f8e4m3fn", "f32", 8, "c_from_f8e4m3fn($x)", "COIL_CV(COIL_CV(c_bits_f8e4m3fn($x), u16v), u8v)",
     "c_from_f8e4m3fn($x)", "(u8)c_bits_f8e4m3fn($x)"},
    {"f8e5m2", "f32", 8, "c_from_f8e5m2($x)", "COIL_CV(COIL_CV(c_bits_f8e5m2($x), u16v), u8v)", "c_from_f8e5m2($x)",
     "(u8)c_bits_f8e5m2($x)"},
};

std::string fill(std::string_view text, const Storage& s, std::string_view value) {
  std::string out(text);
  out = replace_all(out, "$from", replace_all(std::string(s.from_raw_v), "$x", value));
  out = replace_all(out, "$to", replace_all(std::string(s.to_raw_v), "$x", value));
  out = replace_all(out, "$sfrom", replace_all(std::string(s.from_raw), "$x", value));
  out = replace_all(out, "$sto", replace_all(std::string(s.to_raw), "$x", value));
  out = replace_all(out, "$d", s.name);
  out = replace_all(out, "$r", s.reg);
  return replace_all(out, "$w", std::to_string(s.width));
}

}  // namespace

void add_memory_pieces(std::vector<PreludePiece>& out) {
  out.push_back({"c_unaligned", std::string(kRawBasics), {"c_u8m", "c_u16m", "c_u32m", "c_u64m", "c_ones"}});
  constexpr std::pair<std::string_view, std::string_view> kMasked[] = {
      {"8", kMasked8}, {"16", kMasked16}, {"32", kMasked32}, {"64", kMasked64}};
  for (auto [width, masked] : kMasked) {
    std::string w(width), text = replace_all(std::string(kRaw), "$available", "COIL_MASKED == 512");
    text = replace_all(replace_all(text, "$masked", masked), "$w", w);
    out.push_back({"c_raw" + w, text, {"c_rawn" + w, "c_put" + w, "c_putn" + w}});
  }
  out.push_back({"COIL_EACH", std::string(kEach), {"COIL_EACH_LO", "COIL_EACH_HI", "COIL_STRIDED", "COIL_STRIDED_N"}});
  for (std::string w : {"8", "16", "32", "64"})
    out.push_back({"c_raws" + w, scattered_text(std::stoi(w)), {"c_rawsn" + w, "c_rawg" + w, "c_rawgn" + w}});
  out.push_back({"COIL_EVENS", std::string(kEvens), {"COIL_EVENS_HALF"}});
  for (std::string w : {"8", "16", "32", "64"}) {
    std::string_view text = w == "8" ? kStepped8 : w == "64" ? kStepped64 : kStepped;
    std::vector<std::string> also{"c_raws4x" + w, "c_rawsn2x" + w, "c_rawsn4x" + w};
    if (w == "64") also.push_back("c_half2");
    out.push_back({"c_raws2x" + w, replace_all(std::string(text), "$w", w), also});
  }
  out.push_back({"c_past_cache",
                 std::string(kStreamBasics),
                 {"c_stream_end", "c_cache", "c_cache_of", "c_last_cache", "c_quads2", "c_quads4", "c_quads8",
                  "COIL_STREAM_32", "COIL_STREAM_16"}});
  for (std::string w : {"16", "32"}) out.push_back({"c_past" + w, replace_all(std::string(kStream), "$w", w)});
  out.push_back({"c_past64", std::string(kStream64)});
  out.push_back({"c_fetch",
                 "COIL_FN void c_fetch(const void* p) { __builtin_prefetch(p, 0, 3); }\nCOIL_FN void c_fetch_far(const "
                 "void* p) { __builtin_prefetch(p, 0, 2); }\n",
                 {"c_fetch_far"}});
  out.push_back(
      {"c_at",
       "COIL_FN i64 c_at(i64 s, i64 i) { return s * i; }\nCOIL_FN i64 c_at(const i64* s, i64 i) { return s[i]; }\n"});
  for (int width : {8, 16, 32, 64}) {
    std::string w = std::to_string(width);
    out.push_back({"c_puts" + w, replace_all(std::string(kScatter), "$w", w)});
  }
  out.push_back({"c_from_bf16", R"(
COIL_FN f32 c_from_bf16(u16 h) { return __builtin_bit_cast(f32, (u32)h << 16); }
#if COIL_L == 16 && defined(__AVX512F__) && !defined(__clang__)
typedef short c_short16b COIL_VECTOR(short, 16);
COIL_FN f32v c_from_bf16(u16v h) { return (f32v)((u32v)__builtin_ia32_pmovzxwd512_mask((c_short16b)h, i32v{}, (u16)-1) << 16); }
#elif COIL_L == 8 && defined(__AVX2__) && !defined(__clang__)
typedef short c_short8b COIL_VECTOR(short, 8);
COIL_FN f32v c_from_bf16(u16v h) { return (f32v)((u32v)__builtin_ia32_pmovzxwd256((c_short8b)h) << 16); }
#else
COIL_FN f32v c_from_bf16(u16v h) { return (f32v)(COIL_CV(h, u32v) << 16); }
#endif
)"});
  for (const Storage& s : kStorage) {
    auto add = [&](std::string_view name, std::string_view text, std::string_view value = "x") {
      out.push_back({fill(name, s, value), fill(text, s, value)});
    };
    std::string_view vector = s.name == "b8" ? "boolv" : "$rv";
    auto typed = [&](std::string_view text) { return replace_all(std::string(text), "$V", vector); };
    add("c_load_$d",
        typed("COIL_FN $r c_load_$d(const void* p) { u$w x = ((const c_unaligned<u$w>*)p)->v; return $sfrom; }\n"));
    add("c_load_$dv", typed("COIL_FN $V c_load_$dv(const void* p) { auto x = c_raw$w(p); return $from; }\n"));
    add("c_loadn_$dv",
        typed("COIL_FN $V c_loadn_$dv(const void* p, i64 n) { auto x = c_rawn$w(p, n); return $from; }\n"));
    add("c_loads_$dv",
        typed("COIL_FN $V c_loads_$dv(const void* p, i64 stride) { auto x = c_raws$w(p, stride); return $from; }\n"));
    add("c_loadsn_$dv", typed("COIL_FN $V c_loadsn_$dv(const void* p, i64 stride, i64 n) { auto x = c_rawsn$w(p, "
                              "stride, n); return $from; }\n"));
    for (std::string_view step : {"2", "4"}) {
      add(fmt::format("c_loads{}_$dv", step),
          replace_all(typed("COIL_FN $V c_loads$k_$dv(const void* p) { auto x = c_raws$kx$w(p); return $from; }\n"),
                      "$k", step));
      add(fmt::format("c_loadsn{}_$dv", step),
          replace_all(
              typed("COIL_FN $V c_loadsn$k_$dv(const void* p, i64 n) { auto x = c_rawsn$kx$w(p, n); return $from; }\n"),
              "$k", step));
    }
    add("c_gather_$dv",
        typed("COIL_FN $V c_gather_$dv(const void* p, i64v index) { auto x = c_rawg$w(p, index); return $from; }\n"));
    add("c_gathern_$dv", typed("COIL_FN $V c_gathern_$dv(const void* p, i64v index, i64 n) { auto x = c_rawgn$w(p, "
                               "index, n); return $from; }\n"));
    add("c_store_$d", typed("COIL_FN void c_store_$d(void* p, $r x) { ((c_unaligned<u$w>*)p)->v = $sto; }\n"
                            "COIL_FN void c_store_$d(void* p, $V x) { c_put$w(p, $to); }\n"));
    if (s.width >= 16)
      add("c_stream_$d", typed("COIL_FN void c_stream_$d(void* p, $V x, u64 past) { c_past$w(p, $to, past); }\n"));
    add("c_storen_$d", typed("COIL_FN void c_storen_$d(void* p, $V x, i64 n) { c_putn$w(p, $to, n); }\n"));
    add("c_storesn_$d", typed("COIL_FN void c_storesn_$d(void* p, i64 stride, $V x, i64 n) { u$wv y = $to; c_puts$w(p, "
                              "stride, y, n); }\n"));
    add("c_stores_$d",
        typed(
            "COIL_FN void c_stores_$d(void* p, i64 stride, $V x) { u$wv y = $to; c_puts$w(p, stride, y, COIL_L); }\n"));
    add("c_scattern_$d", typed("COIL_FN void c_scattern_$d(void* p, i64v index, $V x, i64 n) {\n  i64 t[COIL_L]; "
                               "((c_unaligned<i64v>*)t)->v = index;\n"
                               "  u$wv y = $to; c_puts$w(p, (const i64*)t, y, n);\n}\n"));
    add("c_scatter_$d",
        typed("COIL_FN void c_scatter_$d(void* p, i64v index, $V x) { c_scattern_$d(p, index, x, COIL_L); }\n"));
    add("c_splat_$dv", s.name == "b8"  ? "COIL_FN boolv c_splat_b8v(bool x) { return {i32v{} - (i32)x}; }\n"
                       : s.width == 64 ? "COIL_FN $rv c_splat_$dv($r x) { return {x - $rh{}, x - $rh{}}; }\n"
                                       : "COIL_FN $rv c_splat_$dv($r x) { return x - $rv{}; }\n");
  }
  out.push_back({"c_iota_i32v", "COIL_FN i32v c_iota_i32v(i32 start) { return i32v{COIL_IOTA} + start; }\n"});
  out.push_back(
      {"c_iota_i64v",
       "COIL_FN i64v c_iota_i64v(i64 start) { return {i64h{COIL_IOTA_LO} + start, i64h{COIL_IOTA_HI} + start}; }\n"});
  // Lanes below n, which may be any number.
  out.push_back(
      {"c_below",
       "COIL_FN boolv c_below(i64 n) { return {i32v{COIL_IOTA} < (i32)(n < 0 ? 0 : n > COIL_L ? COIL_L : n)}; }\n"});
  out.push_back({"c_firstn", "COIL_FN boolv c_firstn(i64 n) { return {i32v{COIL_IOTA} < (i32)n}; }\n"});
}

}  // namespace coil::codegen
