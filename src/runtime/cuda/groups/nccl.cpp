#include "runtime/cuda/groups/nccl.h"

#include "library_ops/collectives.h"
#include "support/error.h"

namespace coil::runtime::cuda {
namespace {

constexpr const char* kNames[] = {"libnccl.so.2", "libnccl.so"};

// ncclDataType_t and ncclRedOp_t.
enum Type : int { kI8, kU8, kI32, kU32, kI64, kU64, kF16, kF32, kF64, kBF16 };
enum Operation : int { kSum, kProduct, kMost, kLeast, kAverage };

NcclCombination type_of(DType dtype) {
  switch (dtype) {
    case DType::I8: return {kI8};
    case DType::U8:
    case DType::Bool: return {kU8};
    case DType::I32: return {kI32};
    case DType::U32: return {kU32};
    case DType::I64: return {kI64};
    case DType::U64: return {kU64};
    case DType::F16: return {kF16};
    case DType::BF16: return {kBF16};
    case DType::F32: return {kF32};
    case DType::F64: return {kF64};
    case DType::C64: return {kF32, 2};
    case DType::C128: return {kF64, 2};
    default: fail("NCCL does not combine {}", torch_name(dtype));
  }
}

}  // namespace

Nccl::Nccl() : library_("NCCL", kNames) {
#define X(name, symbol, result, parameters) library_.find(name, symbol);
  COIL_NCCL(X)
#undef X
}

const Nccl& Nccl::get() {
  static const Nccl nccl;
  return nccl;
}

std::string Nccl::describe(Status status) const {
  const char* text = error_string(status);
  return text ? text : fmt::format("error {}", status);
}

void Nccl::check(Status status, const char* what) const {
  if (status != kDone && status != kInProgress) fail("NCCL cannot {}: {}", what, describe(status));
}

NcclCombination nccl_combination(std::string_view reduce, DType dtype) {
  if (!library_ops::collectives::combines_off_host(reduce, dtype))
    fail("NCCL has no {} of {}", reduce, torch_name(dtype));
  NcclCombination found = type_of(dtype);
  // The sum of booleans, which are 0 or 1, is their or, and their product their and.
  const bool truth = dtype == DType::Bool;
  if (reduce == "sum") found.operation = truth ? kMost : kSum;
  if (reduce == "avg") found.operation = kAverage;
  if (reduce == "product") found.operation = truth ? kLeast : kProduct;
  if (reduce == "min" || (truth && reduce == "band")) found.operation = kLeast;
  if (reduce == "max" || (truth && reduce == "bor")) found.operation = kMost;
  return found;
}

}  // namespace coil::runtime::cuda
