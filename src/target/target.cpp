#include "target/target.h"

#include <cstdlib>

namespace coil::target {

std::string_view emitted_language(DeviceType type) {
  if (type == DeviceType::CPU) return "cpp";
  return type == DeviceType::CUDA ? "cuda" : "";
}

Target cpu(std::string arch) {
  return {.arch = std::move(arch),
          .features = {Feature::WatchedLifetimes, Feature::PackedWeights, Feature::NanLoss, Feature::IntegerProducts,
                       Feature::Recurrences, Feature::Selections, Feature::Winograd}};
}

Target cuda(int index, std::string arch) {
  constexpr int kFirstWithTf32 = 80;
  const int generation = std::atoi(arch.c_str() + std::string_view("sm_").size());
  Target out{.device = {DeviceType::CUDA, index},
             .arch = std::move(arch),
             .generation = generation,
             .features = {Feature::ThreadGrids, Feature::SplitsOverBlocks, Feature::FastDivision,
                          Feature::BatchedLaunches, Feature::MeasuredLaunches, Feature::ChannelsLastWeights,
                          Feature::FewPostOps, Feature::Tf32, Feature::AnyRowAdded, Feature::ProductsIntoRows,
                          Feature::Attention, Feature::UnorderedGradients, Feature::FoldedBatchNorm},
             .product_vector_bytes = 16,
             .largest_attention_head = generation == 90 ? 256 : 128};
  if (generation >= kFirstWithTf32) out.features.add(Feature::AttentionKernels);
  return out;
}

Target emulated_cuda(std::string arch) {
  return {.arch = std::move(arch),
          .features = {Feature::ThreadGrids, Feature::ProductsIntoRows, Feature::WatchedLifetimes,
                       Feature::PackedWeights, Feature::NanLoss},
          .product_vector_bytes = 16};
}

const Target& host() {
  static const Target target = cpu("generic");
  return target;
}

}  // namespace coil::target
