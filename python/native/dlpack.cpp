#include "dlpack.h"

#include "support/error.h"

namespace coil::dlpack {

std::optional<Type> type_of(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  switch (dtype) {
    case DType::Bool: return Type{kBool, 8, 1};
    case DType::BF16: return Type{kBfloat, 16, 1};
    case DType::F8E4M3: return Type{kFloat8E4M3, 8, 1};
    case DType::F8E5M2: return Type{kFloat8E5M2, 8, 1};
    default: break;
  }
  if (is_complex(dtype)) return Type{kComplex, bits, 1};
  if (is_floating(dtype)) return Type{kFloat, bits, 1};
  if (is_integral(dtype)) return Type{is_signed(dtype) ? kInt : kUInt, bits, 1};
  return {};
}

namespace {

constexpr DType kAllTypes[] = {
#define X(e, ...) DType::e,
    COIL_DTYPES(X)
#undef X
};

/// dtypes by code and number of bytes, and types by dtype.
struct TypeTable {
  static constexpr std::size_t kCodes = 32, kBytes = 17;
  std::optional<DType> found[kCodes][kBytes];
  Type types[256] = {};

  TypeTable() {
    for (DType d : kAllTypes)
      if (const auto t = type_of(d)) found[t->code][t->bits / 8] = d, types[static_cast<std::uint8_t>(d)] = *t;
  }
};
const TypeTable kTable;

}  // namespace

DType dtype_of(Type type) {
  if (type.code < TypeTable::kCodes && type.bits % 8 == 0 && type.bits / 8 < TypeTable::kBytes && type.lanes == 1)
    if (const auto d = kTable.found[type.code][type.bits / 8]) return *d;
  fail("tensors of DLPack type {}:{} are not supported", type.code, type.bits);
}

bool looks_like(const View& view, const Tensor& t) {
  if (static_cast<std::size_t>(view.rank) != t.sizes.size() || t.strides.size() != t.sizes.size() || !view.strides ||
      kTable.types[static_cast<std::uint8_t>(t.dtype)] != view.type)
    return false;
  bool same = true;
  for (std::size_t d = 0; d < t.sizes.size(); ++d)
    same = same && view.sizes[d] == t.sizes[d] && view.strides[d] == t.strides[d];
  return same;
}

std::size_t span_bytes(const Tensor& t) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < t.sizes.size(); ++d) {
    if (t.sizes[d] == 0) return 0;
    last += (t.sizes[d] - 1) * t.strides[d];
  }
  return static_cast<std::size_t>(last + 1) * size_of(t.dtype);
}

}  // namespace coil::dlpack
