// The passes over the loop IR as records. compiler/pipelines.h says in which order they run.
#pragma once
#include "ir/ir.h"
#include "passes/loop/batch_invariance.h"
#include "passes/loop/computed_parts.h"
#include "passes/loop/dead_operations.h"
#include "passes/loop/device_copies.h"
#include "passes/loop/early_parts.h"
#include "passes/loop/fuse_post_ops.h"
#include "passes/loop/fuse_pre_ops.h"
#include "passes/loop/fuse_sums.h"
#include "passes/loop/late_loops.h"
#include "passes/loop/layout_choice.h"
#include "passes/loop/long_columns.h"
#include "passes/loop/nan_guards.h"
#include "passes/loop/narrow_columns.h"
#include "passes/loop/nested_concatenations.h"
#include "passes/loop/own_products.h"
#include "passes/loop/pack_weights.h"
#include "passes/loop/part_writes.h"
#include "passes/loop/product_parts.h"
#include "passes/loop/recurrent_pairs.h"
#include "passes/loop/results_in_parts.h"
#include "passes/loop/stride_choice.h"
#include "passes/loop/tf32.h"
#include "passes/loop/turned_operands.h"
#include "passes/loop/winograd.h"
#include "passes/pass.h"

namespace coil::passes {

struct LoopContext : Context {
  CarriesOut carries_out;  ///< of the target's device
};
using LoopPass = Pass<ir::Graph, LoopContext>;

/// The pass of a function that asks about nothing but the graph.
template <auto F>
void on_loops(ir::Graph& graph, const LoopContext&) {
  F(graph);
}

inline bool takes_winograd(const target::Target& target, const Settings& settings) {
  // (Its products have a row for each tile, of all images.)
  return target.has(target::Feature::Winograd) && settings.winograd != "false" && !settings.batch_invariant;
}

/// Bytes of transforms from which a convolution takes them in slices; nothing where it never does. Its products are by
/// panels, for which weights are packed. With AVX2 slices take 5 to 22 % longer than loops (measured on Zen 3), so
/// that they are for what loops are not; where a tile is asked for they are taken all the same.
inline std::optional<double> winograd_slices_from(const target::Target& target, const Settings& settings) {
  if (!target.has(target::Feature::PackedWeights) || !settings.pack_weights) return std::nullopt;
  if (target.arch.starts_with("avx512")) return 0;
  if (!target.arch.starts_with("avx2")) return std::nullopt;
  return settings.winograd == "true" ? kMostTransformBytes : 0;
}

inline constexpr LoopPass kCopyBetweenDevices{
    "copy-between-devices",
    "Library calls that the device has no form of become the CPU's; what is read of another device is copied.",
    [](ir::Graph& graph, const LoopContext& given) { copy_between_devices(graph, given.carries_out); },
    [](const target::Target& target, const Settings&) { return !target.device.is_host(); }};
inline constexpr LoopPass kChooseWinograd{
    "choose-winograd", "3x3 convolutions that gain by Winograd's filtering are marked, with the tile to take.",
    [](ir::Graph& graph, const LoopContext& given) {
      const std::string& tile = given.settings.winograd;
      choose_winograd(graph, tile == "true" ? std::nullopt : std::optional<std::int64_t>(tile == "2" ? 2 : 4),
                      winograd_slices_from(given.target, given.settings));
    },
    takes_winograd};
inline constexpr LoopPass kTakeOwnProducts{
    "take-own-products",
    "Products in 16 bits are computed by kernels of Coil's own: those of few rows, or as cuda.products asks.",
    [](ir::Graph& graph, const LoopContext& given) {
      const bool all = given.settings.cuda_products == "own";
      take_own_products(graph, [&](const ir::Operation&, const ir::Extern& own) -> std::int64_t {
        if (gains_as_few_rows(graph, own)) return 1;
        return all ? product_parts(graph, own).front() : 0;
      });
    },
    [](const target::Target& target, const Settings& settings) {
      const bool few = settings.cuda_products == "auto" && !settings.max_autotune;
      return target.has(target::Feature::BlockedProducts) && (few || settings.cuda_products == "own");
    }};
inline constexpr LoopPass kFusePostOps{
    "fuse-post-ops", "Activations, additions and scales behind a product or convolution go into the library call.",
    on_loops<ir::fuse_post_ops>};
inline constexpr LoopPass kFusePreOps{
    "fuse-pre-ops", "What makes an operand of Coil's own products is computed by their kernels while they fetch it.",
    [](ir::Graph& graph, const LoopContext&) { fuse_pre_ops(graph, [](ir::BufferId) { return true; }); },
    [](const target::Target& target, const Settings& settings) {
      return target.has(target::Feature::BlockedProducts) && settings.cuda_products == "own";
    }};
inline constexpr LoopPass kEliminateDeadOperations{"eliminate-dead-operations", "Operations that nothing reads go.",
                                                   on_loops<ir::eliminate_dead_operations>};
inline constexpr LoopPass kComputeInParts{
    "compute-in-parts", "What is computed of a concatenation alone is computed by the loops that make its parts.",
    on_loops<ir::compute_in_parts>};
inline constexpr LoopPass kChooseStrides{
    "choose-strides", "Sums of transposed and row-major operands are row-major where most of what moves with them is.",
    on_loops<ir::choose_strides>};
inline constexpr LoopPass kChooseLayouts{
    "choose-layouts", "Strides that lowering left open are settled: channels last through convolutional nets.",
    on_loops<ir::choose_layouts>};
inline constexpr LoopPass kTurnOperands{
    "turn-operands", "Large operands that reductions would read across their rows are copied into the rows' order.",
    on_loops<ir::turn_operands>};
inline constexpr LoopPass kSumNarrowColumns{
    "sum-narrow-columns", "Sums over many rows of a few neighbouring columns add up each column first, on a processor.",
    on_loops<ir::sum_narrow_columns>};
inline constexpr LoopPass kSplitLongColumns{
    "split-long-columns", "Reductions over long columns that few blocks would walk are cut into chunks of rows.",
    on_loops<ir::split_long_columns>, [](const target::Target& target, const Settings& settings) {
      return target.has(target::Feature::SplitsOverBlocks) && !settings.batch_invariant;
    }};
inline constexpr LoopPass kSplitPartWrites{
    "split-part-writes", "An input or a state that changes in a part has that part written, not all of it.",
    on_loops<ir::split_part_writes>};
inline constexpr LoopPass kNestConcatenations{
    "nest-concatenations", "Concatenations whose parts a longer one has as well are windows of that.",
    on_loops<ir::nest_concatenations>};
inline constexpr LoopPass kStorePartsEarly{
    "store-parts-early",
    "Parts of concatenations are stored behind the loops that make them, as part of their kernels.",
    on_loops<ir::store_parts_early>};
inline constexpr LoopPass kAddNanGuards{
    "add-nan-guards", "Looks at the data choose an exact form of library calls that would lose a NaN.",
    // What a look at a whole batch finds would choose the form of every row.
    [](ir::Graph& graph, const LoopContext& given) { add_nan_guards(graph, !given.settings.batch_invariant); },
    [](const target::Target& target, const Settings& settings) {
      return target.has(target::Feature::NanLoss) && settings.keep_nan;
    }};
inline constexpr LoopPass kExpandWinograd{
    "expand-winograd", "The marked convolutions become two loops of transforms around matrix products.",
    on_loops<expand_winograd>, takes_winograd};
inline constexpr LoopPass kWriteResultsInParts{
    "write-results-in-parts", "Products whose results are parts of concatenations compute them where they will lie.",
    on_loops<ir::write_results_in_parts>,
    [](const target::Target& target, const Settings&) { return target.device.is_host(); }};
inline constexpr LoopPass kAllowTf32{
    "allow-tf32", "Products and convolutions of f32 that may round their operands to TF32 are marked.",
    [](ir::Graph& graph, const LoopContext& given) { allow_tf32(graph, given.settings.cuda_tf32); },
    has<target::Feature::Tf32>};
inline constexpr LoopPass kKeepRowsApart{
    "keep-rows-apart", "Products and convolutions are marked to compute each row, or image, as if it were alone.",
    on_loops<keep_rows_apart>,
    [](const target::Target&, const Settings& settings) { return settings.batch_invariant; }};
inline constexpr LoopPass kPairRecurrences{
    "pair-recurrences", "Two layers of recurrent networks that do not depend on each other become one call.",
    on_loops<pair_recurrences>, has<target::Feature::Recurrences>};
inline constexpr LoopPass kPackWeights{
    "pack-weights", "Constant weights are rearranged once into the form that the library reads fastest.",
    [](ir::Graph& graph, const LoopContext& given) {
      if (given.target.has(target::Feature::PackedWeights)) {
        pack_weights(graph, given.target.arch);
      } else {
        relayout_weights(graph);
        copy_constants(graph);
      }
    },
    [](const target::Target&, const Settings& settings) { return settings.pack_weights; }};
inline constexpr LoopPass kDelayLoops{
    "delay-loops", "Loops move down to the loops that read them and wait for a library call in between.",
    on_loops<ir::delay_loops>};
inline constexpr LoopPass kFuseSums{
    "fuse-sums", "Small sums over a group that loops read are added up by the kernels of these loops.",
    on_loops<ir::fuse_sums>, [](const target::Target& target, const Settings& settings) {
      // (Other languages of kernels have no way to reach other devices.)
      return target.has(target::Feature::PeerSums) && settings.fuse_sums && settings.cuda_kernels == "cuda";
    }};
inline constexpr LoopPass kVerifyLoops{
    "verify", "Symbols are defined before they are used, and blocks are closed; else the compile fails.",
    [](ir::Graph& graph, const LoopContext&) { ir::verify(graph); }, verifies};

}  // namespace coil::passes
