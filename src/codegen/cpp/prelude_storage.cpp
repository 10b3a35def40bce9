// Loads and stores of each dtype: how it is stored, and how that becomes the value in a register.
#include <fmt/format.h>

#include "codegen/cpp/prelude_made.h"

namespace coil::codegen {

namespace {

struct Storage {
  std::string_view name, reg;  ///< dtype, and the scalar type its values have in registers
  int width;
  std::string_view from_raw_v, to_raw_v, from_raw, to_raw;  ///< of x
};

constexpr Storage kStorage[] = {
    {"f32", "f32", 32, "(f32v)x", "(u32v)x", "__builtin_bit_cast(f32, x)", "__builtin_bit_cast(u32, x)"},
    {"f64", "f64", 64, "__builtin_bit_cast(f64v, x)", "__builtin_bit_cast(u64v, x)", "__builtin_bit_cast(f64, x)",
     "__builtin_bit_cast(u64, x)"},
    {"i8", "i8", 8, "(i8v)x", "(u8v)x", "(i8)x", "(u8)x"},
    {"i16", "i16", 16, "(i16v)x", "(u16v)x", "(i16)x", "(u16)x"},
    {"i32", "i32", 32, "(i32v)x", "(u32v)x", "(i32)x", "(u32)x"},
    {"i64", "i64", 64, "{(i64h)x.a, (i64h)x.b}", "{(u64h)x.a, (u64h)x.b}", "(i64)x", "(u64)x"},
    {"u8", "u8", 8, "x", "x", "x", "x"},
    {"u16", "u16", 16, "x", "x", "x", "x"},
    {"u32", "u32", 32, "x", "x", "x", "x"},
    {"u64", "u64", 64, "x", "x", "x", "x"},
    {"b8", "bool", 8, "c_mask((i8v)(x != 0))", "COIL_CV(COIL_CV((u32v)(x.m & 1), u16v), u8v)", "x != 0", "(u8)x"},
    {"f16", "f32", 16, "c_from_f16(x)", "c_narrow16(c_bits_f16(x))", "c_from_f16(x)", "(u16)c_bits_f16(x)"},
    {"bf16", "f32", 16, "c_from_bf16(x)", "c_narrow_bf16(x)", "c_from_bf16(x)", "(u16)c_bits_bf16(x)"},
    {"f8e4m3fn", "f32", 8, "c_from_f8e4m3fn(x)", "COIL_CV(COIL_CV(c_bits_f8e4m3fn(x), u16v), u8v)",
     "c_from_f8e4m3fn(x)", "(u8)c_bits_f8e4m3fn(x)"},
    {"f8e5m2", "f32", 8, "c_from_f8e5m2(x)", "COIL_CV(COIL_CV(c_bits_f8e5m2(x), u16v), u8v)", "c_from_f8e5m2(x)",
     "(u8)c_bits_f8e5m2(x)"},
};

/// What stands for the placeholders of device/cpp/storage.h.
device::Values values_of(const Storage& s) {
  const std::string reg(s.reg), vector = s.name == "b8" ? "boolv" : reg + "v";
  const std::string splat = s.name == "b8"  ? "{i32v{} - (i32)x}"
                            : s.width == 64 ? fmt::format("{{x - {0}h{{}}, x - {0}h{{}}}}", reg)
                                            : fmt::format("x - {}v{{}}", reg);
  return {{"$d", std::string(s.name)},
          {"$r", reg},
          {"$V", vector},
          {"$w", std::to_string(s.width)},
          {"$from", std::string(s.from_raw_v)},
          {"$to", std::string(s.to_raw_v)},
          {"$sfrom", std::string(s.from_raw)},
          {"$sto", std::string(s.to_raw)},
          {"$splat", splat}};
}

}  // namespace

std::vector<device::Piece> storage_pieces() {
  const std::vector<device::Piece> templates = device::pieces("cpp/storage.h");
  std::vector<device::Piece> out;
  for (const Storage& s : kStorage) {
    const device::Values values = values_of(s);
    for (const device::Piece& piece : templates) {
      if (piece.names[0] == "c_stream_$d" && s.width < 16)
        continue;  // no instruction stores single bytes past the cache
      out.push_back({{device::fill(piece.names[0], values)}, device::fill(piece.text, values)});
    }
  }
  return out;
}

}  // namespace coil::codegen
