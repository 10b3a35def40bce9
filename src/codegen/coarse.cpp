#include "codegen/coarse.h"

#include <set>

namespace coil::codegen {

using ir::BufferId;
using ir::Scalar;
using ir::ScalarOp;

namespace {

bool is_narrow(DType d) { return d == DType::BF16 || d == DType::F16 || d == DType::F8E4M3 || d == DType::F8E5M2; }

/// Whether the result's relative error is about that of the argument.
bool keeps_errors(Scalar n, std::size_t argument) {
  switch (n->op) {
    case ScalarOp::Mul:
    case ScalarOp::Div:
    case ScalarOp::Neg:
    case ScalarOp::Abs:
    case ScalarOp::Sqrt:
    case ScalarOp::Rsqrt:
    case ScalarOp::Recip: return true;
    case ScalarOp::Where: return argument > 0;
    default: return false;
  }
}

/// Whether the terms of a sum have one sign, so that the sum is relatively as right as they are.
bool is_positive(Scalar n) { return n->op == ScalarOp::Exp || n->op == ScalarOp::Sigmoid || n->op == ScalarOp::Abs; }

/// Walks a nest's statements from the last to the first and collects what must be exact.
class Exactness {
 public:
  explicit Exactness(const ir::Graph& graph) : graph_(graph) {}

  void visit(const Statement& s) {
    exact_.insert(s.indirect.begin(), s.indirect.end());
    if (!may_be_coarse(s)) exact_.insert(s.body);
    std::vector<Scalar> roots = s.indirect;
    roots.push_back(s.body);
    const std::vector<Scalar> order = ir::topological(roots);
    for (std::size_t k = order.size(); k-- > 0;) visit_operands(order[k]);
    seen_.insert(order.begin(), order.end());
  }

  std::unordered_set<Scalar> coarse() const {
    std::unordered_set<Scalar> found;
    for (Scalar n : seen_)
      if (n->dtype == DType::F32 && !exact_.contains(n)) found.insert(n);
    return found;
  }

 private:
  bool may_be_coarse(const Statement& s) const {
    const BufferId out = s.op->outs[0];
    if (exact_buffers_.contains(out) || (s.stored && !is_narrow(graph_.buffer(out).layout.dtype))) return false;
    if (s.role == scheduler::Role::Inner || s.role == scheduler::Role::Outer) return true;
    const auto* reduction = std::get_if<ir::Reduction>(&s.op->node);
    return reduction && reduction->kind == ir::ReductionKind::Sum && is_positive(s.body);
  }

  void visit_operands(Scalar n) {
    const bool rounds = n->op == ScalarOp::Round && is_narrow(n->rounded);
    for (std::size_t a = 0; a < n->args.size(); ++a)
      if (!rounds && (exact_.contains(n) || !keeps_errors(n, a))) exact_.insert(n->args[a]);
    if (n->mask) exact_.insert(n->mask);
    if (n->op == ScalarOp::LinearLoad && exact_.contains(n)) exact_buffers_.insert(n->buffer);
  }

  const ir::Graph& graph_;
  std::unordered_set<Scalar> exact_, seen_;
  std::set<BufferId> exact_buffers_;  ///< of values made in the nest: their readers need them exact
};

}  // namespace

std::unordered_set<Scalar> coarse_values(const ir::Graph& graph, const LoopNest& nest) {
  Exactness exactness(graph);
  for (std::size_t k = nest.statements.size(); k-- > 0;) exactness.visit(nest.statements[k]);
  return exactness.coarse();
}

std::optional<Together> together(Scalar n) {
  if (n->op != ScalarOp::Add || n->dtype != DType::F32) return std::nullopt;
  for (int k = 0; k < 2; ++k) {
    Scalar one = n->args[k], f = n->args[1 - k];
    if (one->op != ScalarOp::Constant || one->number != 1) continue;
    if (f->op == ScalarOp::Erf) return Together{"one_plus_erf", f->args[0]};
    if (f->op == ScalarOp::Tanh) return Together{"one_plus_tanh", f->args[0]};
  }
  return std::nullopt;
}

std::vector<Scalar> needed_for(Scalar n, const std::function<bool(Scalar)>& known) {
  // An expression may be deep, so walk instead of recursing.
  const std::vector<Scalar> order = ir::topological(std::span(&n, 1));
  std::unordered_set<Scalar> needed{n};
  for (std::size_t k = order.size(); k-- > 0;) {
    if (!needed.contains(order[k]) || known(order[k])) continue;
    if (auto pair = together(order[k])) {
      needed.insert(pair->argument);
      continue;
    }
    needed.insert(order[k]->args.begin(), order[k]->args.end());
    if (order[k]->mask) needed.insert(order[k]->mask);
  }
  std::vector<Scalar> out;
  for (Scalar x : order)
    if (x != n && needed.contains(x)) out.push_back(x);
  return out;
}

}  // namespace coil::codegen
