// The generator of random numbers: Random123's known answers, and the same bits for one element, for vectors of
// elements anywhere, and for neighbours.
#include <gtest/gtest.h>

#include <cstring>

#include "codegen/cpp/prelude.h"
#include "kernel_library.h"

namespace coil::codegen {
namespace {

using test::KernelLibrary;

class PreludeRandom : public testing::TestWithParam<std::string> {
 protected:
  Toolchain toolchain = find_toolchain("", GetParam());
  std::string with_prelude(const std::string& kernels) const {
    return prelude(toolchain.lanes, prelude_names(kernels)) + kernels;
  }
};

TEST_P(PreludeRandom, KnownAnswers) {
  // Random123's kat_vectors, `philox4x32 10`: counter, key, words.
  const std::uint32_t answers[][10] = {
      {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
      {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
       0x6d5451fd},
      {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
       0x24126ea1},
  };
  KernelLibrary library(toolchain, with_prelude(R"(
extern "C" void one(void* const* b, const long*, long, long) {
  u32* w = (u32*)b[0];
  c_philox(w[0], w[1], w[2], w[3], w[4], w[5]);
}
extern "C" void many(void* const* b, const long*, long, long) {
  u32* w = (u32*)b[0];
  u64h x[4];
  for (int k = 0; k < 4; ++k) x[k] = u64h{} + (u64)w[k];
  c_philox(x[0], x[1], x[2], x[3], (u64)w[4], (u64)w[5]);
  for (int k = 0; k < 4; ++k) w[k] = (u32)x[k][COIL_L / 2 - 1];
}
)"));
  for (const auto& answer : answers)
    for (const char* kernel : {"one", "many"}) {
      std::uint32_t words[6];
      std::memcpy(words, answer, sizeof words);
      void* buffers[] = {words};
      library[kernel](buffers, nullptr, 0, 1);
      for (int k = 0; k < 4; ++k) EXPECT_EQ(words[k], answer[6 + k]) << kernel << " word " << k;
    }
}

TEST_P(PreludeRandom, EveryWayToDrawGivesTheSame) {
  KernelLibrary library(toolchain, with_prelude(R"(
extern "C" void one(void* const* b, const long* s, long begin, long end) {
  for (long i = begin; i < end; ++i) ((u32*)b[0])[i - begin] = c_random(s[0], s[1], i);
}
extern "C" void lanes(void* const* b, const long* s, long begin, long end) {
  for (long i = begin; i < end; i += COIL_L) {
    u32v x = c_random(s[0], s[1], c_iota_i64v(i));
    __builtin_memcpy((u32*)b[0] + (i - begin), &x, sizeof x);
  }
}
extern "C" void row(void* const* b, const long* s, long begin, long end) {
  c_random_row q;
  for (long i = begin; i < end; i += COIL_L) {
    u32v x = c_random_at(q, s[0], s[1], i);
    __builtin_memcpy((u32*)b[0] + (i - begin), &x, sizeof x);
  }
}
extern "C" void jumps(void* const* b, const long* s, long begin, long end) {
  c_random_row q;
  for (long step = 0; step < 5; ++step)
    for (long i = begin + step * COIL_L; i < end; i += 5 * COIL_L) {
      u32v x = c_random_at(q, s[0], s[1], i);
      __builtin_memcpy((u32*)b[0] + (i - begin), &x, sizeof x);
    }
}
)"));
  const long scalars[] = {static_cast<long>(0x9876543210abcdefu), 7};
  for (long begin : {0l, 3l, 60l, 64l, 1000001l, (1l << 34) - 40}) {
    const long count = 240;
    std::vector<std::uint32_t> want(count + 16), got(count + 16);
    void* to_want[] = {want.data()};
    void* to_got[] = {got.data()};
    library["one"](to_want, scalars, begin, begin + count);
    for (const char* kernel : {"lanes", "row", "jumps"}) {
      std::fill(got.begin(), got.end(), 0u);
      library[kernel](to_got, scalars, begin, begin + count);
      for (long i = 0; i < count; ++i)
        ASSERT_EQ(got[static_cast<std::size_t>(i)], want[static_cast<std::size_t>(i)])
            << kernel << " element " << begin + i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, PreludeRandom, testing::ValuesIn(test::tested_isas()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace coil::codegen
