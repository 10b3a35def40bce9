// The gradients of one direction of one layer of a recurrent network, from the step that the layer takes last to its
// first: `recurrent_backward`.
#include <cstring>
#include <optional>

#include "library_ops/products.h"
#include "library_ops/recurrent.h"
#include "runtime/device/cached_op.h"
#include "runtime/device/library.h"
#include "runtime/device/threads.h"
#include "runtime/ops/recurrent_cells.h"
#include "runtime/ops/recurrent_product.h"
#include "runtime/ops/staging.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

struct BackwardConfig {
  recurrence::Mode mode = recurrence::Mode::Lstm;
  bool from_end = false, has_projection = false, batch_invariant = false;
};

/// In each step the gradients of the gates, element by element, then their product with the weight: what reaches the
/// hidden state before the step.
template <class T>
class RecurrentBackward : public PreparedCall {
 public:
  RecurrentBackward(const BackwardConfig& config, std::span<const BoundView> in, std::span<const BoundView> out,
                    DType loop)
      : config_(config) {
    const bool lstm = is(recurrence::Mode::Lstm), gru = is(recurrence::Mode::Gru);
    const std::size_t inputs = 4u + 2u * lstm + config.has_projection + (lstm || gru);
    if (in.size() != inputs || out.size() != 2u + lstm || in[0].sizes.size() != 3 || out[0].sizes.size() != 3)
      fail("recurrent_backward: {} inputs and {} results do not fit its attributes", in.size(), out.size());
    const std::int64_t gates = recurrence::gate_count(config.mode);
    steps_ = in[0].sizes[0], batch_ = in[0].sizes[1], state_ = in[0].sizes[2];
    hidden_ = out[0].sizes[2] / gates;
    std::size_t next = 0;
    auto stage = [&](Sizes sizes) {
      if (in[next].sizes != sizes)
        fail("recurrent_backward: input {} has sizes [{}], expected [{}]", next, fmt::join(in[next].sizes, ", "),
             fmt::join(sizes, ", "));
      const Staging::Operand operand = staging_.input(next, in[next], dense_view(loop, std::move(sizes)));
      ++next;
      return operand;
    };
    grads_ = stage({steps_, batch_, state_});
    const Staging::Operand grad_hidden = stage({batch_, state_});
    last_ = {grad_hidden, lstm ? stage({batch_, hidden_}) : 0};
    saved_ = stage({steps_, batch_, (lstm || gru ? 4 : 1) * hidden_});
    if (lstm) cells_ = stage({steps_, batch_, hidden_});
    weight_ = stage({gates * hidden_, state_});
    if (config.has_projection) projection_ = stage({state_, hidden_});
    if (lstm || gru) previous_ = stage({steps_, batch_, hidden_});
    grad_gates_ = staging_.output(0, out[0], dense_view(loop, {steps_, batch_, gates * hidden_}), false);
    grad_hidden_ = staging_.output(1, out[1], dense_view(loop, {batch_, state_}), false);
    if (lstm) grad_cell_ = staging_.output(2, out[2], dense_view(loop, {batch_, hidden_}), false);
    sums_ = staging_.scratch(gru ? bytes(batch_ * gates * hidden_) : 0);
    wide_ = staging_.scratch(config.has_projection ? bytes(batch_ * hidden_) : 0);
    direct_ = staging_.scratch(gru ? bytes(batch_ * hidden_) : 0);
    prepare_parts(loop, recurrence::parts_of(batch_, gates * hidden_ * state_, thread_count()));
    pointers_.resize(staging_.operands());
  }

  std::size_t workspace_bytes() const override { return staging_.bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    staging_.load(inputs, outputs, workspace, pointers_);
    const void* weight = parts_[0].product.begin(at(weight_), at(packed_));
    const void* projection = nullptr;
    if (parts_[0].project) projection = parts_[0].project->begin(at(projection_), at(packed_projection_));
    std::memcpy(at(grad_hidden_), at(last_.hidden), bytes(batch_ * state_));
    if (is(recurrence::Mode::Lstm)) std::memcpy(at(grad_cell_), at(last_.cell), bytes(batch_ * hidden_));
    parallel_ranges(static_cast<std::int64_t>(parts_.size()), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) run_part(parts_[static_cast<std::size_t>(k)], weight, projection);
    });
    staging_.store(outputs, pointers_);
  }

 private:
  static std::size_t bytes(std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(T); }
  T* at(Staging::Operand o) const { return static_cast<T*>(pointers_[o]); }
  bool is(recurrence::Mode mode) const { return config_.mode == mode; }

  struct Part {
    std::int64_t first = 0, rows = 0;
    recurrence::StepProduct product;
    std::optional<recurrence::StepProduct> project = std::nullopt;
    Staging::Operand scratch = 0, project_scratch = 0;
  };

  void prepare_parts(DType loop, std::int64_t count) {
    // Primitives divide their work when they are made.
    const ThreadScope scope(count > 1 ? 1 : thread_count());
    const std::int64_t width = recurrence::gate_count(config_.mode) * hidden_;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t first = batch_ * k / count, rows = batch_ * (k + 1) / count - first;
      Part part{.first = first,
                .rows = rows,
                .product = {{loop, width, state_, false, true}, rows, steps_, config_.batch_invariant}};
      part.scratch = staging_.scratch(part.product.workspace_bytes());
      if (config_.has_projection) {
        part.project.emplace(recurrence::StepWeight{loop, state_, hidden_, false, true}, rows, steps_,
                             config_.batch_invariant);
        part.project_scratch = staging_.scratch(part.project->workspace_bytes());
      }
      parts_.push_back(std::move(part));
    }
    packed_ = staging_.scratch(parts_[0].product.packed_bytes());
    packed_projection_ = staging_.scratch(parts_[0].project ? parts_[0].project->packed_bytes() : 0);
  }

  /// All steps for some rows of the batch. What reaches the hidden state lies in the memory of its gradient.
  void run_part(Part& part, const void* weight, const void* projection) const {
    const std::int64_t width = recurrence::gate_count(config_.mode) * hidden_;
    T* reached = at(grad_hidden_) + part.first * state_;
    for (std::int64_t i = 0; i < steps_; ++i) {
      const std::int64_t step = config_.from_end ? steps_ - 1 - i : i, first = step * batch_ + part.first;
      const T* grads = at(grads_) + first * state_;
      for (std::int64_t k = 0; k < part.rows * state_; ++k) reached[k] += grads[k];
      const T* hidden = reached;
      if (part.project) {
        T* wide = at(wide_) + part.first * hidden_;
        const void* operands[] = {reached, projection};
        part.project->run(operands, wide, at(part.project_scratch));
        hidden = wide;
      }
      step_cells(part, hidden, step);
      const T* gates = is(recurrence::Mode::Gru) ? at(sums_) + part.first * width : at(grad_gates_) + first * width;
      const void* operands[] = {gates, weight};
      part.product.run(operands, reached, at(part.scratch));
      if (is(recurrence::Mode::Gru))
        for (std::int64_t k = 0; k < part.rows * hidden_; ++k) reached[k] += at(direct_)[part.first * hidden_ + k];
    }
  }

  /// `hidden` begins with the part's first row.
  void step_cells(const Part& part, const T* hidden, std::int64_t step) const {
    constexpr std::int64_t kGrain = 1024;  // elements worth a thread
    parallel_ranges(part.rows, 1 + kGrain / (hidden_ + 1), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) cell_row(hidden + b * hidden_, step, part.first + b);
    });
  }

  void cell_row(const T* hidden, std::int64_t step, std::int64_t b) const {
    const std::int64_t width = recurrence::gate_count(config_.mode) * hidden_, row = step * batch_ + b;
    const cells::BackwardRow<T> all{.hidden = hidden,
                                    .saved = at(saved_) + row * (is_gated() ? 4 : 1) * hidden_,
                                    .cells = is(recurrence::Mode::Lstm) ? at(cells_) + row * hidden_ : nullptr,
                                    .previous = is_gated() ? at(previous_) + row * hidden_ : nullptr,
                                    .count = hidden_,
                                    .gates = at(grad_gates_) + row * width};
    switch (config_.mode) {
      case recurrence::Mode::Lstm: return kernels_.lstm_backward(all, at(grad_cell_) + b * hidden_);
      case recurrence::Mode::Gru: return kernels_.gru_backward(all, at(sums_) + b * width, at(direct_) + b * hidden_);
      case recurrence::Mode::Tanh: return kernels_.tanh_backward(all);
      case recurrence::Mode::Relu: return kernels_.relu_backward(all);
    }
  }

  bool is_gated() const { return is(recurrence::Mode::Lstm) || is(recurrence::Mode::Gru); }

  static const cells::KernelsOf<T>& kernels() {
    if constexpr (std::is_same_v<T, float>)
      return cells::kernels_of_this_machine().f32;
    else
      return cells::kernels_of_this_machine().f64;
  }

  struct States {
    Staging::Operand hidden = 0, cell = 0;
  };

  BackwardConfig config_;
  const cells::KernelsOf<T>& kernels_ = kernels();
  Staging staging_;
  std::int64_t steps_ = 0, batch_ = 0, hidden_ = 0, state_ = 0;
  States last_;  ///< gradients of the states that the layer ends with
  Staging::Operand grads_ = 0, saved_ = 0, cells_ = 0, previous_ = 0, weight_ = 0, projection_ = 0, grad_gates_ = 0,
                   grad_hidden_ = 0, grad_cell_ = 0, sums_ = 0, wide_ = 0, direct_ = 0, packed_ = 0,
                   packed_projection_ = 0;
  std::vector<Part> parts_;
  std::vector<void*> pointers_;
};

class RecurrentBackwardOp : public CachedOp {
 public:
  explicit RecurrentBackwardOp(const Attributes& a)
      : config_{recurrence::mode_of(read(a, library_ops::recurrent::kMode)), read(a, library_ops::recurrent::kFromEnd),
                read(a, library_ops::recurrent::kHasProjection), read(a, library_ops::kBatchInvariant)} {}

 protected:
  std::unique_ptr<PreparedCall> make(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    if (inputs.empty() || !is_floating(inputs[0].dtype)) fail("recurrent_backward takes floating types");
    if (loop_dtype(inputs[0].dtype) == DType::F64)
      return std::make_unique<RecurrentBackward<double>>(config_, inputs, outputs, DType::F64);
    return std::make_unique<RecurrentBackward<float>>(config_, inputs, outputs, DType::F32);
  }

 private:
  BackwardConfig config_;
};

const DefineLibraryOps kRecurrentBackward({{library_ops::recurrent::kBackwardName, call_site<RecurrentBackwardOp>}});

}  // namespace

}  // namespace coil::runtime
