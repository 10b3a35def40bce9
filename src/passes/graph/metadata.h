// The tensors of metadata, and whether two pieces of it say the same, as far as can be known.
#pragma once
#include "ops/value.h"
#include "sym/shape_env.h"

namespace coil::fx {
struct GraphModule;
}

namespace coil::passes {

/// Calls `f` on each tensor of a node's value.
template <class F>
void for_each_tensor(ops::Value& value, const F& f) {
  if (auto* tensor = value.get_if<sym::TensorMeta>())
    f(*tensor);
  else if (auto* list = value.get_if<ops::Values>())
    for (ops::Value& item : *list) for_each_tensor(item, f);
}

/// Equal: proven, or equal by the hints, or known at run time only.
bool agree(const sym::ShapeEnv&, sym::Expr, sym::Expr);
/// Types, devices, sizes, offsets and strides agree; strides of dimensions of size 1 and of tensors without elements
/// count for nothing.
bool agree(const sym::ShapeEnv&, const sym::TensorMeta&, const sym::TensorMeta&);
/// `computed` agrees with what an archive recorded, which may leave out some of it.
bool agree(const sym::ShapeEnv&, const ops::Value& computed, const ops::Value& recorded);

/// Sizes that depend on data under two names: the archive's, and the expression that a node's arguments give for it.
class Renaming {
 public:
  /// Notes every symbol that is recorded where something else was found.
  void unify(sym::ShapeEnv&, const ops::Value& recorded, const ops::Value& found);
  /// Says what was found wherever the symbols stand in a module, subgraphs included.
  void apply(fx::GraphModule&) const;
  /// Notes a new symbol for one, and says it in a value.
  void add(sym::Expr from, sym::Expr to) { from_.push_back(from), to_.push_back(to); }
  bool empty() const { return from_.empty(); }
  ops::Value renamed(const ops::Value&) const;

 private:
  void note(sym::ShapeEnv&, sym::Expr recorded, sym::Expr found);
  sym::Exprs from_, to_;
};

}  // namespace coil::passes
