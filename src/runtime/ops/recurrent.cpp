// One direction of one layer of a recurrent network, over a whole sequence: `recurrent` (LSTM, GRU, plain tanh and relu
// cells); with what its gradients need: `recurrent_training`; and two layers side by side: `recurrent_pair`.
#include <algorithm>
#include <cstring>
#include <optional>

#include "library_ops/products.h"
#include "library_ops/recurrent.h"
#include "runtime/device/cached_op.h"
#include "runtime/device/library.h"
#include "runtime/device/threads.h"
#include "runtime/ops/panel/gemm.h"
#include "runtime/ops/recurrent_cells.h"
#include "runtime/ops/recurrent_product.h"
#include "runtime/ops/staging.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

using recurrence::gate_count;
using recurrence::Mode;
using recurrence::mode_of;
using recurrence::parts_of;
using recurrence::StepProduct;

struct Config {
  Mode mode = Mode::Lstm;
  bool reverse = false, has_bias = false, has_projection = false, batch_invariant = false;
  bool trains = false;  ///< gives what the gradients need as well
};

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
    const std::size_t inputs = 3u + lstm + config.has_bias + config.has_projection;
    const std::size_t results = (2u + lstm) + (config.trains ? 1u + lstm : 0u);
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
    if (config.trains) {
      const std::size_t first = 2u + lstm;
      saved_ = staging_.output(first, out[first], dense_view(loop, {steps_, batch_, kSavedGates * hidden_}), false);
      if (lstm) cells_ = staging_.output(4, out[4], dense_view(loop, {steps_, batch_, hidden_}), false);
    }
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
                .product = {{loop, state_, width, config_.has_bias}, rows, steps_, config_.batch_invariant}};
      part.scratch = staging_.scratch(part.product.workspace_bytes());
      if (config_.has_projection) {
        part.project.emplace(recurrence::StepWeight{loop, hidden_, state_}, rows, steps_, config_.batch_invariant);
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
      step_cells(part, made, h, step);
      if (config_.has_projection) {
        const void* wide[] = {made, projection};
        part.project->run(wide, y, at(part.project_scratch));
      }
      h = y;
    }
  }

  /// `made` and `h` begin with the part's first row.
  void step_cells(const Part& part, T* made, const T* h, std::int64_t step) const {
    constexpr std::int64_t kGrain = 512;  // elements worth a thread: a few transcendental functions each
    parallel_ranges(part.rows, 1 + kGrain / (hidden_ + 1), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) cell_row(made + b * hidden_, h + b * state_, step, part.first + b);
    });
  }

  void cell_row(T* made, const T* h, std::int64_t step, std::int64_t b) const {
    const std::int64_t width = gate_count(config_.mode) * hidden_, row_of_all = step * batch_ + b;
    cells::Row<T> row{at(x_) + row_of_all * width, at(sums_) + b * width, hidden_, made};
    if (config_.trains) row.saved = at(saved_) + row_of_all * kSavedGates * hidden_;
    if (config_.trains && config_.mode == Mode::Lstm) row.cells = at(cells_) + row_of_all * hidden_;
    switch (config_.mode) {
      case Mode::Lstm: return kernels_.lstm(row, at(last_c_) + b * hidden_);
      case Mode::Gru: return kernels_.gru(row, h);
      case Mode::Tanh: return kernels_.plain_tanh(row);
      case Mode::Relu: return kernels_.plain_relu(row);
    }
  }

  static constexpr std::int64_t kSavedGates = 4;  ///< an LSTM's; a GRU's, and what the state adds to the last

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
                   saved_ = 0, cells_ = 0, sums_ = 0, wide_ = 0, packed_ = 0, packed_projection_ = 0;
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

Config config_of(const Attributes& a, const library_ops::Flag& reverse, bool trains = false) {
  return {mode_of(read(a, library_ops::recurrent::kMode)), read(a, reverse),
          read(a, library_ops::recurrent::kBias),          read(a, library_ops::recurrent::kHasProjection),
          read(a, library_ops::kBatchInvariant),           trains};
}

class RecurrentOp : public CachedOp {
 public:
  explicit RecurrentOp(const Attributes& a) : config_(config_of(a, library_ops::recurrent::kReverse)) {}
  explicit RecurrentOp(const Config& config) : config_(config) {}

 protected:
  std::unique_ptr<PreparedCall> make(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    return make_layer(config_, inputs, outputs, thread_count());
  }

 private:
  Config config_;
};

class RecurrentTrainingOp : public RecurrentOp {
 public:
  explicit RecurrentTrainingOp(const Attributes& a)
      : RecurrentOp(config_of(a, library_ops::recurrent::kFromEnd, true)) {}
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
                                   {library_ops::recurrent::kTrainingName, call_site<RecurrentTrainingOp>},
                                   {library_ops::recurrent::kPairName, call_site<RecurrentPairOp>}});

}  // namespace

}  // namespace coil::runtime
