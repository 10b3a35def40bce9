#include "passes/graph/split_complex.h"

#include <algorithm>
#include <unordered_set>

#include "ops/shapes/strides.h"
#include "passes/graph/complex/parts.h"
#include "passes/graph/decompositions/replace.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using fx::Opcode;

const ComplexRules& rules() {
  static const ComplexRules entries = [] {
    ComplexRules t;
    for (auto add : {add_complex_arithmetic, add_complex_functions, add_complex_structure, add_fourier,
                     add_complex_matrices, add_complex_products})
      add(t);
    return t;
  }();
  return entries;
}

/// Operators whose decompositions hold for complex numbers as they stand: what they are made of has rules.
constexpr std::string_view kByDecomposition[] = {
    "aten._cholesky_solve_helper.default",
    "aten._chunk_cat.default",
    "aten._linalg_det.default",
    "aten._linalg_slogdet.default",
    "aten._linalg_solve_ex.default",
    "aten._lu_with_info.default",
    "aten._neg_view.default",
    "aten.addbmm.default",
    "aten.addcdiv.default",
    "aten.addcmul.default",
    "aten.addmv.default",
    "aten.addr.default",
    "aten.cholesky.default",
    "aten.cholesky_inverse.default",
    "aten.cholesky_solve.default",
    "aten.cumulative_trapezoid.dx",
    "aten.cumulative_trapezoid.x",
    "aten.det.default",
    "aten.dist.default",
    "aten.index_add.default",
    "aten.index_fill.int_Scalar",
    "aten.index_fill.int_Tensor",
    "aten.inverse.default",
    "aten.isclose.default",
    "aten.l1_loss.default",
    "aten.ldexp.Tensor",
    "aten.lerp.Scalar",
    "aten.lerp.Tensor",
    "aten.linalg_cholesky.default",
    "aten.linalg_cond.default",
    "aten.linalg_cond.p_str",
    "aten.linalg_det.default",
    "aten.linalg_eigh.default",
    "aten.linalg_eigvalsh.default",
    "aten.linalg_inv.default",
    "aten.linalg_inv_ex.default",
    "aten.linalg_ldl_factor.default",
    "aten.linalg_lu.default",
    "aten.linalg_lu_factor.default",
    "aten.linalg_matrix_norm.default",
    "aten.linalg_matrix_norm.str_ord",
    "aten.linalg_matrix_power.default",
    "aten.linalg_matrix_rank.atol_rtol_float",
    "aten.linalg_matrix_rank.atol_rtol_tensor",
    "aten.linalg_matrix_rank.default",
    "aten.linalg_matrix_rank.tol_tensor",
    "aten.linalg_multi_dot.default",
    "aten.linalg_norm.default",
    "aten.linalg_norm.ord_str",
    "aten.linalg_pinv.atol_rtol_float",
    "aten.linalg_pinv.atol_rtol_tensor",
    "aten.linalg_pinv.default",
    "aten.linalg_pinv.rcond_tensor",
    "aten.linalg_slogdet.default",
    "aten.linalg_solve.default",
    "aten.linalg_solve_ex.default",
    "aten.linalg_svd.default",
    "aten.linalg_svdvals.default",
    "aten.linalg_tensorinv.default",
    "aten.linalg_tensorsolve.default",
    "aten.linalg_vander.default",
    "aten.linalg_vecdot.default",
    "aten.logdet.default",
    "aten.lu_solve.default",
    "aten.lu_unpack.default",
    "aten.masked_fill.Tensor",
    "aten.matrix_power.default",
    "aten.orgqr.default",
    "aten.pairwise_distance.default",
    "aten.pinverse.default",
    "aten.qr.default",
    "aten.renorm.default",
    "aten.rms_norm.default",
    "aten.sinc.default",
    "aten.slogdet.default",
    "aten.svd.default",
    "aten.trapezoid.dx",
    "aten.trapezoid.x",
    "aten.trapz.dx",
    "aten.trapz.x",
    "aten.triangular_solve.default",
    "aten.triplet_margin_loss.default",
    "coil.fill_diagonal.default",
};

bool is_decomposed(std::string_view target) {
  return std::find(std::begin(kByDecomposition), std::end(kByDecomposition), target) != std::end(kByDecomposition);
}

bool is_complex_value(const Value& v) {
  if (const auto* t = v.get_if<TensorMeta>()) return is_complex(t->dtype);
  if (const auto* n = v.get_if<Node*>()) return is_complex_value((*n)->meta.value);
  const auto* list = v.get_if<Values>();
  return list && std::any_of(list->begin(), list->end(), is_complex_value);
}

/// Also what takes real numbers for complex ones: the transforms to real numbers.
bool touches_complex(const Node& n) {
  return n.target.starts_with("aten.fft_irfft") || n.target.starts_with("aten.fft_hfft") ||
         is_complex_value(n.meta.value) || std::any_of(n.args.begin(), n.args.end(), is_complex_value);
}

/// Whether a node asks only for sizes or a type, which parts have as well.
bool asks_only(const Node& n) { return n.target.starts_with("aten.sym_") || n.target == "aten.is_complex.default"; }

/// What a node is a view of that leaves the numbers as they are; null where it is none.
const Node* viewed_by(const Node* n) {
  constexpr std::string_view kOtherwise[] = {
      "aten.conj.default",       "aten._conj.default", "aten._neg_view.default", "aten.reshape.default",
      "aten.to.dtype",           "aten.to.device",     "aten.to.other",          "aten.to.dtype_layout",
      "aten.type_as.default",    "aten.mH.default",    "aten.matrix_H.default",  "aten.adjoint.default",
      "aten.contiguous.default", "aten.ravel.default", "aten.flatten.using_ints"};
  if (n->opcode != Opcode::CallFunction) return nullptr;
  const Node* call = n->is_call("_operator.getitem") ? n->args[0].as_node() : n;
  if (!call->op || !call->op->schema.is_view() || !call->args[0].is<Node*>()) return nullptr;
  return std::ranges::count(kOtherwise, call->target) ? nullptr : call->args[0].as_node();
}

/// What a value is a view of, through any number of views; itself where it is none.
const Node* source_of(const Node* n) {
  while (const Node* viewed = viewed_by(n)) n = viewed;
  return n;
}

/// What a complex value is a view of, through views of complex values alone.
const Node* complex_source_of(const Node* n) {
  for (const Node* x = viewed_by(n); x && is_complex_value(x->meta.value); x = viewed_by(x)) n = x;
  return n;
}

/// Whether a value is memory of an input.
bool lies_in_an_input(const Node* n) { return source_of(n)->opcode == Opcode::Placeholder; }

class Splitter {
 public:
  /// `is_branch`: not a program but a part of one.
  Splitter(fx::GraphModule& m, DType widest, bool is_branch) : m_(m), is_branch_(is_branch) { parts_.widest = widest; }

  void run() {
    if (!is_branch_) see_inputs();
    if (!is_branch_) see_computed();
    bool any = take_apart();
    for (Node* n : m_.graph.nodes()) {
      const bool ends = n->opcode == Opcode::Output && !real_views_.empty();
      if (stays_.contains(n) || (!touches_complex(*n) && !ends)) continue;
      any = true;
      visit(n);
    }
    if (any) {
      renaming_.apply(m_);
      m_.graph.eliminate_dead_code();
    }
    for (auto& [name, sub] : m_.subgraphs) Splitter(*sub, parts_.widest, true).run();
  }

 private:
  /// Results in real numbers that are memory of a complex input are seen there by calls of their own, which stay.
  void see_inputs() {
    Node* end = m_.graph.output();
    Values results = end->args;
    for (Value& v : results) {
      if (!v.is<Node*>() || !v.as_node()->is_tensor() || is_complex_value(v.as_node()->meta.value)) continue;
      const Node* input = source_of(v.as_node());
      if (input->opcode != Opcode::Placeholder || !is_complex_value(input->meta.value)) continue;
      fx::InsertBefore here(end);
      v = seen_again(v.as_node());
    }
    end->set_args(std::move(results));
    if (!stays_.empty()) m_.graph.eliminate_dead_code();
  }

  /// Results in real numbers that are memory of a computed complex value are seen in the pairs that it consists of.
  void see_computed() {
    Node* end = m_.graph.output();
    Values results = end->args;
    for (std::size_t k = 0; k < results.size(); ++k) {
      Value& v = results[k];
      if (!v.is<Node*>() || !v.as_node()->is_tensor() || is_complex_value(v) || v.as_node()->tensor().rank() == 0)
        continue;
      const Node* of = v.as_node();
      while (of && !is_complex_value(of->meta.value)) of = viewed_by(of);
      if (!of || lies_in_an_input(of) || !is_dense(complex_source_of(of)->tensor())) continue;
      seen_as_.emplace(k, v.as_node()->tensor());
      fx::InsertBefore here(end);
      Node* pairs = m_.graph.call("aten.view_as_real.default", {const_cast<Node*>(of)});
      fx::Graph::inherit(pairs, v.as_node());
      pairs->meta.value = pairs_of(of->tensor());
      v = pairs;
    }
    if (seen_as_.empty()) return;
    end->set_args(std::move(results));
    m_.graph.eliminate_dead_code();
  }

  static TensorMeta pairs_of(TensorMeta meta) {
    meta.dtype = real_type(meta.dtype);
    for (Expr& s : meta.strides) s = s * 2;
    meta.offset = meta.offset * 2;
    meta.sizes.push_back(2), meta.strides.push_back(1);
    return meta;
  }

  /// The same view of an input by calls that stay; the input itself where `n` is one.
  Node* seen_again(Node* n) {
    if (n->opcode == Opcode::Placeholder) return n;
    Values args = n->args;
    args[0] = seen_again(args[0].as_node());
    const bool is_part = is_complex_value(n->args[0].as_node()->meta.value) &&
                         (n->is_call("aten.real.default") || n->is_call("aten.imag.default"));
    if (!is_part) return stays(m_.graph.call(n->target, std::move(args)), n, n->meta.value);
    TensorMeta pairs = n->tensor();
    const Expr second = n->is_call("aten.imag.default") ? 1 : 0;
    pairs.sizes.push_back(2), pairs.strides.push_back(1);
    pairs.offset = pairs.offset - second;
    Node* both = stays(m_.graph.call("aten.view_as_real.default", {args[0]}), n, pairs);
    const auto last = static_cast<std::int64_t>(pairs.sizes.size()) - 1;
    return stays(m_.graph.call("aten.select.int", {both, last, second}), n, n->meta.value);
  }

  Node* stays(Node* made, const Node* from, Value meta) {
    fx::Graph::inherit(made, from);
    made->meta.value = std::move(meta);
    stays_.insert(made);
    return made;
  }

  /// Operators whose decompositions have rules, and those that they consist of.
  bool take_apart() {
    bool any = false;
    for (Node* n = m_.graph.first(); n;) {
      if (n->opcode != Opcode::CallFunction || stays_.contains(n) || !is_decomposed(n->target) ||
          !touches_complex(*n)) {
        n = n->next();
        continue;
      }
      any = true;
      Node* before = n->prev();
      fx::InsertBefore here(n);
      ComplexRewriter r(m_, n, parts_);
      replace_call(r, (*decomposition_of(n->target))(r), renaming_);
      n = before ? before->next() : m_.graph.first();
    }
    return any;
  }

  void visit(Node* n) {
    switch (n->opcode) {
      case Opcode::Placeholder: return parts_of_view(n);
      case Opcode::GetAttr: return attribute(n);
      case Opcode::Output: return output(n);
      case Opcode::CallFunction: break;
    }
    if (n->is_call("_operator.getitem")) {
      const auto index = static_cast<std::size_t>(*n->args[1].as_int().constant());
      const Parts& made = lists_.at(n->args[0].as_node()).at(index);
      if (is_complex_value(n->meta.value)) {
        parts_[n] = made;
      } else {
        fx::InsertBefore here(n);
        ComplexRewriter r(m_, n, parts_);
        replace_call(r, made.re, renaming_);
      }
      return;
    }
    fx::InsertBefore here(n);
    ComplexRewriter r(m_, n, parts_);
    if (asks_only(*n)) return ask_a_part(n);
    auto rule = rules().find(n->target);
    if (rule == rules().end()) r.refuse("is not compiled for complex tensors; compute with torch.view_as_real(x) here");
    Made made = made_by(rule->second, r);
    if (auto* parts = std::get_if<Parts>(&made)) {
      take_sizes(n, *parts);
      parts_[n] = fitted(r, *parts);
    } else if (auto* list = std::get_if<std::vector<Parts>>(&made)) {
      lists_[n] = std::move(*list);
    } else {
      replace_real(r, std::get<Value>(made));
    }
  }

  /// Puts real numbers in the place of a call, and notes which results see a complex value by it.
  void replace_real(ComplexRewriter& r, const Value& made) {
    const Values& before = m_.graph.output()->args;
    std::vector<std::size_t> shown;
    if (r.node->is_call("aten.view_as_real.default"))
      for (std::size_t k = 0; k < before.size(); ++k)
        if (before[k] == Value(r.node)) shown.push_back(k);
    const RealView view = shown.empty() ? RealView{} : RealView{r.node->args[0].as_node(), r.node->tensor()};
    replace_call(r, made, renaming_);
    for (std::size_t k : shown) real_views_.insert_or_assign(m_.graph.output()->args[k].as_node(), view);
  }

  /// Sizes are those of a part, which is there when the whole is not.
  void ask_a_part(Node* n) {
    if (!n->target.starts_with("aten.sym_size") && !n->is_call("aten.sym_numel.default")) return;
    const auto parts = n->args[0].is<Node*>() ? parts_.find(n->args[0].as_node()) : parts_.end();
    if (parts == parts_.end()) return;
    Values args = n->args;
    args[0] = parts->second.re;
    n->set_args(std::move(args));
  }

  /// An error of the rule names the call.
  template <class Rule>
  static Made made_by(const Rule& rule, ComplexRewriter& r) {
    try {
      return rule(r);
    } catch (const BeyondEnd&) {
      r.refuse("takes no arguments of these dimensions");
    } catch (const Error& e) {
      if (std::string_view(e.what()).find("aten.") != std::string_view::npos) throw;
      r.refuse(e.what());
    }
  }

  /// Sizes that a node's data tell have the names from now on that the parts have for them.
  void take_sizes(Node* n, const Parts& p) {
    const TensorMeta &recorded = n->tensor(), &found = p.re.as_node()->tensor();
    if (recorded.rank() != found.rank()) return;
    auto is_told = [](const Expr& e) { return e.is_symbol() && e.symbol_kind() == sym::SymbolKind::Unbacked; };
    for (std::size_t d = 0; d < found.rank(); ++d)
      if (!(recorded.sizes[d] == found.sizes[d]) && !(is_told(recorded.sizes[d]) && is_told(found.sizes[d]))) return;
    renaming_.unify(*m_.env, n->meta.value, p.re.as_node()->meta.value);
    n->meta.value = renaming_.renamed(n->meta.value);
  }

  /// The first part has the node's sizes: later steps ask it.
  Parts fitted(ComplexRewriter& r, const Parts& p) {
    const DType type = real_type(r.result().dtype);
    Parts whole{r.filled({p.re, None{}}, r.result().sizes, type).re, None{}};
    if (!p.im.is_none()) whole.im = r.filled({p.im, None{}}, r.result().sizes, type).re;
    return whole;
  }

  /// Out of memory that holds complex numbers.
  void parts_of_view(Node* n) {
    if (n->users().empty()) return;
    fx::InsertBefore here(first_call(n));
    ComplexRewriter r(m_, n, parts_);
    Node* view = r.call("aten.view_as_real.default", {n});
    parts_[n] = r.apart(view);
  }

  /// The first call behind a placeholder or an attribute: calls do not stand between those.
  static Node* first_call(Node* n) {
    while (n->opcode == Opcode::Placeholder || n->opcode == Opcode::GetAttr) n = n->next();
    return n;
  }

  /// Makes an attribute the same memory as real numbers.
  void attribute(Node* n) {
    const std::string name = n->target + ".real_view";
    Tensor view = m_.attributes.at(n->target);
    view.dtype = real_type(view.dtype);
    for (auto& s : view.strides) s *= 2;
    view.offset *= 2;
    view.sizes.push_back(2);
    view.strides.push_back(1);
    m_.attributes.insert_or_assign(name, view);
    if (m_.exchanged.contains(n->target)) m_.exchanged.insert(name);
    const TensorMeta meta = pairs_of(n->tensor());
    Node* real;
    {
      fx::InsertBefore here(n);
      real = m_.graph.get_attr(n->name + "_real", name, meta);
      fx::Graph::inherit(real, n);
    }
    fx::InsertBefore here(first_call(n));
    ComplexRewriter r(m_, n, parts_);
    parts_[n] = r.apart(real);
  }

  /// Results that view one value share its memory, and so do those that have gaps or lie over themselves.
  void output(Node* n) {
    fx::InsertBefore here(n);
    Values args = n->args;
    std::map<const Node*, std::set<const Node*>> results;  // by what they view
    const auto shown = [&](const Value& v) -> const Node* {
      if (!v.is<Node*>() || v.as_node()->opcode == Opcode::Placeholder) return nullptr;
      if (real_views_.contains(v.as_node())) return real_views_.at(v.as_node()).of;
      const bool stays = !is_branch_ && is_complex_value(v) && lies_in_an_input(v.as_node());
      return is_complex_value(v) && !stays ? v.as_node() : nullptr;
    };
    for (const Value& v : args)
      if (const Node* of = shown(v)) results[memory_of(of)].insert(v.as_node());
    for (std::size_t k = 0; k < args.size(); ++k) {
      Value& v = args[k];
      const Node* of = shown(v);
      if (!of) continue;
      const Node* base = memory_of(of);
      const bool alone = results.at(base).size() == 1, is_view = real_views_.contains(v.as_node());
      ComplexRewriter r(m_, const_cast<Node*>(of), parts_);
      if (const auto seen = seen_as_.find(k); seen != seen_as_.end())
        v = window(r, *base, seen->second);
      else if (is_dense(base->tensor()) && (!alone || !lies_densely(of->tensor())))
        v = window(r, *base, is_view ? real_views_.at(v.as_node()).meta : of->tensor());
      else if (!is_view)
        v = joined(r, parts_.at(of), of->tensor());
    }
    n->set_args(std::move(args));
  }

  bool is_dense(const TensorMeta& meta) const { return ops::shapes::is_non_overlapping_and_dense(*m_.env, meta); }

  /// But for what it repeats by steps of 0.
  bool lies_densely(TensorMeta meta) const {
    for (std::size_t d = 0; d < meta.rank(); ++d)
      if (meta.strides[d].is_constant(0)) meta.sizes[d] = 1;
    return is_dense(meta);
  }

  /// The value whose memory a complex tensor views; the tensor itself where it is nobody's view.
  const Node* memory_of(const Node* n) const {
    for (const Node* x = viewed_by(n); x && x->is_tensor() && is_complex_value(x->meta.value) && parts_.contains(x);
         x = viewed_by(x))
      n = x;
    return n;
  }

  /// What lies in `base`, a dense value, as `meta` says: complex numbers, or their parts side by side.
  Value window(ComplexRewriter& r, const Node& base, const TensorMeta& meta) {
    const auto [known, added] = shared_.try_emplace(&base);
    if (added) known->second = r.interleaved(parts_.at(&base), base.tensor()).value;
    const Value& pairs = known->second;
    if (!is_complex(meta.dtype)) {
      const Expr first = m_.env->simplify(meta.offset - base.tensor().offset * 2);
      return r.call("aten.as_strided.default", {pairs, meta.sizes, meta.strides, first});
    }
    const TensorMeta seen = pairs_of(meta);
    const Expr first = m_.env->simplify(seen.offset - base.tensor().offset * 2);
    return r.call("aten.view_as_complex.default",
                  {r.call("aten.as_strided.default", {pairs, seen.sizes, seen.strides, first})});
  }

  /// Memory of complex numbers that lies as `meta` says: what it repeats, by steps of 0, is there once.
  static Value joined(ComplexRewriter& r, Parts parts, const TensorMeta& meta) {
    TensorMeta once = meta;
    for (std::size_t d = 0; d < meta.rank(); ++d) {
      if (!meta.strides[d].is_constant(0) || meta.sizes[d].is_constant(1) || meta.sizes[d].is_constant(0)) continue;
      once.sizes[d] = 1;
      for (Value* part : {&parts.re, &parts.im})
        if (part->is<Node*>() && r.rank(*part) == meta.rank())
          *part = r.slice(*part, static_cast<std::int64_t>(d), 0, 1);
    }
    const auto pairs = r.interleaved(parts, once);
    return r.expand(r.permute(r.call("aten.view_as_complex.default", {pairs.value}), pairs.back), meta.sizes);
  }

  fx::GraphModule& m_;
  bool is_branch_;
  PartsOf parts_;
  /// Complex tensors that the program looks at as real numbers.
  struct RealView {
    const Node* of = nullptr;
    TensorMeta meta;
  };
  std::unordered_map<const Node*, RealView> real_views_;
  std::map<std::size_t, TensorMeta> seen_as_;  ///< by the number of the result
  std::unordered_set<const Node*> stays_;
  std::unordered_map<const Node*, Value> shared_;  ///< memory of values that several results view
  Renaming renaming_;
  std::unordered_map<const Node*, std::vector<Parts>> lists_;
};

}  // namespace

void split_complex(fx::GraphModule& module, DType widest) { Splitter(module, widest, false).run(); }

bool splits_complex(const fx::GraphModule& module) {
  for (const Node* n = module.graph.first(); n; n = n->next()) {
    if (n->opcode != Opcode::CallFunction || !touches_complex(*n) || asks_only(*n) || n->is_call("_operator.getitem"))
      continue;
    if (!rules().contains(n->target) && !is_decomposed(n->target)) return false;
  }
  return std::all_of(module.subgraphs.begin(), module.subgraphs.end(),
                     [](const auto& sub) { return splits_complex(*sub.second); });
}

void leave_complex_to_host(fx::GraphModule& module) {
  for (Node* n = module.graph.first(); n; n = n->next()) {
    if (n->opcode != Opcode::CallFunction || !n->op || !n->target.starts_with("aten.") || !touches_complex(*n) ||
        asks_only(*n))
      continue;
    Values positional;
    for (std::size_t i = 0; i < n->args.size(); ++i) {
      const ops::Parameter& p = n->op->schema.parameters[i];
      if (p.keyword_only)
        n->kwargs.emplace_back(p.name, n->args[i]);
      else
        positional.push_back(n->args[i]);
    }
    n->target = "host." + n->target;
    n->op = nullptr;
    n->set_args(std::move(positional));
  }
  for (auto& [name, sub] : module.subgraphs) leave_complex_to_host(*sub);
}

}  // namespace coil::passes
