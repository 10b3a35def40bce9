#include <cmath>

#include "runtime/ops/recurrent_cells.h"
#include "runtime_calls.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

using V = BoundView;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Sizes4 {
  std::int64_t steps, batch, hidden;
};

Attributes attributes_of(const char* mode, bool reverse, bool has_bias) {
  return {{"mode", std::string(mode)}, {"reverse", std::int64_t{reverse}}, {"has_bias", std::int64_t{has_bias}}};
}

TEST(Recurrent, ALongShortTermMemoryStepByStep) {
  // Few steps and many (with the weight in panels), whole vectors and a rest.
  for (const auto& [n, reverse] : {std::pair{Sizes4{3, 2, 4}, false},
                                   {Sizes4{3, 2, 4}, true},
                                   {Sizes4{20, 1, 21}, false},
                                   {Sizes4{20, 3, 35}, true}}) {
    Operands in;
    in.add(dense_view(DType::F32, {n.steps, n.batch, 4 * n.hidden}));
    in.add(dense_view(DType::F32, {n.batch, n.hidden}));
    in.add(dense_view(DType::F32, {n.batch, n.hidden}));
    in.add(dense_view(DType::F32, {4 * n.hidden, n.hidden}));
    in.add(dense_view(DType::F32, {4 * n.hidden}));
    const V states = dense_view(DType::F32, {n.batch, n.hidden});
    const auto out = run_call("recurrent", attributes_of("lstm", reverse, true), in,
                              {dense_view(DType::F32, {n.steps, n.batch, n.hidden}), states, states});
    for (std::int64_t b = 0; b < n.batch; ++b) {
      std::vector<double> h, c;
      for (std::int64_t j = 0; j < n.hidden; ++j) h.push_back(in.value(1, {b, j})), c.push_back(in.value(2, {b, j}));
      for (std::int64_t i = 0; i < n.steps; ++i) {
        const std::int64_t t = reverse ? n.steps - 1 - i : i;
        auto gate = [&](std::int64_t row) {
          double sum = in.value(0, {t, b, row}) + in.value(4, {row});
          for (std::int64_t j = 0; j < n.hidden; ++j) sum += in.value(3, {row, j}) * h[static_cast<std::size_t>(j)];
          return sum;
        };
        std::vector<double> next;
        for (std::int64_t j = 0; j < n.hidden; ++j) {
          double& cell = c[static_cast<std::size_t>(j)];
          cell = sigmoid(gate(n.hidden + j)) * cell + sigmoid(gate(j)) * std::tanh(gate(2 * n.hidden + j));
          next.push_back(sigmoid(gate(3 * n.hidden + j)) * std::tanh(cell));
        }
        h = next;
        for (std::int64_t j = 0; j < n.hidden; ++j)
          ASSERT_NEAR(out[0].data<float>()[(t * n.batch + b) * n.hidden + j], h[static_cast<std::size_t>(j)], 1e-5);
      }
      for (std::int64_t j = 0; j < n.hidden; ++j) {
        EXPECT_NEAR(out[1].data<float>()[b * n.hidden + j], h[static_cast<std::size_t>(j)], 1e-5);
        EXPECT_NEAR(out[2].data<float>()[b * n.hidden + j], c[static_cast<std::size_t>(j)], 1e-5);
      }
    }
  }
}

TEST(Recurrent, APairGivesWhatItsLayersGive) {
  // Steps that are work for few threads, which the layers take side by side, and for many.
  for (const Sizes4& n : {Sizes4{20, 1, 21}, Sizes4{3, 2, 4}, Sizes4{9, 70, 130}}) {
    Operands both, first, second;
    const auto add = [&](const V& view) {
      both.add(view);
      const bool of_first = both.views.size() <= 4;
      (of_first ? first : second).use(view, both.tensors.back());
    };
    for (const std::int64_t steps : {n.steps, n.steps + 2}) {
      add(dense_view(DType::F32, {steps, n.batch, 3 * n.hidden}));
      add(dense_view(DType::F32, {n.batch, n.hidden}));
      add(dense_view(DType::F32, {3 * n.hidden, n.hidden}));
      add(dense_view(DType::F32, {3 * n.hidden}));
    }
    const auto results = [&](std::int64_t steps) {
      return std::vector<V>{dense_view(DType::F32, {steps, n.batch, n.hidden}),
                            dense_view(DType::F32, {n.batch, n.hidden})};
    };
    std::vector<V> out = results(n.steps);
    for (const V& v : results(n.steps + 2)) out.push_back(v);
    Attributes attributes = attributes_of("gru", false, true);
    const auto a = run_call("recurrent", attributes, first, results(n.steps));
    attributes.insert_or_assign("reverse", std::int64_t{1});
    const auto b = run_call("recurrent", attributes, second, results(n.steps + 2));
    attributes.insert_or_assign("reverse", std::int64_t{0});
    attributes.insert_or_assign("second_reverse", std::int64_t{1});
    const auto pair = run_call("recurrent_pair", attributes, both, out);
    for (std::size_t k = 0; k < 4; ++k) {
      const Tensor& alone = k < 2 ? a[k] : b[k - 2];
      for (std::int64_t i = 0; i < alone.numel(); ++i)
        ASSERT_NEAR(pair[k].data<float>()[i], alone.data<float>()[i], 1e-5) << k << " " << i;
    }
  }
}

TEST(Recurrent, CellsAreWithinAFewUnitsOfTheExact) {
  std::vector<float> x, made;
  for (int k = -4000; k <= 4000; ++k) x.push_back(static_cast<float>(k) * 0.01f);
  for (float special : {1e-20f, 1e4f, -1e4f, INFINITY, -INFINITY, -0.0f}) x.push_back(special);
  const std::vector<float> zeros(x.size());
  made.resize(x.size());
  cells::kernels_of_this_machine().f32.plain_tanh(
      {x.data(), zeros.data(), static_cast<std::int64_t>(x.size()), made.data()});
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(made[i], std::tanh(double{x[i]}), 5e-7 * std::abs(std::tanh(double{x[i]}))) << x[i];
}

TEST(Recurrent, NaNStaysInEveryCell) {
  const auto& kernels = cells::kernels_of_this_machine().f32;
  const std::vector<float> zeros(20);
  for (std::size_t place = 0; place < 20; ++place) {
    std::vector<float> x(20), c(5), made(5);
    x[place] = NAN;
    const cells::Row<float> row{x.data(), zeros.data(), 5, made.data()};
    kernels.lstm(row, c.data());
    EXPECT_TRUE(std::isnan(made[place % 5])) << place;
    if (place >= 15) continue;
    kernels.gru(row, c.data());
    EXPECT_TRUE(std::isnan(made[place % 5])) << place;
    if (place >= 5) continue;
    for (auto* cell : {kernels.plain_tanh, kernels.plain_relu}) {
      cell(row);
      EXPECT_TRUE(std::isnan(made[place])) << place;
    }
  }
}

TEST(Recurrent, RefusesOperandsThatDoNotFit) {
  Operands in;
  in.add(dense_view(DType::F32, {3, 2, 12}));
  in.add(dense_view(DType::F32, {2, 4}));
  in.add(dense_view(DType::F32, {12, 5}));
  const std::vector<V> out = {dense_view(DType::F32, {3, 2, 4}), dense_view(DType::F32, {2, 4})};
  EXPECT_THROW(run_call("recurrent", attributes_of("gru", false, false), in, out), Error);
  EXPECT_THROW(run_call("recurrent_pair", attributes_of("gru", false, false), in, out), Error);
  EXPECT_THROW(run_call("recurrent", attributes_of("gate", false, false), in, out), Error);
}

}  // namespace
}  // namespace coil::runtime
