#include "codegen/cpp/prelude.h"

#include <fmt/format.h>

#include <map>

#include "codegen/cpp/prelude_pieces.h"
#include "support/error.h"

namespace coil::codegen {

namespace {

constexpr std::string_view kTypeText = R"(
#define COIL_FN static inline __attribute__((always_inline))
// A part of a kernel with loops over scalars, which all of the compiler's optimizations are worth.
#if defined(__GNUC__) && !defined(__clang__)
#define COIL_PART static __attribute__((noinline, optimize("O2")))
#pragma GCC diagnostic ignored "-Wpsabi"
#else
#define COIL_PART static __attribute__((noinline))
#endif
typedef signed char i8; typedef short i16; typedef int i32; typedef long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned u32; typedef unsigned long u64;
typedef float f32; typedef double f64;
#if COIL_L == 16
#define COIL_IOTA_LO 0, 1, 2, 3, 4, 5, 6, 7
#define COIL_IOTA_HI 8, 9, 10, 11, 12, 13, 14, 15
#elif COIL_L == 8
#define COIL_IOTA_LO 0, 1, 2, 3
#define COIL_IOTA_HI 4, 5, 6, 7
#else
#define COIL_IOTA_LO 0, 1
#define COIL_IOTA_HI 2, 3
#endif
#define COIL_IOTA COIL_IOTA_LO, COIL_IOTA_HI
#define COIL_LO(x) __builtin_shufflevector(x, x, COIL_IOTA_LO)
#define COIL_HI(x) __builtin_shufflevector(x, x, COIL_IOTA_HI)
#define COIL_CAT(x, y) __builtin_shufflevector(x, y, COIL_IOTA)
#define COIL_CV __builtin_convertvector
#define COIL_VECTOR(t, n) __attribute__((vector_size(sizeof(t) * n)))
typedef i8 i8v COIL_VECTOR(i8, COIL_L); typedef i16 i16v COIL_VECTOR(i16, COIL_L); typedef i32 i32v COIL_VECTOR(i32, COIL_L);
typedef u8 u8v COIL_VECTOR(u8, COIL_L); typedef u16 u16v COIL_VECTOR(u16, COIL_L); typedef u32 u32v COIL_VECTOR(u32, COIL_L);
typedef f32 f32v COIL_VECTOR(f32, COIL_L);
typedef i32 i32h COIL_VECTOR(i32, COIL_L / 2); typedef u32 u32h COIL_VECTOR(u32, COIL_L / 2); typedef f32 f32h COIL_VECTOR(f32, COIL_L / 2);
typedef i64 i64h COIL_VECTOR(i64, COIL_L / 2); typedef u64 u64h COIL_VECTOR(u64, COIL_L / 2); typedef f64 f64h COIL_VECTOR(f64, COIL_L / 2);
template <class H> struct twice {
  H a, b;
  auto operator[](i64 i) const { return i < COIL_L / 2 ? a[i] : b[i - COIL_L / 2]; }
};
typedef twice<i64h> i64v; typedef twice<u64h> u64v; typedef twice<f64h> f64v;
struct boolv { i32v m; };
#define COIL_OP(op) template <class H> COIL_FN twice<H> operator op(twice<H> x, twice<H> y) { return {x.a op y.a, x.b op y.b}; }
COIL_OP(+) COIL_OP(-) COIL_OP(*) COIL_OP(/) COIL_OP(&) COIL_OP(|) COIL_OP(^) COIL_OP(<<) COIL_OP(>>)
#undef COIL_OP
#define COIL_OP(op) template <class H> COIL_FN i64v operator op(twice<H> x, twice<H> y) { return {(i64h)(x.a op y.a), (i64h)(x.b op y.b)}; }
COIL_OP(<) COIL_OP(<=) COIL_OP(>) COIL_OP(>=) COIL_OP(==) COIL_OP(!=)
#undef COIL_OP
template <class H> COIL_FN twice<H> operator-(twice<H> x) { return {-x.a, -x.b}; }
template <class H> COIL_FN twice<H> operator~(twice<H> x) { return {~x.a, ~x.b}; }
COIL_FN boolv operator&(boolv x, boolv y) { return {x.m & y.m}; }
COIL_FN boolv operator|(boolv x, boolv y) { return {x.m | y.m}; }
COIL_FN boolv operator^(boolv x, boolv y) { return {x.m ^ y.m}; }
COIL_FN boolv operator~(boolv x) { return {~x.m}; }
)";

/// The names that begin with `c_` or `COIL_` in a text.
std::set<std::string> names_in(std::string_view text) {
  std::set<std::string> out;
  auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (std::size_t i = 0; i < text.size();) {
    if (!is_word(text[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    std::string_view word = text.substr(i, end - i);
    if (word.starts_with("c_") || word.starts_with("COIL_")) out.emplace(word);
    i = end;
  }
  return out;
}

struct Table {
  std::vector<PreludePiece> pieces;
  std::map<std::string, std::size_t, std::less<>> index;
  std::vector<std::vector<std::size_t>> needs;

  Table() {
    add_convert_pieces(pieces);
    add_memory_pieces(pieces);
    add_arithmetic_pieces(pieces);
    add_integer_pieces(pieces);
    add_lane_pieces(pieces);
    add_math_pieces(pieces);
    add_more_math_pieces(pieces);
    add_random_pieces(pieces);
    add_special_pieces(pieces);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      bool fresh = index.emplace(pieces[i].name, i).second;
      for (const std::string& name : pieces[i].also) fresh &= index.emplace(name, i).second;
      COIL_CHECK(fresh, "two pieces of the prelude define {}", pieces[i].name);
    }
    needs.resize(pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      for (const std::string& name : names_in(pieces[i].text)) {
        auto it = index.find(name);
        if (it == index.end() || it->second == i) continue;
        COIL_CHECK(it->second < i, "{} of the prelude comes before {}, which it needs", pieces[i].name, name);
        needs[i].push_back(it->second);
      }
    }
  }
};

const Table& table() {
  static const Table table;
  return table;
}

}  // namespace

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string for_each(std::string_view text, std::string_view name, std::initializer_list<std::string_view> values) {
  std::string out, key = fmt::format("${}", name);
  for (std::string_view value : values) out += replace_all(std::string(text), key, value);
  return out;
}

std::string prelude(int lanes, const std::set<std::string>& used) {
  COIL_CHECK(lanes == 16 || lanes == 8 || lanes == 4, "vectors of {} lanes", lanes);
  const Table& all = table();
  std::vector<char> wanted(all.pieces.size(), 0);
  for (const std::string& name : used) {
    auto it = all.index.find(name);
    COIL_CHECK(it != all.index.end(), "the prelude has no {}", name);
    wanted[it->second] = 1;
  }
  for (std::size_t i = all.pieces.size(); i-- > 0;) {
    if (!wanted[i]) continue;
    for (std::size_t need : all.needs[i]) wanted[need] = 1;
  }
  std::string out = fmt::format("#define COIL_L {}{}", lanes, kTypeText);
  for (std::size_t i = 0; i < all.pieces.size(); ++i) {
    if (wanted[i]) out += all.pieces[i].text;
  }
  return out;
}

std::set<std::string> prelude_names(std::string_view kernel_text) {
  std::set<std::string> out;
  for (const std::string& name : names_in(kernel_text)) {
    if (has_prelude_function(name)) out.insert(name);
  }
  return out;
}

bool has_prelude_function(std::string_view name) { return table().index.find(name) != table().index.end(); }

}  // namespace coil::codegen
