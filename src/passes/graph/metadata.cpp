#include "passes/graph/metadata.h"

#include <algorithm>

#include "fx/graph.h"

namespace coil::passes {

using ops::Bool;
using ops::SymFloat;
using ops::Value;
using ops::Values;
using sym::Expr;
using sym::TensorMeta;

namespace {
/// Max(1, size), as archives write strides of sizes that may be 0, without its Max: such strides only differ in tensors
/// without elements.
Expr without_max(Expr e) {
  return sym::rewrite(e, [](Expr x) -> std::optional<Expr> {
    if (x.kind() != sym::Kind::Max || x.operands().size() != 2) return std::nullopt;
    auto operands = x.operands();
    if (operands[0].is_constant(1)) return operands[1];
    if (operands[1].is_constant(1)) return operands[0];
    return std::nullopt;
  });
}
}  // namespace

bool agree(const sym::ShapeEnv& env, Expr a, Expr b) {
  if (a == b) return true;
  if (a.is_constant() && b.is_constant()) return false;
  if (env.statically_known_equal(a, b) || without_max(a) == without_max(b)) return true;
  if (env.statically_known_true(sym::ne(a, b))) return false;
  auto x = env.hint(a), y = env.hint(b);
  return !x || !y || *x == *y;
}

bool agree(const sym::ShapeEnv& env, const TensorMeta& a, const TensorMeta& b) {
  if (a.dtype != b.dtype || a.device != b.device || a.rank() != b.rank()) return false;
  bool empty = false;
  for (std::size_t d = 0; d < a.rank(); ++d) {
    if (!agree(env, a.sizes[d], b.sizes[d])) return false;
    empty |= a.sizes[d].is_constant(0);
  }
  for (std::size_t d = 0; d < a.rank() && !empty; ++d)
    if (!a.sizes[d].is_constant(1) && !agree(env, a.strides[d], b.strides[d])) return false;
  // Where a tensor without elements begins is nobody's business, and fake tensors and kernels disagree about it.
  return empty || agree(env, a.offset, b.offset);
}

bool agree(const sym::ShapeEnv& env, const Value& computed, const Value& recorded) {
  if (recorded.is_none()) return true;  // a result that the archive says nothing of
  if (auto* a = computed.get_if<TensorMeta>()) {
    auto* b = recorded.get_if<TensorMeta>();
    return b && agree(env, *a, *b);
  }
  if (auto* a = computed.get_if<Values>()) {
    auto* b = recorded.get_if<Values>();
    if (!b || a->size() != b->size()) return false;
    for (std::size_t i = 0; i < a->size(); ++i)
      if (!agree(env, (*a)[i], (*b)[i])) return false;
    return true;
  }
  if (computed.is<SymFloat>() || recorded.is<SymFloat>()) return computed.is<SymFloat>() || computed.is<double>();
  if (computed.is<Expr>() || computed.is<Bool>()) {
    if (!recorded.is<Expr>() && !recorded.is<Bool>()) return false;
    return agree(env, computed.as_int(), recorded.as_int());
  }
  return true;
}

void Renaming::note(sym::ShapeEnv& env, Expr recorded, Expr found) {
  if (!recorded.is_symbol() || recorded.symbol_kind() != sym::SymbolKind::Unbacked) return;
  if (!from_.empty()) found = sym::substitute(found, from_, to_);
  if (recorded == found || std::find(from_.begin(), from_.end(), recorded) != from_.end() ||
      sym::contains(found, recorded))
    return;
  if (found.is_symbol()) env.constrain(found, env.range(recorded));
  for (Expr& e : to_) e = sym::substitute(e, {&recorded, 1}, {&found, 1});
  from_.push_back(recorded);
  to_.push_back(found);
}

void Renaming::unify(sym::ShapeEnv& env, const Value& recorded, const Value& found) {
  if (auto *t = recorded.get_if<TensorMeta>(), *u = found.get_if<TensorMeta>(); t && u && t->rank() == u->rank()) {
    for (std::size_t d = 0; d < t->rank(); ++d)
      note(env, t->sizes[d], u->sizes[d]), note(env, t->strides[d], u->strides[d]);
    note(env, t->offset, u->offset);
  }
  if (auto *a = recorded.get_if<Expr>(), *b = found.get_if<Expr>(); a && b) note(env, *a, *b);
  if (auto *a = recorded.get_if<Values>(), *b = found.get_if<Values>(); a && b && a->size() == b->size())
    for (std::size_t i = 0; i < a->size(); ++i) unify(env, (*a)[i], (*b)[i]);
}

Value Renaming::renamed(const Value& v) const {
  auto expression = [&](Expr e) {
    return sym::has_symbol_of(e, sym::SymbolKind::Unbacked) ? sym::substitute(e, from_, to_) : e;
  };
  if (auto* e = v.get_if<Expr>()) return expression(*e);
  if (auto* b = v.get_if<Bool>()) return Bool{expression(b->condition)};
  if (auto* f = v.get_if<SymFloat>(); f && f->value) return SymFloat{f->name, expression(*f->value)};
  if (auto* t = v.get_if<TensorMeta>()) {
    TensorMeta made = *t;
    for (auto* list : {&made.sizes, &made.strides})
      for (Expr& e : *list) e = expression(e);
    made.offset = expression(made.offset);
    return made;
  }
  if (auto* list = v.get_if<Values>()) {
    Values made;
    for (const Value& item : *list) made.push_back(renamed(item));
    return made;
  }
  return v;
}

void Renaming::apply(fx::GraphModule& m) const {
  if (from_.empty()) return;
  for (fx::Node* n = m.graph.first(); n; n = n->next()) {
    n->meta.value = renamed(n->meta.value);
    Values args;
    for (const Value& v : n->args) args.push_back(renamed(v));
    if (args != n->args) n->set_args(std::move(args));
  }
  for (auto& [name, sub] : m.subgraphs) apply(*sub);
}

}  // namespace coil::passes
