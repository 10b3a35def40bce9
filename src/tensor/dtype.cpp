#include "tensor/dtype.h"

#include "support/error.h"

namespace coil {
namespace {

struct Row {
  DType dtype;
  std::string_view short_name, torch_name;
  std::size_t bytes;
  int export_number;
  std::string_view safetensors_name, cpp_name;
};

constexpr Row kRows[] = {
#define X(e, s, t, b, n, st, cpp) {DType::e, s, t, b, n, st, cpp},
    COIL_DTYPES(X)
#undef X
};

const Row& row(DType d) { return kRows[static_cast<std::size_t>(d)]; }

template <class Match>
std::optional<DType> find(Match match) {
  for (const Row& r : kRows)
    if (match(r)) return r.dtype;
  return std::nullopt;
}

}  // namespace

std::size_t size_of(DType d) { return row(d).bytes; }
std::string_view short_name(DType d) { return row(d).short_name; }
std::string_view torch_name(DType d) { return row(d).torch_name; }
std::string_view safetensors_name(DType d) { return row(d).safetensors_name; }
std::string_view cpp_name(DType d) { return row(d).cpp_name; }

std::optional<DType> dtype_from_short_name(std::string_view s) {
  return find([&](const Row& r) { return r.short_name == s; });
}
std::optional<DType> dtype_from_torch_name(std::string_view s) {
  return find([&](const Row& r) { return r.torch_name == s; });
}
std::optional<DType> dtype_from_safetensors_name(std::string_view s) {
  return find([&](const Row& r) { return !s.empty() && r.safetensors_name == s; });
}
std::optional<DType> dtype_from_export_number(int n) {
  return find([&](const Row& r) { return r.export_number == n; });
}

bool is_floating(DType d) {
  switch (d) {
    case DType::F16:
    case DType::BF16:
    case DType::F32:
    case DType::F64:
    case DType::F8E4M3:
    case DType::F8E5M2: return true;
    default: return false;
  }
}
bool is_complex(DType d) { return d == DType::C32 || d == DType::C64 || d == DType::C128; }
bool is_fractional(DType d) { return is_floating(d) || is_complex(d); }
bool is_integral(DType d) { return !is_fractional(d) && d != DType::Bool; }
bool is_signed(DType d) {
  switch (d) {
    case DType::U8:
    case DType::U16:
    case DType::U32:
    case DType::U64:
    case DType::Bool: return false;
    default: return true;
  }
}
DType compute_dtype(DType d) { return is_floating(d) && d != DType::F64 ? DType::F32 : d; }
DType real_type(DType d) {
  switch (d) {
    case DType::C32: return DType::F16;
    case DType::C64: return DType::F32;
    case DType::C128: return DType::F64;
    default: return d;
  }
}
DType complex_type(DType d) { return d == DType::F16 ? DType::C32 : d == DType::F64 ? DType::C128 : DType::C64; }

namespace {

// Categories order first (bool < integer < floating < complex); inside one, the wider wins and ties go up.
int category(DType d) { return d == DType::Bool ? 0 : is_integral(d) ? 1 : is_floating(d) ? 2 : 3; }

DType promote_integers(DType a, DType b) {
  if (size_of(a) < size_of(b)) std::swap(a, b);
  if (is_signed(a) || is_signed(a) == is_signed(b)) {
    if (size_of(a) > size_of(b) || is_signed(a) == is_signed(b)) return a;
  }
  // one signed, one unsigned of the same or greater width
  if (a == DType::U8 || b == DType::U8) return DType::I16;
  fail("torch.promote_types has no common type for {} and {}", torch_name(a), torch_name(b));
}

DType promote_floats(DType a, DType b) {
  if (a == DType::F64 || b == DType::F64) return DType::F64;
  return DType::F32;  // f32 with a narrower type, and f16 with bf16
}

DType promote_complex(DType a, DType b) {
  const DType pa = real_type(a), pb = real_type(b);
  if (!is_floating(pa)) return complex_type(pb);
  if (!is_floating(pb)) return complex_type(pa);
  return complex_type(promote_types(pa, pb));
}

}  // namespace

namespace {
bool is_eight_bits(DType d) { return is_floating(d) && size_of(d) == 1; }
/// Unsigned integers that torch has for their bits alone.
bool is_wide_unsigned(DType d) { return d == DType::U16 || d == DType::U32 || d == DType::U64; }

void require_promotion(DType a, DType b) {
  if (is_eight_bits(a) || is_eight_bits(b))
    fail("promotion for Float8 types is not supported, attempted to promote {} and {}", torch_name(a), torch_name(b));
  const bool floats = is_floating(a) || is_floating(b);
  if ((is_wide_unsigned(a) || is_wide_unsigned(b)) && !floats)
    fail("promotion for uint16, uint32, uint64 types is not supported, attempted to promote {} and {}", torch_name(a),
         torch_name(b));
}
}  // namespace

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  require_promotion(a, b);
  const int ca = category(a), cb = category(b);
  if (ca == 3 || cb == 3) return promote_complex(a, b);
  if (ca != cb) return ca > cb ? a : b;
  return ca == 1 ? promote_integers(a, b) : promote_floats(a, b);
}

}  // namespace coil
