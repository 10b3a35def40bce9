#include <cmath>

#include "runtime_calls.h"

namespace coil::runtime {
namespace {

using V = BoundView;
using Numbers = std::vector<double>;

struct LayerOf {
  const char* mode;
  bool from_end = false, projects = false;
  std::int64_t steps = 4, batch = 2, hidden = 3;

  bool is(std::string_view other) const { return mode == other; }
  bool is_gated() const { return is("lstm") || is("gru"); }
  std::int64_t gates() const { return (is("lstm") ? 4 : is("gru") ? 3 : 1) * hidden; }
  std::int64_t state() const { return projects ? 2 : hidden; }
};

Tensor tensor_of(DType type, const Numbers& values) {
  Tensor t = Tensor::empty(type, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i)
    type == DType::F64 ? t.data<double>()[i] = values[i] : t.data<float>()[i] = static_cast<float>(values[i]);
  return t;
}

std::vector<Numbers> results_of(std::string_view op, const Attributes& attributes, const Operands& in,
                                const std::vector<V>& out) {
  const std::vector<Tensor> made = run_call(op, attributes, in, out);
  std::vector<Numbers> all;
  for (std::size_t k = 0; k < out.size(); ++k) all.push_back(numbers(out[k], made[k].bytes()));
  return all;
}

Operands operands_of(const LayerOf& l, DType type) {
  Operands in;
  in.add(dense_view(type, {l.steps, l.batch, l.gates()}));
  in.add(dense_view(type, {l.batch, l.state()}));
  if (l.is("lstm")) in.add(dense_view(type, {l.batch, l.hidden}));
  in.add(dense_view(type, {l.gates(), l.state()}));
  in.add(dense_view(type, {l.gates()}));
  if (l.projects) in.add(dense_view(type, {l.state(), l.hidden}));
  return in;
}

/// The layer's results, and behind them what its gradients need.
std::vector<Numbers> forward(const LayerOf& l, const Operands& in, DType type) {
  std::vector<V> out = {dense_view(type, {l.steps, l.batch, l.state()}), dense_view(type, {l.batch, l.state()})};
  if (l.is("lstm")) out.push_back(dense_view(type, {l.batch, l.hidden}));
  if (l.is_gated()) out.push_back(dense_view(type, {l.steps, l.batch, 4 * l.hidden}));
  if (l.is("lstm")) out.push_back(dense_view(type, {l.steps, l.batch, l.hidden}));
  Attributes attributes = {{"mode", std::string(l.mode)},
                           {l.is_gated() ? "from_end" : "reverse", std::int64_t{l.from_end}},
                           {"has_bias", std::int64_t{1}},
                           {"has_projection", std::int64_t{l.projects}}};
  return results_of(l.is_gated() ? "recurrent_training" : "recurrent", attributes, in, out);
}

/// By how much element `i` of a result counts.
double share(std::size_t i) { return static_cast<double>(i * 7 % 5) / 4 - 0.4; }

double loss(const LayerOf& l, const std::vector<Numbers>& results) {
  double sum = 0;
  for (std::size_t k = 0; k < (l.is("lstm") ? 3u : 2u); ++k)
    for (std::size_t i = 0; i < results[k].size(); ++i) sum += share(i) * results[k][i];
  return sum;
}

Numbers shares(std::int64_t count) {
  Numbers all;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) all.push_back(share(i));
  return all;
}

/// What every step begins with.
Numbers before(const LayerOf& l, const Numbers& steps, const Numbers& first) {
  Numbers all;
  const auto size = static_cast<std::ptrdiff_t>(first.size());
  if (!l.from_end) all = first;
  all.insert(all.end(), steps.begin() + (l.from_end ? size : 0), steps.end() - (l.from_end ? 0 : size));
  if (l.from_end) all.insert(all.end(), first.begin(), first.end());
  return all;
}

std::vector<Numbers> backward(const LayerOf& l, const Operands& in, const std::vector<Numbers>& made, DType type) {
  Operands given;
  const auto use = [&](const Sizes& sizes, const Numbers& values) {
    given.use(dense_view(type, sizes), tensor_of(type, values));
  };
  const auto use_again = [&](std::size_t operand) { given.use(in.views[operand], in.tensors[operand]); };
  const auto of = [&](std::size_t operand) { return numbers(in.views[operand], in.tensors[operand].bytes()); };
  const bool lstm = l.is("lstm");
  use({l.steps, l.batch, l.state()}, shares(l.steps * l.batch * l.state()));
  use({l.batch, l.state()}, shares(l.batch * l.state()));
  if (lstm) use({l.batch, l.hidden}, shares(l.batch * l.hidden));
  if (l.is_gated())
    use({l.steps, l.batch, 4 * l.hidden}, made[lstm ? 3 : 2]);
  else
    use({l.steps, l.batch, l.hidden}, made[0]);
  if (lstm) use({l.steps, l.batch, l.hidden}, made[4]);
  use_again(lstm ? 3 : 2);
  if (l.projects) use_again(5);
  if (l.is_gated()) use({l.steps, l.batch, l.hidden}, lstm ? before(l, made[4], of(2)) : before(l, made[0], of(1)));
  std::vector<V> out = {dense_view(type, {l.steps, l.batch, l.gates()}), dense_view(type, {l.batch, l.state()})};
  if (lstm) out.push_back(dense_view(type, {l.batch, l.hidden}));
  const Attributes attributes = {{"mode", std::string(l.mode)},
                                 {"from_end", std::int64_t{!l.from_end}},
                                 {"has_projection", std::int64_t{l.projects}}};
  return results_of("recurrent_backward", attributes, given, out);
}

const LayerOf kLayers[] = {{"lstm"},
                           {"lstm", true, true},
                           {"lstm", false, false, 9, 1, 35},
                           {"gru"},
                           {"gru", true},
                           {"gru", false, false, 9, 3, 21},
                           {"tanh"},
                           {"tanh", true, false, 9, 3, 21},
                           {"relu"},
                           {"relu", true}};

TEST(RecurrentGradients, AreTheSlopesOfTheLayer) {
  constexpr double kStep = 1e-5;
  for (const LayerOf& l : kLayers) {
    const Operands in = operands_of(l, DType::F64);
    const std::vector<Numbers> slopes = backward(l, in, forward(l, in, DType::F64), DType::F64);
    for (std::size_t k = 0; k < slopes.size(); ++k)
      for (std::size_t i = 0; i < slopes[k].size(); i += 1 + slopes[k].size() / 12) {
        double ends[2];
        for (int end : {0, 1}) {
          Operands moved = in;
          Numbers values = numbers(in.views[k], in.tensors[k].bytes());
          values[i] += end ? kStep : -kStep;
          moved.use(in.views[k], tensor_of(DType::F64, values), k);
          ends[end] = loss(l, forward(l, moved, DType::F64));
        }
        // At the corner of relu there is no slope.
        if (l.is("relu") && std::abs(ends[0] + ends[1] - 2 * loss(l, forward(l, in, DType::F64))) > 1e-9) continue;
        ASSERT_NEAR(slopes[k][i], (ends[1] - ends[0]) / (2 * kStep), 1e-5) << l.mode << ", result " << k << ", " << i;
      }
  }
}

TEST(RecurrentGradients, InVectorsAreThoseOfDoubles) {
  for (const LayerOf& l : kLayers) {
    const auto in = [&](DType type) { return operands_of(l, type); };
    const std::vector<Numbers> exact = forward(l, in(DType::F64), DType::F64),
                               made = forward(l, in(DType::F32), DType::F32);
    for (std::size_t k = 0; k < exact.size(); ++k) expect_near(made[k], exact[k], 1e-5);
    const std::vector<Numbers> slopes = backward(l, in(DType::F64), exact, DType::F64),
                               narrow = backward(l, in(DType::F32), exact, DType::F32);
    for (std::size_t k = 0; k < slopes.size(); ++k) expect_near(narrow[k], slopes[k], 1e-4);
  }
}

}  // namespace
}  // namespace coil::runtime
