#include "codegen/cuda/streamed_products.h"

namespace coil::codegen {
namespace {

// Values of cuda.h: CU_TENSOR_MAP_DATA_TYPE_FLOAT16 and _BFLOAT16, CU_TENSOR_MAP_SWIZZLE_128B.
constexpr std::uint32_t kF16 = 6, kBf16 = 9, kSwizzled128Bytes = 3;
constexpr std::uint32_t kPiece = 64;
constexpr std::int64_t kBytes = 2;

}  // namespace

MappedTensor mapped(const sym::ShapeEnv& env, const StreamedOperand& x, int rows) {
  MappedTensor m{
      .pointer = x.pointer, .offset = env.simplify(x.offset * kBytes), .sizes = {}, .strides = {}, .map = {}};
  // No dimension of a descriptor may be empty; of such an operand nothing is fetched.
  for (Expr size : x.sizes) m.sizes.push_back(env.simplify(sym::max(size, 1)));
  for (Expr stride : x.strides) m.strides.push_back(env.simplify(stride * kBytes));
  m.map = {x.dtype == DType::BF16 ? kBf16 : kF16, kSwizzled128Bytes, {1, static_cast<std::uint32_t>(rows), kPiece}};
  return m;
}

int tile_rows_of_second(const LaunchConfig& config, bool along) {
  return (along ? config.tile : static_cast<int>(kPiece)) / config.cluster;
}

Expr streamed_blocks(const sym::ShapeEnv& env, Expr tiles, const LaunchConfig& config, const target::Costs& costs) {
  const std::int64_t clusters = costs.multiprocessors / config.cluster;
  return env.simplify(sym::min(tiles, clusters) * config.cluster);
}

}  // namespace coil::codegen
