// The fused attention kernel against a plain double loop, over dtypes, head dims, masks, grouped heads and ragged
// sizes.
#include "codegen/cpp/attention.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "codegen/cpp/attention_few.h"
#include "codegen/cpp/prelude.h"
#include "kernel_library.h"

namespace coil::codegen {
namespace {

/// A value as the dtype stores it, and back.
float round_to(DType dtype, float x) {
  if (dtype == DType::F16) return static_cast<float>(static_cast<_Float16>(x));
  if (dtype != DType::BF16) return x;
  std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u);
}

/// A buffer of `dtype` with float access.
struct Buffer {
  DType dtype;
  std::vector<std::byte> bytes;
  Buffer(DType d, std::size_t n) : dtype(d), bytes(n * size_of(d) + 64) {}
  void set(std::size_t i, float x) {
    std::byte* p = bytes.data() + i * size_of(dtype);
    if (dtype == DType::F32)
      std::memcpy(p, &x, 4);
    else if (dtype == DType::Bool)
      *p = std::byte(x != 0);
    else if (dtype == DType::BF16) {
      std::uint16_t h = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(round_to(dtype, x)) >> 16);
      std::memcpy(p, &h, 2);
    } else {
      _Float16 h = static_cast<_Float16>(x);
      std::memcpy(p, &h, 2);
    }
  }
  double get(std::size_t i) const {
    const std::byte* p = bytes.data() + i * size_of(dtype);
    float x;
    std::uint16_t h;
    if (dtype == DType::F32)
      std::memcpy(&x, p, 4);
    else if (dtype == DType::Bool)
      x = *p != std::byte(0);
    else if (std::memcpy(&h, p, 2); dtype == DType::BF16)
      x = std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
    else
      x = static_cast<float>(std::bit_cast<_Float16>(h));
    return x;
  }
};

enum class MaskShape { Full, SameForQueries, SomeRowsMasked, KeysReversed };

struct Case {
  long batch, heads, key_heads, queries, keys;
  bool heads_inner = false;  ///< (batch, sequence, head, dim) in memory, as projections leave it
  bool dim_outer = false;    ///< dims not side by side
  MaskShape mask = MaskShape::Full;
};

class Attention : public testing::TestWithParam<std::string> {
 protected:
  Toolchain toolchain = find_toolchain("", GetParam());

  void check(const AttentionSpec& spec, const std::vector<Case>& cases) {
    std::string text = attention_kernel(toolchain, spec, "kernel");
    test::KernelLibrary library(toolchain, prelude(toolchain.lanes, prelude_names(text)) + text);
    const long block = attention_block(toolchain);
    for (const Case& c : cases)
      check_case(spec, c, library["kernel"], c.batch * c.heads * ((c.queries + block - 1) / block));
  }

  /// The kernel of few queries, in cases in which as many of them share a key.
  void check_few(const AttentionSpec& spec, long rows, const std::vector<Case>& cases) {
    std::string text = attention_few_kernel(toolchain, spec, rows, "kernel");
    test::KernelLibrary library(toolchain, prelude(toolchain.lanes, prelude_names(text)) + text);
    const long each = attention_few_rows(toolchain, spec, rows);
    for (const Case& c : cases) {
      ASSERT_EQ(c.heads / c.key_heads * c.queries, rows);
      check_case(spec, c, library["kernel"], c.batch * c.key_heads * ((rows + each - 1) / each));
    }
  }

  void check_case(const AttentionSpec& spec, const Case& c, test::Kernel kernel, long extent) {
    SCOPED_TRACE(fmt::format("{} head dim {}/{} causal {} mask {}: B {} H {}/{} Sq {} Sk {} layout {}{}",
                             short_name(spec.dtype), spec.head_dim, spec.value_dim, spec.causal,
                             spec.mask ? short_name(*spec.mask) : "none", c.batch, c.heads, c.key_heads, c.queries,
                             c.keys, c.heads_inner, c.dim_outer));
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<long> z(static_cast<std::size_t>(AttentionScalar::Count));
    auto at = [&](AttentionScalar s) -> long& { return z[static_cast<std::size_t>(s)]; };
    using enum AttentionScalar;
    at(Batch) = c.batch, at(Heads) = c.heads, at(KeyHeads) = c.key_heads, at(Queries) = c.queries, at(Keys) = c.keys;
    // Fills four strides and a buffer.
    auto make = [&](AttentionScalar first, long heads, long length, long dim) {
      long* s = &at(first);
      if (c.dim_outer)
        s[3] = length, s[2] = 1, s[1] = length * dim, s[0] = heads * length * dim;
      else if (c.heads_inner)
        s[3] = 1, s[1] = dim, s[2] = heads * dim, s[0] = length * heads * dim;
      else
        s[3] = 1, s[2] = dim, s[1] = length * dim, s[0] = heads * length * dim;
      Buffer buffer(spec.dtype, static_cast<std::size_t>(c.batch * heads * length * dim));
      for (long i = 0; i < c.batch * heads * length * dim; ++i) buffer.set(static_cast<std::size_t>(i), normal(random));
      return buffer;
    };
    Buffer q = make(QueryBatchStride, c.heads, c.queries, spec.head_dim),
           k = make(KeyBatchStride, c.key_heads, c.keys, spec.head_dim);
    Buffer v = make(ValueBatchStride, c.key_heads, c.keys, spec.value_dim),
           out = make(OutBatchStride, c.heads, c.queries, spec.value_dim);
    Buffer mask(spec.mask.value_or(DType::F32), static_cast<std::size_t>(c.batch * c.queries * c.keys) + 1);
    if (spec.mask) {
      bool same = c.mask == MaskShape::SameForQueries;
      at(MaskBatchStride) = c.queries * c.keys, at(MaskHeadStride) = 0, at(MaskQueryStride) = same ? 0 : c.keys,
      at(MaskKeyStride) = 1;
      if (c.mask == MaskShape::KeysReversed) at(MaskKeyStride) = c.queries, at(MaskQueryStride) = 1;
      for (long i = 0; i < c.batch * c.queries * c.keys; ++i) {
        bool dead = c.mask == MaskShape::SomeRowsMasked && i / std::max(c.keys, 1l) % 3 == 1;
        float x = normal(random);
        if (*spec.mask == DType::Bool)
          x = !dead && x > -0.5f;
        else if (dead || x < -1)
          x = -INFINITY;
        mask.set(static_cast<std::size_t>(i), x);
      }
    }
    std::vector<void*> buffers{q.bytes.data(), k.bytes.data(), v.bytes.data()};
    if (spec.mask) buffers.push_back(mask.bytes.data());
    buffers.push_back(out.bytes.data());
    kernel(buffers.data(), z.data(), 0, extent / 3);
    kernel(buffers.data(), z.data(), extent / 3, extent);

    double worst = 0;
    for (long b = 0; b < c.batch; ++b) {
      for (long h = 0; h < c.heads; ++h) {
        long kh = h / (c.heads / c.key_heads);
        for (long i = 0; i < c.queries; ++i) {
          std::vector<double> p(static_cast<std::size_t>(c.keys));
          double top = -INFINITY, sum = 0;
          for (long j = 0; j < c.keys; ++j) {
            double s = 0;
            for (long d = 0; d < spec.head_dim; ++d) {
              s += q.get(static_cast<std::size_t>(b * z[5] + h * z[6] + i * z[7] + d * z[8])) *
                   k.get(static_cast<std::size_t>(b * z[9] + kh * z[10] + j * z[11] + d * z[12]));
            }
            s *= spec.scale;
            if (spec.mask) {
              double m = mask.get(
                  static_cast<std::size_t>(b * at(MaskBatchStride) + i * at(MaskQueryStride) + j * at(MaskKeyStride)));
              s += *spec.mask == DType::Bool ? (m != 0 ? 0 : -INFINITY) : m;
            }
            if (spec.causal && j > i) s = -INFINITY;
            p[static_cast<std::size_t>(j)] = s;
            top = std::max(top, s);
          }
          for (double& x : p) x = std::isinf(top) ? 0 : std::exp(x - top), sum += x;
          for (long d = 0; d < spec.value_dim; ++d) {
            double want = 0;
            for (long j = 0; j < c.keys; ++j)
              want += p[static_cast<std::size_t>(j)] *
                      v.get(static_cast<std::size_t>(b * z[13] + kh * z[14] + j * z[15] + d * z[16]));
            want = sum == 0 ? 0 : want / sum;
            double got = out.get(static_cast<std::size_t>(b * z[17] + h * z[18] + i * z[19] + d * z[20]));
            double error = std::abs(got - want);
            worst = std::isnan(error) ? INFINITY : std::max(worst, error);
          }
        }
      }
    }
    // f32: rounding of sums; f16: of the result; bf16: of the result and of the probabilities.
    EXPECT_LE(worst, spec.dtype == DType::F32 ? 1e-5 : spec.dtype == DType::F16 ? 2e-3 : 2.5e-2);
  }
};

const std::vector<Case> kCases = {
    {1, 2, 2, 128, 128, true},      {2, 2, 2, 33, 47},        {1, 1, 1, 1, 1},
    {1, 4, 2, 5, 300, true},        {1, 1, 1, 65, 1000},      {2, 4, 1, 1, 77},
    {1, 2, 2, 17, 31, false, true}, {1, 2, 1, 40, 520, true}, {1, 1, 1, 3, 0},
    {1, 6, 2, 150, 300, true},
};

TEST_P(Attention, MatchesDefinition) {
  check({.dtype = DType::F32}, kCases);
  check({.dtype = DType::BF16, .causal = true}, kCases);
  check({.dtype = DType::F32, .head_dim = 20, .value_dim = 33, .mask = DType::Bool, .causal = true, .scale = 0.2},
        {{1, 2, 1, 37, 61, true}, {1, 1, 1, 9, 700}});
}

TEST_P(Attention, VectorsOfSixteenLanesOnAnyMachine) {
  toolchain.lanes = 16;  // which the compiler makes of the machine's own
  check({.dtype = DType::F32, .causal = true}, kCases);
  check({.dtype = DType::BF16, .head_dim = 20, .value_dim = 33, .mask = DType::Bool, .scale = 0.2},
        {{1, 2, 1, 37, 61, true}, {1, 1, 1, 9, 700}, {1, 1, 1, 6, 11, false, true}});
}

TEST_P(Attention, FewQueries) {
  check_few({.dtype = DType::F32}, 1, {{2, 3, 3, 1, 77}, {1, 2, 2, 1, 520, true}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 0}});
  check_few({.dtype = DType::BF16}, 6, {{2, 3, 1, 2, 77, true}, {1, 6, 1, 1, 130}, {1, 12, 2, 1, 64}});
  check_few({.dtype = DType::F16, .head_dim = 20, .value_dim = 33, .mask = DType::Bool, .scale = 0.2}, 4,
            {{1, 2, 1, 2, 61, true}, {1, 4, 1, 1, 700}});
  toolchain.lanes = 16;
  check_few({.dtype = DType::F32, .head_dim = 128, .value_dim = 96, .mask = DType::F32}, 3,
            {{1, 3, 1, 1, 61, true}, {2, 2, 2, 3, 200}, {1, 1, 1, 3, 5, false, false, MaskShape::KeysReversed}});
  check_few({.dtype = DType::BF16, .mask = DType::BF16}, 8,
            {{1, 8, 1, 1, 100, false, false, MaskShape::SameForQueries},
             {2, 4, 2, 4, 100, true, false, MaskShape::SomeRowsMasked}});
}

class AttentionNative : public Attention {};

TEST_P(AttentionNative, Types) {
  check({.dtype = DType::F32, .causal = true}, kCases);
  check({.dtype = DType::BF16}, kCases);
  check({.dtype = DType::F16}, kCases);
}

TEST_P(AttentionNative, AnyHeadDim) {
  struct Dims {
    DType dtype;
    int head, value;
  };
  for (Dims d : {Dims{DType::F32, 8, 8},
                 {DType::F32, 7, 5},
                 {DType::F32, 128, 96},
                 {DType::BF16, 7, 9},
                 {DType::BF16, 80, 80},
                 {DType::BF16, 256, 256}}) {
    check({.dtype = d.dtype, .head_dim = d.head, .value_dim = d.value, .scale = 1 / std::sqrt(d.head)},
          {{1, 2, 1, 37, 61, true}, {1, 1, 1, 9, 700}, {1, 1, 1, 6, 11, false, true}});
  }
}

TEST_P(AttentionNative, Masks) {
  std::vector<Case> cases;
  for (MaskShape shape :
       {MaskShape::Full, MaskShape::SameForQueries, MaskShape::SomeRowsMasked, MaskShape::KeysReversed}) {
    for (Case c : {Case{2, 2, 1, 33, 47, true}, Case{1, 2, 2, 20, 530}, Case{1, 1, 1, 64, 64}}) {
      c.mask = shape;
      cases.push_back(c);
    }
  }
  check({.dtype = DType::F32, .mask = DType::Bool}, cases);
  check({.dtype = DType::F32, .mask = DType::F32, .causal = true}, cases);
  check({.dtype = DType::BF16, .mask = DType::Bool}, cases);
  check({.dtype = DType::BF16, .mask = DType::BF16}, cases);
}

INSTANTIATE_TEST_SUITE_P(Isa, Attention, testing::ValuesIn(test::tested_isas()),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Isa, AttentionNative, testing::Values("native"), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace coil::codegen
