// What heuristics make of facts: launch configs by their named fields.
#include <gtest/gtest.h>

#include <set>

#include "codegen/heuristics/alternatives.h"
#include "codegen/heuristics/attentions.h"
#include "codegen/heuristics/blocks.h"
#include "codegen/heuristics/columns.h"
#include "codegen/heuristics/group_convolutions.h"
#include "codegen/heuristics/points.h"
#include "codegen/heuristics/products.h"
#include "codegen/heuristics/rows.h"
#include "codegen/heuristics/scans.h"
#include "codegen/heuristics/scatters.h"
#include "codegen/heuristics/sorts.h"
#include "codegen/heuristics/tiles.h"
#include "codegen/heuristics/transforms.h"
#include "ir/scan_state.h"
#include "library_ops/fourier.h"

namespace coil::codegen {
namespace {

const target::Target gpu = target::cuda(0, "sm_90"), old_gpu = target::cuda(0, "sm_80");
const target::Costs& costs = gpu.costs;

/// What every list of candidates has to hold.
void expect_launchable(const std::vector<LaunchConfig>& candidates) {
  ASSERT_FALSE(candidates.empty());
  for (std::size_t k = 0; k < candidates.size(); ++k) {
    const LaunchConfig& c = candidates[k];
    EXPECT_GE(c.threads, costs.threads_of_warp) << to_string(c);
    EXPECT_LE(c.threads, costs.threads_of_block) << to_string(c);
    EXPECT_LE(c.cluster, costs.blocks_of_cluster) << to_string(c);
    EXPECT_EQ(c.vector & (c.vector - 1), 0) << to_string(c);
    for (std::size_t j = 0; j < k; ++j) EXPECT_NE(candidates[j], c) << to_string(c) << " is there twice";
  }
}

// ---- Kernels for some of the sizes

const LaunchConfig kLooped{.threads = 256, .unroll = 4, .looped = true, .team = 256};

LaunchConfig in_registers(int team, int turns) { return {.threads = team, .unroll = turns, .team = team}; }

TEST(Alternatives, OneConfigForAllSizesNeedsNoOther) {
  const std::vector<SizeBucket> buckets{{64, kLooped}, {256, kLooped}, {1024, kLooped}};
  EXPECT_TRUE(ranges_worth_a_kernel(buckets, kLooped, 2).empty());
  EXPECT_TRUE(ranges_worth_a_kernel({}, kLooped, 2).empty());
}

TEST(Alternatives, WhatSavesLessThanACompileIsLeftToTheUsual) {
  LaunchConfig near = kLooped;
  near.unroll *= 2;
  EXPECT_LT(distance(near, kLooped), 1);
  const std::vector<SizeBucket> buckets{{64, near}, {256, kLooped}};
  EXPECT_TRUE(ranges_worth_a_kernel(buckets, kLooped, 2).empty());
}

TEST(Alternatives, ALoopIsWorthAKernel) {
  const std::vector<SizeBucket> buckets{{64, in_registers(256, 4)}, {256, in_registers(256, 4)}, {1024, kLooped}};
  EXPECT_EQ(ranges_worth_a_kernel(buckets, kLooped, 2), (std::vector<SizeRange>{{0, 256, 1}}));
}

TEST(Alternatives, RangesAreApartAndNoMoreThanAsked) {
  const std::vector<SizeBucket> buckets{
      {64, in_registers(32, 2)}, {256, in_registers(32, 8)}, {1024, kLooped}, {4096, in_registers(1024, 16)}};
  EXPECT_EQ(ranges_worth_a_kernel(buckets, kLooped, 2), (std::vector<SizeRange>{{0, 256, 1}, {1025, 4096, 3}}));
  EXPECT_EQ(ranges_worth_a_kernel(buckets, kLooped, 1), (std::vector<SizeRange>{{0, 256, 1}}));
  EXPECT_TRUE(ranges_worth_a_kernel(buckets, kLooped, 0).empty());
}

TEST(Alternatives, BucketsInWhichNothingIsWonGetNoKernel) {
  const std::vector<SizeBucket> buckets{{64, in_registers(32, 2), 0}, {256, in_registers(32, 8), 0}, {1024, kLooped}};
  EXPECT_TRUE(ranges_worth_a_kernel(buckets, kLooped, 2).empty());
}

// ---- Blocks, for languages that leave threads to their compiler

TEST(Blocks, PointsAreThoseOfTheThreads) {
  const BlockShape b = point_block({.threads = 256, .vector = 4, .unroll = 2});
  EXPECT_EQ(b.x, 2048);
  EXPECT_EQ(b.warps, 8);
}

TEST(Blocks, RowsThatFitAreThereAtOnce) {
  const LaunchConfig config{.threads = 256, .vector = 4, .unroll = 1, .rows = 1};
  const BlockShape fits = row_block(config, 1000), unknown = row_block(config, std::nullopt);
  EXPECT_EQ(fits.r, 1024);
  EXPECT_FALSE(fits.looped);
  EXPECT_EQ(unknown.r, 1024);
  EXPECT_TRUE(unknown.looped);
  LaunchConfig looped = config;
  looped.looped = true;
  EXPECT_TRUE(row_block(looped, 1000).looped);
}

TEST(Blocks, RowsOfNothingAreWalked) { EXPECT_TRUE(row_block({.threads = 128}, 0).looped); }

TEST(Blocks, NoElementIsHeldTwice) {
  const BlockShape b = column_block({.threads = 512, .looped = true, .team = 512}, 2);
  EXPECT_LE(32 * b.warps, std::max(32, b.x * b.r));
}

// ---- Values

TEST(LaunchConfigs, TextHasWhatIsNotUsual) {
  EXPECT_EQ(to_string(LaunchConfig{}), "128 threads");
  EXPECT_EQ(to_string({.threads = 256, .vector = 4, .unroll = 2, .looped = true}),
            "256 threads, vector 4, unroll 2, looped");
}

TEST(LaunchConfigs, ARequestPastTheEndIsTheLast) {
  const std::vector<LaunchConfig> two{{.threads = 64}, {.threads = 256}};
  EXPECT_EQ(choose(two, {}).config.threads, 64);
  EXPECT_EQ(choose(two, {.candidate = 1}).config.threads, 256);
  EXPECT_EQ(choose(two, {.candidate = 30}).config.threads, 256);
  EXPECT_EQ(choose(two, {.candidate = 1}).candidates, two);
}

// ---- Points

TEST(PointConfigs, ManyPointsMoveInTheWidestVectors) {
  const auto all = point_configs({.points = 1 << 26, .vector = 8}, costs);
  expect_launchable(all);
  EXPECT_EQ(all[0], (LaunchConfig{.threads = 256, .vector = 8}));
}

TEST(PointConfigs, FewPointsAreSpreadOverTheMachine) {
  const LaunchConfig c = point_configs({.points = 1 << 15, .vector = 8}, costs)[0];
  EXPECT_EQ(c.vector, 1);
  EXPECT_EQ(c.threads, 128);
}

TEST(PointConfigs, NarrowAccessesOfManyPointsAreUnrolled) {
  EXPECT_EQ(point_configs({.points = 1 << 26, .vector = 1}, costs)[0].unroll, 4);
  EXPECT_EQ(point_configs({.points = 1 << 20, .vector = 1}, costs)[0].unroll, 1);
}

TEST(PointConfigs, RowsThatVectorsDoNotDivideAreTakenAsTheyLie) {
  const auto all = point_configs({.points = 1 << 26, .vector = 1, .flat_vector = 8}, costs);
  expect_launchable(all);
  for (const LaunchConfig& c : all) EXPECT_TRUE(c.flat && c.partial_vectors && c.vector == 8) << to_string(c);
  EXPECT_FALSE(point_configs({.points = 1 << 26, .vector = 4, .flat_vector = 8}, costs)[0].flat);
}

// ---- Tiles

TEST(TileConfigs, LargeSquaresWhereTheyFitAndAreFilled) {
  const auto all = tile_configs({.v = 512, .u = 512, .across = {4}}, costs);
  expect_launchable(all);
  EXPECT_EQ(all[0].tile, 64);
  EXPECT_EQ(tile_configs({.v = 512, .u = 512, .across = {8, 8}}, costs)[0].tile, 32) << "66,560 bytes are too many";
  EXPECT_EQ(tile_configs({.v = 512, .u = 20, .across = {4}}, costs)[0].tile, 32) << "most of a square would be outside";
}

TEST(TileConfigs, WhatHasNoRoomIsNotInTiles) {
  const TileFacts facts{.v = 64, .u = 64, .across = {8, 8, 8, 8, 8}};
  EXPECT_EQ(accesses_in_tiles(facts, 32, costs), (std::vector<bool>{true, true, true, true, false}));
}

// ---- Columns

TEST(ColumnConfigs, ShortColumnsAreOneThreads) {
  const auto all = column_configs({.columns = 1 << 22, .along = 4096, .length = 8, .vector = 4}, costs);
  expect_launchable(all);
  EXPECT_EQ(all[0].team, 1);
  EXPECT_EQ(all[0].vector, 4);
}

TEST(ColumnConfigs, LongColumnsAreSharedSoThatTheMachineIsFull) {
  const LaunchConfig few = column_configs({.columns = 256, .along = 256, .length = 1 << 16}, costs)[0];
  const LaunchConfig many = column_configs({.columns = 1 << 20, .along = 1 << 20, .length = 1 << 10}, costs)[0];
  EXPECT_GT(few.team, many.team);
  EXPECT_EQ(few.rows, 1);
}

TEST(ColumnConfigs, BlocksOfFewColumnsTakeSeveralOuterPoints) {
  const LaunchConfig c = column_configs({.columns = 1 << 20, .along = 16, .length = 8}, costs)[0];
  EXPECT_GT(c.rows, 1);
  EXPECT_EQ(c.threads % (c.team * c.rows), 0);
}

TEST(ColumnConfigs, AccumulatorsFitSharedMemory) {
  const ColumnFacts facts{.columns = 4096, .along = 4096, .length = 1 << 14, .vector = 2, .accumulator_bytes = 16 * 8};
  for (const LaunchConfig& c : column_configs(facts, costs))
    EXPECT_LE(static_cast<std::int64_t>(facts.accumulator_bytes) * c.vector * c.threads, costs.declared_shared_bytes)
        << to_string(c);
}

// ---- Rows

TEST(RowConfigs, ShortRowsBelongToPartsOfWarps) {
  const auto all = row_configs({.length = 32, .rows = 1 << 16, .known = true, .vector = 4}, costs);
  expect_launchable(all);
  EXPECT_EQ(all[0].team, 8);
  EXPECT_EQ(all[0].threads, 128);
  EXPECT_EQ(all[0].rows, 16);
  EXPECT_EQ(all[0].unroll, 1);
  EXPECT_FALSE(all[0].looped);
}

TEST(RowConfigs, LongerRowsBelongToBlocks) {
  const LaunchConfig c = row_configs({.length = 4096, .rows = 1 << 14, .known = true, .vector = 4}, costs)[0];
  EXPECT_EQ(c.team, c.threads);
  EXPECT_EQ(c.rows, 1);
  EXPECT_EQ(std::int64_t{c.team} * c.vector * c.unroll, 4096);
}

TEST(RowConfigs, FewRowsHaveMoreThreads) {
  RowFacts facts{.length = 4096, .rows = 1 << 14, .known = true, .vector = 4};
  const int many = row_configs(facts, costs)[0].team;
  facts.rows = 8;
  EXPECT_GT(row_configs(facts, costs)[0].team, many);
}

TEST(RowConfigs, RowsOfUnknownLengthAreLooped) {
  for (const LaunchConfig& c : row_configs({.length = 4096, .rows = 64, .known = false, .vector = 4}, costs)) {
    EXPECT_TRUE(c.looped) << to_string(c);
    EXPECT_EQ(c.cluster, 1) << to_string(c);
  }
}

TEST(RowConfigs, LongRowsThatAreReadAgainAreShared) {
  const RowFacts facts{.length = 1 << 16, .rows = 64, .known = true, .vector = 4};
  const auto all = row_configs(facts, costs);
  expect_launchable(all);
  EXPECT_GT(all[0].cluster, 1);
  EXPECT_EQ(all[0].team, all[0].threads * all[0].cluster);
  EXPECT_EQ(row_configs(facts, old_gpu.costs)[0].cluster, 1) << "such machines have no clusters";
  RowFacts once = facts;
  once.once = true;
  EXPECT_EQ(row_configs(once, costs)[0].cluster, 1) << "a row that is read once needs no registers";
  EXPECT_EQ(row_configs(facts, costs, 8)[0].cluster, 8) << "as asked";
  EXPECT_EQ(row_configs(facts, costs, 1)[0].cluster, 1);
}

/// The scheduler and lowering ask the costs, before there is a nest that configs could be made for.
TEST(RowConfigs, ClustersHoldWhatTheCostsSayTheyHold) {
  for (int bytes : {2, 4}) {
    const int vector = 16 / bytes;
    for (std::int64_t row : {60 << 10, 64 << 10, 256 << 10, 512 << 10, 544 << 10}) {
      const LaunchConfig c =
          row_configs({.length = row / bytes, .rows = 64, .known = true, .vector = vector}, costs)[0];
      EXPECT_EQ(c.cluster > 1, costs.holds_rows_in_clusters(64, row)) << to_string(c) << " for " << row << " bytes";
    }
  }
}

TEST(RowConfigs, LongRowsThatVectorsDoNotDivideAreCutShort) {
  RowFacts facts{.length = 5003, .rows = 1 << 12, .known = true, .vector = 1, .cut_vector = 8};
  EXPECT_EQ(row_configs(facts, costs)[0].vector, 8);
  EXPECT_TRUE(row_configs(facts, costs)[0].partial_vectors);
  facts.length = 503;
  EXPECT_EQ(row_configs(facts, costs)[0].vector, 1) << "a short row is not worth the checks";
}

TEST(RowConfigs, LoadsAreUnderWayAsRegistersHold) {
  EXPECT_EQ(loads_under_way(std::vector<int>{16, 16, 16}, 4), 2u);
  EXPECT_EQ(loads_under_way(std::vector<int>{64}, 4), 0u);
  EXPECT_EQ(loads_under_way(std::vector<int>{}, 4), 0u);
}

// ---- Scans

TEST(ScanConfigs, AChunkHoldsARowWhereRowsAreShort) {
  const auto all = scan_configs({.rows = 1 << 12, .length = 2048, .vector = 4}, costs);
  expect_launchable(all);
  EXPECT_EQ(std::int64_t{all[0].threads} * all[0].unroll * all[0].vector, 2048);
}

TEST(ScanConfigs, FewLongRowsHaveMoreThreads) {
  EXPECT_EQ(scan_configs({.rows = 1 << 14, .length = 1 << 16, .vector = 4}, costs)[0].threads, 256);
  EXPECT_EQ(scan_configs({.rows = 4, .length = 1 << 16, .vector = 4}, costs)[0].threads, 1024);
}

TEST(ScanConfigs, TilesAreAsLargeAsTheirMemoryAssumes) {
  for (const LaunchConfig& c : scan_configs({.rows = 1, .length = 1 << 20, .vector = 4, .tiled = true}, costs))
    EXPECT_GE(std::int64_t{c.threads} * c.unroll * c.vector, ir::ScanState::kSmallest) << to_string(c);
}

// ---- Scatters

TEST(ScatterConfigs, WholeVectorsAreAddedWhereMemoryCan) {
  const ScatterFacts facts{.iterations = 1 << 24, .vector = 4, .element_bytes = 4, .adds = true};
  EXPECT_EQ(scatter_config(facts, gpu).vector, 4);
  EXPECT_EQ(scatter_config(facts, old_gpu).vector, 1);
  ScatterFacts part = facts;
  part.vector = 2;
  EXPECT_EQ(scatter_config(part, gpu).vector, 1) << "less than a vector is added one by one";
  part.adds = false;
  EXPECT_EQ(scatter_config(part, old_gpu).vector, 2) << "and written together";
  ScatterFacts narrow = facts;
  narrow.vector = 8;
  EXPECT_EQ(scatter_config(narrow, gpu).vector, 4) << "of what is read in longer runs, a vector of the result";
}

TEST(ScatterConfigs, FewIterationsGoOneByOne) {
  EXPECT_EQ(scatter_config({.iterations = 1 << 10, .vector = 4, .element_bytes = 4}, gpu).vector, 1);
}

// ---- Attention

TEST(AttentionConfigs, BlocksHaveAsManyRowsAsFit) {
  const AttentionFacts facts{.heads = 1 << 10, .rows = 1 << 12, .staying = {64}, .widest = 64};
  const LaunchConfig c = attention_config(facts, costs);
  EXPECT_EQ(c.threads, 128);
  EXPECT_EQ(c.rows, 64);
  EXPECT_EQ(c.min_blocks, 4);
  EXPECT_LE(c.shared_bytes, costs.shared_bytes_of_block);
  AttentionFacts wide = facts;
  wide.staying = {256, 256};
  wide.widest = 256;
  EXPECT_LT(attention_config(wide, costs).rows, 64);
  EXPECT_EQ(attention_config(wide, costs).min_blocks, 0);
}

TEST(AttentionConfigs, FewRowsAreSpreadOverTheMachineWhereThatIsKnown) {
  const AttentionFacts few{.heads = 8, .rows = 64, .staying = {64}, .widest = 64};
  EXPECT_EQ(attention_config(few, costs).rows, 16);
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(attention_config({.heads = kAny, .rows = kAny, .staying = {64}, .widest = 64}, costs).rows, 64);
}

// ---- Sorts

TEST(ProductConfigs, BlocksThatStreamAreAsWideAsFillsTheMachine) {
  const target::Costs costs = target::cuda(0, "sm_90").costs;
  ProductFacts facts{.rows = 4096, .columns = 4096, .along = true, .warpgroups = true, .mapped = true, .depth = 4096};
  const LaunchConfig wide = product_config(facts, costs);
  EXPECT_TRUE(is_streamed(wide));
  EXPECT_EQ(wide.tile, 256);
  EXPECT_EQ(wide.cluster, 2);
  facts.rows = 8192, facts.columns = 768;  // 96 tiles of 256 columns would leave a third of the second round idle
  EXPECT_EQ(product_config(facts, costs).tile, 192);
  facts.rows = 1024, facts.columns = 128;
  EXPECT_EQ(product_config(facts, costs).tile, 128);
}

TEST(ProductConfigs, PiecesThatStreamFitABlock) {
  const target::Costs costs = target::cuda(0, "sm_90").costs;
  for (std::int64_t rows : {128, 1000, 65536})
    for (std::int64_t columns : {64, 768, 3072}) {
      const ProductFacts facts{
          .rows = rows, .columns = columns, .along = true, .warpgroups = true, .mapped = true, .depth = 512};
      const LaunchConfig c = product_config(facts, costs);
      EXPECT_GE(c.unroll, 4);
      EXPECT_GE(c.shared_bytes, c.unroll * 2 * 64 * (c.rows + c.tile) + 1024 + c.unroll * 16);
      EXPECT_LE(c.shared_bytes, 227 << 10);
    }
}

TEST(ProductConfigs, FewRowsOrOperandsWithoutDescriptorsAreFetchedByThreads) {
  const target::Costs costs = target::cuda(0, "sm_90").costs;
  const ProductFacts few{.rows = 16, .columns = 512, .warpgroups = true, .mapped = true, .depth = 64};
  EXPECT_FALSE(is_streamed(product_config(few, costs)));
  const ProductFacts many{.rows = 512, .columns = 512, .warpgroups = true, .depth = 64};
  EXPECT_FALSE(is_streamed(product_config(many, costs)));
}

TEST(ProductConfigs, FewRowsShareTheirSumsBetweenAsManyBlocksAsFillTheMachine) {
  const target::Costs costs = target::cuda(0, "sm_90").costs;
  ProductFacts facts{.rows = 1, .columns = 768, .along = true, .mapped = true, .depth = 3072, .most_rows = 1};
  LaunchConfig c = product_config(facts, costs);
  EXPECT_TRUE(is_thin(c));
  EXPECT_EQ(c.rows, 8);
  EXPECT_EQ(c.tile, 16);
  EXPECT_EQ(c.cluster, 4);
  facts.columns = 32000;
  c = product_config(facts, costs);
  EXPECT_EQ(c.tile, 32);
  EXPECT_EQ(c.cluster, 1);
  facts.most_rows = 12;
  EXPECT_EQ(product_config(facts, costs).rows, 16);
  facts.along = false;
  EXPECT_EQ(product_config(facts, costs).tile, 64);
  facts.matrices = 256, facts.columns = 1024, facts.depth = 64, facts.along = true;  // many short sums
  EXPECT_EQ(product_config(facts, costs).threads, 64);
  facts.along = false;
  facts.made = true;
  EXPECT_FALSE(is_thin(product_config(facts, costs)));
}

TEST(TransformPlans, FactorsAreFewAndSequencesFillABlock) {
  const TransformPlan p = plan_transform({.points = 128});
  EXPECT_EQ(p.factors, (std::vector<int>{8, 16}));
  EXPECT_EQ(p.config.rows, 8);
  EXPECT_EQ(p.config.threads, 64);
  EXPECT_EQ(plan_transform({.points = 128, .side_by_side = true}).config.rows, 16);
  EXPECT_EQ(plan_transform({.points = 1001}).factors, (std::vector<int>{7, 11, 13}));
  EXPECT_EQ(plan_transform({.points = 2}).config.threads, 64);
}

TEST(TransformPlans, ABlockHoldsTheLongestSequenceAndNoMore) {
  for (std::size_t bytes : {4, 8}) {
    const std::int64_t longest = library_ops::fourier::longest_of_kernel(bytes);
    EXPECT_TRUE(library_ops::fourier::has_kernel(longest, bytes));
    EXPECT_FALSE(library_ops::fourier::has_kernel(2 * longest, bytes));
    EXPECT_EQ(plan_transform({.points = longest, .bytes = bytes, .side_by_side = true}).config.rows, 1);
  }
  for (std::int64_t points : {1, 17, 34}) EXPECT_FALSE(library_ops::fourier::has_kernel(points, 4));
}

TEST(SortPlans, ShortRowsTakeLittleMemoryAndAreCompared) {
  const SortPlan p = plan_sort({.element_bytes = 4, .longest = 128, .has_digits = true});
  EXPECT_EQ(p.config.tile, 128);
  EXPECT_EQ(p.config.threads, 32);
  EXPECT_TRUE(p.fits);
  EXPECT_FALSE(p.by_digits);
}

TEST(SortPlans, LongRowsGoByDigits) {
  const SortPlan p = plan_sort({.element_bytes = 4, .longest = 4096, .has_digits = true});
  EXPECT_EQ(p.config.tile, 4096);
  EXPECT_EQ(p.config.threads, kRadixThreads);
  EXPECT_TRUE(p.by_digits);
  EXPECT_FALSE(plan_sort({.element_bytes = 4, .longest = 4096, .has_digits = false}).by_digits);
}

TEST(SortPlans, WideElementsAreFewer) {
  EXPECT_EQ(plan_sort({.element_bytes = 8, .longest = 4096}).config.tile, 2048);
  EXPECT_FALSE(plan_sort({.element_bytes = 8, .longest = 4096}).fits);
  EXPECT_EQ(merge_config(8, 40000).tile * 2, merge_config(4, 40000).tile);
}

TEST(SortPlans, TheFirstOfARowThatMayNotFitAreCompared) {
  EXPECT_FALSE(plan_sort({.element_bytes = 4, .has_digits = true, .first_only = true}).by_digits);
  EXPECT_TRUE(plan_sort({.element_bytes = 4, .has_digits = true}).by_digits);
}

TEST(SortPlans, ALongRowIsSearchedByMoreThreads) {
  EXPECT_GT(select_config(1 << 20).threads, select_config(1000).threads);
}

/// Blocks fit a multiprocessor, squares are whole runs of sixteen places, and warps hold what they have registers for,
/// for every convolution that lowering gives to such kernels.
TEST(GroupConvolutions, FitEveryGroupAndWindow) {
  for (bool gradient : {false, true})
    for (std::int64_t in = 8; in <= 64; in += 8)
      for (std::int64_t out = 8; out <= 64; out += 8)
        for (std::int64_t window : {1, 3, 5})
          for (std::int64_t step : {1, 2})
            for (std::int64_t size : {1, 7, 14, 56, 112}) {
              const std::int64_t pieces = window * window * in / 8;
              if (pieces > 112 || pieces * ((out + 15) / 16) > 300) continue;
              const GroupConvolutionConfig c = group_convolution_config({.in = in,
                                                                         .out = out,
                                                                         .groups = 14,
                                                                         .window = {window, window},
                                                                         .step = {step, step},
                                                                         .sizes = {size, size},
                                                                         .gradient = gradient},
                                                                        costs);
              EXPECT_EQ(c.high * c.wide % (16 * c.parts), 0);
              EXPECT_LE(c.shared_bytes, costs.shared_bytes_of_block);
              EXPECT_LE(c.threads, 384);
              EXPECT_LE(c.groups, 14);
              EXPECT_GE(c.each, 1);
            }
}

TEST(GroupConvolutions, ReadChannelsSideBySide) {
  const GroupConvolutionConfig c =
      group_convolution_config({.in = 24, .out = 24, .groups = 14, .window = {3, 3}, .sizes = {28, 28}}, costs);
  EXPECT_EQ(c.groups, 3);  // 144 bytes of a place, and five blocks, the last of which lacks one group
  EXPECT_EQ(c.each, 3);    // all 24 results in one warp
  EXPECT_EQ(c.parts, 2);
}

}  // namespace
}  // namespace coil::codegen
