#include "runtime/ops/panel/gemm.h"

#include <limits>
#include <set>
#include <string_view>

#include "runtime/ops/panel/kernels.h"
#include "runtime/views/half.h"
#include "runtime_calls.h"
#include "support/cpu.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

using V = BoundView;
using panels::Element;

/// The loops for one instruction set.
class PanelKernels : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
#ifdef __x86_64__
    if (machine_runs(GetParam())) kernels = GetParam() == std::string_view("avx2") ? &panels::kAvx2 : &panels::kAvx512;
#endif
    if (!kernels) GTEST_SKIP() << "for machines with " << GetParam();
  }
  const panels::Kernels* kernels = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Panels, PanelKernels, testing::Values("avx2", "avx512"),
                         [](const auto& info) { return std::string(info.param); });

class PanelGemm : public PanelKernels {};

INSTANTIATE_TEST_SUITE_P(Panels, PanelGemm, testing::Values("avx2", "avx512"),
                         [](const auto& info) { return std::string(info.param); });

std::vector<float> random_floats(std::size_t n) {
  static std::mt19937 random(11);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 33) - 16) / 8;
  return values;
}

void multiply_some(const panels::Kernels& kernels, int vectors, int rows, std::int64_t k, bool add) {
  SCOPED_TRACE(fmt::format("vectors {} k {} rows {} add {}", vectors, k, rows, add));
  const auto width = static_cast<std::size_t>(kernels.width), n = static_cast<std::size_t>(rows),
             depth = static_cast<std::size_t>(k), columns = static_cast<std::size_t>(vectors * kernels.lanes),
             step = columns + 2;
  const std::vector<float> a = random_floats(n * (depth + 5)), panel = random_floats(depth * step + 1);
  std::vector<float> sum = random_floats(n * width), expected = sum;
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t c = 0; c < columns; ++c) {
      if (!add) expected[r * width + c] = 0;
      for (std::size_t i = 0; i < depth; ++i) expected[r * width + c] += a[r * (depth + 5) + i] * panel[i * step + c];
    }
  kernels.multiply({.a = a.data(),
                    .a_step = k + 5,
                    .panel = panel.data(),
                    .panel_step = static_cast<std::int64_t>(step),
                    .k = k,
                    .sum = sum.data(),
                    .sum_step = kernels.width,
                    .add = add,
                    .vectors = vectors,
                    .rows = rows,
                    .ahead = reinterpret_cast<const char*>(panel.data()),
                    .lines = 2});
  EXPECT_EQ(sum, expected);  // multiples of 1/64 below 2^17: exact in any order
}

TEST_P(PanelKernels, MultiplyEveryNumberOfRowsAndVectors) {
  for (int vectors = 1; vectors * kernels->lanes <= kernels->width; ++vectors)
    for (const std::int64_t k : {0, 1, 3, 4, 9, 70, 701})
      for (int rows = 1; rows <= kernels->rows[vectors]; ++rows)
        for (const bool add : {false, true}) multiply_some(*kernels, vectors, rows, k, add);
}

/// After 2^24 f32 has no room for ones: what one that is added loses shows how long a run of products is.
TEST_P(PanelKernels, LongSumsAreAddedUpInRuns) {
  constexpr std::int64_t kDepth = 4096, kLongestRun = 400;
  const std::vector<float> ones(static_cast<std::size_t>(kDepth * kernels->width), 1.0f);
  std::vector<float> a(static_cast<std::size_t>(kDepth), 1.0f), sum(static_cast<std::size_t>(kernels->width));
  a[0] = 0x1p24f;
  kernels->multiply({.a = a.data(),
                     .a_step = kDepth,
                     .panel = ones.data(),
                     .panel_step = kernels->width,
                     .k = kDepth,
                     .sum = sum.data(),
                     .sum_step = kernels->width});
  EXPECT_GE(sum[0], 0x1p24f + kDepth - kLongestRun);
}

TEST_P(PanelKernels, WidenAndRoundAsTheScalarTypesDo) {
  std::vector<float> values = random_floats(61);
  for (const float special : {0.f, -0.f, 1e-40f, 6e-8f, 3e38f, 65519.f, 65520.f, 1.00390625f, 1.01171875f,
                              std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()})
    values.push_back(special);
  for (const Element element : {Element::BF16, Element::F16}) {
    SCOPED_TRACE(element == Element::F16 ? "f16" : "bf16");
    auto bits_of = [&](float v) {
      return element == Element::F16 ? std::bit_cast<std::uint16_t>(static_cast<F16>(v)) : BF16(v).bits;
    };
    auto is_nan = [&](std::uint16_t bits) {
      return element == Element::F16 ? (bits & 0x7fff) > 0x7c00 : (bits & 0x7fff) > 0x7f80;
    };
    for (std::size_t first = 0; first < values.size(); first += static_cast<std::size_t>(kernels->width)) {
      const std::size_t count = std::min(values.size() - first, static_cast<std::size_t>(kernels->width));
      std::vector<float> sum(static_cast<std::size_t>(kernels->width)), wide(count + 1, 7);
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(first), count, sum.begin());
      std::vector<std::uint16_t> y(count + 1, 0x1234);
      kernels->finish(
          {.sum = sum.data(), .rows = 1, .columns = static_cast<int>(count), .y = y.data(), .element = element});
      kernels->widen(wide.data(), y.data(), element, static_cast<std::int64_t>(count));
      for (std::size_t i = 0; i < count; ++i) {
        if (is_nan(bits_of(sum[i]))) {
          EXPECT_TRUE(is_nan(y[i]) && wide[i] != wide[i]);
          continue;
        }
        EXPECT_EQ(y[i], bits_of(sum[i])) << sum[i];
        EXPECT_EQ(std::bit_cast<std::uint32_t>(wide[i]),
                  std::bit_cast<std::uint32_t>(element == Element::F16 ? static_cast<float>(static_cast<F16>(sum[i]))
                                                                       : static_cast<float>(BF16(sum[i]))));
      }
      EXPECT_EQ(y[count], 0x1234);
      EXPECT_EQ(wide[count], 7);
    }
  }
}

TEST_P(PanelKernels, PostOperationsAgreeWithTheirDefinitionsAndKeepNan) {
  const std::vector<std::string> names = {"relu",        "gelu_erf", "gelu_tanh",      "silu",
                                          "sigmoid",     "tanh",     "clip:-1:0.5",    "hardswish",
                                          "hardsigmoid", "elu:0.7",  "leaky_relu:0.1", "scale:2:-1"};
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const PostOp op = library_ops::parse_post_op(name);
    const panels::Post post{.kind = op.kind, .a = static_cast<float>(op.a), .b = static_cast<float>(op.b)};
    const auto width = static_cast<std::size_t>(kernels->width);
    for (int first = -2000; first <= 2000; first += kernels->width) {
      std::vector<float> sum(width), y(width);
      for (std::size_t i = 0; i < width; ++i) sum[i] = static_cast<float>(first + static_cast<int>(i)) / 100;
      sum[0] = std::numeric_limits<float>::quiet_NaN();
      kernels->finish(
          {.sum = sum.data(), .rows = 1, .columns = kernels->width, .post = &post, .posts = 1, .y = y.data()});
      EXPECT_TRUE(std::isnan(y[0]));
      for (std::size_t i = 1; i < width; ++i)
        EXPECT_NEAR(y[i], apply_post_op(op, sum[i]), 2e-6 * (1 + std::abs(sum[i]))) << sum[i];
    }
  }
}

/// Results of one row under `op`.
std::vector<float> finished(const panels::Kernels& kernels, PostOp::Kind op, std::vector<float> sum, int columns) {
  sum.resize(static_cast<std::size_t>(kernels.width));
  const panels::Post post{.kind = op};
  std::vector<float> y(static_cast<std::size_t>(columns));
  kernels.finish({.sum = sum.data(), .rows = 1, .columns = columns, .post = &post, .posts = 1, .y = y.data()});
  return y;
}

TEST_P(PanelKernels, GeluIsExactToRoundingAndHasEagersValuesAtTheEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const PostOp::Kind kind : {PostOp::Kind::GeluErf, PostOp::Kind::GeluTanh}) {
    SCOPED_TRACE(kind == PostOp::Kind::GeluErf ? "erf" : "tanh");
    const std::vector<float> ends = {infinity, -infinity, 1e30f, -1e30f, 1e10f, -1e10f, 30, -30, 0.f, -0.f, 1e-40f};
    for (const int columns : {static_cast<int>(ends.size()), kernels->width}) {
      const std::vector<float> y = finished(*kernels, kind, ends, columns);
      EXPECT_EQ(y[0], infinity);
      EXPECT_TRUE(std::isnan(y[1]));
      for (std::size_t i = 2; i < 8; ++i) EXPECT_EQ(y[i], std::max(ends[i], 0.f)) << ends[i];
      EXPECT_EQ(std::signbit(y[8]), false);
      EXPECT_EQ(std::signbit(y[9]), true);
      EXPECT_NEAR(y[10], 5e-41f, 2e-45f);
    }
    for (int first = -9000; first <= 9000; first += kernels->width) {
      std::vector<float> x;
      for (int i = 0; i < kernels->width; ++i) x.push_back(static_cast<float>(first + i) * 1.0009765625e-3f);
      const std::vector<float> y = finished(*kernels, kind, x, kernels->width);
      for (std::size_t i = 0; i < x.size(); ++i)
        EXPECT_NEAR(y[i], apply_post_op({.kind = kind}, static_cast<double>(x[i])), 1.5e-7 * std::abs(x[i])) << x[i];
    }
  }
}

TEST_P(PanelKernels, SigmoidAndSiluAreExactToRoundingAndHaveEagersValuesAtTheEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> ends = {infinity, -infinity, 1e30f, -1e30f, 200, -200, 0.f, -0.f};
  const std::vector<float> sigmoid = finished(*kernels, PostOp::Kind::Sigmoid, ends, static_cast<int>(ends.size())),
                           silu = finished(*kernels, PostOp::Kind::Silu, ends, static_cast<int>(ends.size()));
  EXPECT_EQ(sigmoid, (std::vector<float>{1, 0, 1, 0, 1, 0, 0.5f, 0.5f}));
  EXPECT_TRUE(std::isnan(silu[1]));
  for (const std::size_t i : {0, 2, 3, 4, 5, 6, 7}) EXPECT_EQ(silu[i], std::max(ends[i], 0.f)) << ends[i];
  for (int first = -80000; first <= 80000; first += kernels->width) {
    std::vector<float> x;
    for (int i = 0; i < kernels->width; ++i) x.push_back(static_cast<float>(first + i) * 1.0009765625e-3f);
    for (const PostOp::Kind kind : {PostOp::Kind::Sigmoid, PostOp::Kind::Silu}) {
      const std::vector<float> y = finished(*kernels, kind, x, kernels->width);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double wanted = apply_post_op({.kind = kind}, static_cast<double>(x[i]));
        EXPECT_NEAR(y[i], wanted, 4e-7 * std::abs(wanted)) << x[i];
      }
    }
  }
}

struct Case {
  std::int64_t m, n, k;
};

/// y = hardswish((x w + bias) * f + e) + y, by definition.
std::vector<double> expected(const Operands& in, const Case& c, double old) {
  std::vector<double> result;
  const PostOp hardswish{.kind = PostOp::Kind::HardSwish};
  for (std::int64_t i = 0; i < c.m; ++i)
    for (std::int64_t j = 0; j < c.n; ++j) {
      double sum = in.value(2, {j});
      for (std::int64_t k = 0; k < c.k; ++k) sum += in.value(0, {i, k}) * in.value(1, {j, k});
      result.push_back(apply_post_op(hardswish, sum * in.value(3, {i, 0}) + in.value(4, {i, j})) + old);
    }
  return result;
}

constexpr std::int64_t kMostOfNarrow = 1 << 22;  // multiplications in 16 bits: slow under sanitizers

TEST_P(PanelGemm, AgreesWithTheDefinitionInEveryForm) {
  std::vector<Case> cases = {{1, 64, 128}, {7, 65, 131}, {13, 130, 145}, {3, 70, 1700}, {250, 64, 132}, {40, 900, 129}};
  // Narrower panels: these have many of them, and stretches, already.
  if (kernels->width < panels::kWidestPanel) cases = {{1, 64, 128}, {7, 65, 131}, {3, 34, 1700}};
  for (const DType dtype : {DType::F32, DType::F16, DType::BF16}) {
    for (const Case& c : cases) {
      if (dtype != DType::F32 && c.m * c.n * c.k > kMostOfNarrow) continue;
      for (const DType wide : std::set{dtype, DType::F32}) {
        SCOPED_TRACE(fmt::format("{} {} {}x{}x{}", short_name(dtype), short_name(wide), c.m, c.n, c.k));
        Operands in;
        in.add({wide, {c.m, c.k}, {c.k + 3, 1}});
        in.add(dense_view(dtype, {c.n, c.k}));
        in.add(dense_view(wide, {c.n}));
        in.add(dense_view(dtype, {c.m, 1}));
        in.add({dtype, {c.m, c.n}, {1, c.m}});  // by columns: copied first
        const V y{wide, {c.m, c.n}, {c.n + 2, 1}};
        GemmProblem problem = linear_problem({}, std::span(in.views).first(2), std::span(&y, 1));
        problem.batch_invariant = GetParam() == std::string_view("avx2");  // others are oneDNN's, or are not
        auto packed = panels::pack_gemm(problem, in.tensors[1], GetParam());
        if (wide == DType::BF16 && dtype == DType::BF16 && !packed) continue;  // such products are oneDNN's here
        ASSERT_TRUE(packed);
        const std::vector<double> wanted = expected(in, c, 2);
        Attributes attributes = packed->attributes;
        attributes.insert({{"n", c.n},
                           {"k", c.k},
                           {"has_bias", 1},
                           {"post", std::vector<std::string>{"mul", "add", "hardswish", "sum"}}});
        in.use({DType::U8, packed->bytes.sizes, {1}}, packed->written(), 1);
        expect_near(run("linear", attributes, in, y, 2), wanted,
                    8 * tolerance(wide == DType::F32 ? DType::F32 : dtype));
      }
    }
  }
}

TEST(PanelChoice, WithAvx2OnlySomeRowsOfManyColumnsAreMultipliedByPanels) {
  if (!machine_runs("avx2")) GTEST_SKIP() << "without AVX2 oneDNN has no kernels";
  const auto by_panels = [](std::int64_t rows, std::int64_t columns) {
    Operands in;
    in.add(dense_view(DType::F32, {rows, 8}));
    in.add(dense_view(DType::F32, {columns, 8}));
    const V y = dense_view(DType::F32, {rows, columns});
    return panels::pack_gemm(linear_problem({}, in.views, std::span(&y, 1)), in.tensors[1], "avx2").has_value();
  };
  EXPECT_TRUE(by_panels(300, 2048));
  EXPECT_FALSE(by_panels(300, 768));
  EXPECT_FALSE(by_panels(200, 4096));
  EXPECT_FALSE(by_panels(512, 2048));
}

TEST_P(PanelGemm, TakesResultsAndOperandsInAnyLayout) {
  Operands in;
  in.add({DType::F32, {2, 3, 128}, {128, 512, 1}});  // leading dimensions exchanged
  in.add({DType::F32, {64, 128}, {259, 2}});         // a weight with gaps
  const V y{DType::F32, {2, 3, 64}, {1, 128, 2}};
  GemmProblem problem = linear_problem({}, in.views, std::span(&y, 1));
  problem.batch_invariant = true;
  auto packed = panels::pack_gemm(problem, in.tensors[1], GetParam());
  ASSERT_TRUE(packed);
  std::vector<double> wanted;
  for_each_index(y.sizes, [&](const Sizes& at) {
    double sum = 0;
    for (std::int64_t k = 0; k < 128; ++k) sum += in.value(0, {at[0], at[1], k}) * in.value(1, {at[2], k});
    wanted.push_back(sum);
  });
  Attributes attributes = packed->attributes;
  attributes.insert({{"n", 64}, {"k", 128}});
  in.use({DType::U8, packed->bytes.sizes, {1}}, packed->written(), 1);
  expect_near(run("linear", attributes, in, y), wanted, 1e-5);
}

TEST_P(PanelGemm, RefusesFormsThatItDoesNotKnow) {
  Operands in;
  in.add(dense_view(DType::F32, {16, 64}));
  in.add({DType::U8, {64 * 64 * 4}, {1}});
  auto with = [&](const std::string& form) {
    return run("linear", {{"packed_desc", form}, {"n", 64}, {"k", 64}}, in, dense_view(DType::F32, {16, 64}));
  };
  if (panels::kernels_of_this_machine().width < panels::kWidestPanel) {
    EXPECT_THROW(with("panels:64:f32"), Error);
    EXPECT_NO_THROW(with("panels:16:f32"));
    return;
  }
  EXPECT_NO_THROW(with("panels:64:f32"));
  for (const char* form :
       {"panels:", "panels:64", "panels:24:f32", "panels:128:f32", "panels:64:f64", "panels:64:f32 "})
    EXPECT_THROW(with(form), Error) << form;
  in.use({DType::U8, {64 * 64 * 4 - 1}, {1}}, in.tensors[1], 1);
  EXPECT_THROW(with("panels:64:f32"), Error);
}

}  // namespace
}  // namespace coil::runtime
