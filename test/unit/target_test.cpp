#include "target/target.h"

#include <gtest/gtest.h>

#include "support/error.h"
#include "target/occupancy.h"

namespace coil {
namespace {

using target::Feature;

std::string error_of(const auto& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(DeviceKinds, ThoseThatAreAlwaysThereKeepTheirNumbers) {
  EXPECT_EQ(DeviceType::named("cpu").number(), 0);
  EXPECT_EQ(DeviceType::named("cuda").number(), 1);
  EXPECT_EQ(DeviceType::named("meta").number(), 2);
  EXPECT_TRUE(Device{}.is_host());
  EXPECT_FALSE(Device{DeviceType::CUDA}.is_host());
}

TEST(DeviceKinds, OthersAreRegisteredByNameOnce) {
  const DeviceType kind = DeviceType::register_kind("kinds_test");
  EXPECT_EQ(DeviceType::register_kind("kinds_test"), kind);
  EXPECT_EQ(DeviceType::named("kinds_test"), kind);
  EXPECT_EQ(to_string(Device{kind, 3}), "kinds_test:3");
  EXPECT_EQ(parse_device("kinds_test:3"), (Device{kind, 3}));
  EXPECT_EQ(parse_device("kinds_test"), (Device{kind, 0}));
}

TEST(DeviceKinds, NamesThatAreNoneAreRefused) {
  EXPECT_NE(error_of([] { parse_device("abacus:1"); }).find("unknown device 'abacus'; there are cpu, cuda, meta"),
            std::string::npos);
  for (const char* text : {"cpu:0", "meta:1", "cuda:", "cuda:x", "cuda:-1", "cuda:1:2"})
    EXPECT_NE(error_of([&] { parse_device(text); }).find("unknown device"), std::string::npos) << text;
  for (const char* name : {"", "Toy", "a b", "a:b"})
    EXPECT_NE(error_of([&] { DeviceType::register_kind(name); }).find("is no name for a kind"), std::string::npos)
        << name;
}

TEST(Target, ArchitecturesTellWhatTheirLibrariesTake) {
  EXPECT_EQ(target::cuda(0, "sm_90").largest_attention_head, 256);
  EXPECT_EQ(target::cuda(0, "sm_80").largest_attention_head, 128);
  EXPECT_EQ(target::cuda(1, "sm_100").generation, 100);
  EXPECT_TRUE(target::cuda(0, "sm_80").has(Feature::AttentionKernels));
  EXPECT_FALSE(target::cuda(0, "sm_75").has(Feature::AttentionKernels));
}

TEST(Target, CostsAreThoseOfTheGeneration) {
  const target::Costs old = target::cuda(0, "sm_80").costs, hopper = target::cuda(0, "sm_90").costs;
  EXPECT_EQ(old.blocks_of_cluster, 1);
  EXPECT_EQ(hopper.blocks_of_cluster, 8);
  EXPECT_GT(hopper.shared_bytes_of_block, old.shared_bytes_of_block);
  EXPECT_EQ(hopper.threads(), 132 * 2048);
  EXPECT_EQ(target::cpu("avx2").costs.threads(), 0);
}

TEST(Target, ClustersHoldRowsThatAreLongAndNotTooFew) {
  const target::Costs old = target::cuda(0, "sm_80").costs, hopper = target::cuda(0, "sm_90").costs;
  EXPECT_TRUE(hopper.holds_rows_in_clusters(32, 400'000));
  EXPECT_FALSE(old.holds_rows_in_clusters(32, 400'000)) << "no clusters";
  EXPECT_FALSE(hopper.holds_rows_in_clusters(8, 400'000)) << "64 blocks for 132 multiprocessors";
  EXPECT_FALSE(hopper.holds_rows_in_clusters(32, (64 << 10) - 1)) << "one block holds it";
  EXPECT_FALSE(hopper.holds_rows_in_clusters(32, (512 << 10) + 1)) << "eight blocks do not";
  EXPECT_FALSE(target::cpu("avx2").costs.holds_rows_in_clusters(32, 400'000));
}

/// As CUDA's occupancy calculator has them.
TEST(Target, OccupancyIsLimitedByWhatIsUsedUpFirst) {
  const target::Target hopper = target::cuda(0, "sm_90a"), small = target::cuda(0, "sm_86");
  const auto is = [](const std::optional<target::Occupancy>& o, int blocks, double share, std::string_view limit) {
    ASSERT_TRUE(o);
    EXPECT_EQ(o->blocks, blocks);
    EXPECT_DOUBLE_EQ(o->share, share);
    EXPECT_EQ(o->limit, limit);
  };
  is(occupancy(hopper, {.threads = 256, .registers = 32}), 8, 1, "threads");
  is(occupancy(hopper, {.threads = 32, .registers = 32}), 32, 0.5, "blocks");
  is(occupancy(hopper, {.threads = 1024, .registers = 64}), 1, 0.5, "registers");
  is(occupancy(hopper, {.threads = 128, .registers = 255}), 2, 0.125, "registers");
  is(occupancy(hopper, {.threads = 128, .registers = 32, .shared_bytes = 100 << 10}), 2, 0.125, "shared memory");
  is(occupancy(small, {.threads = 256, .registers = 32}), 6, 1, "threads");
  is(occupancy(small, {.threads = 128, .registers = 32, .shared_bytes = 100 << 10}), 0, 0, "shared memory");
  EXPECT_FALSE(occupancy(target::cpu("avx2"), {.threads = 128, .registers = 32}));
  EXPECT_FALSE(occupancy(target::metal(0), {.threads = 128, .registers = 32}));
}

/// The kernels are a GPU's and the libraries a processor's.
TEST(Target, AnEmulatedGpuIsBoth) {
  const target::Target emulated = target::emulated_cuda("avx2");
  EXPECT_TRUE(emulated.device.is_host());
  EXPECT_TRUE(emulated.has(Feature::ThreadGrids));
  EXPECT_TRUE(emulated.has(Feature::PackedWeights));
  EXPECT_GT(emulated.costs.multiprocessors, 0);
  EXPECT_FALSE(emulated.has(Feature::Attention));
  EXPECT_FALSE(emulated.has(Feature::IntegerProducts));
}

}  // namespace
}  // namespace coil
