#include <algorithm>

#include "gpu_calls.h"
#include "runtime/views/view_layout.h"

namespace coil::runtime {
namespace {

using V = BoundView;

BoundView laid(DType dtype, Sizes sizes, Sizes strides) { return {dtype, std::move(sizes), std::move(strides)}; }

struct GpuLibrary : Gpu {
  void agrees(std::string_view op, const Attributes& attributes, const Operands& in, const V& out, double by,
              const Tensor* before = nullptr) {
    std::vector<double> expected;
    if (before) {
      auto call = make_library_op(op, attributes);
      call->prepare(in.views, {&out, 1});
      std::vector<const void*> inputs;
      for (const Tensor& t : in.tensors) inputs.push_back(t.bytes());
      Tensor copy = Tensor::empty(before->dtype, before->sizes);
      std::memcpy(copy.bytes(), before->bytes(), before->storage.bytes);
      void* output = copy.bytes();
      const Storage workspace = Storage::allocate(call->workspace_bytes());
      call->run(inputs, {&output, 1}, workspace.data.get());
      expected = numbers(out, copy.bytes());
    } else {
      expected = run(op, attributes, in, out);
    }
    expect_near(run_on(*queue, op, attributes, in, out, before), expected, by);
  }
};

double by(DType dtype) {
  return dtype == DType::BF16 ? 0.05 : dtype == DType::F16 ? 0.01 : dtype == DType::F32 ? 2e-4 : 1e-11;
}

TEST_F(GpuLibrary, Linear) {
  for (DType dtype : {DType::F32, DType::BF16, DType::F16, DType::F64}) {
    for (const Sizes& lead : {Sizes{}, Sizes{1}, Sizes{7}, Sizes{2, 3}, Sizes{64}}) {
      for (int transposed : {0, 1}) {
        for (const char* post : {"", "relu", "gelu_tanh"}) {
          if (dtype == DType::F64 && *post) continue;
          SCOPED_TRACE(
              fmt::format("{} [{}] transposed {} {}", short_name(dtype), fmt::join(lead, ", "), transposed, post));
          Sizes x = lead, y = lead;
          x.push_back(40);
          y.push_back(24);
          Operands in;
          in.add(dense_view(dtype, x));
          in.add(dense_view(dtype, transposed ? Sizes{40, 24} : Sizes{24, 40}));
          Attributes attributes{{"weight_transposed", transposed}};
          if (dtype != DType::F64) {
            in.add(dense_view(dtype, {24}));
            attributes["has_bias"] = 1;
          }
          if (*post) attributes["post"] = std::vector<std::string>{post};
          agrees("linear", attributes, in, dense_view(dtype, y), by(dtype));
        }
      }
    }
  }
}

/// In several products, each with a bias that begins at another element (runtime/cuda/ops/row_parts.h).
TEST_F(GpuLibrary, LinearIntoRowsThatStartAnywhere) {
  for (std::int64_t columns : {4099, 4102}) {
    SCOPED_TRACE(columns);
    Operands in;
    in.add(dense_view(DType::BF16, {8400, 64}));
    in.add(dense_view(DType::BF16, {columns, 64}));
    in.add(dense_view(DType::BF16, {columns}));
    agrees("linear", {{"has_bias", 1}}, in, dense_view(DType::BF16, {8400, columns}), by(DType::BF16));
  }
}

TEST_F(GpuLibrary, LinearOfOddSizesAndViews) {
  Operands in;
  in.add(laid(DType::BF16, {2, 3, 17}, {17, 68, 1}));
  in.add(laid(DType::BF16, {9, 17}, {35, 2}));
  in.add(laid(DType::BF16, {9}, {2}));
  agrees("linear", {{"has_bias", 1}}, in, laid(DType::BF16, {2, 3, 9}, {30, 10, 1}), by(DType::BF16));
  Operands plain;
  plain.add(dense_view(DType::F32, {5, 0}));
  plain.add(dense_view(DType::F32, {3, 0}));
  agrees("linear", {}, plain, dense_view(DType::F32, {5, 3}), 0);
}

TEST_F(GpuLibrary, LinearAddsInPlaceAndFromAside) {
  for (DType dtype : {DType::F32, DType::BF16}) {
    Operands in;
    in.add(dense_view(dtype, {12, 32}));
    in.add(dense_view(dtype, {16, 32}));
    in.add(dense_view(dtype, {16}));
    in.add(dense_view(dtype, {12, 16}));
    agrees("linear", {{"has_bias", 1}, {"post", std::vector<std::string>{"add", "relu"}}}, in,
           dense_view(dtype, {12, 16}), by(dtype));
    in.use(laid(dtype, {16}, {1}), in.tensors[3], 3);
    agrees("linear", {{"has_bias", 1}, {"post", std::vector<std::string>{"add"}}}, in, dense_view(dtype, {12, 16}),
           by(dtype));
    std::mt19937 random(3);
    const Tensor before = random_memory(dense_view(dtype, {12, 16}), random);
    Operands sums;
    sums.add(dense_view(dtype, {12, 32}));
    sums.add(dense_view(dtype, {16, 32}));
    agrees("linear", {{"post", std::vector<std::string>{"sum"}}}, sums, dense_view(dtype, {12, 16}), by(dtype),
           &before);
  }
}

TEST_F(GpuLibrary, Matmul) {
  struct Case {
    V a, b, y;
  };
  for (DType t : {DType::F32, DType::BF16}) {
    const Case cases[] = {
        {dense_view(t, {5, 8}), dense_view(t, {8, 6}), dense_view(t, {5, 6})},
        {dense_view(t, {3, 5, 8}), dense_view(t, {3, 8, 6}), dense_view(t, {3, 5, 6})},
        {dense_view(t, {3, 5, 8}), dense_view(t, {8, 6}), dense_view(t, {3, 5, 6})},
        {dense_view(t, {2, 1, 5, 8}), dense_view(t, {3, 8, 6}), dense_view(t, {2, 3, 5, 6})},
        {laid(t, {2, 4, 16, 8}, {16 * 32, 8, 32, 1}), laid(t, {2, 4, 8, 16}, {16 * 32, 8, 1, 32}),
         dense_view(t, {2, 4, 16, 16})},
        {laid(t, {4, 6}, {1, 4}), laid(t, {6, 3}, {1, 6}), laid(t, {4, 3}, {1, 4})},
        {laid(t, {4, 6}, {0, 1}), dense_view(t, {6, 3}), dense_view(t, {4, 3})},
    };
    for (const Case& c : cases) {
      SCOPED_TRACE(
          fmt::format("{} [{}] x [{}]", short_name(t), fmt::join(c.a.sizes, ", "), fmt::join(c.b.sizes, ", ")));
      Operands in;
      in.add(c.a);
      in.add(c.b);
      agrees("matmul", {}, in, c.y, by(t));
    }
  }
}

TEST_F(GpuLibrary, MatmulIntoAWiderType) {
  for (DType t : {DType::BF16, DType::F16})
    for (std::int64_t columns : {6, 8}) {
      Operands in;
      in.add(dense_view(t, {3, 5, 7}));
      in.add(dense_view(t, {3, 7, columns}));
      agrees("matmul", {}, in, dense_view(DType::F32, {3, 5, columns}), by(DType::F32));
    }
}

TEST_F(GpuLibrary, Convolution) {
  using Ints = std::vector<std::int64_t>;
  struct Case {
    const char* name;
    Sizes x, w, y;
    Attributes attributes;
  };
  const Case cases[] = {
      {"3x3", {2, 16, 9, 11}, {8, 16, 3, 3}, {2, 8, 9, 11}, {{"padding", Ints{1, 1}}}},
      {"strided 7x7",
       {1, 3, 20, 20},
       {16, 3, 7, 7},
       {1, 16, 10, 10},
       {{"padding", Ints{3, 3}}, {"stride", Ints{2, 2}}}},
      {"1x1", {2, 32, 5, 5}, {24, 32, 1, 1}, {2, 24, 5, 5}, {}},
      {"grouped", {2, 8, 8, 8}, {16, 4, 3, 3}, {2, 16, 6, 6}, {{"groups", 2}}},
      {"depthwise", {2, 16, 8, 8}, {16, 1, 3, 3}, {2, 16, 8, 8}, {{"groups", 16}, {"padding", Ints{1, 1}}}},
      {"dilated", {1, 8, 12, 12}, {8, 8, 3, 3}, {1, 8, 8, 8}, {{"dilation", Ints{2, 2}}}},
      {"uneven padding",
       {1, 8, 6, 6},
       {8, 8, 3, 3},
       {1, 8, 5, 5},
       {{"padding", Ints{0, 0}}, {"padding_end", Ints{1, 1}}}},
      {"one dimension", {2, 8, 15}, {8, 8, 3}, {2, 8, 13}, {}},
      {"transposed", {2, 8, 5, 5}, {8, 16, 2, 2}, {2, 16, 10, 10}, {{"transposed", 1}, {"stride", Ints{2, 2}}}},
  };
  for (DType t : {DType::F32, DType::BF16, DType::F16})
    for (const Case& c : cases)
      for (bool last : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {}", c.name, short_name(t), last ? "channels-last" : "contiguous"));
        auto view = [&](const Sizes& s) { return last ? channels_last(t, s) : dense_view(t, s); };
        Operands in;
        in.add(view(c.x));
        in.add(view(c.w));
        agrees("convolution", c.attributes, in, view(c.y), by(t));
        if (c.attributes.contains("transposed")) continue;
        in.add(dense_view(t, {c.y[1]}));
        Attributes with_bias = c.attributes;
        with_bias["has_bias"] = 1;
        agrees("convolution", with_bias, in, view(c.y), by(t));
        in.add(view(c.y));
        with_bias["post"] = std::vector<std::string>{"add", "relu"};
        agrees("convolution", with_bias, in, view(c.y), by(t));
      }
}

TEST_F(GpuLibrary, GradientsOfConvolutionWeights) {
  using Ints = std::vector<std::int64_t>;
  struct Case {
    const char* name;
    Sizes x, dy, dw;
    Attributes attributes;
  };
  const Case cases[] = {
      {"3x3", {2, 16, 9, 11}, {2, 8, 9, 11}, {8, 16, 3, 3}, {{"padding", Ints{1, 1}}}},
      {"strided 7x7",
       {2, 3, 21, 20},
       {2, 16, 11, 10},
       {16, 3, 7, 7},
       {{"padding", Ints{3, 3}}, {"stride", Ints{2, 2}}}},
      {"1x1", {2, 32, 5, 5}, {2, 24, 5, 5}, {24, 32, 1, 1}, {}},
      {"1x1, strided", {2, 32, 6, 6}, {2, 24, 3, 3}, {24, 32, 1, 1}, {{"stride", Ints{2, 2}}}},
      {"grouped", {2, 8, 8, 8}, {2, 16, 6, 6}, {16, 4, 3, 3}, {{"groups", 2}}},
      {"depthwise", {2, 16, 8, 8}, {2, 16, 8, 8}, {16, 1, 3, 3}, {{"groups", 16}, {"padding", Ints{1, 1}}}},
      {"dilated", {1, 8, 12, 12}, {1, 8, 8, 8}, {8, 8, 3, 3}, {{"dilation", Ints{2, 2}}}},
      {"more than windows reach", {1, 8, 12, 9}, {1, 8, 4, 3}, {8, 8, 2, 2}, {{"stride", Ints{2, 2}}}},
      {"one dimension", {2, 8, 15}, {2, 8, 13}, {8, 8, 3}, {}},
      {"three dimensions", {2, 4, 5, 6, 7}, {2, 8, 3, 4, 5}, {8, 4, 3, 3, 3}, {}},
      {"no images", {0, 8, 5, 5}, {0, 4, 3, 3}, {4, 8, 3, 3}, {}},
  };
  for (DType t : {DType::F32, DType::BF16, DType::F16, DType::F64})
    for (const Case& c : cases)
      for (bool last : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {}", c.name, short_name(t), last ? "channels-last" : "contiguous"));
        auto view = [&](const Sizes& s) { return last ? channels_last(t, s) : dense_view(t, s); };
        Operands in;
        in.add(view(c.x));
        in.add(view(c.dy));
        agrees("convolution_weights", c.attributes, in, view(c.dw), by(t));
      }
  Operands integers;
  integers.add(dense_view(DType::I64, {2, 3, 6, 6}));
  integers.add(dense_view(DType::I64, {2, 4, 4, 4}));
  agrees("convolution_weights", {}, integers, dense_view(DType::I64, {4, 3, 3, 3}), 0);
}

TEST_F(GpuLibrary, GroupedProducts) {
  for (DType t : {DType::F32, DType::BF16})
    for (const std::vector<std::int32_t>& ends :
         std::vector<std::vector<std::int32_t>>{{13, 13, 40}, {0, 1, 100}, {100, 100, 100}, {7, 20, 33}}) {
      SCOPED_TRACE(fmt::format("{} {}", short_name(t), fmt::join(ends, ", ")));
      Operands in;
      in.add(dense_view(t, {100, 24}));
      in.add(laid(t, {3, 24, 16}, {24 * 16, 1, 24}));
      Tensor offsets = Tensor::empty(DType::I32, {3});
      std::copy(ends.begin(), ends.end(), offsets.data<std::int32_t>());
      in.use(dense_view(DType::I32, {3}), offsets);
      agrees("grouped_matmul", {}, in, dense_view(t, {100, 16}), by(t));
    }
}

TEST_F(GpuLibrary, WhatTheHostDoesForTheDevice) {
  Operands in;
  in.add(laid(DType::F64, {3, 2, 12}, {24, 1, 2}));
  in.add(dense_view(DType::F64, {2, 4}));
  in.add(dense_view(DType::F64, {12, 4}));
  const V states = dense_view(DType::F64, {2, 4});
  const Attributes attributes{{"mode", std::string("gru")}};
  const std::vector<V> out{laid(DType::F64, {3, 2, 4}, {4, 12, 1}), states};
  const QueueScope scope(*queue);
  auto call = queue->make_op("recurrent", attributes);
  call->prepare(in.views, out);
  EXPECT_TRUE(call->runs_on_host());
  const std::vector<Tensor> expected = run_call("recurrent", attributes, in, out);
  std::vector<Tensor> there, results;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const Tensor& t : in.tensors) inputs.push_back(there.emplace_back(on_device(*queue, t)).bytes());
  for (const Tensor& t : expected)
    outputs.push_back(results.emplace_back(on_device(*queue, Tensor::empty(t.dtype, t.sizes))).bytes());
  call->run(inputs, outputs, nullptr);
  for (std::size_t i = 0; i < out.size(); ++i)
    expect_near(numbers(out[i], on_host(*queue, results[i]).bytes()), numbers(out[i], expected[i].bytes()), 0);
}

/// Layouts of one size: dense ones, and views of what is larger, odd or in another order.
std::vector<std::pair<const char*, V>> layouts(DType t, const Sizes& s) {
  const std::size_t r = s.size();
  auto laid_in = [&](std::vector<std::size_t> innermost_first, std::int64_t first_stride, std::int64_t gap) {
    V v{t, s, Sizes(r)};
    std::int64_t stride = first_stride;
    for (std::size_t d : innermost_first) {
      v.strides[d] = stride;
      stride = stride * s[d] + gap;
    }
    return v;
  };
  std::vector<std::size_t> rows, turned, first_in, last{1};
  for (std::size_t d = r; d-- > 0;) rows.push_back(d);
  turned = rows;
  std::swap(turned[0], turned[1]);
  for (std::size_t d = 0; d < r; ++d) first_in.push_back(d);
  for (std::size_t d = r; d-- > 2;) last.push_back(d);
  last.push_back(0);
  V odd = laid_in(rows, 1, 0), repeated = odd;
  odd.alignment = static_cast<std::int64_t>(size_of(t));
  repeated.strides[0] = 0;
  V odd_last = channels_last(t, s);
  odd_last.alignment = odd.alignment;
  return {{"dense", dense_view(t, s)},
          {"channels last", channels_last(t, s)},
          {"last two exchanged", laid_in(turned, 1, 0)},
          {"first innermost", laid_in(first_in, 1, 0)},
          {"every second", laid_in(rows, 2, 0)},
          {"rows apart", laid_in(rows, 1, 3)},
          {"channels last, rows apart", laid_in(last, 1, 5)},
          {"channels last, every second", laid_in(last, 2, 0)},
          {"one image", repeated},
          {"odd address", odd},
          {"channels last, odd address", odd_last}};
}

TEST_F(GpuLibrary, ConvolutionsOfViews) {
  using Ints = std::vector<std::int64_t>;
  struct Case {
    const char* name;
    const char* op;
    std::vector<Sizes> operands;
    Sizes y;
    Attributes attributes;
  };
  const Case cases[] = {
      {"3x3", "convolution", {{2, 8, 6, 6}, {8, 8, 3, 3}}, {2, 8, 6, 6}, {{"padding", Ints{1, 1}}}},
      {"1x1", "convolution", {{2, 8, 5, 4}, {16, 8, 1, 1}}, {2, 16, 5, 4}, {}},
      {"grouped", "convolution", {{2, 8, 5, 5}, {8, 4, 3, 3}}, {2, 8, 3, 3}, {{"groups", 2}}},
      {"one dimension", "convolution", {{2, 8, 9}, {8, 8, 3}}, {2, 8, 7}, {}},
      {"three dimensions", "convolution", {{2, 4, 4, 4, 4}, {8, 4, 2, 2, 2}}, {2, 8, 3, 3, 3}, {}},
      {"transposed",
       "convolution",
       {{2, 8, 4, 4}, {8, 8, 2, 2}},
       {2, 8, 8, 8},
       {{"transposed", 1}, {"stride", Ints{2, 2}}}},
      {"with a sum",
       "convolution",
       {{2, 8, 6, 6}, {8, 8, 3, 3}, {2, 8, 6, 6}},
       {2, 8, 6, 6},
       {{"padding", Ints{1, 1}}, {"post", std::vector<std::string>{"add", "relu"}}}},
      {"gradient", "convolution_weights", {{2, 8, 7, 7}, {2, 8, 3, 3}}, {8, 8, 3, 3}, {{"stride", Ints{2, 2}}}},
      {"gradient of less than x",
       "convolution_weights",
       {{2, 8, 8, 8}, {2, 8, 4, 4}},
       {8, 8, 1, 1},
       {{"stride", Ints{2, 2}}}},
  };
  for (DType t : {DType::F32, DType::BF16})
    for (const Case& c : cases)
      for (std::size_t varied = 0; varied <= c.operands.size(); ++varied)
        for (bool others_last : {false, true}) {
          const bool result = varied == c.operands.size();
          for (const auto& [layout, view] : layouts(t, result ? c.y : c.operands[varied])) {
            if (result && std::ranges::find(view.strides, 0) != view.strides.end()) continue;
            SCOPED_TRACE(fmt::format("{} {}: operand {} {}, others {}", c.name, short_name(t), varied, layout,
                                     others_last ? "channels-last" : "contiguous"));
            auto other = [&](const Sizes& s) { return others_last ? channels_last(t, s) : dense_view(t, s); };
            Operands in;
            for (std::size_t i = 0; i < c.operands.size(); ++i) in.add(i == varied ? view : other(c.operands[i]));
            agrees(c.op, c.attributes, in, result ? view : other(c.y), by(t));
          }
        }
}

/// Attention by definition, in double; the logarithms of the queries' sums into `logarithms`.
std::vector<double> attention(const Operands& in, const V& y, double scale, bool causal, bool masked,
                              std::vector<double>* logarithms = nullptr) {
  std::vector<double> result;
  const Sizes& q = in.views[0].sizes;
  const std::int64_t columns = in.views[1].sizes[2], share = q[1] / in.views[1].sizes[1];
  for_each_index(y.sizes, [&](const Sizes& at) {
    std::vector<double> scores;
    double most = -1e30, sum = 0, value = 0;
    for (std::int64_t t = 0; t < columns; ++t) {
      double s = 0;
      for (std::int64_t d = 0; d < q[3]; ++d)
        s += in.value(0, {at[0], at[1], at[2], d}) * in.value(1, {at[0], at[1] / share, t, d});
      s *= scale;
      if (masked) s += in.value(3, {at[0], at[1], at[2], t});
      scores.push_back(causal && t > at[2] ? -1e30 : s);
      most = std::max(most, scores.back());
    }
    for (std::int64_t t = 0; t < columns; ++t) {
      const double w = std::exp(scores[static_cast<std::size_t>(t)] - most);
      sum += w;
      value += w * in.value(2, {at[0], at[1] / share, t, at[3]});
    }
    result.push_back(value / sum);
    if (logarithms && at[3] == 0) logarithms->push_back(most + std::log(sum));
  });
  return result;
}

TEST_F(GpuLibrary, Attention) {
  for (DType t : {DType::BF16, DType::F16})
    for (bool causal : {false, true})
      for (int masked : {0, 1})
        for (bool grouped : {false, true})
          for (bool interleaved : {false, true}) {
            SCOPED_TRACE(fmt::format("{}{}{}{}{}", short_name(t), causal ? " causal" : "", masked ? " masked" : "",
                                     grouped ? " grouped" : "", interleaved ? " interleaved" : ""));
            const std::int64_t b = 2, h = 2, g = grouped ? 1 : 2, s = 9, d = 16;
            auto view = [&](std::int64_t heads) {
              return interleaved ? laid(t, {b, heads, s, d}, {s * heads * d, d, heads * d, 1})
                                 : dense_view(t, {b, heads, s, d});
            };
            Operands in;
            in.add(view(h));
            in.add(view(g));
            in.add(view(g));
            if (masked) in.add(laid(t, {b, h, s, s}, {s * s, 0, s, 1}));
            const V y = view(h);
            const Attributes attributes{{"scale", 0.25}, {"causal", int(causal)}, {"has_mask", masked}};
            expect_near(run_on(*queue, "attention", attributes, in, y), attention(in, y, 0.25, causal, masked),
                        t == DType::BF16 ? 0.02 : 0.004);
          }
}

TEST_F(GpuLibrary, AttentionOfViews) {
  const DType t = DType::BF16;
  const Sizes sizes{2, 2, 9, 16};
  for (std::size_t varied = 0; varied < 4; ++varied)
    for (const auto& [layout, view] : layouts(t, sizes)) {
      if (varied == 3 && std::ranges::find(view.strides, 0) != view.strides.end()) continue;
      SCOPED_TRACE(fmt::format("operand {} {}", varied, layout));
      Operands in;
      for (std::size_t i = 0; i < 3; ++i) in.add(i == varied ? view : dense_view(t, sizes));
      const V y = varied == 3 ? view : dense_view(t, sizes);
      expect_near(run_on(*queue, "attention", {{"scale", 0.25}}, in, y), attention(in, y, 0.25, false, false), 0.02);
    }
  for (const auto& [layout, view] : layouts(t, {2, 2, 9, 9})) {
    SCOPED_TRACE(fmt::format("mask {}", layout));
    Operands in;
    for (std::size_t i = 0; i < 3; ++i) in.add(dense_view(t, sizes));
    in.add(view);
    expect_near(run_on(*queue, "attention", {{"scale", 0.25}, {"has_mask", 1}}, in, dense_view(t, sizes)),
                attention(in, dense_view(t, sizes), 0.25, false, true), 0.02);
  }
}

struct AttentionCase {
  std::int64_t batch, heads, groups, queries, keys, depth;
};

/// Gradients by definition, in double, for dy, q, k, v (and a mask behind y and the logarithms).
std::vector<std::vector<double>> attention_gradients(const Operands& in, const AttentionCase& c, double scale,
                                                     bool causal) {
  const std::int64_t share = c.heads / c.groups;
  auto at = [&](std::int64_t heads, std::int64_t length, std::int64_t b, std::int64_t h, std::int64_t s,
                std::int64_t d) { return static_cast<std::size_t>(((b * heads + h) * length + s) * c.depth + d); };
  std::vector<double> dq(static_cast<std::size_t>(c.batch * c.heads * c.queries * c.depth)),
      dk(static_cast<std::size_t>(c.batch * c.groups * c.keys * c.depth)), dv = dk;
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t h = 0; h < c.heads; ++h)
      for (std::int64_t s = 0; s < c.queries; ++s) {
        const std::int64_t g = h / share, n = causal ? std::min(c.keys, s + 1) : c.keys;
        std::vector<double> p, dp;
        double sum = 0, along = 0;
        for (std::int64_t t = 0; t < n; ++t) {
          double score = 0, slope = 0;
          for (std::int64_t d = 0; d < c.depth; ++d) {
            score += in.value(1, {b, h, s, d}) * in.value(2, {b, g, t, d});
            slope += in.value(0, {b, h, s, d}) * in.value(3, {b, g, t, d});
          }
          p.push_back(std::exp(score * scale + (in.views.size() > 6 ? in.value(6, {b, h, s, t}) : 0)));
          dp.push_back(slope);
          sum += p.back();
        }
        for (std::size_t t = 0; t < p.size(); ++t) p[t] /= sum, along += p[t] * dp[t];
        for (std::int64_t t = 0; t < n; ++t) {
          const double weight = p[static_cast<std::size_t>(t)],
                       ds = weight * (dp[static_cast<std::size_t>(t)] - along) * scale;
          for (std::int64_t d = 0; d < c.depth; ++d) {
            dq[at(c.heads, c.queries, b, h, s, d)] += ds * in.value(2, {b, g, t, d});
            dk[at(c.groups, c.keys, b, g, t, d)] += ds * in.value(1, {b, h, s, d});
            dv[at(c.groups, c.keys, b, g, t, d)] += weight * in.value(0, {b, h, s, d});
          }
        }
      }
  return {dq, dk, dv};
}

TEST_F(GpuLibrary, AttentionsGradient) {
  for (DType t : {DType::BF16, DType::F16})
    for (const auto& [causal, masked] : {std::pair{false, false}, {true, false}, {false, true}})
      for (bool interleaved : {false, true})
        for (const AttentionCase& c : {AttentionCase{2, 2, 2, 9, 9, 16}, AttentionCase{1, 4, 2, 64, 130, 64},
                                       AttentionCase{2, 4, 1, 33, 17, 32}, AttentionCase{1, 2, 2, 1, 40, 128}}) {
          if (masked && (interleaved || t == DType::F16)) continue;  // each is a graph that cuDNN compiles
          SCOPED_TRACE(fmt::format("{}{}{}{} {} heads of {} for {}, {} queries, {} keys", short_name(t),
                                   causal ? " causal" : "", masked ? " masked" : "", interleaved ? " interleaved" : "",
                                   c.groups, c.depth, c.heads, c.queries, c.keys));
          auto view = [&](std::int64_t heads, std::int64_t length) {
            const Sizes s{c.batch, heads, length, c.depth};
            return interleaved ? laid(t, s, {length * heads * c.depth, c.depth, heads * c.depth, 1}) : dense_view(t, s);
          };
          const double scale = 0.25;
          const V rows = view(c.heads, c.queries), keys = view(c.groups, c.keys),
                  logs = laid(DType::F32, {c.batch, c.heads, c.queries}, {c.heads * c.queries, 1, c.heads});
          Operands in, forward;
          for (const V& v : {rows, rows, keys, keys}) in.add(v);
          for (std::size_t i = 1; i < 4; ++i) forward.use(in.views[i], in.tensors[i]);
          if (masked) forward.add(laid(t, {c.batch, c.heads, c.queries, c.keys}, {c.queries * c.keys, 0, c.keys, 1}));
          const Attributes attributes{{"scale", scale}, {"causal", int(causal)}, {"has_mask", int(masked)}};
          const std::vector<Tensor> made = run_all_on(*queue, "attention", attributes, forward, {rows, logs});
          std::vector<double> expected_logs;
          const double by = t == DType::BF16 ? 0.02 : 0.004;
          expect_near(numbers(rows, made[0].bytes()), attention(forward, rows, scale, causal, masked, &expected_logs),
                      by);
          expect_near(numbers(logs, made[1].bytes()), expected_logs, 1e-4);
          in.use(rows, made[0]);
          in.use(logs, made[1]);
          if (masked) in.use(forward.views[3], forward.tensors[3]);
          const std::vector<V> out{rows, keys, keys};
          const std::vector<Tensor> gradients = run_all_on(*queue, "attention_backward", attributes, in, out);
          const std::vector<std::vector<double>> expected = attention_gradients(in, c, scale, causal);
          for (std::size_t i = 0; i < 3; ++i) expect_near(numbers(out[i], gradients[i].bytes()), expected[i], 3 * by);
        }
}

}  // namespace
}  // namespace coil::runtime
