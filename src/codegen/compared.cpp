#include "codegen/compared.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace coil::codegen {
namespace {

using ir::Scalar;
using ir::ScalarOp;

bool is_wide(DType t) { return t == DType::F32 || t == DType::F64; }

/// Whether a product has no digits to lose: by a power of two, as scores of attention have it.
bool is_exact(Scalar product) {
  return std::ranges::any_of(product->args, [](Scalar a) {
    int exponent = 0;
    return a->op == ScalarOp::Constant && std::abs(std::frexp(a->number, &exponent)) == 0.5;
  });
}

bool selects(const Statement& s) {
  const auto* r = std::get_if<ir::Reduction>(&s.op->node);
  if (!r || s.role != scheduler::Role::Reduce) return false;
  using Kind = ir::ReductionKind;
  return r->kind == Kind::Max || r->kind == Kind::Min || r->kind == Kind::ArgMax || r->kind == Kind::ArgMin;
}

class Finder {
 public:
  explicit Finder(const LoopNest& nest) : nest_(nest) {}

  std::unordered_set<Scalar> found() {
    std::vector<Scalar> compared;
    for (const Statement& s : nest_.statements) {
      if (!s.body) continue;
      if (selects(s) && s.stored) compared.push_back(s.body);  // others than the nest may compare with it
      for (Scalar n : ir::topological(std::span(&s.body, 1)))
        if (ir::is_comparison(n->op) &&
            std::ranges::none_of(n->args, [](Scalar a) { return a->op == ScalarOp::Constant; }))
          compared.insert(compared.end(), n->args.begin(), n->args.end());
    }
    take(compared);
    return std::move(products_);
  }

 private:
  void take(std::span<const Scalar> roots) {
    for (Scalar n : ir::topological(roots)) {
      if (n->op == ScalarOp::Mul && is_wide(n->dtype) && !is_exact(n)) products_.insert(n);
      if (n->op == ScalarOp::LinearLoad && buffers_.insert(n->buffer).second) take_what_makes(n->buffer);
    }
  }

  void take_what_makes(ir::BufferId buffer) {
    for (const Statement& s : nest_.statements)
      if (s.body && s.op->outs[0] == buffer && (s.role != scheduler::Role::Reduce || selects(s)))
        take(std::span(&s.body, 1));
  }

  const LoopNest& nest_;
  std::unordered_set<Scalar> products_;
  std::set<ir::BufferId> buffers_;
};

}  // namespace

std::unordered_set<ir::Scalar> compared_products(const LoopNest& nest) { return Finder(nest).found(); }

}  // namespace coil::codegen
