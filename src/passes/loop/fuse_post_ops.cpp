#include "passes/loop/fuse_post_ops.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "ir/relayout.h"
#include "library_ops/convolutions.h"
#include "library_ops/table.h"
#include "passes/loop/buffer_uses.h"
#include "support/error.h"

namespace coil::ir {

namespace {

using library_ops::EpilogueCall;
using library_ops::PostOp;
using library_ops::Trait;
using Kind = PostOp::Kind;

/// A post-operation, and the operand that it takes.
struct Link {
  PostOp op;
  Scalar operand = nullptr;
};

Link scale(double factor, double summand) { return {{Kind::Scale, factor, summand}}; }

bool is_op(Scalar s, ScalarOp op) { return s->op == op; }
bool is_constant_f32(Scalar s) { return s->op == ScalarOp::Constant && s->dtype == DType::F32; }
bool is_close(double a, double b) { return std::fabs(a - b) <= 1e-6 * std::fabs(b); }
bool is_close_number(Scalar s, double v) {
  return is_constant_f32(s) && (v == 0 ? s->number == 0 : is_close(s->number, v));
}

/// A product taken apart: its constant, and its other factors (a constant divisor counts as a factor).
struct Product {
  double constant = 1;
  std::vector<Scalar> factors;
};

void collect_factors(Scalar s, Product& p) {
  if (is_op(s, ScalarOp::Mul)) {
    collect_factors(s->args[0], p);
    collect_factors(s->args[1], p);
  } else if (is_op(s, ScalarOp::Div) && is_constant_f32(s->args[1])) {
    p.constant /= s->args[1]->number;
    collect_factors(s->args[0], p);
  } else if (is_constant_f32(s)) {
    p.constant *= s->number;
  } else {
    p.factors.push_back(s);
  }
}

Product product_of(Scalar s) {
  Product p;
  collect_factors(s, p);
  return p;
}

/// The other operand of a commutative operation with this constant; null when it is something else.
Scalar beside_constant(Scalar s, ScalarOp op, double constant) {
  if (!is_op(s, op)) return nullptr;
  if (is_close_number(s->args[1], constant)) return s->args[0];
  if (is_close_number(s->args[0], constant)) return s->args[1];
  return nullptr;
}

/// The operand and bounds of min(max(x, lo), hi), in either nesting and order.
struct Clip {
  Scalar x;
  double low, high;
};

std::optional<Clip> as_clip(Scalar s) {
  auto split = [](Scalar e) -> std::pair<Scalar, Scalar> {
    return is_constant_f32(e->args[1])   ? std::pair(e->args[0], e->args[1])
           : is_constant_f32(e->args[0]) ? std::pair(e->args[1], e->args[0])
                                         : std::pair<Scalar, Scalar>();
  };
  if (!is_op(s, ScalarOp::Min) && !is_op(s, ScalarOp::Max)) return std::nullopt;
  auto [inner, outer_bound] = split(s);
  if (!inner || !is_op(inner, is_op(s, ScalarOp::Min) ? ScalarOp::Max : ScalarOp::Min)) return std::nullopt;
  auto [x, inner_bound] = split(inner);
  if (!x) return std::nullopt;
  const double low = is_op(s, ScalarOp::Min) ? inner_bound->number : outer_bound->number,
               high = is_op(s, ScalarOp::Min) ? outer_bound->number : inner_bound->number;
  if (!(low <= high)) return std::nullopt;
  return Clip{x, low, high};
}

/// clip(x + 3, 0, 6)
Scalar hard_gate(Scalar s) {
  auto clip = as_clip(s);
  return clip && clip->low == 0 && clip->high == 6 ? beside_constant(clip->x, ScalarOp::Add, 3) : nullptr;
}

/// kBeta * (x + 0.044715*x³), the inside of gelu's tanh form.
bool is_gelu_polynomial(Scalar s, Scalar x) {
  const Product outer = product_of(s);
  if (!is_close(outer.constant, std::numbers::sqrt2 * std::numbers::inv_sqrtpi) || outer.factors.size() != 1 ||
      !is_op(outer.factors[0], ScalarOp::Add))
    return false;
  Scalar sum = outer.factors[0];
  for (int k = 0; k < 2; ++k) {
    const Product cube = product_of(sum->args[1 - k]);
    if (sum->args[k] == x && is_close(cube.constant, 0.044715) && cube.factors == std::vector<Scalar>{x, x, x})
      return true;
  }
  return false;
}

/// What a two-factor product x*g(x) is; nothing when it is no post-operation.
std::optional<Kind> gated(double constant, Scalar x, Scalar gate) {
  if (constant == 1 && is_op(gate, ScalarOp::Sigmoid) && gate->args[0] == x) return Kind::Silu;
  if (is_close(constant, 1.0 / 6) && hard_gate(gate) == x) return Kind::HardSwish;
  Scalar inner = constant == 0.5 ? beside_constant(gate, ScalarOp::Add, 1) : nullptr;
  if (!inner) return {};
  if (is_op(inner, ScalarOp::Tanh) && is_gelu_polynomial(inner->args[0], x)) return Kind::GeluTanh;
  if (is_op(inner, ScalarOp::Erf)) {
    const Product p = product_of(inner->args[0]);
    if (is_close(p.constant, std::numbers::sqrt2 / 2) && p.factors == std::vector<Scalar>{x}) return Kind::GeluErf;
  }
  return {};
}

/// Reads a body as a chain of post-operations on `root`.
class Chain {
 public:
  explicit Chain(Scalar root) : root_(root) {}
  std::vector<Link> links;

  bool read(Scalar s) {
    if (s == root_) return true;
    if (s->dtype != DType::F32 || !contains_root(s)) return false;
    if (auto step = one_step(s)) {
      if (!read(step->first)) return false;
      // A product and a sum with constants are one operation.
      if (const PostOp& op = step->second.op; op.kind == Kind::Scale && op.a == 1 && !links.empty() &&
                                              links.back().op.kind == Kind::Scale && links.back().op.b == 0)
        links.back() = scale(links.back().op.a, op.b);
      else
        links.push_back(step->second);
      return true;
    }
    return false;
  }

 private:
  using Step = std::pair<Scalar, Link>;  ///< what is computed first, and the operation on it

  bool contains_root(Scalar s) {
    for (Scalar below : topological({&s, 1}))
      if (below == root_) return true;
    return false;
  }

  std::optional<Step> one_step(Scalar s) {
    if (auto clip = as_clip(s)) return Step{clip->x, {{Kind::Clip, clip->low, clip->high}}};
    if (Scalar x = beside_constant(s, ScalarOp::Max, 0)) return Step{x, {{Kind::Relu}}};
    if (is_op(s, ScalarOp::Sigmoid)) return Step{s->args[0], {{Kind::Sigmoid}}};
    if (is_op(s, ScalarOp::Tanh)) return Step{s->args[0], {{Kind::Tanh}}};
    if (is_op(s, ScalarOp::Where)) return piecewise(s);
    if (is_op(s, ScalarOp::Add)) return sum(s);
    if (is_op(s, ScalarOp::Sub) && is_constant_f32(s->args[1])) return Step{s->args[0], scale(1, -s->args[1]->number)};
    if (is_op(s, ScalarOp::Mul) || is_op(s, ScalarOp::Div)) return product(s);
    return std::nullopt;
  }

  /// leaky_relu and elu.
  std::optional<Step> piecewise(Scalar s) {
    Scalar condition = s->args[0], yes = s->args[1], no = s->args[2];
    if (condition->args.size() != 2 || !is_close_number(condition->args[1], 0)) return std::nullopt;
    Scalar x = condition->args[0];
    if (is_op(condition, ScalarOp::Gt) && yes == x) {
      const Product p = product_of(no);
      if (p.factors == std::vector<Scalar>{x}) return Step{x, {{Kind::LeakyRelu, p.constant}}};
    }
    if (is_op(condition, ScalarOp::Le) && no == x) {
      const Product p = product_of(yes);
      if (p.factors.size() == 1 && is_op(p.factors[0], ScalarOp::Expm1) && p.factors[0]->args[0] == x)
        return Step{x, {{Kind::Elu, p.constant}}};
    }
    return std::nullopt;
  }

  bool is_operand(Scalar s) {
    return is_op(s, ScalarOp::Load) && s->args.empty() && !s->mask && s->dtype == DType::F32 && s != root_;
  }

  std::optional<Step> sum(Scalar s) {
    for (int k = 0; k < 2; ++k) {
      if (is_constant_f32(s->args[k])) return Step{s->args[1 - k], scale(1, s->args[k]->number)};
      if (is_operand(s->args[k])) return Step{s->args[1 - k], {{Kind::Add}, s->args[k]}};
    }
    return std::nullopt;
  }

  std::optional<Step> product(Scalar s) {
    const Product p = product_of(s);
    if (p.factors.size() == 2)
      for (int k = 0; k < 2; ++k)
        if (const auto kind = gated(p.constant, p.factors[k], p.factors[1 - k])) return Step{p.factors[k], {{*kind}}};
    if (p.factors.size() == 1 && is_close(p.constant, 1.0 / 6))
      if (Scalar x = hard_gate(p.factors[0])) return Step{x, {{Kind::HardSigmoid}}};
    Scalar left = s->args[0], right = s->args[1];
    if (is_constant_f32(right))
      return Step{left, scale(is_op(s, ScalarOp::Mul) ? right->number : 1 / right->number, 0)};
    if (!is_op(s, ScalarOp::Mul)) return std::nullopt;
    if (is_constant_f32(left)) return Step{right, scale(left->number, 0)};
    if (is_operand(right)) return Step{left, {{Kind::Mul}, right}};
    if (is_operand(left)) return Step{right, {{Kind::Mul}, left}};
    return std::nullopt;
  }

  Scalar root_;
};

/// How the dimensions of a call's result run through the loops of the operation behind it: each is one loop, or several
/// in row-major order; loops of size 1 may be left over.
class LoopMap {
 public:
  static std::optional<LoopMap> make(Graph& graph, const Exprs& index, const Exprs& call_sizes,
                                     const Exprs& loop_sizes) {
    LoopMap map;
    std::vector<bool> used(loop_sizes.size());
    for (std::size_t d = 0; d < index.size(); ++d) {
      auto& parts = map.parts_.emplace_back();
      Expr rest = index[d], count = 1;
      for (std::size_t k = loop_sizes.size(); k-- > 0;) {
        auto linear = sym::linear_in(rest, graph.ivar(k));
        if (!linear) return std::nullopt;
        if (linear->coefficient.is_constant(0)) continue;
        if (used[k] || !(linear->coefficient == count)) return std::nullopt;
        used[k] = true;
        parts.push_back({k, count});
        count *= loop_sizes[k];
        rest = linear->rest;
      }
      if (!rest.is_constant(0) || !graph.env().statically_known_equal(count, call_sizes[d])) return std::nullopt;
    }
    for (std::size_t k = 0; k < loop_sizes.size(); ++k)
      if (!used[k] && !loop_sizes[k].is_constant(1)) return std::nullopt;
    map.loops_ = loop_sizes.size();
    map.identity_ = index.size() == loop_sizes.size();
    for (std::size_t d = 0; map.identity_ && d < index.size(); ++d)
      map.identity_ = map.parts_[d].size() == 1 ? map.parts_[d][0].first == d : map.parts_[d].empty();
    return map;
  }

  bool is_identity() const { return identity_; }

  /// Strides in the call's dimensions of something that has `strides` in the loops.
  std::optional<Exprs> strides(const Exprs& strides) const {
    Exprs result;
    for (auto& parts : parts_) {
      const Expr stride = parts.empty() ? Expr(0) : strides[parts[0].first];
      for (auto& [loop, factor] : parts)
        if (!(strides[loop] == factor * stride)) return std::nullopt;
      result.push_back(stride);
    }
    return result;
  }

  /// The other way round: strides in the loops of something that has `strides` in the call's dimensions.
  Exprs loop_strides(const Exprs& strides) const {
    Exprs result(loops_, 1);
    for (std::size_t d = 0; d < parts_.size(); ++d)
      for (auto& [loop, factor] : parts_[d]) result[loop] = factor * strides[d];
    return result;
  }

 private:
  std::vector<std::vector<std::pair<std::size_t, Expr>>>
      parts_;  ///< for each dimension: loops from the innermost, and what they count
  std::size_t loops_ = 0;
  bool identity_ = false;
};

/// What the GPU's libraries do on the way: a matrix product adds one operand that lies as the result does, then takes
/// relu or, where the result has 16 bits, gelu's tanh form (cuBLASLt's is five times as far from f64 in f32 as torch's:
/// 1.8e-6 of 3.6e-7); a convolution in 16 bits adds one and takes relu (in f32, cuDNN's engines that do more
/// than the convolution round its operands).
bool gpu_takes(const Extern& call, std::span<const PostOp> post, std::span<const BufferView> operands,
               const BufferView& result) {
  const bool adds = !post.empty() && post[0].kind == Kind::Add;
  if (library_ops::has(call.op, Trait::Convolution)) {
    if (result.dtype != DType::BF16 && result.dtype != DType::F16) return false;
    if (adds) {
      if (!operands.empty() &&
          (operands.size() != 1 || operands[0].sizes != result.sizes || operands[0].dtype != result.dtype))
        return false;
      post = post.subspan(1);
    }
    return post.empty() || (post.size() == 1 && post[0].kind == Kind::Relu);
  }
  if (adds) {
    if (!operands.empty() && (operands.size() != 1 || operands[0].sizes != result.sizes ||
                              operands[0].strides != result.strides || operands[0].dtype != result.dtype))
      return false;
    post = post.subspan(1);
  }
  const bool has_gelu = size_of(result.dtype) == 2;
  return post.empty() ||
         (post.size() == 1 && (post[0].kind == Kind::Relu || (has_gelu && post[0].kind == Kind::GeluTanh)));
}

/// Whether a GPU's library writes a product's result so, and not a copy of it behind the product: rows one behind the
/// other at one distance, their elements side by side; of a batch, the matrices too.
bool is_matrix(const Extern& product, const Exprs& sizes, const Exprs& strides) {
  if (sizes.size() < 2) return true;
  const std::size_t row = sizes.size() - 2;
  const auto follows = [&](std::size_t d) {
    return sizes[d].is_constant(1) || strides[d] == strides[d + 1] * sizes[d + 1];
  };
  if (!strides.back().is_constant(1) && !sizes.back().is_constant(1)) return false;
  // Where one matrix multiplies all of a batch, the batch's rows are those of one matrix too.
  const bool is_one = product.inputs[1].sizes.size() == 2;
  const std::size_t joined = is_one ? row : row - std::min<std::size_t>(row, 1);
  for (std::size_t d = 0; d < joined; ++d)
    if (!follows(d)) return false;
  return true;
}

class PostOpFusion {
 public:
  explicit PostOpFusion(Graph& graph)
      : graph_(graph),
        list_(graph.operations().begin(), graph.operations().end()),
        uses_(graph, list_),
        alive_(list_.size(), true) {
    blocks_ = blocks(graph);
    written_at_.resize(list_.size());
    std::iota(written_at_.begin(), written_at_.end(), 0);
  }

  void run() {
    for (std::size_t i = 0; i < list_.size(); ++i)
      if (auto* p = std::get_if<Pointwise>(&list_[i].node); p && p->body->has_loads) fuse(i);
    std::vector<Operation> kept;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (alive_[i]) kept.push_back(std::move(list_[i]));
      if (const auto copy = copies_.find(i); copy != copies_.end()) kept.push_back(std::move(copy->second));
    }
    graph_.replace_operations(std::move(kept));
  }

 private:
  static bool is_product(const Operation& op) { return library_ops::has(std::get<Extern>(op.node).op, Trait::Product); }

  bool takes_post_ops(const Operation& op) const {
    auto* call = std::get_if<Extern>(&op.node);
    if (!call || !library_ops::has(call->op, Trait::TakesPostOps) || library_ops::winograd_tile(*call)) return false;
    const DType t = call->outputs[0].dtype;
    return t == DType::F32 || t == DType::BF16 || t == DType::F16;
  }

  /// Index in the list of the call whose result the operation at `i` can be computed with.
  void fuse(std::size_t i) {
    const Pointwise& loop = std::get<Pointwise>(list_[i].node);
    const Buffer& out = graph_.buffer(list_[i].outs[0]);
    if (list_[i].store_index.empty()
            ? out.kind != BufferKind::Computed || uses_.writers[out.id].size() != 1 || loop.sizes != out.layout.sizes
            : !out.layout.device.is_host() || out.layout.comm)
      return;
    // The call that was written last is tried first: what earlier ones gave is there by then. One that took in other
    // results already would, with a sum of many, hold them all.
    std::vector<std::pair<std::size_t, Scalar>> candidates;
    for (Scalar load : loads(loop.body)) {
      auto& writers = uses_.writers[load->buffer];
      if (load->op == ScalarOp::Load && load->args.empty() && !load->mask && writers.size() == 1 &&
          blocks_[writers[0]] == blocks_[i] && takes_post_ops(list_[writers[0]]) &&
          (list_[i].store_index.empty() || is_product(list_[writers[0]])))
        candidates.emplace_back(writers[0], load);
    }
    std::ranges::stable_sort(candidates, std::greater<>(), [&](const auto& c) { return written_at_[c.first]; });
    if (candidates.size() == 2 && holds_more(candidates[0].first, candidates[1].first))
      std::swap(candidates[0], candidates[1]);
    for (auto& [call, load] : candidates)
      if (fuse(i, call, load)) return;
  }

  std::int64_t bytes(BufferId b) const {
    const Layout& l = graph_.buffer(b).layout;
    return graph_.env().hint_or(sym::product(l.sizes), 0) * static_cast<std::int64_t>(size_of(l.dtype));
  }

  /// Of two calls whose results are added, one is often a shortcut: it reads what the other's operand is made of as
  /// well. If the shortcut adds, its operand is there while the other side is computed, else its result is. Whether
  /// more is there where `first` adds than where `second` does.
  bool holds_more(std::size_t first, std::size_t second) const {
    const auto operand = [&](std::size_t call) { return std::get<Extern>(list_[call].node).inputs[0].buffer; };
    const auto is_shortcut = [&](std::size_t call) {
      return graph_.buffer(operand(call)).kind == BufferKind::Computed && uses_.readers.at(operand(call)).size() > 1;
    };
    if (is_shortcut(first) == is_shortcut(second)) return false;
    const std::size_t shortcut = is_shortcut(first) ? first : second;
    const std::int64_t read = bytes(operand(shortcut)), made = bytes(list_[shortcut].outs[0]);
    return shortcut == first ? read > made : read < made;
  }

  /// Whether the call may store what the loop stores: of the same type, or f32 that is made of operands as narrow as
  /// the loop's result and was only kept so wide in order not to be rounded before the loop.
  static bool rounds_once(const Operation& call, const Buffer& between, DType stored) {
    const DType made = between.layout.dtype;
    if (made == stored) return true;
    const std::vector<BufferView>& operands = std::get<Extern>(call.node).inputs;
    return made == DType::F32 && (stored == DType::BF16 || stored == DType::F16) &&
           std::ranges::all_of(operands, [&](const BufferView& view) { return view.dtype == stored; });
  }

  /// Whether the loop at `i` does nothing but make f32 of a product of narrower matrices, for the caller or a library:
  /// the product, which adds up in f32, is not rounded in between then. Gradients of weights under autocast are such.
  bool is_widened(std::size_t i, const Operation& call, const Buffer& between) {
    const Pointwise& loop = std::get<Pointwise>(list_[i].node);
    const Buffer& made = graph_.buffer(list_[i].outs[0]);
    const Extern& product = std::get<Extern>(call.node);
    const auto is_narrow = [&](const BufferView& view) { return view.dtype == between.layout.dtype; };
    const auto is_loop = [&](std::size_t reader) { return list_[reader].is_loop(); };
    return is_product(call) && loop.body->op == ScalarOp::Load && list_[i].store_index.empty() &&
           made.layout.dtype == DType::F32 && size_of(between.layout.dtype) == 2 && product.inputs.size() == 2 &&
           std::ranges::all_of(product.inputs, is_narrow) && EpilogueCall(product).post().empty() &&
           std::ranges::none_of(uses_.readers[made.id], is_loop);
  }

  bool fuse(std::size_t i, std::size_t call_at, Scalar root) {
    const Pointwise& loop = std::get<Pointwise>(list_[i].node);
    const Buffer& between = graph_.buffer(root->buffer);
    const bool is_part = !list_[i].store_index.empty();
    Layout out = graph_.buffer(list_[i].outs[0]).layout;
    if (is_part) out.sizes = loop.sizes, out.strides = sym::contiguous_strides(loop.sizes), out.fixed = false;
    // What the device's library does behind a product, and what it loses, is known of the target.
    if (graph_.on_several_devices && out.device != graph_.target().device) return false;
    const bool widened = is_widened(i, list_[call_at], between);
    if (between.kind != BufferKind::Computed || between.is_output || uses_.returned.contains(between.id) ||
        uses_.readers[between.id].size() != 1 || !(widened || rounds_once(list_[call_at], between, out.dtype)))
      return false;
    for (Scalar load : loads(loop.body))
      if (load != root && load->buffer == root->buffer) return false;
    Chain chain(root);
    if (!chain.read(loop.body) || chain.links.empty() != widened) return false;

    Extern call = std::get<Extern>(list_[call_at].node);
    const BufferView& result = call.outputs[0];
    if (result.sizes != between.layout.sizes || result.strides != between.layout.strides ||
        !result.offset.is_constant(0))
      return false;
    const auto map = LoopMap::make(graph_, root->index, result.sizes, loop.sizes);
    if (!map) return false;
    const bool few =
        graph_.target(out.device).has(target::Feature::FewPostOps) && !library_ops::has(call.op, Trait::Kernel);
    const auto out_strides =
        few && is_product(list_[call_at]) ? rows_of(call, *map, is_part, out) : strides_of(*map, out);
    if (!out_strides) return false;
    std::vector<PostOp> post = EpilogueCall(call).post();
    std::vector<BufferView> operands;
    for (const Link& link : chain.links) {
      post.push_back(link.op);
      if (!link.operand) continue;
      auto view = operand_view(link.operand, *map, result.sizes, loop.sizes);
      if (!view) return false;
      operands.push_back(*view);
    }
    if (!library_ops::may_stand_together(post) || !may_have(call, post)) return false;
    BufferView window{list_[i].outs[0], out.dtype, result.sizes, *out_strides, 0};
    if (few && !gpu_takes(call, post, operands, window)) return false;
    if (!is_part && !lies_so(window.buffer, out.strides)) return false;
    if (!map->is_identity()) {
      for (std::size_t d = result.sizes.size(); d-- > 0;)
        if (result.sizes[d].is_constant(1))
          window.strides[d] = d + 1 < result.sizes.size() ? window.strides[d + 1] * result.sizes[d + 1] : Expr(1);
      out.fixed = true;
    }
    for (auto& view : operands)
      if (!is_whole(view)) graph_.buffer(view.buffer).layout.fixed = true;

    if (is_part)
      window.buffer = copied_to_part(i, std::move(out));
    else
      graph_.buffer(window.buffer).layout.fixed = out.fixed;
    call.outputs = {window};
    put_in_place(i, call_at, std::move(call), operands, post);
    uses_.readers[between.id].clear();
    return true;
  }

  /// A new buffer for the value that the loop at `i` stored as a part of a larger one, and a loop that copies it there:
  /// write-results-in-parts lets the call store it where it will lie.
  BufferId copied_to_part(std::size_t i, Layout layout) {
    Operation& loop = list_[i];
    const DType dtype = layout.dtype;
    const BufferId made = graph_.add_buffer("", BufferKind::Computed, std::move(layout)).id;
    Operation copy = loop;
    const Exprs& sizes = std::get<Pointwise>(loop.node).sizes;
    copy.node = Pointwise{sizes, graph_.pool().load(made, dtype, graph_.ivars(sizes.size()))};
    copies_.emplace(i, std::move(copy));
    loop.store_index.clear();
    loop.outs = {made};
    uses_.writers[made] = {i}, uses_.readers[made] = {i};
    return made;
  }

  /// The call with its post-operations stands where the loop was. Their operands go behind those of earlier ones: a
  /// kernel's call may have operands of what is in front of it at the end.
  void put_in_place(std::size_t i, std::size_t call_at, Extern call, const std::vector<BufferView>& operands,
                    const std::vector<PostOp>& post) {
    const std::size_t behind =
        EpilogueCall(call).first_post_operand() + library_ops::operands_of(EpilogueCall(call).post());
    call.inputs.insert(call.inputs.begin() + static_cast<std::ptrdiff_t>(behind), operands.begin(), operands.end());
    if (!post.empty()) EpilogueCall(call).set_post(post);
    Operation& target = list_[i];
    target.origins.insert(list_[call_at].origins.begin(), list_[call_at].origins.end());
    for (BufferId b : reads(list_[call_at])) {
      auto& readers = uses_.readers[b];
      readers.erase(std::remove(readers.begin(), readers.end(), call_at), readers.end());
      if (std::find(readers.begin(), readers.end(), i) == readers.end()) readers.push_back(i);
    }
    target.node = std::move(call);
    written_at_[i] = written_at_[call_at];
    alive_[call_at] = false;
  }

  /// Strides of a call's result that lies as a loop's does.
  static std::optional<Exprs> strides_of(const LoopMap& map, const Layout& out) {
    return map.is_identity() ? std::optional(out.strides) : map.strides(out.strides);
  }

  /// The same for a product of a GPU's library, which writes matrices: where the loop's result lies otherwise, strides
  /// for it to have that are a matrix's. Nothing for a part of another buffer.
  std::optional<Exprs> rows_of(const Extern& product, const LoopMap& map, bool is_part, Layout& out) const {
    auto strides = strides_of(map, out);
    const Exprs& sizes = product.outputs[0].sizes;
    if (!strides || is_matrix(product, sizes, *strides)) return strides;
    if (is_part) return std::nullopt;
    strides = sym::contiguous_strides(sizes);
    out.strides = map.loop_strides(*strides);
    return strides;
  }

  /// Whether a buffer has these strides, which it is given where they are still open.
  bool lies_so(BufferId made, const Exprs& strides) {
    return graph_.buffer(made).layout.strides == strides ||
           relayout(graph_, made, strides, views_in_calls(graph_, list_)[made]);
  }

  static bool may_have(const Extern& call, const std::vector<PostOp>& post) {
    const auto& known = library_ops::get(call.op).post_ops;
    return std::ranges::all_of(post,
                               [&](const PostOp& op) { return std::ranges::find(known, op.kind) != known.end(); });
  }

  bool is_whole(const BufferView& v) const {
    const Layout& layout = graph_.buffer(v.buffer).layout;
    return v.sizes == layout.sizes && v.strides == layout.strides && v.offset.is_constant(0);
  }

  /// A post-operation's operand in the call's dimensions: of size 1 where it is broadcast.
  std::optional<BufferView> operand_view(Scalar load, const LoopMap& map, const Exprs& sizes, const Exprs& loop_sizes) {
    const Layout& layout = graph_.buffer(load->buffer).layout;
    if (map.is_identity() && layout.sizes == sizes && load->index == graph_.ivars(sizes.size()))
      return BufferView{load->buffer, layout.dtype, sizes, layout.strides, 0};
    Expr rest = linear_index(layout, load->index);
    Exprs per_loop(loop_sizes.size());
    for (std::size_t k = 0; k < loop_sizes.size(); ++k) {
      auto linear = sym::linear_in(rest, graph_.ivar(k));
      if (!linear || sym::has_symbol_of(linear->coefficient, sym::SymbolKind::Loop)) return std::nullopt;
      per_loop[k] = linear->coefficient;
      rest = linear->rest;
    }
    if (sym::has_symbol_of(rest, sym::SymbolKind::Loop)) return std::nullopt;
    auto strides = map.strides(per_loop);
    const auto runs_forwards = [&](Expr stride) { return graph_.env().statically_known_le(0, stride); };
    if (!strides || !std::ranges::all_of(*strides, runs_forwards)) return std::nullopt;  // not what `flip` gives
    BufferView view{load->buffer, layout.dtype, sizes, *strides, rest};
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if (view.strides[d].is_constant(0)) view.sizes[d] = 1;
    for (std::size_t d = sizes.size(); d-- > 0;)
      if (view.sizes[d].is_constant(1))
        view.strides[d] = d + 1 < sizes.size() ? view.strides[d + 1] * view.sizes[d + 1] : Expr(1);
    return view;
  }

  Graph& graph_;
  std::vector<Operation> list_;
  BufferUses uses_;
  std::vector<bool> alive_;
  std::unordered_map<std::size_t, Operation> copies_;  ///< to come behind operations of the list
  std::vector<std::size_t> blocks_;
  std::vector<std::size_t> written_at_;  ///< where the library call of an operation stood before it took others in
};

}  // namespace

void fuse_post_ops(Graph& graph) { PostOpFusion(graph).run(); }

}  // namespace coil::ir
