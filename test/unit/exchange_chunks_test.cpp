#include "scheduler/exchange_chunks.h"

#include <gtest/gtest.h>

#include "passes/wrapper/chunk_collectives.h"
#include "target/target.h"
#include "wrapper/text.h"

namespace coil {
namespace {

using scheduler::ChunkTime;

/// Two stages that take these times in one piece, and something more for each chunk.
scheduler::ChunkTimes stages(double first, double second, double each) {
  return [=](std::size_t count) {
    const auto n = static_cast<double>(count);
    return std::vector<ChunkTime>(count, {first / n + each, second / n + each});
  };
}

TEST(ExchangeChunks, EachStageTakesOneChunkAfterTheOther) {
  EXPECT_DOUBLE_EQ(scheduler::pipelined_seconds(std::vector<ChunkTime>{{4, 2}}), 6);
  EXPECT_DOUBLE_EQ(scheduler::pipelined_seconds(std::vector<ChunkTime>{{2, 1}, {2, 1}}), 5);
  EXPECT_DOUBLE_EQ(scheduler::pipelined_seconds(std::vector<ChunkTime>{{1, 3}, {1, 3}}), 7);
}

TEST(ExchangeChunks, AsManyAsGainAndNoMore) {
  EXPECT_EQ(scheduler::choose_chunks(stages(8, 8, 0), 4), 4U);
  EXPECT_EQ(scheduler::choose_chunks(stages(8, 8, 2), 8), 2U);
  EXPECT_EQ(scheduler::choose_chunks(stages(8, 8, 8), 8), 1U);
  EXPECT_EQ(scheduler::choose_chunks(stages(100, 1, 0), 8), 1U) << "a hundredth is not worth it";
}

/// One product of `rows` rows of 4,096 in bf16, and its sum.
wrapper::Program product_and_sum(int rows, const std::string& product) {
  const std::string text = fmt::format(R"(wrapper main() on cuda:0:
buffer x : bf16[{0}, 4096] {{[4096, 1]}} input on cuda:0 "x"
buffer w : bf16[4096, 4096] {{[4096, 1]}} input on cuda:0 "w"
buffer s : bf16[{0}, 4096] {{[4096, 1]}} output on cuda:0
extern s = {1}
extern s = all_reduce(s) group="default" reduce="sum"
extern s = wait_collective(s)
output "output" = s
)",
                                       rows, product);
  return wrapper::parse(text);
}

struct Case {
  int rows;
  const char* product;
  std::int64_t chunks;
  std::size_t found;
  const char* reason;
};

TEST(ExchangeChunks, WhatIsCutAndWhatIsNotSaysWhy) {
  const Case cases[] = {
      {1024, "matmul(x, w)", 4, 4, ""},
      {1000, "matmul(x, w)", 3, 3, ""},  // in whole tiles, and a last one of what is left
      {8192, "matmul(x, w)", wrapper::kChunksByModel, 8, ""},
      {64, "matmul(x, w)", wrapper::kChunksByModel, 1, "it is too small"},
      {256, "matmul(x, w)", wrapper::kChunksByModel, 1,
       "by the model no chunks gain"},  // half of the tiles take as long
      {1, "matmul(x, w)", 2, 1, "there are no rows to cut"},
      {1024, "matmul(x, w, x) post=[\"add\"]", 2, 1, "the product goes on with other operands"},
  };
  for (const Case& c : cases) {
    wrapper::Program p = product_and_sum(c.rows, c.product);
    wrapper::chunk_collectives(p, target::cuda(0, "sm_90").costs, c.chunks);
    wrapper::verify_calls(p);
    ASSERT_EQ(p.chunk_notes.size(), 1U);
    EXPECT_EQ(p.chunk_notes[0].what, "all_reduce of s");
    EXPECT_EQ(p.chunk_notes[0].chunks, c.found) << c.rows << " " << c.product << ": " << p.chunk_notes[0].reason;
    EXPECT_EQ(p.chunk_notes[0].reason, c.reason) << c.rows;
    EXPECT_EQ(p.lines.size(), 3 * c.found);
  }
}

}  // namespace
}  // namespace coil
