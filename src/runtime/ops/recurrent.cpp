// One direction of one layer of a recurrent network, over a whole sequence: `recurrent` (LSTM, GRU, plain tanh and relu
// cells); and two of them side by side: `recurrent_pair`.
#include <algorithm>
#include <cstring>
#include <optional>

#include "library_ops/products.h"
#include "library_ops/recurrent.h"
#include "runtime/device/cached_op.h"
#include "runtime/device/library.h"
#include "runtime/device/threads.h"
#include "runtime/ops/gemm.h"
#include "runtime/ops/panel/gemm.h"
#include "runtime/ops/recurrent_cells.h"
#include "runtime/ops/staging.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

enum class Mode : std::uint8_t { Lstm, Gru, Tanh, Relu };

Mode mode_of(const std::string& name) {
  if (name == "lstm") return Mode::Lstm;
  if (name == "gru") return Mode::Gru;
  if (name == "tanh") return Mode::Tanh;
  if (name == "relu") return Mode::Relu;
  fail("recurrent: there is no mode '{}'", name);
}

std::int64_t gate_count(Mode mode) { return mode == Mode::Lstm ? 4 : mode == Mode::Gru ? 3 : 1; }

struct Config {
  Mode mode = Mode::Lstm;
  bool reverse = false, has_bias = false, has_projection = false, batch_invariant = false;
};

/// A state [batch, from] times a weight [to, from], in every step of a call. The weight is brought into panels once
/// where this machine multiplies by those and there are steps enough to gain by it.
class StepProduct {
 public:
  StepProduct(DType loop, std::int64_t batch, std::int64_t from, std::int64_t to, bool has_bias, std::int64_t steps,
              bool batch_invariant) {
    const Attributes attributes = {{std::string(library_ops::kHasBias.name), std::int64_t{has_bias}},
                                   {std::string(library_ops::kBatchInvariant.name), std::int64_t{batch_invariant}}};
    std::vector<BoundView> inputs = {dense_view(loop, {batch, from}), dense_view(loop, {to, from})};
    if (has_bias) inputs.push_back(dense_view(loop, {to}));
    const BoundView output = dense_view(loop, {batch, to});
    GemmProblem problem = linear_problem(attributes, inputs, std::span(&output, 1));
    constexpr std::int64_t kEnough = 8;
    if (steps >= kEnough && batch > 0 && from > 0 && to > 0 && panels::multiplies(problem)) {
      b_ = problem.b.given;
      packed_ = panels::packed_bytes(loop, to, from);  // whole panels, of which each is a multiple of a cache line
      problem.packed_desc = panels::packed_form(loop);
      problem.packed_bytes = packed_;
      by_panels_ = panels::make_gemm(problem);
      return;
    }
    op_ = make_library_op("linear", attributes);
    op_->prepare(inputs, std::span(&output, 1));
  }

  /// Of the weight in panels: 0 where it is taken as it is.
  std::size_t packed_bytes() const { return packed_; }
  std::size_t workspace_bytes() const { return by_panels_ ? by_panels_->workspace_bytes() : op_->workspace_bytes(); }

  /// The weight that `run` takes, before the first step of a call: `packed`, which is filled, or the weight itself.
  const void* begin(const void* weight, void* packed) const {
    if (!by_panels_) return weight;
    panels::pack(static_cast<std::byte*>(packed), static_cast<const std::byte*>(weight), b_);
    return packed;
  }

  void run(std::span<const void* const> inputs, void* result, void* workspace) {
    if (by_panels_) return by_panels_->run(inputs, std::span(&result, 1), workspace);
    op_->run(inputs, std::span(&result, 1), workspace);
  }

 private:
  BoundView b_;
  std::size_t packed_ = 0;
  std::unique_ptr<PreparedCall> by_panels_;
  std::unique_ptr<LibraryOp> op_;
};

/// Rows of a batch that a thread takes through all steps: it waits for no other. Where a batch has few of them, and a
/// weight that threads had better share, all threads take all rows through each step together.
std::int64_t parts_of(std::int64_t batch, std::int64_t weights, int threads) {
  // Weights that a thread's second-level cache holds beside what else a step reads; and rows for which a larger one
  // is read seldom enough.
  constexpr std::int64_t kFewWeights = 1 << 17, kManyRows = 12;
  const std::int64_t least = weights <= kFewWeights ? 1 : kManyRows;
  return threads > 1 && batch >= least * threads ? threads : 1;
}

/// A layer that is prepared.
class Layer : public PreparedCall {
 public:
  /// Multiplications of a step, which waits for the one before it.
  virtual std::int64_t step_work() const = 0;
};

/// State in the type of the loops; one product of the hidden state with its weight for each step, then the cell,
/// element by element.
template <class T>
class Recurrent : public Layer {
 public:
  Recurrent(const Config& config, std::span<const BoundView> in, std::span<const BoundView> out, DType loop,
            int threads)
      : config_(config) {
    const bool lstm = config.mode == Mode::Lstm;
    const std::size_t inputs = 3u + lstm + config.has_bias + config.has_projection, results = 2u + lstm;
    if (in.size() != inputs || out.size() != results || in[0].sizes.size() != 3 || out[0].sizes.size() != 3)
      fail("recurrent: {} inputs and {} results do not fit its attributes", in.size(), out.size());
    const std::int64_t gates = gate_count(config.mode);
    steps_ = in[0].sizes[0];
    batch_ = in[0].sizes[1];
    hidden_ = in[0].sizes[2] / gates;
    state_ = out[0].sizes[2];
    std::size_t next = 0;
    auto stage = [&](Sizes sizes) {
      if (in[next].sizes != sizes)
        fail("recurrent: input {} has sizes [{}], expected [{}]", next, fmt::join(in[next].sizes, ", "),
             fmt::join(sizes, ", "));
      const Staging::Operand operand = staging_.input(next, in[next], dense_view(loop, std::move(sizes)));
      ++next;
      return operand;
    };
    x_ = stage({steps_, batch_, gates * hidden_});
    h0_ = stage({batch_, state_});
    if (lstm) c0_ = stage({batch_, hidden_});
    weight_ = stage({gates * hidden_, state_});
    if (config.has_bias) bias_ = stage({gates * hidden_});
    if (config.has_projection) projection_ = stage({state_, hidden_});
    y_ = staging_.output(0, out[0], dense_view(loop, out[0].sizes), false);
    last_h_ = staging_.output(1, out[1], dense_view(loop, {batch_, state_}), false);
    if (lstm) last_c_ = staging_.output(2, out[2], dense_view(loop, {batch_, hidden_}), false);
    sums_ = staging_.scratch(bytes(batch_ * gates * hidden_));
    wide_ = staging_.scratch(config.has_projection ? bytes(batch_ * hidden_) : 0);

    prepare_parts(loop, parts_of(batch_, gates * hidden_ * state_, threads), threads);
    pointers_.resize(staging_.operands());
  }

  std::size_t workspace_bytes() const override { return staging_.bytes(); }
  std::int64_t step_work() const override {
    return batch_ * state_ * hidden_ * (gate_count(config_.mode) + std::int64_t{config_.has_projection});
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    staging_.load(inputs, outputs, workspace, pointers_);
    const void* weight = parts_[0].product.begin(at(weight_), at(packed_));
    const void* projection = nullptr;
    if (parts_[0].project) projection = parts_[0].project->begin(at(projection_), at(packed_projection_));
    if (config_.mode == Mode::Lstm) std::memcpy(at(last_c_), at(c0_), bytes(batch_ * hidden_));
    const auto run_parts = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) run_part(parts_[static_cast<std::size_t>(k)], weight, projection);
    };
    if (parts_.size() == 1)
      run_parts(0, 1);
    else
      parallel_ranges(static_cast<std::int64_t>(parts_.size()), 1, run_parts);
    if (steps_ == 0)
      std::memcpy(at(last_h_), at(h0_), bytes(batch_ * state_));
    else
      std::memcpy(at(last_h_), at(y_) + (config_.reverse ? 0 : steps_ - 1) * batch_ * state_, bytes(batch_ * state_));
    staging_.store(outputs, pointers_);
  }

 private:
  static std::size_t bytes(std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(T); }
  T* at(Staging::Operand o) const { return static_cast<T*>(pointers_[o]); }

  struct Part {
    std::int64_t first = 0, rows = 0;
    StepProduct product;
    std::optional<StepProduct> project = std::nullopt;
    Staging::Operand scratch = 0, project_scratch = 0;
  };

  void prepare_parts(DType loop, std::int64_t count, int threads) {
    // Primitives divide their work when they are made.
    const ThreadScope scope(count > 1 ? 1 : threads);
    const std::int64_t width = gate_count(config_.mode) * hidden_;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t first = batch_ * k / count, rows = batch_ * (k + 1) / count - first;
      Part part{.first = first,
                .rows = rows,
                .product = {loop, rows, state_, width, config_.has_bias, steps_, config_.batch_invariant}};
      part.scratch = staging_.scratch(part.product.workspace_bytes());
      if (config_.has_projection) {
        part.project.emplace(loop, rows, hidden_, state_, false, steps_, config_.batch_invariant);
        part.project_scratch = staging_.scratch(part.project->workspace_bytes());
      }
      parts_.push_back(std::move(part));
    }
    packed_ = staging_.scratch(parts_[0].product.packed_bytes());
    packed_projection_ = staging_.scratch(parts_[0].project ? parts_[0].project->packed_bytes() : 0);
  }

  /// All steps for some rows of the batch.
  void run_part(Part& part, const void* weight, const void* projection) const {
    const std::int64_t width = gate_count(config_.mode) * hidden_;
    const T* h = at(h0_) + part.first * state_;
    T* sums = at(sums_) + part.first * width;
    for (std::int64_t i = 0; i < steps_; ++i) {
      const std::int64_t step = config_.reverse ? steps_ - 1 - i : i;
      T* y = at(y_) + (step * batch_ + part.first) * state_;
      const void* operands[] = {h, weight, config_.has_bias ? at(bias_) : nullptr};
      part.product.run(std::span(operands, config_.has_bias ? 3 : 2), sums, at(part.scratch));
      T* made = config_.has_projection ? at(wide_) + part.first * hidden_ : y;
      step_cells(part, made, h, at(x_) + step * batch_ * width);
      if (config_.has_projection) {
        const void* wide[] = {made, projection};
        part.project->run(wide, y, at(part.project_scratch));
      }
      h = y;
    }
  }

  /// `made` and `h` begin with the part's first row, `x` with the batch's.
  void step_cells(const Part& part, T* made, const T* h, const T* x) const {
    constexpr std::int64_t kGrain = 512;  // elements worth a thread: a few transcendental functions each
    parallel_ranges(part.rows, 1 + kGrain / (hidden_ + 1), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) cell_row(made + b * hidden_, h + b * state_, x, part.first + b);
    });
  }

  void cell_row(T* made, const T* h, const T* x, std::int64_t b) const {
    const std::int64_t width = gate_count(config_.mode) * hidden_;
    const cells::Row<T> row{x + b * width, at(sums_) + b * width, hidden_, made};
    switch (config_.mode) {
      case Mode::Lstm: return kernels_.lstm(row, at(last_c_) + b * hidden_);
      case Mode::Gru: return kernels_.gru(row, h);
      case Mode::Tanh: return kernels_.plain_tanh(row);
      case Mode::Relu: return kernels_.plain_relu(row);
    }
  }

  static const cells::KernelsOf<T>& kernels() {
    if constexpr (std::is_same_v<T, float>)
      return cells::kernels_of_this_machine().f32;
    else
      return cells::kernels_of_this_machine().f64;
  }

  Config config_;
  const cells::KernelsOf<T>& kernels_ = kernels();
  Staging staging_;
  std::int64_t steps_ = 0, batch_ = 0, hidden_ = 0, state_ = 0;
  Staging::Operand x_ = 0, h0_ = 0, c0_ = 0, weight_ = 0, bias_ = 0, projection_ = 0, y_ = 0, last_h_ = 0, last_c_ = 0,
                   sums_ = 0, wide_ = 0, packed_ = 0, packed_projection_ = 0;
  std::vector<Part> parts_;
  std::vector<void*> pointers_;
};

std::unique_ptr<Layer> make_layer(const Config& config, std::span<const BoundView> inputs,
                                  std::span<const BoundView> outputs, int threads) {
  if (inputs.empty() || !is_floating(inputs[0].dtype)) fail("recurrent takes floating types");
  if (loop_dtype(inputs[0].dtype) == DType::F64)
    return std::make_unique<Recurrent<double>>(config, inputs, outputs, DType::F64, threads);
  return std::make_unique<Recurrent<float>>(config, inputs, outputs, DType::F32, threads);
}

/// Two layers that do not depend on each other: each on a thread of its own where a step is work for two threads at
/// most, else one after the other on all of them.
class RecurrentPair : public PreparedCall {
 public:
  RecurrentPair(const Config& first, const Config& second, std::span<const BoundView> in,
                std::span<const BoundView> out)
      : inputs_(in.size() / 2), outputs_(out.size() / 2) {
    if (in.size() % 2 != 0 || out.size() % 2 != 0)
      fail("recurrent_pair: {} inputs and {} results are not those of two layers", in.size(), out.size());
    const auto make = [&](int threads) {
      first_ = make_layer(first, in.first(inputs_), out.first(outputs_), threads);
      second_ = make_layer(second, in.subspan(inputs_), out.subspan(outputs_), threads);
    };
    make(1);
    const int worth = panels::threads_worth(std::max(first_->step_work(), second_->step_work()));
    side_by_side_ = thread_count() > 1 && worth <= 2;
    if (!side_by_side_) make(thread_count());
  }

  std::size_t workspace_bytes() const override { return first_->workspace_bytes() + second_->workspace_bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    const auto run_part = [&](std::int64_t begin, std::int64_t end) {
      if (begin == 0) first_->run(inputs.first(inputs_), outputs.first(outputs_), workspace);
      if (end == 2)
        second_->run(inputs.subspan(inputs_), outputs.subspan(outputs_),
                     static_cast<std::byte*>(workspace) + first_->workspace_bytes());
    };
    side_by_side_ ? parallel_ranges(2, 1, run_part) : run_part(0, 2);
  }

 private:
  std::size_t inputs_, outputs_;  ///< of each
  std::unique_ptr<Layer> first_, second_;
  bool side_by_side_ = false;
};

Config config_of(const Attributes& a, const library_ops::Flag& reverse) {
  return {mode_of(read(a, library_ops::recurrent::kMode)), read(a, reverse), read(a, library_ops::recurrent::kBias),
          read(a, library_ops::recurrent::kHasProjection), read(a, library_ops::kBatchInvariant)};
}

class RecurrentOp : public CachedOp {
 public:
  explicit RecurrentOp(const Attributes& a) : config_(config_of(a, library_ops::recurrent::kReverse)) {}

 protected:
  std::unique_ptr<PreparedCall> make(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    return make_layer(config_, inputs, outputs, thread_count());
  }

 private:
  Config config_;
};

class RecurrentPairOp : public CachedOp {
 public:
  explicit RecurrentPairOp(const Attributes& a)
      : first_(config_of(a, library_ops::recurrent::kReverse)),
        second_(config_of(a, library_ops::recurrent::kSecondReverse)) {}

 protected:
  std::unique_ptr<PreparedCall> make(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    return std::make_unique<RecurrentPair>(first_, second_, inputs, outputs);
  }

 private:
  Config first_, second_;
};

const DefineLibraryOps kRecurrent({{library_ops::recurrent::kName, call_site<RecurrentOp>},
                                   {library_ops::recurrent::kPairName, call_site<RecurrentPairOp>}});

}  // namespace

}  // namespace coil::runtime
