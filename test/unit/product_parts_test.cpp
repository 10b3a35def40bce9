// Sums of products in parts: how many are worth it.
#include "passes/loop/product_parts.h"

#include <gtest/gtest.h>

namespace coil {
namespace {

using Parts = std::vector<std::int64_t>;

Parts parts(const PartFacts& facts) { return product_parts(facts, {.multiprocessors = 132}); }

TEST(ProductParts, FewTilesShareTheirSums) {
  EXPECT_EQ(parts({.rows = 256, .columns = 256, .depth = 16384}), (Parts{32, 16, 8, 4, 2, 1}));
  EXPECT_EQ(parts({.rows = 1, .columns = 4096, .depth = 4096}), (Parts{8, 4, 2, 1}));
  EXPECT_EQ(parts({.rows = 16, .columns = 11008, .depth = 4096}), (Parts{2, 1}));
}

TEST(ProductParts, ManyTilesAreEnough) {
  EXPECT_EQ(parts({.rows = 4096, .columns = 4096, .depth = 4096}), Parts{1});
  EXPECT_EQ(parts({.rows = 256, .columns = 256, .matrices = 64, .depth = 16384}), Parts{1});
}

TEST(ProductParts, PartsAreLongAndWholePieces) {
  EXPECT_EQ(parts({.rows = 64, .columns = 64, .depth = 320}), Parts{1}) << "too short";
  EXPECT_EQ(parts({.rows = 64, .columns = 64, .depth = 768}), (Parts{3, 1}));
  EXPECT_EQ(parts({.rows = 64, .columns = 64, .depth = 1000}), Parts{1}) << "1000 is no multiple of two pieces";
  EXPECT_EQ(parts({.rows = 1, .columns = 4096, .depth = 11008}), (Parts{4, 2, 1})) << "8 is no divisor of 172 pieces";
}

}  // namespace
}  // namespace coil
