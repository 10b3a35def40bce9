// Which convolutions are sums over windows, and how many results a thread makes of them.
#include "codegen/heuristics/windows.h"

#include <gtest/gtest.h>

#include "lowering/convolutions/choice.h"

namespace coil {
namespace {

using codegen::LaunchConfig;
using codegen::window_configs;
using codegen::window_run;
using codegen::WindowFacts;
using lowering::computes_by_windows;
using lowering::weight_gradient_parts;

const target::Costs costs = target::cuda(0, "sm_90").costs;

TEST(Windows, RunsDivideTheDimensionWhereTheyCan) {
  EXPECT_EQ(window_run(56, 7, 8), 8);
  EXPECT_EQ(window_run(14, 7, 8), 7);
  EXPECT_EQ(window_run(7, 3, 8), 7);
  EXPECT_EQ(window_run(1, 7, 8), 1);
}

TEST(Windows, RunsThatDoNotDivideAreTakenWhereLittleIsComputedTwice) {
  EXPECT_EQ(window_run(31, 3, 8), 8);  // four of eight are thirty-two
  EXPECT_LT(window_run(9, 3, 8), 8);   // two of eight would be sixteen
}

TEST(Windows, LargeWindowsLimitWhatIsWrittenOut) {
  const WindowFacts facts{.results = 1 << 26, .taps = 121, .near = 64, .far = 64, .near_taps = 11, .vector = 8};
  for (const LaunchConfig& t : window_configs(facts, costs)) EXPECT_LE(t.near * t.far * 121, 1600);
}

TEST(Windows, ThreadsHoldAFewDozenSums) {
  const WindowFacts facts{.results = 1 << 26, .taps = 9, .near = 56, .far = 56, .near_taps = 3, .vector = 8};
  for (const LaunchConfig& t : window_configs(facts, costs)) EXPECT_LE(t.near * t.far * t.vector, 64);
}

TEST(Windows, FewResultsAreSpreadOverTheMachine) {
  const WindowFacts large{.results = 1 << 26, .taps = 49, .near = 14, .far = 14, .near_taps = 7, .vector = 8};
  WindowFacts small = large;
  small.results = 384 * 14 * 14;
  auto results = [](const LaunchConfig& t) { return t.near * t.far * t.vector; };
  EXPECT_LT(results(window_configs(small, costs)[0]), results(window_configs(large, costs)[0]));
}

TEST(Windows, DimensionsOfUnknownSizeHaveRunsThatAreSureToFit) {
  const WindowFacts facts{
      .results = 1 << 26, .taps = 9, .near = 3, .far = 1, .near_taps = 3, .vector = 4, .near_known = false};
  EXPECT_LE(window_configs(facts, costs)[0].near, 3);
}

TEST(ConvolutionChoice, OneChannelAGroupIsASumOverWindows) {
  EXPECT_TRUE(computes_by_windows({DType::BF16, 1, 1, 49}));
  EXPECT_TRUE(computes_by_windows({DType::F32, 1, 2, 9}));
}

TEST(ConvolutionChoice, ProductsOfMatricesAreTheLibrarys) {
  EXPECT_FALSE(computes_by_windows({DType::BF16, 4, 4, 9}));
  EXPECT_FALSE(computes_by_windows({DType::BF16, 1, 64, 49}));  // a picture of one channel
}

TEST(ConvolutionChoice, WhatIsNotKnownOrTooLargeIsTheLibrarys) {
  EXPECT_FALSE(computes_by_windows({DType::BF16, 1, 1, std::nullopt}));
  EXPECT_FALSE(computes_by_windows({DType::BF16, 1, std::nullopt, 9}));
  EXPECT_FALSE(computes_by_windows({DType::BF16, 1, 1, 31 * 31}));
  EXPECT_FALSE(computes_by_windows({DType::I32, 1, 1, 9}));
}

TEST(ConvolutionChoice, PartsOfAWeightsGradientStaySmallBesideTheOperands) {
  EXPECT_EQ(weight_gradient_parts(7, 7, 768, 49), 1);
  const std::int64_t parts = weight_gradient_parts(64 * 56, 56, 96, 9);
  EXPECT_GT(parts, 100);
  EXPECT_LE(parts * 9 * 4 * 8, 64 * 56 * 56 * 2);
}

}  // namespace
}  // namespace coil
