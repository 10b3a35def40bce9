#include "passes/loop/nan_guards.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "library_ops/checks.h"
#include "library_ops/convolutions.h"
#include "library_ops/table.h"
#include "library_ops/winograd_transforms.h"
#include "passes/loop/pack_weights.h"
#include "runtime/views/half.h"
#include "support/error.h"

namespace coil {
namespace {

using library_ops::EpilogueCall;
using library_ops::PostOp;
using library_ops::Trait;

constexpr double kUnknown = std::numeric_limits<double>::infinity();
constexpr double kGreatest = 1e37;         ///< what an f32 accumulator may reach, roundings included
constexpr double kSlack = 1.01;            ///< for roundings on the way
constexpr double kLimits[] = {1e12, 1e4};  ///< what an operand is held to: generously, else as little as serves

bool is_float(DType d) { return d == DType::F32 || d == DType::BF16 || d == DType::F16; }

/// The bound itself, or unknown where elements of the type could be infinite under it.
double stored(double bound, DType dtype) {
  const double greatest = dtype == DType::F16 ? 65000 : kGreatest;
  return (is_float(dtype) || dtype == DType::F64) && bound <= greatest ? bound : kUnknown;
}

template <class T>
double magnitude(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return std::fabs(static_cast<double>(static_cast<float>(value)));
}

/// Sum of the magnitudes of `n` elements in a row; NaN or infinite where they are.
double sum_of_magnitudes(const float* values, std::int64_t n) {
  typedef float Lanes __attribute__((vector_size(16)));
  typedef std::int32_t Bits __attribute__((vector_size(16)));
  Lanes sums[4] = {};
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int k = 0; k < 4; ++k) {
      Bits v;
      std::memcpy(&v, values + i + 4 * k, sizeof v);
      sums[k] += reinterpret_cast<Lanes>(v & std::numeric_limits<std::int32_t>::max());
    }
  double total = 0;
  for (const Lanes& s : sums)
    for (int k = 0; k < 4; ++k) total += static_cast<double>(s[k]);
  for (; i < n; ++i) total += std::fabs(static_cast<double>(values[i]));
  return total;
}

/// The greatest magnitude of `n` elements in a row; unknown where one is NaN, whose bits are the greatest.
double greatest_magnitude(const float* values, std::int64_t n) {
  typedef std::int32_t Bits __attribute__((vector_size(16)));
  constexpr std::int32_t kMagnitude = std::numeric_limits<std::int32_t>::max();
  Bits most[2] = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 2; ++k) {
      Bits v;
      std::memcpy(&v, values + i + 4 * k, sizeof v);
      v &= kMagnitude;
      most[k] = v > most[k] ? v : most[k];
    }
  std::int32_t bits = 0;
  for (const Bits& m : most)
    for (int k = 0; k < 4; ++k) bits = std::max(bits, m[k]);
  for (; i < n; ++i) bits = std::max(bits, std::bit_cast<std::int32_t>(values[i]) & kMagnitude);
  const float result = std::bit_cast<float>(bits);
  return std::isnan(result) ? kUnknown : static_cast<double>(result);
}

/// Sums and extremes of a constant.
class Magnitudes {
 public:
  explicit Magnitudes(const Tensor& t) : tensor_(t.contiguous()) {}

  /// The greatest sum of magnitudes over all dimensions but `kept`.
  double greatest_sum(std::size_t kept) const {
    const Sizes& sizes = tensor_.sizes;
    std::int64_t before = 1, after = 1;
    for (std::size_t d = 0; d < kept; ++d) before *= sizes[d];
    for (std::size_t d = kept + 1; d < sizes.size(); ++d) after *= sizes[d];
    std::vector<double> sums(static_cast<std::size_t>(sizes[kept]), 0.0);
    for (std::int64_t b = 0, at = 0; b < before; ++b)
      for (double& sum : sums) {
        sum += sum_of(at, after);
        at += after;
      }
    return greatest_of(sums);
  }

  double greatest() const {
    if (tensor_.dtype == DType::F32) return greatest_magnitude(tensor_.data<float>(), tensor_.numel());
    double result = 0;
    for (std::int64_t i = 0; i < tensor_.numel(); ++i) {
      const double m = sum_of(i, 1);
      if (!(m <= result)) result = m;  // NaN as well
    }
    return std::isnan(result) ? kUnknown : result;
  }

 private:
  static double greatest_of(const std::vector<double>& values) {
    double result = 0;
    for (double v : values) {
      if (std::isnan(v)) return kUnknown;
      result = std::max(result, v * kSlack);
    }
    return result;
  }

  double sum_of(std::int64_t begin, std::int64_t n) const {
    if (tensor_.dtype == DType::F32) return sum_of_magnitudes(tensor_.data<float>() + begin, n);
    double sum = 0;
    for (std::int64_t i = begin; i < begin + n; ++i) {
      const std::byte* at = tensor_.bytes() + i * static_cast<std::int64_t>(size_of(tensor_.dtype));
      sum += tensor_.dtype == DType::BF16 ? magnitude<runtime::BF16>(at) : magnitude<runtime::F16>(at);
    }
    return sum;
  }

  Tensor tensor_;
};

class Guards {
 public:
  Guards(ir::Graph& graph, bool looks) : graph_(graph), looks_at_data_(looks), bounds_(graph.buffers().size(), 0) {
    for (const ir::Buffer& b : graph.buffers())
      if (b.kind != ir::BufferKind::Computed) bounds_[b.id] = kUnknown;
  }

  void run() {
    bool any = false;
    for (const ir::Operation& op : graph_.operations())
      if (const auto* call = std::get_if<ir::Extern>(&op.node); call && takes_post_ops(*call))
        any = any || loses_nan(*call);
    if (!any) return;
    std::vector<ir::Operation> given(graph_.operations().begin(), graph_.operations().end());
    for (std::size_t k = 0; k < given.size(); ++k) {
      ir::Operation& op = given[k];
      if (const auto* control = std::get_if<ir::Control>(&op.node)) {
        if (control->closes()) leave();
        if (control->opens()) enter();
        if (control->kind == ir::Control::Kind::Loop) forget_what_turns_write(given, k);
      }
      auto* call = std::get_if<ir::Extern>(&op.node);
      const bool product = call && takes_post_ops(*call);
      if (product && loses_nan(*call)) guard(op, *call);
      const double bound = product ? bound_of(*call).result : bound_of(op);
      looked_.clear();
      for (ir::BufferId out : op.outs) {
        // A buffer may have several writers, each of a part.
        double& known = bounds_[out];
        known = std::max(known, stored(bound, graph_.buffer(out).layout.dtype));
        written_.push_back(out);
      }
      made_.push_back(std::move(op));
    }
    graph_.replace_operations(std::move(made_));
  }

 private:
  struct ProductBound {
    double result = kUnknown;
    bool safe = true;  ///< what reaches each post-operation that loses NaN stays below kGreatest
  };

  /// A branch or a loop: what held in front of it.
  struct Block {
    std::vector<double> bounds;
    std::optional<ir::BufferView> flag;
    std::size_t written = 0;  ///< of `written_`, in front of it
  };

  void enter() { blocks_.push_back({bounds_, flag_, written_.size()}); }

  /// Behind a block nothing was looked at that was not looked at in front of it: the block may not have run. What it
  /// wrote is bounded where that did not rest on a look of its own.
  void leave() {
    const Block outside = std::move(blocks_.back());
    blocks_.pop_back();
    const bool looked =
        flag_.has_value() != outside.flag.has_value() || (flag_ && flag_->buffer != outside.flag->buffer);
    std::vector<double> inside = std::exchange(bounds_, outside.bounds);
    bounds_.resize(inside.size(), kUnknown);
    for (std::size_t k = outside.written; k < written_.size(); ++k)
      bounds_[written_[k]] = looked ? kUnknown : inside[written_[k]];
    flag_ = outside.flag;
  }

  /// A turn reads what the turn before wrote, whatever was there in front of the loop at `begin`.
  void forget_what_turns_write(const std::vector<ir::Operation>& operations, std::size_t begin) {
    const std::set<ir::BufferId> before(written_.begin(), written_.end());
    int depth = 1;
    for (std::size_t k = begin + 1; k < operations.size() && depth > 0; ++k) {
      const auto* control = std::get_if<ir::Control>(&operations[k].node);
      if (control) depth += static_cast<int>(control->opens()) - static_cast<int>(control->closes());
      for (ir::BufferId out : operations[k].outs)
        if (before.contains(out)) bounds_[out] = kUnknown;
    }
  }

  static bool takes_post_ops(const ir::Extern& call) {
    return library_ops::has(call.op, Trait::TakesPostOps) && !library_ops::has(call.op, Trait::Kernel);
  }

  /// A convolution that passes/loop/winograd.h will take apart loses it too: what is not finite would spread through
  /// its tile.
  static bool loses_nan(const ir::Extern& call) {
    return library_ops::winograd_tile(call) || std::ranges::any_of(EpilogueCall(call).post(), [](const PostOp& op) {
             return library_ops::info(op.kind).loses_nan;
           });
  }

  double bound(const ir::BufferView& v) {
    const ir::Buffer& b = graph_.buffer(v.buffer);
    if (!graph_.is_known(v.buffer) || !is_float(b.layout.dtype))
      return v.dtype == b.layout.dtype ? bounds_[v.buffer] : kUnknown;
    auto [it, added] = constants_.try_emplace(v.buffer, kUnknown);
    constexpr std::int64_t kMost = 1 << 24;  // larger constants (tables) are not worth reading
    if (const Tensor& value = graph_.constants.at(v.buffer); added && value.numel() <= kMost)
      it->second = Magnitudes(value).greatest();
    return it->second;
  }

  /// The bound of an operand of the call at hand: as known, or as looked at.
  double bound(const ir::Extern& call, std::size_t operand) {
    const double known = bound(call.inputs[operand]);
    auto found = looked_.find(operand);
    return found == looked_.end() ? known : std::min(known, found->second);
  }

  /// What the second operand multiplies bounds of the first by.
  double gain(const ir::Extern& call) {
    const ir::BufferView &a = EpilogueCall(call).first(), &w = EpilogueCall(call).second();
    const auto kept = library_ops::weight_results_dimension(call);
    if (const auto value = constant_operand(graph_, w); value && is_float(value->dtype) && kept) {
      if (!is_whole(w)) return Magnitudes(*value).greatest_sum(*kept);
      auto [it, added] = gains_.try_emplace({w.buffer, *kept}, 0);
      if (added) it->second = Magnitudes(*value).greatest_sum(*kept);
      return it->second;
    }
    double terms = 1;
    auto times = [&](ir::Expr size) {
      constexpr double kMost = 1e12;  // elements that memory holds
      const std::int64_t most = graph_.env().bounds(size).high;
      terms = std::min(kMost, terms * static_cast<double>(std::max<std::int64_t>(most, 1)));
    };
    if (library_ops::has(call.op, Trait::Convolution))
      std::for_each(w.sizes.begin(), w.sizes.end(), times);
    else
      times(a.sizes.back());
    return terms * bound(call, EpilogueCall<const ir::Extern>::kSecond) * kSlack;
  }

  ProductBound bound_of(const ir::Extern& call) {
    ProductBound out;
    const EpilogueCall view(call);
    std::size_t next = view.first_post_operand();
    double at = bound(call, 0) * gain(call);
    if (const auto tile = library_ops::winograd_tile(call))
      out.safe = std::max(at, bound(call, 0)) * winograd::transforms(*tile).amplification() <= kGreatest;
    if (view.has_bias()) at += bound(call, next - 1);
    for (const PostOp& op : view.post()) {
      using Kind = PostOp::Kind;
      if (std::isnan(at)) at = kUnknown;
      if (library_ops::info(op.kind).loses_nan) out.safe = out.safe && at <= kGreatest;
      switch (op.kind) {
        case Kind::Relu:
        case Kind::GeluErf:
        case Kind::GeluTanh:
        case Kind::Silu:
        case Kind::HardSwish: break;
        case Kind::Sigmoid:
        case Kind::Tanh:
        case Kind::HardSigmoid:
          if (at <= kGreatest) at = 1;
          break;
        case Kind::Clip:
          if (at <= kGreatest) at = std::max(std::fabs(op.a), std::fabs(op.b));
          break;
        case Kind::Elu: at = std::max(at, std::fabs(op.a)); break;
        case Kind::LeakyRelu: at *= std::max(1.0, std::fabs(op.a)); break;
        case Kind::Scale: at = at * std::fabs(op.a) + std::fabs(op.b); break;
        case Kind::Add: at += bound(call, next++); break;
        case Kind::Mul: at *= bound(call, next++); break;
        case Kind::Sum: at = kUnknown; break;
      }
    }
    out.result = std::isnan(at) ? kUnknown : at * kSlack;
    return out;
  }

  /// A bound for all values of a scalar that rest on bounded loads, none of them NaN.
  double bound_of(ir::Scalar root) {
    std::unordered_map<ir::Scalar, double> known;
    for (ir::Scalar s : ir::topological({&root, 1})) {
      auto arg = [&](std::size_t i) { return known.at(s->args[i]); };
      double b = kUnknown;
      using Op = ir::ScalarOp;
      switch (s->op) {
        case Op::Load:
        case Op::LinearLoad: b = bound({s->buffer, graph_.buffer(s->buffer).layout.dtype, {}, {}, 0}); break;
        case Op::Constant: b = is_float(s->dtype) || s->dtype == DType::F64 ? std::fabs(s->number) : kUnknown; break;
        case Op::Cast: b = s->args[0]->dtype == DType::Bool ? 1 : arg(0); break;
        case Op::Round: b = s->rounded == DType::F16 ? stored(arg(0) * kSlack, DType::F16) : arg(0) * kSlack; break;
        case Op::Add:
        case Op::Sub: b = arg(0) + arg(1); break;
        case Op::Mul: b = arg(0) * arg(1); break;
        case Op::Div:
          if (s->args[1]->op == Op::Constant && s->args[1]->number != 0) b = arg(0) / std::fabs(s->args[1]->number);
          break;
        case Op::Max:
        case Op::Min:
        case Op::FMax:
        case Op::FMin: b = std::max(arg(0), arg(1)); break;
        case Op::Where: b = std::max(arg(1), arg(2)); break;
        case Op::Neg:
        case Op::Abs: b = arg(0); break;
        case Op::Sign:
        case Op::Sigmoid:
        case Op::Tanh:
        case Op::Erf:
        case Op::Sin:
        case Op::Cos: b = arg(0) <= kGreatest ? 1 : kUnknown; break;
        default: break;
      }
      known[s] = b <= kGreatest ? b : kUnknown;  // NaN as well
    }
    return known.at(root);
  }

  double bound_of(const ir::Operation& op) {
    if (const auto* p = std::get_if<ir::Pointwise>(&op.node)) return bound_of(p->body);
    if (const auto* r = std::get_if<ir::Reduction>(&op.node)) {
      double count = 1;
      for (ir::Expr size : r->reduced)
        count *= static_cast<double>(std::max<std::int64_t>(graph_.env().bounds(size).high, 1));
      // Of no elements at all the greatest is an infinity.
      const bool some = std::all_of(r->reduced.begin(), r->reduced.end(),
                                    [&](ir::Expr size) { return graph_.env().bounds(size).low > 0; });
      if (r->kind == ir::ReductionKind::Sum) return bound_of(r->body) * count * kSlack;
      if ((r->kind == ir::ReductionKind::Max || r->kind == ir::ReductionKind::Min) && some) return bound_of(r->body);
    }
    return kUnknown;
  }

  bool is_whole(const ir::BufferView& v) const {
    const ir::Layout& layout = graph_.buffer(v.buffer).layout;
    return v.sizes == layout.sizes && v.strides == layout.strides && v.offset.is_constant(0) && v.dtype == layout.dtype;
  }

  bool is_constant(const ir::BufferView& v) const { return graph_.is_known(v.buffer); }

  /// Makes the call safe by looking at its operands as far as needed, or has it keep NaN by itself.
  void guard(ir::Operation& op, ir::Extern& call) {
    bool safe = bound_of(call).safe;
    for (const double limit : kLimits) {
      if (safe || !looks_at_data_) break;
      // First the bounds as they would be: looking is worth it only where it serves.
      for (std::size_t i = 0; i < call.inputs.size(); ++i)
        if (const ir::BufferView& v = call.inputs[i]; is_float(v.dtype) && !is_constant(v) && !(bound(v) <= limit))
          looked_[i] = limit;
      safe = bound_of(call).safe;
      if (!safe) looked_.clear();
    }
    if (!safe) {
      EpilogueCall(call).set_nan(library_ops::kKeepNan);
      return;
    }
    for (const auto& [i, limit] : looked_) look(call.inputs[i], limit, op);
    if (!flag_) return;
    EpilogueCall(call).set_nan(library_ops::kFlagNan);
    call.inputs.push_back(*flag_);
  }

  void look(const ir::BufferView& v, double limit, const ir::Operation& reader) {
    if (is_whole(v)) {
      if (bounds_[v.buffer] <= limit) return;  // looked at already: the operand occurs twice
      bounds_[v.buffer] = limit;
    }
    const ir::Layout layout{.dtype = DType::I32, .device = {}, .sizes = {1}, .strides = {1}, .fixed = true};
    const ir::BufferId id = graph_.add_buffer(fmt::format("bounded{}", looks_++), ir::BufferKind::Computed, layout).id;
    bounds_.push_back(kUnknown);
    const ir::BufferView made{id, layout.dtype, layout.sizes, layout.strides, 0};
    ir::Extern call{std::string(library_ops::checks::kAllBounded),
                    {{std::string(library_ops::checks::kLimit.name), limit}},
                    {v},
                    {made}};
    if (flag_) call.inputs.push_back(*flag_);
    flag_ = made;
    ir::Operation op;
    op.node = std::move(call);
    op.outs = {id};
    op.origins = reader.origins;
    op.where = reader.where;
    made_.push_back(std::move(op));
  }

  ir::Graph& graph_;
  const bool looks_at_data_;
  std::vector<double> bounds_;  ///< of each buffer's elements while the flag holds; none of them is NaN then
  std::map<ir::BufferId, double> constants_;
  std::map<std::pair<ir::BufferId, std::size_t>, double> gains_;
  std::map<std::size_t, double> looked_;  ///< operands of the call at hand, and what they are held to
  std::optional<ir::BufferView> flag_;
  std::vector<Block> blocks_;          ///< around the operation at hand, the innermost last
  std::vector<ir::BufferId> written_;  ///< so far
  std::vector<ir::Operation> made_;
  int looks_ = 0;
};

}  // namespace

void add_nan_guards(ir::Graph& graph, bool looks) { Guards(graph, looks).run(); }

}  // namespace coil
