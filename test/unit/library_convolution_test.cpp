#include "runtime/ops/convolution.h"

#include <algorithm>

#include "runtime/device/threads.h"
#include "runtime/ops/panel/depthwise.h"
#include "runtime/ops/panel/few_results.h"
#include "runtime/ops/panel/windows.h"
#include "runtime_calls.h"
#include "support/cpu.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

using V = BoundView;

struct Case {
  const char* name;
  Sizes x, weight;  ///< weight as torch has it
  Sizes stride, padding, dilation;
  std::int64_t groups = 1;
  bool transposed = false;
  Sizes output_padding = {};
};

Sizes result_sizes(const Case& c) {
  Sizes y = {c.x[0], c.transposed ? c.weight[1] * c.groups : c.weight[0]};
  for (std::size_t d = 0; d + 2 < c.x.size(); ++d) {
    const std::int64_t reach = (c.weight[d + 2] - 1) * c.dilation[d] + 1;
    y.push_back(c.transposed ? (c.x[d + 2] - 1) * c.stride[d] - 2 * c.padding[d] + reach +
                                   (c.output_padding.empty() ? 0 : c.output_padding[d])
                             : (c.x[d + 2] + 2 * c.padding[d] - reach) / c.stride[d] + 1);
  }
  return y;
}

/// By scattering each element of x through the kernel: the other way round than the runtime's loops.
std::vector<double> reference(const Case& c, const Operands& in, const Sizes& y) {
  std::vector<double> result(static_cast<std::size_t>(numel(y)));
  const Sizes steps = contiguous_strides(y), weight_steps = contiguous_strides(c.weight);
  std::vector<double> weight;
  for_each_index(c.weight, [&](const Sizes& i) { weight.push_back(in.value(1, i)); });
  const std::int64_t in_group = c.x[1] / c.groups, out_group = y[1] / c.groups;
  const Sizes kernel(c.weight.begin() + 2, c.weight.end());
  for_each_index(c.x, [&](const Sizes& ix) {
    const double value = in.value(0, ix);
    for (std::int64_t o = 0; o < out_group; ++o) {
      for_each_index(kernel, [&](const Sizes& k) {
        const std::int64_t group = ix[1] / in_group, channel = group * out_group + o;
        std::int64_t offset = ix[0] * steps[0] + channel * steps[1];
        std::int64_t place = c.transposed ? ix[1] * weight_steps[0] + o * weight_steps[1]
                                          : channel * weight_steps[0] + ix[1] % in_group * weight_steps[1];
        for (std::size_t d = 0; d < k.size(); ++d) {
          std::int64_t at = c.transposed ? ix[d + 2] * c.stride[d] - c.padding[d] + k[d] * c.dilation[d]
                                         : ix[d + 2] + c.padding[d] - k[d] * c.dilation[d];
          if (!c.transposed) {
            if (at % c.stride[d] != 0) return;
            at /= c.stride[d];
          }
          if (at < 0 || at >= y[d + 2]) return;
          offset += at * steps[d + 2];
          place += k[d] * weight_steps[d + 2];
        }
        result[static_cast<std::size_t>(offset)] += value * weight[static_cast<std::size_t>(place)];
      });
    }
  });
  return result;
}

Attributes attributes_of(const Case& c) {
  return {{"stride", c.stride},
          {"padding", c.padding},
          {"dilation", c.dilation},
          {"groups", c.groups},
          {"transposed", std::int64_t{c.transposed}}};
}

V channels_last(const Sizes& sizes, DType dtype) {
  V v{dtype, sizes, Sizes(sizes.size())};
  std::int64_t step = sizes[1];
  v.strides[1] = 1;
  for (std::size_t d = sizes.size() - 1; d >= 2; --d) {
    v.strides[d] = step;
    step *= sizes[d];
  }
  v.strides[0] = step;
  return v;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"3x3", {2, 16, 7, 9}, {32, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {"first layer", {1, 3, 12, 12}, {16, 3, 7, 7}, {2, 2}, {3, 3}, {1, 1}},
      {"1x1 strided", {1, 32, 8, 8}, {16, 32, 1, 1}, {2, 2}, {0, 0}, {1, 1}},
      {"odd channels", {1, 5, 6, 6}, {7, 5, 3, 2}, {1, 2}, {1, 0}, {1, 1}},
      {"dilated", {1, 8, 9, 9}, {8, 8, 3, 3}, {1, 1}, {2, 2}, {2, 2}},
      {"depthwise", {2, 32, 8, 8}, {32, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 32},
      {"depthwise multiplier", {1, 4, 6, 6}, {8, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 4},
      {"grouped", {1, 24, 6, 6}, {16, 12, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 2},
      {"1d", {2, 6, 20}, {10, 6, 5}, {2}, {2}, {1}},
      {"3d", {1, 3, 5, 6, 7}, {4, 3, 2, 3, 3}, {1, 2, 1}, {0, 1, 1}, {1, 1, 1}},
      {"transposed", {1, 8, 5, 5}, {8, 6, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, true},
      {"transposed with output padding", {1, 8, 5, 5}, {8, 6, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, true, {1, 1}},
      {"transposed grouped dilated", {1, 8, 5, 5}, {8, 3, 3, 3}, {1, 2}, {0, 1}, {2, 1}, 2, true},
      {"transposed 1d", {2, 4, 7}, {4, 5, 4}, {3}, {0}, {1}, 1, true},
      {"transposed 2x2", {2, 19, 6, 5}, {19, 70, 2, 2}, {2, 2}, {0, 0}, {1, 1}, 1, true},
      {"transposed with gaps", {1, 9, 4, 3}, {9, 12, 2, 1}, {3, 2}, {0, 0}, {1, 1}, 1, true, {2, 1}},
      {"transposed 1d to places", {1, 16, 37}, {16, 24, 7}, {4}, {2}, {1}, 1, true, {3}},
      {"one place", {3, 20, 1, 1}, {70, 20, 1, 1}, {1, 1}, {0, 0}, {1, 1}},
      {"few results", {1, 9, 5, 35}, {3, 9, 3, 3}, {2, 1}, {1, 1}, {1, 1}},
      {"few results dilated", {1, 9, 4, 36}, {4, 9, 2, 3}, {1, 1}, {0, 3}, {2, 3}},
      {"few results 1d", {2, 10, 50}, {1, 10, 7}, {1}, {3}, {1}},
      {"few results 3d", {1, 8, 2, 3, 33}, {2, 8, 2, 3, 2}, {1, 2, 1}, {1, 0, 1}, {1, 1, 1}},
  };
  return all;
}

TEST(Convolution, AgreesWithTheDefinitionInBothLayouts) {
  for (const Case& c : cases()) {
    for (DType dtype : {DType::F32, DType::BF16, DType::F16, DType::F64, DType::I32}) {
      for (bool last : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {}", c.name, short_name(dtype), last ? "channels last" : "contiguous"));
        const Sizes sizes = result_sizes(c);
        auto layout = [&](const Sizes& s) { return last ? channels_last(s, dtype) : dense_view(dtype, s); };
        Operands in;
        in.add(layout(c.x));
        in.add(layout(c.weight));
        in.add(dense_view(dtype, {sizes[1]}));
        std::vector<double> expected = reference(c, in, sizes);
        std::size_t i = 0;
        for_each_index(sizes, [&](const Sizes& at) { expected[i++] += in.value(2, {at[1]}); });
        Attributes attributes = attributes_of(c);
        attributes["has_bias"] = 1;
        expect_near(run("convolution", attributes, in, layout(sizes)), expected, tolerance(dtype));
      }
    }
  }
}

TEST(Convolution, PackedWeightsServeEveryBatchSize) {
  for (const Case& c : cases()) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      SCOPED_TRACE(fmt::format("{} {}", c.name, short_name(dtype)));
      Operands in;
      in.add(channels_last(c.x, dtype));
      in.add(dense_view(dtype, c.weight));
      const Sizes hint = result_sizes(c);
      auto packed = pack_operand("convolution", attributes_of(c), in.views, std::vector<V>{channels_last(hint, dtype)},
                                 1, in.tensors[1], machine_isa());
      if (!packed) continue;
      for (std::int64_t batch : {1, 3}) {
        Case now = c;
        now.x[0] = batch;
        Operands other;
        other.add(channels_last(now.x, dtype));
        other.use(in.views[1], in.tensors[1]);
        const std::vector<double> expected = reference(now, other, result_sizes(now));
        other.use({DType::U8, packed->bytes.sizes, {1}}, packed->written(), 1);
        Attributes attributes = attributes_of(c);
        attributes.insert(packed->attributes.begin(), packed->attributes.end());
        expect_near(run("convolution", attributes, other, channels_last(result_sizes(now), dtype)), expected,
                    tolerance(dtype));
      }
    }
  }
}

TEST(Convolution, AppliesPostOperationsInOrder) {
  const Case c = cases()[0];
  const Sizes y = result_sizes(c);
  for (DType dtype : {DType::F32, DType::F64}) {
    for (bool last : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", short_name(dtype), last ? "channels last" : "contiguous"));
      auto layout = [&](const Sizes& s) { return last ? channels_last(s, dtype) : dense_view(dtype, s); };
      Operands in;
      in.add(layout(c.x));
      in.add(dense_view(dtype, c.weight));
      in.add(dense_view(dtype, y));              // added after relu, in another layout than y
      in.add({dtype, {y[1], 1, 1}, {1, 1, 1}});  // one factor for each channel
      in.add(channels_last(y, dtype));
      std::vector<double> expected = reference(c, in, y);
      std::size_t i = 0;
      for_each_index(y, [&](const Sizes& at) {
        double& e = expected[i++];
        e = (std::max(0.0, e) + in.value(2, at)) * in.value(3, {at[1], 0, 0}) + in.value(4, at);
        e = std::min(6.0, std::max(-1.0, e));
      });
      Attributes attributes = attributes_of(c);
      attributes["post"] = std::vector<std::string>{"relu", "add", "mul", "add", "clip:-1:6"};
      expect_near(run("convolution", attributes, in, layout(y)), expected, tolerance(dtype) * 4);
    }
  }
}

/// A convolution by one of Coil's own forms, with a bias and post-operations, in both layouts, on one thread and
/// several.
void expect_form_agrees(const Case& c, const Packed& packed, Operands given) {
  const Sizes y = result_sizes(c);
  for (bool last : {false, true}) {
    SCOPED_TRACE(fmt::format("{} {}", c.name, last ? "channels last" : "contiguous"));
    Sizes factors(c.x.size() - 1, 1);
    factors[0] = y[1];
    const auto layout = [&](const Sizes& s) { return last ? channels_last(s, DType::F32) : dense_view(DType::F32, s); };
    Operands in;
    in.add(layout(c.x));
    in.use(given.views[1], given.tensors[1]);
    in.add({DType::F32, {y[1]}, {2}});
    in.add(dense_view(DType::F32, y));
    in.add(dense_view(DType::F32, factors));
    in.add({DType::F32, y, Sizes(y.size(), 0)});
    std::vector<double> expected = reference(c, in, y);
    std::size_t i = 0;
    for_each_index(y, [&](const Sizes& at) {
      double& e = expected[i++];
      e = std::max(0.0, e + in.value(2, {at[1]})) + in.value(3, at);
      Sizes channel(factors.size());
      channel[0] = at[1];
      e = std::clamp(e * in.value(4, channel) + in.value(5, at) + 2, -1.0, 9.0);
    });
    Attributes attributes = attributes_of(c);
    attributes.insert(packed.attributes.begin(), packed.attributes.end());
    attributes["has_bias"] = 1;
    attributes["post"] = std::vector<std::string>{"relu", "add", "mul", "add", "sum", "clip:-1:9"};
    in.use({DType::U8, packed.bytes.sizes, {1}}, packed.bytes, 1);
    for (const int threads : {1, 3}) {
      set_threads(threads);
      expect_near(run("convolution", attributes, in, layout(y), 2), expected, 3e-5);
    }
    set_threads(0);
  }
}

constexpr std::string_view kNarrow = "avx2";

/// Those of this machine; what is packed for narrower vectors runs with wider ones too.
std::vector<std::string_view> isas_with_loops() {
  std::vector<std::string_view> all;
  for (const std::string_view isa : {kNarrow, std::string_view("avx512")})
    if (machine_runs(isa)) all.push_back(isa);
  return all;
}

TEST(Convolution, OwnFormsAgreeWithTheDefinition) {
  if (!machine_runs(kNarrow)) GTEST_SKIP() << "these loops are for AVX2 and AVX-512";
  std::vector<Case> all = cases();
  all.push_back({"several stretches", {1, 90, 8, 9}, {66, 90, 3, 3}, {1, 1}, {1, 1}, {1, 1}});
  all.push_back({"many rows", {1, 16, 20, 33}, {130, 16, 1, 1}, {1, 1}, {0, 0}, {1, 1}});
  // Some blocks of these have all their windows within a line, some reach over its ends.
  all.push_back({"a long sequence", {2, 9, 1501}, {20, 9, 3}, {2}, {1}, {1}});
  all.push_back({"a long sequence, windows whole", {1, 24, 1000}, {40, 24, 4}, {3}, {0}, {1}});
  all.push_back({"lines of pictures", {2, 8, 3, 700}, {17, 8, 1, 5}, {2, 1}, {0, 2}, {1, 1}});
  all.push_back({"few results of several blocks", {1, 17, 9, 600}, {2, 17, 3, 1}, {1, 1}, {1, 0}, {1, 1}});
  std::size_t few = 0;
  for (const Case& c : all) {
    Operands in;
    in.add(channels_last(c.x, DType::F32));
    in.add(dense_view(DType::F32, c.weight));
    const V y = channels_last(result_sizes(c), DType::F32);
    const ConvolutionProblem problem = convolution_problem(attributes_of(c), in.views, std::span(&y, 1));
    for (const std::string_view isa : isas_with_loops()) {
      const auto windows = panels::pack_any_windows(problem, in.tensors[1], isa);
      ASSERT_TRUE(windows);
      expect_form_agrees(c, *windows, in);
    }
    const auto packed = panels::pack_few_results(problem, in.tensors[1], kNarrow);
    if (packed) expect_form_agrees(c, *packed, in);
    few += packed.has_value();
  }
  EXPECT_EQ(few, 5U);
}

TEST(Convolution, DepthwiseLoopsAgreeWithTheDefinition) {
  if (!machine_runs(kNarrow)) GTEST_SKIP() << "these loops are for AVX2 and AVX-512";
  const std::vector<Case> all = {
      {"part of a vector", {2, 5, 7, 9}, {5, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 5},
      {"several panels, stride", {1, 83, 9, 41}, {83, 1, 3, 5}, {2, 3}, {1, 2}, {1, 1}, 83},
      {"dilated signal, far padding", {2, 32, 75}, {32, 1, 3}, {1}, {16}, {16}, 32},
      {"padding beyond the input", {1, 16, 3}, {16, 1, 5}, {1}, {8}, {4}, 16},
      {"volume", {1, 18, 4, 5, 6}, {18, 1, 3, 2, 3}, {1, 2, 1}, {1, 0, 1}, {1, 1, 2}, 18},
  };
  for (const Case& c : all) {
    Operands in;
    in.add(channels_last(c.x, DType::F32));
    in.add(dense_view(DType::F32, c.weight));
    const V y = channels_last(result_sizes(c), DType::F32);
    const ConvolutionProblem problem = convolution_problem(attributes_of(c), in.views, std::span(&y, 1));
    const auto packed = panels::pack_any_depthwise(problem, in.tensors[1], kNarrow);
    ASSERT_TRUE(packed) << c.name;
    expect_form_agrees(c, *packed, in);
  }
}

TEST(Convolution, DepthwiseLoopsAreTakenWhereOneDnnHasNoneForGroupsOfOneChannel) {
  if (!machine_runs("avx512") || !machine_isa().starts_with("avx512")) GTEST_SKIP() << "these loops are for AVX-512";
  Operands in;
  in.add(channels_last({2, 64, 200}, DType::F32));
  in.add(dense_view(DType::F32, {64, 1, 3}));
  const V y = channels_last({2, 64, 200}, DType::F32);
  const auto is_own = [&](std::int64_t dilation) {
    const Attributes attributes = {{"groups", 64}, {"padding", Sizes{dilation}}, {"dilation", Sizes{dilation}}};
    const auto packed =
        pack_operand("convolution", attributes, in.views, std::span(&y, 1), 1, in.tensors[1], machine_isa());
    return packed && std::get<std::string>(packed->attributes.at("packed_desc")).starts_with("depthwise");
  };
  EXPECT_FALSE(is_own(1));
  EXPECT_TRUE(is_own(16));
}

TEST(Convolution, WindowsAreTakenWhereOneDnnHasNoKernel) {
  if (!machine_runs("avx512") || !machine_isa().starts_with("avx512")) GTEST_SKIP() << "these loops are for AVX-512";
  Operands in;
  in.add(channels_last({2, 64, 200}, DType::F32));
  in.add(dense_view(DType::F32, {64, 64, 3}));
  in.add(channels_last({2, 64, 200}, DType::F32));
  const V y = channels_last({2, 64, 200}, DType::F32);
  const auto form = [&](Attributes attributes) {
    const std::size_t operands = attributes.contains("post") ? 3 : 2;
    const auto packed = pack_operand("convolution", attributes, std::span(in.views).first(operands), std::span(&y, 1),
                                     1, in.tensors[1], machine_isa());
    if (!packed) return std::string();
    const auto& desc = std::get<std::string>(packed->attributes.at("packed_desc"));
    return desc.substr(0, desc.find(':'));
  };
  // A padding beyond a vector of places and an operand: by copied windows in oneDNN, and the operand by itself.
  const Attributes wide = {{"padding", Sizes{16}}, {"dilation", Sizes{16}}};
  Attributes added = wide;
  added["post"] = std::vector<std::string>{"add"};
  EXPECT_EQ(form(added), "windows");
  EXPECT_NE(form({{"padding", Sizes{1}}}), "windows");
}

bool takes_windows(const Case& c, std::string_view isa) {
  Operands in;
  in.add(channels_last(c.x, DType::F32));
  in.add(dense_view(DType::F32, c.weight));
  const V y = channels_last(result_sizes(c), DType::F32);
  return panels::pack_windows(convolution_problem(attributes_of(c), in.views, std::span(&y, 1)), in.tensors[1], isa)
      .has_value();
}

TEST(Convolution, WindowsAreTakenForSequencesAndWideGapsByAvx2) {
  if (!machine_runs(kNarrow)) GTEST_SKIP() << "without AVX2 oneDNN has no kernels";
  const auto is_window = [](const Sizes& x, const Sizes& weight, std::int64_t gap, std::string_view isa) {
    return takes_windows({"", x, weight, Sizes(x.size() - 2, 1), Sizes(x.size() - 2, 0), Sizes(x.size() - 2, gap)},
                         isa);
  };
  EXPECT_TRUE(is_window({1, 64, 200}, {64, 64, 3}, 1, kNarrow));
  EXPECT_FALSE(is_window({1, 64, 200}, {64, 64, 1}, 1, kNarrow));
  EXPECT_FALSE(is_window({1, 64, 200}, {64, 64, 3}, 1, "avx512"));
  EXPECT_TRUE(is_window({1, 64, 20, 20}, {64, 64, 3, 3}, 4, kNarrow));
  EXPECT_FALSE(is_window({1, 64, 20, 20}, {64, 64, 3, 3}, 2, kNarrow));
}

TEST(Convolution, WindowsAreTakenWhereWhatOneDnnReadsSharesOneSetOfTheCache) {
  const auto is_window = [](const Sizes& x, const Sizes& weight, std::int64_t stride) {
    const std::size_t dims = x.size() - 2;
    return takes_windows({"", x, weight, Sizes(dims, stride), Sizes(dims, 0), Sizes(dims, 1)}, "avx512");
  };
  EXPECT_TRUE(is_window({1, 512, 40}, {128, 512, 3}, 2));
  EXPECT_TRUE(is_window({1, 1024, 40}, {128, 1024, 3}, 1));
  EXPECT_TRUE(is_window({1, 512, 28, 28}, {128, 512, 1, 1}, 2));
  EXPECT_FALSE(is_window({1, 512, 40}, {128, 512, 3}, 1));
  EXPECT_FALSE(is_window({1, 512, 20}, {128, 512, 3}, 2)) << "the line is short";
  EXPECT_FALSE(is_window({1, 512, 40}, {64, 512, 3}, 2)) << "it is read once or twice";
  EXPECT_FALSE(is_window({1, 384, 40}, {128, 384, 3}, 2));
  EXPECT_FALSE(is_window({1, 1024, 28, 28}, {128, 1024, 1, 1}, 1));
}

TEST(Convolution, RefusesAFormThatAnotherConvolutionHas) {
  if (!machine_runs(kNarrow)) GTEST_SKIP() << "these loops are for AVX2 and AVX-512";
  Operands in;
  in.add(channels_last({1, 8, 8, 40}, DType::F32));
  in.add(dense_view(DType::F32, {2, 8, 3, 3}));
  const V y = channels_last({1, 2, 6, 38}, DType::F32);
  const ConvolutionProblem problem = convolution_problem({}, in.views, std::span(&y, 1));
  for (const auto& packed : {panels::pack_few_results(problem, in.tensors[1], kNarrow),
                             panels::pack_any_windows(problem, in.tensors[1], kNarrow)}) {
    ASSERT_TRUE(packed);
    Operands other;
    other.add(channels_last({1, 8, 8, 40}, DType::F32));
    other.use({DType::U8, packed->bytes.sizes, {1}}, packed->bytes);
    Attributes attributes = packed->attributes;
    attributes["weight_sizes"] = Sizes{20, 8, 3, 3};
    EXPECT_THROW(run("convolution", attributes, other, channels_last({1, 20, 6, 38}, DType::F32)), Error);
  }
}

TEST(Convolution, SumAddsToWhatTheOutputHolds) {
  const Case c = cases()[0];
  const Sizes y = result_sizes(c);
  for (bool last : {false, true}) {
    Operands in;
    in.add(channels_last(c.x, DType::F32));
    in.add(dense_view(DType::F32, c.weight));
    std::vector<double> expected = reference(c, in, y);
    for (double& e : expected) e = std::max(0.0, e + 2);
    Attributes attributes = attributes_of(c);
    attributes["post"] = std::vector<std::string>{"sum", "relu"};
    expect_near(run("convolution", attributes, in, last ? channels_last(y, DType::F32) : dense_view(DType::F32, y), 2),
                expected, 1e-5);
  }
}

TEST(Convolution, RefusesSizesThatDoNotFit) {
  Operands in;
  in.add(dense_view(DType::F32, {1, 4, 8, 8}));
  in.add(dense_view(DType::F32, {4, 4, 3, 3}));
  EXPECT_THROW(run("convolution", {}, in, dense_view(DType::F32, {1, 4, 8, 8})), Error);
  EXPECT_THROW(run("convolution", {{"groups", 3}}, in, dense_view(DType::F32, {1, 4, 6, 6})), Error);
  EXPECT_THROW(
      run("convolution", {{"stride", std::vector<std::int64_t>{1, 1, 1}}}, in, dense_view(DType::F32, {1, 4, 6, 6})),
      Error);
}

}  // namespace
}  // namespace coil::runtime
