// Conversions between register types: each to each.
#include <fmt/format.h>

#include "codegen/cpp/prelude_made.h"

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

}  // namespace

std::vector<device::Piece> cast_pieces() {
  std::vector<device::Piece> out;
  for (const RegisterType& to : kTypes) out.push_back({{fmt::format("c_cast_{}", to.name)}, cast_text(to)});
  return out;
}

}  // namespace coil::codegen
