#include "passes/metadata.h"

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

}  // namespace coil::passes
