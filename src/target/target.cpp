#include "target/target.h"

#include <algorithm>
#include <cstdlib>

#include "library_ops/convolutions.h"

namespace coil::target {
namespace {

/// An H100 or H200. Others of its time are near enough: what is asked is whether work fills a machine of this kind. Its
/// links are those between two of them: what NCCL moved in sums of 4 KiB and of 64 MiB (docs/distribution.md).
Costs gpu_costs() {
  return {.multiprocessors = 132,
          .threads_of_multiprocessor = 2048,
          .threads_of_block = 1024,
          .threads_of_warp = 32,
          .shared_bytes_of_block = 99 << 10,
          .declared_shared_bytes = 40000,
          .blocks_of_cluster = 8,
          .operations_per_second = 45e12,
          .memory_bytes_per_second = 3e12,
          .cache_bytes_per_second = 6e12,
          .seconds_of_call = 2e-6,
          .half_operations_per_second = 600e12,
          .link_bytes_per_second = 270e9,
          .seconds_of_exchange = 10e-6,
          .rows_by_made_matrix = 2};
}

/// An M2 or M3 of few cores. A kernel's threadgroup memory is 32 KiB at most.
Costs apple_costs() {
  return {.multiprocessors = 10,
          .threads_of_multiprocessor = 2048,
          .threads_of_block = 1024,
          .threads_of_warp = 32,
          .shared_bytes_of_block = 16 << 10,
          .declared_shared_bytes = 16 << 10,
          .blocks_of_cluster = 1};
}

/// Two threads of Zen 3. Links are Gloo's within a machine (docs/distribution.md).
Costs cpu_costs() {
  return {.operations_per_second = 200e9,
          .memory_bytes_per_second = 20e9,
          .cache_bytes_per_second = 50e9,
          .seconds_of_call = 5e-6,
          .half_operations_per_second = 200e9,
          .link_bytes_per_second = 0.7e9,
          .seconds_of_exchange = 0.5e-3,
          .rows_by_made_matrix = 4};
}

}  // namespace

bool Costs::holds_rows_in_clusters(std::int64_t rows, std::int64_t bytes_of_row) const {
  constexpr std::int64_t kLeastBytes = 64 << 10, kBytesOfBlock = 64 << 10;
  return blocks_of_cluster > 1 && bytes_of_row >= kLeastBytes && bytes_of_row <= kBytesOfBlock * blocks_of_cluster &&
         rows * blocks_of_cluster >= multiprocessors / 2;
}

Target cpu(std::string arch) {
  return {.arch = std::move(arch),
          .features = {Feature::WholeAttention, Feature::AttentionGradient, Feature::WatchedLifetimes, Feature::PostOps,
                       Feature::PackedWeights, Feature::NanLoss, Feature::IntegerProducts, Feature::Recurrences,
                       Feature::FourierTransforms, Feature::Selections, Feature::Winograd},
          .costs = cpu_costs()};
}

Target cuda(int index, std::string arch) {
  const std::vector<DType> floats{DType::F16, DType::BF16, DType::F32, DType::F64};
  constexpr int kFirstWithPeerSums = 70, kFirstWithTf32 = 80, kFirstWithClusters = 90;
  const int generation = std::atoi(arch.c_str() + std::string_view("sm_").size());
  Target out{
      .device = {DeviceType::CUDA, index},
      .arch = std::move(arch),
      .generation = generation,
      .features = {Feature::ThreadGrids, Feature::WholeAttention, Feature::SortingKernels, Feature::SplitsOverBlocks,
                   Feature::OrderedBlocks, Feature::FastDivision, Feature::BatchedLaunches, Feature::MeasuredLaunches,
                   Feature::PostOps, Feature::ChannelsLastWeights, Feature::FewPostOps, Feature::Tf32,
                   Feature::AnyRowAdded, Feature::ProductsIntoRows, Feature::Attention, Feature::UnorderedGradients,
                   Feature::FoldedBatchNorm, Feature::FourierKernels, Feature::RecordedGraphs},
      .product_vector_bytes = 16,
      .largest_attention_head = generation == 90 ? 256 : 128,
      .costs = gpu_costs(),
      .type_limits = {{std::string(library_ops::convolution::kName), floats},
                      {std::string(library_ops::convolution_weights::kName), floats}}};
  if (generation >= kFirstWithPeerSums) out.features.add(Feature::PeerSums);
  if (generation >= kFirstWithTf32) {
    out.features.add(Feature::AttentionKernels);
    out.features.add(Feature::BlockedProducts);
    out.features.add(Feature::GroupConvolutions);
  }
  if (generation >= kFirstWithClusters)
    out.features.add(Feature::VectorAtomics);
  else
    out.costs.blocks_of_cluster = 1;
  if (generation == 90) out.features.add(Feature::Warpgroups);
  // Their multiprocessors have 228 KiB.
  if (generation == 90 || generation == 100) out.costs.shared_bytes_of_block = 113 << 10;
  return out;
}

Target emulated_cuda(std::string arch) {
  return {.arch = std::move(arch),
          .features = {Feature::ThreadGrids, Feature::WholeAttention, Feature::SortingKernels, Feature::OrderedBlocks,
                       Feature::ProductsIntoRows, Feature::VectorAtomics, Feature::WatchedLifetimes, Feature::PostOps,
                       Feature::PackedWeights, Feature::NanLoss, Feature::BlockedProducts, Feature::GroupConvolutions,
                       Feature::FourierKernels, Feature::RecordedGraphs},
          .product_vector_bytes = 16,
          .costs = gpu_costs()};
}

Target metal(int index) {
  return {.device = {DeviceType::register_kind("metal"), index},
          .arch = "metal3",
          .features = {Feature::ThreadGrids, Feature::SplitsOverBlocks, Feature::FastDivision, Feature::SortingKernels,
                       Feature::NarrowFloats, Feature::NarrowAtomics, Feature::PlainProducts},
          .costs = apple_costs()};
}

Target emulated_metal(std::string arch) {
  return {.arch = std::move(arch),
          .features = {Feature::ThreadGrids, Feature::SortingKernels, Feature::NarrowFloats, Feature::NarrowAtomics,
                       Feature::PlainProducts, Feature::WatchedLifetimes},
          .costs = apple_costs()};
}

bool Target::takes(std::string_view op, DType result) const {
  const auto limit = std::ranges::find(type_limits, op, &TypeLimit::op);
  return limit == type_limits.end() || std::ranges::find(limit->types, result) != limit->types.end();
}

const Target& host() {
  static const Target target = cpu("generic");
  return target;
}

}  // namespace coil::target
