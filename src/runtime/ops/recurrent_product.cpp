#include "runtime/ops/recurrent_product.h"

#include "library_ops/products.h"
#include "runtime/ops/gemm.h"
#include "runtime/ops/panel/gemm.h"
#include "support/error.h"

namespace coil::runtime::recurrence {

Mode mode_of(const std::string& name) {
  if (name == "lstm") return Mode::Lstm;
  if (name == "gru") return Mode::Gru;
  if (name == "tanh") return Mode::Tanh;
  if (name == "relu") return Mode::Relu;
  fail("recurrent: there is no mode '{}'", name);
}

std::int64_t gate_count(Mode mode) { return mode == Mode::Lstm ? 4 : mode == Mode::Gru ? 3 : 1; }

StepProduct::StepProduct(const StepWeight& weight, std::int64_t batch, std::int64_t steps, bool batch_invariant) {
  const auto& [type, from, to, has_bias, turned] = weight;
  const Attributes attributes = {{std::string(library_ops::kHasBias.name), std::int64_t{has_bias}},
                                 {std::string(library_ops::linear::kWeightTransposed.name), std::int64_t{turned}},
                                 {std::string(library_ops::kBatchInvariant.name), std::int64_t{batch_invariant}}};
  std::vector<BoundView> inputs = {dense_view(type, {batch, from}),
                                   turned ? dense_view(type, {from, to}) : dense_view(type, {to, from})};
  if (has_bias) inputs.push_back(dense_view(type, {to}));
  const BoundView output = dense_view(type, {batch, to});
  GemmProblem problem = linear_problem(attributes, inputs, std::span(&output, 1));
  constexpr std::int64_t kEnough = 8;
  if (steps >= kEnough && batch > 0 && from > 0 && to > 0 && panels::multiplies(problem)) {
    b_ = problem.b.given;
    packed_ = panels::packed_bytes(type, to, from);  // whole panels, of which each is a multiple of a cache line
    problem.packed_desc = panels::packed_form(type);
    problem.packed_bytes = packed_;
    by_panels_ = panels::make_gemm(problem);
    return;
  }
  op_ = make_library_op("linear", attributes);
  op_->prepare(inputs, std::span(&output, 1));
}

const void* StepProduct::begin(const void* weight, void* packed) const {
  if (!by_panels_) return weight;
  panels::pack(static_cast<std::byte*>(packed), static_cast<const std::byte*>(weight), b_);
  return packed;
}

std::int64_t parts_of(std::int64_t batch, std::int64_t weights, int threads) {
  // Weights that a thread's second-level cache holds beside what else a step reads; and rows for which a larger one
  // is read seldom enough.
  constexpr std::int64_t kFewWeights = 1 << 17, kManyRows = 12;
  const std::int64_t least = weights <= kFewWeights ? 1 : kManyRows;
  return threads > 1 && batch >= least * threads ? threads : 1;
}

}  // namespace coil::runtime::recurrence
