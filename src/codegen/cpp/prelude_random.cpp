// Random bits: one element, a vector of elements that lie anywhere, and elements side by side, of which four share a
// block.
#include "codegen/cpp/prelude_pieces.h"
#include "codegen/random_text.h"

namespace coil::codegen {

namespace {

// A number of 32 bits stands in the low half of one of 64, whose high half says nothing.
constexpr std::string_view kWideProducts = R"(
COIL_FN u64 c_wide_mul(u32 x, u32 m) { return (u64)x * m; }
COIL_FN u32 c_high_of(u64 x) { return (u32)(x >> 32); }
COIL_FN u32 c_low_of(u64 x) { return (u32)x; }
#if COIL_L == 16 && defined(__AVX512F__)
typedef int c_factor COIL_VECTOR(int, 16);
#if defined(__clang__)
COIL_FN u64h c_wide_mul(u64h x, u32 m) { return (u64h)__builtin_ia32_pmuludq512((c_factor)x, (c_factor)(u64h{} + (u64)m)); }
#else
COIL_FN u64h c_wide_mul(u64h x, u32 m) { typedef long long c_product8 COIL_VECTOR(long long, 8); return (u64h)__builtin_ia32_pmuludq512_mask((c_factor)x, (c_factor)(u64h{} + (u64)m), (c_product8)x, (u8)-1); }
#endif
#elif COIL_L == 8 && defined(__AVX2__)
typedef int c_factor COIL_VECTOR(int, 8);
COIL_FN u64h c_wide_mul(u64h x, u32 m) { return (u64h)__builtin_ia32_pmuludq256((c_factor)x, (c_factor)(u64h{} + (u64)m)); }
#elif COIL_L == 4 && defined(__SSE2__)
typedef int c_factor COIL_VECTOR(int, 4);
COIL_FN u64h c_wide_mul(u64h x, u32 m) { return (u64h)__builtin_ia32_pmuludq128((c_factor)x, (c_factor)(u64h{} + (u64)m)); }
#else
COIL_FN u64h c_wide_mul(u64h x, u32 m) { return (x & 0xfffffffful) * (u64)m; }
#endif
COIL_FN u64h c_high_of(u64h x) { return x >> 32; }
COIL_FN u64h c_low_of(u64h x) { return x; }
)";

constexpr std::string_view kElements = R"(
COIL_FN u32 c_random(i64 seed, i64 salt, i64 at) {
  u32 a = (u32)(at >> 2), b = (u32)(at >> 34), c = (u32)salt, d = 0;
  c_philox(a, b, c, d, (u32)seed, (u32)((u64)seed >> 32));
  const int k = (int)(at & 3);
  return k == 0 ? a : k == 1 ? b : k == 2 ? c : d;
}
COIL_FN u32h c_random_half(i64 seed, i64 salt, i64h at) {
  u64h a = (u64h)(at >> 2), b = (u64h)(at >> 34), c = u64h{} + (u64)salt, d = u64h{};
  c_philox(a, b, c, d, (u64)seed, (u64)seed >> 32);
  const u64h k = (u64h)at & 3ul;
  return COIL_CV((u64h)(k == 0ul ? a : k == 1ul ? b : k == 2ul ? c : d), u32h);
}
COIL_FN u32v c_random(i64 seed, i64 salt, i64v at) { return COIL_CAT(c_random_half(seed, salt, at.a), c_random_half(seed, salt, at.b)); }
)";

// 16 blocks at a time; two such rows, since a vector may begin in one and end in the next.
constexpr std::string_view kRow = R"(
struct c_random_row {
  i64 row = -1;
  bool next = false;
  alignas(64) u32 words[128];
};
static __attribute__((noinline)) void c_random_fill(u32* to, i64 seed, i64 salt, i64 row) {
  u64h lane;
  for (int l = 0; l < COIL_L / 2; ++l) lane[l] = (u64)l;
  for (int l = 0; l < 16; l += COIL_L / 2) {
    const u64h block = lane + ((u64)row * 16 + (u64)l);
    u64h a = block, b = block >> 32, c = u64h{} + (u64)salt, d = u64h{};
    c_philox(a, b, c, d, (u64)seed, (u64)seed >> 32);
    const u64h low = (a & 0xfffffffful) | (b << 32), high = (c & 0xfffffffful) | (d << 32);
    u64h first, second;
#if COIL_L == 16
    first = __builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11), second = __builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15);
#elif COIL_L == 8
    first = __builtin_shufflevector(low, high, 0, 4, 1, 5), second = __builtin_shufflevector(low, high, 2, 6, 3, 7);
#else
    first = __builtin_shufflevector(low, high, 0, 2), second = __builtin_shufflevector(low, high, 1, 3);
#endif
    __builtin_memcpy(to + 4 * l, &first, sizeof first);
    __builtin_memcpy(to + 4 * l + COIL_L, &second, sizeof second);
  }
}
COIL_FN u32v c_random_at(c_random_row& r, i64 seed, i64 salt, i64 at) {
  const i64 row = at >> 6, k = at & 63;
  if (row != r.row) {
    if (r.next && row == r.row + 1) __builtin_memcpy(r.words, r.words + 64, 256);
    else c_random_fill(r.words, seed, salt, row);
    r.row = row, r.next = false;
  }
  if (k > 64 - COIL_L && !r.next) c_random_fill(r.words + 64, seed, salt, row + 1), r.next = true;
  u32v x;
  __builtin_memcpy(&x, r.words + k, sizeof x);
  return x;
}
)";

}  // namespace

void add_random_pieces(std::vector<PreludePiece>& out) {
  out.push_back({"c_wide_mul", std::string(kWideProducts), {"c_high_of", "c_low_of", "c_factor", "c_product8"}});
  out.push_back({"c_philox", random_text("COIL_FN")});
  out.push_back({"c_random", std::string(kElements), {"c_random_half"}});
  out.push_back({"c_random_at", std::string(kRow), {"c_random_row", "c_random_fill"}});
}

}  // namespace coil::codegen
