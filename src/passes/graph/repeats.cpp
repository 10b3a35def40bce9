#include "passes/graph/repeats.h"

#include <algorithm>

#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

namespace {

using fx::Node;

/// Operators whose result at a place is of their operands at that place, as decompositions leave them.
constexpr std::string_view kElementwise[] = {
    "aten.add.Tensor",        "aten.sub.Tensor",        "aten.mul.Tensor",        "aten.div.Tensor",
    "aten.add.Scalar",        "aten.sub.Scalar",        "aten.mul.Scalar",        "aten.div.Scalar",
    "aten.neg.default",       "aten.abs.default",       "aten.exp.default",       "aten.log.default",
    "aten.sqrt.default",      "aten.rsqrt.default",     "aten.square.default",    "aten.reciprocal.default",
    "aten.tanh.default",      "aten.relu.default",      "aten.sin.default",       "aten.cos.default",
    "aten.sigmoid.default",   "aten.maximum.default",   "aten.minimum.default",   "aten.clamp.default",
    "aten.clamp_min.default", "aten.clamp_max.default", "aten.pow.Tensor_Scalar", "aten._to_copy.default",
    "aten.clone.default"};
constexpr std::string_view kReductions[] = {"aten.sum.dim_IntList", "aten.mean.dim", "aten.amax.default",
                                            "aten.amin.default"};

/// Whether the size `dims` back from the last one is 1, or there is none.
bool is_one(const Exprs& sizes, std::size_t back) {
  return back >= sizes.size() || sizes[sizes.size() - 1 - back].is_constant(1);
}

}  // namespace

Node* Repeats::once(Node* n) {
  if (const auto at = known_.find(n); at != known_.end()) return at->second;
  Node* made = n->is_tensor() ? found(n) : n;
  known_.emplace(n, made);
  return made;
}

Node* Repeats::found(Node* n) {
  if (n->is_call("aten.expand.default")) return of_expand(n);
  if (n->is_call(kElementwise)) return of_elements(n);
  if (n->is_call(kReductions)) return of_reduction(n);
  return n;
}

Node* Repeats::of_expand(Node* n) {
  Node* base = once(n->args[0].as_node());
  Exprs sizes = base->tensor().sizes;
  sizes.insert(sizes.begin(), n->tensor().rank() - sizes.size(), Expr(1));
  fx::InsertBefore here(n);
  return Rewriter(m_, n, target_).reshape(base, sizes).as_node();
}

Node* Repeats::of_elements(Node* n) {
  Values args = n->args;
  const Exprs& sizes = n->tensor().sizes;
  std::vector<bool> repeats(sizes.size(), true);
  for (Value& arg : args) {
    if (!arg.is<Node*>()) continue;
    if (!arg.as_node()->is_tensor()) return n;
    Node* operand = once(arg.as_node());
    arg = operand;
    for (std::size_t back = 0; back < sizes.size(); ++back)
      if (!is_one(operand->tensor().sizes, back)) repeats[back] = false;
  }
  bool any = false;
  for (std::size_t back = 0; back < sizes.size(); ++back) any = any || (repeats[back] && !is_one(sizes, back));
  if (!any) return n;
  fx::InsertBefore here(n);
  if (n->is_call("aten.clone.default")) return args[0].as_node();
  Node* made = Rewriter(m_, n, target_).call(n->target, std::move(args));
  return made->tensor().rank() == n->tensor().rank() && made->tensor().dtype == n->tensor().dtype ? made : n;
}

Node* Repeats::of_reduction(Node* n) {
  Node* operand = n->args[0].as_node();
  Node* narrow = once(operand);
  if (narrow == operand || !n->args[1].is<Values>() || n->args[1].as_list().empty()) return n;
  Exprs sizes = narrow->tensor().sizes;  // what is reduced is reduced as often as it is there
  const auto rank = static_cast<std::int64_t>(sizes.size());
  for (const Value& dim : n->args[1].as_list()) {
    const auto d = dim.as_int().constant();
    if (!d) return n;
    const auto place = static_cast<std::size_t>(*d < 0 ? *d + rank : *d);
    sizes[place] = operand->tensor().sizes[place];
  }
  if (sizes == operand->tensor().sizes) return n;
  fx::InsertBefore here(n);
  Rewriter r(m_, n, target_);
  Values args = n->args;
  args[0] = r.expand(narrow, sizes);
  return r.call(n->target, std::move(args));
}

}  // namespace coil::passes
