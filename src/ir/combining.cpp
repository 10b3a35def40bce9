#include "ir/combining.h"

#include <limits>

namespace coil::ir {
namespace {

NeutralValue lowest(DType t) {
  if (is_floating(t)) return {.real = -std::numeric_limits<double>::infinity()};
  if (t == DType::Bool || !is_signed(t)) return {};
  return {.integer = std::numeric_limits<std::int64_t>::min() >> (64 - 8 * size_of(t))};
}

NeutralValue highest(DType t) {
  if (is_floating(t)) return {.real = std::numeric_limits<double>::infinity()};
  if (t == DType::Bool) return {.integer = 1};
  if (t == DType::U64) return {.integer = -1};
  const auto bits = static_cast<int>(8 * size_of(t)) - (is_signed(t) ? 1 : 0);
  return {.integer = static_cast<std::int64_t>(~std::uint64_t{0} >> (64 - bits))};
}

}  // namespace

ScalarOp combining_op(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::Sum: return ScalarOp::Add;
    case ReductionKind::Prod: return ScalarOp::Mul;
    case ReductionKind::Max:
    case ReductionKind::ArgMax: return ScalarOp::Max;
    case ReductionKind::Min:
    case ReductionKind::ArgMin: return ScalarOp::Min;
    case ReductionKind::Any: return ScalarOp::Or;
    case ReductionKind::All: return ScalarOp::And;
    case ReductionKind::Xor: return ScalarOp::Xor;
  }
  return ScalarOp::Add;
}

NeutralValue neutral_value(ReductionKind kind, DType t) {
  switch (kind) {
    case ReductionKind::Sum:
    case ReductionKind::Any:
    case ReductionKind::Xor: return {};
    case ReductionKind::Prod:
    case ReductionKind::All: return {.real = 1, .integer = 1};
    case ReductionKind::Max:
    case ReductionKind::ArgMax: return lowest(t);
    case ReductionKind::Min:
    case ReductionKind::ArgMin: return highest(t);
  }
  return {};
}

}  // namespace coil::ir
