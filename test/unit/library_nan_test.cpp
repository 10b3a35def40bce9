#include "runtime/ops/nan_guard.h"

#include <cmath>

#include "error_of.h"
#include "runtime/views/half.h"
#include "runtime_calls.h"

namespace coil::runtime {
namespace {

using V = BoundView;

constexpr const char* kPost[] = {"relu",     "gelu_erf",  "gelu_tanh",   "silu",  "sigmoid",        "tanh",
                                 "clip:0:6", "hardswish", "hardsigmoid", "elu:1", "leaky_relu:0.1", "scale:2:1"};

Attributes with(const std::vector<std::string>& post, const char* nan) {
  Attributes a{{"post", post}};
  if (*nan) a.emplace("nan", std::string(nan));
  return a;
}

/// x [4, 32] with NaN in row 1, a weight [48, 32].
Operands linear_operands() {
  Operands in;
  in.add(dense_view(DType::F32, {4, 32}));
  in.add(dense_view(DType::F32, {48, 32}));
  in.tensors[0].data<float>()[35] = NAN;
  return in;
}

void expect_nan_in_row_1(const std::vector<double>& y, bool there) {
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isnan(y[i]), there && i / 48 == 1) << i;
}

TEST(NanGuard, KnowsWhichPostOperationsLoseNan) {
  for (const char* post : kPost) {
    if (library_ops::info(library_ops::parse_post_op(post).kind).loses_nan) continue;
    SCOPED_TRACE(post);
    expect_nan_in_row_1(run("linear", with({post}, ""), linear_operands(), dense_view(DType::F32, {4, 48})), true);
  }
}

TEST(NanGuard, KeepsNanInEveryPostOperation) {
  for (const char* post : kPost) {
    SCOPED_TRACE(post);
    expect_nan_in_row_1(run("linear", with({post}, "keep"), linear_operands(), dense_view(DType::F32, {4, 48})), true);
  }
}

TEST(NanGuard, TheExactFormGivesWhatTheFastOneDoes) {
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    SCOPED_TRACE(short_name(dtype));
    Operands in;
    in.add(dense_view(dtype, {2, 8, 7, 7}));
    in.add(dense_view(dtype, {16, 8, 3, 3}));
    in.add(dense_view(dtype, {16}));
    in.add({dtype, {2, 16, 7, 7}, {784, 1, 112, 16}});  // the operand of add, channels last
    in.add(dense_view(dtype, {16, 1, 1}));              // of mul
    Attributes fast = with({"add", "relu", "mul", "clip:-1:0.5", "scale:2:1"}, "");
    fast["padding"] = std::vector<std::int64_t>{1, 1};
    fast["has_bias"] = std::int64_t{1};
    Attributes exact = fast, flagged = fast;
    exact["nan"] = "keep";
    flagged["nan"] = "flag";
    const V y{dtype, {2, 16, 7, 7}, {784, 1, 112, 16}};
    const auto expected = run("convolution", fast, in, y);
    expect_near(run("convolution", exact, in, y), expected, tolerance(dtype));
    for (const std::int32_t flag : {1, 0}) {
      Operands now = in;
      now.add({DType::I32, {1}, {1}});
      *now.tensors.back().data<std::int32_t>() = flag;
      expect_near(run("convolution", flagged, now, y), expected, flag ? 0 : tolerance(dtype));
    }
  }
}

TEST(NanGuard, TheFlagSaysWhenNanIsLookedFor) {
  Operands in = linear_operands();
  in.add({DType::I32, {1}, {1}});
  *in.tensors.back().data<std::int32_t>() = 0;
  expect_nan_in_row_1(run("linear", with({"relu"}, "flag"), in, dense_view(DType::F32, {4, 48})), true);
  EXPECT_TRUE(
      has(error_of([] { run("linear", with({"relu"}, "flag"), linear_operands(), dense_view(DType::F32, {4, 48})); }),
          "has no flag"));
  EXPECT_TRUE(
      has(error_of([] { run("linear", with({"relu"}, "maybe"), linear_operands(), dense_view(DType::F32, {4, 48})); }),
          "'nan' is 'maybe'"));
}

TEST(PostOps, TwoOfOneAlgorithmKeepTheirOwnNumbers) {
  for (const std::vector<std::string>& post :
       std::vector<std::vector<std::string>>{{"scale:0.5:0", "scale:1:1"},
                                             {"clip:0:6", "clip:0.5:2"},
                                             {"leaky_relu:0.1", "leaky_relu:0.5"},
                                             {"relu", "leaky_relu:0.5"},
                                             {"hardsigmoid", "scale:2:1"}}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(post, " ")));
    Operands in;
    in.add(dense_view(DType::F32, {4, 32}));
    in.add(dense_view(DType::F32, {48, 32}));
    const V y = dense_view(DType::F32, {4, 48});
    std::vector<double> expected = run("linear", {}, in, y);
    for (double& v : expected)
      for (const PostOp& op : library_ops::parse_post_ops(post)) v = apply_post_op(op, v);
    expect_near(run("linear", with(post, ""), in, y), expected, 2e-5);
  }
}

std::int32_t bounded(const V& view, const Tensor& memory, double limit, std::optional<std::int32_t> before = {}) {
  Operands in;
  in.use(view, memory);
  if (before) {
    in.add({DType::I32, {1}, {1}});
    *in.tensors.back().data<std::int32_t>() = *before;
  }
  return *run_call("all_bounded", {{"limit", limit}}, in, {{DType::I32, {1}, {1}}})[0].data<std::int32_t>();
}

TEST(AllBounded, FindsWhatLiesBeyondTheLimitWhereverItLies) {
  std::mt19937 random(3);
  for (const V& view : {V{DType::F32, {5, 7, 9}, {63, 9, 1}}, V{DType::F32, {5, 7, 9}, {1, 45, 5}},
                        V{DType::F32, {5, 7, 9}, {200, 20, 1}}, V{DType::F32, {5, 7, 9}, {0, 9, 1}},
                        V{DType::F32, {40000}, {1}}, V{DType::F32, {}, {}}}) {
    Tensor memory = random_memory(view, random);
    EXPECT_EQ(bounded(view, memory, 1), 1);
    EXPECT_EQ(bounded(view, memory, 1, 1), 1);
    EXPECT_EQ(bounded(view, memory, 1, 0), 0);
    std::vector<std::int64_t> places;
    for_each_index(view.sizes, [&](const Sizes& at) {
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < at.size(); ++d) offset += at[d] * view.strides[d];
      places.push_back(offset);
    });
    for (std::size_t i = 0; i < places.size(); i += 1 + places.size() / 97) {
      float& x = memory.data<float>()[places[i]];
      const float good = std::exchange(x, i % 4 == 0 ? NAN : i % 4 == 1 ? -INFINITY : i % 4 == 2 ? 1.0001f : -1.0001f);
      ASSERT_EQ(bounded(view, memory, 1), 0) << i;
      x = good;
    }
    EXPECT_EQ(bounded(view, memory, 1), 1);
  }
  EXPECT_EQ(bounded({DType::F32, {0, 3}, {3, 1}}, Tensor::empty(DType::F32, {1}), 1), 1);
}

TEST(AllBounded, LooksAtNarrowFloats) {
  for (const DType dtype : {DType::BF16, DType::F16}) {
    const V view{dtype, {70}, {1}};
    std::mt19937 random(4);
    Tensor memory = random_memory(view, random);
    EXPECT_EQ(bounded(view, memory, 1e12), 1);
    std::uint16_t& bits = memory.data<std::uint16_t>()[33];
    bits = 0xffff;  // NaN
    EXPECT_EQ(bounded(view, memory, 1e12), 0);
    bits = dtype == DType::BF16 ? 0x7f80 : 0x7c00;  // an infinity
    EXPECT_EQ(bounded(view, memory, 1e12), 0);
    bits = dtype == DType::BF16 ? 0x4300 : 0x5800;  // 128
    EXPECT_EQ(bounded(view, memory, 100), 0);
    EXPECT_EQ(bounded(view, memory, 128), 1);
  }
}

}  // namespace
}  // namespace coil::runtime
