#include "codegen/heuristics/online.h"

#include <algorithm>
#include <cmath>

namespace coil::codegen {
namespace {

using ir::ReductionKind;
using ir::Scalar;
using ir::ScalarOp;

bool is_sum(const Statement& s) {
  auto* r = std::get_if<ir::Reduction>(&s.op->node);
  return r && s.role == scheduler::Role::Reduce && r->kind == ReductionKind::Sum && is_floating(s.body->dtype);
}

bool is_max(const Statement& s) {
  auto* r = std::get_if<ir::Reduction>(&s.op->node);
  return r && s.role == scheduler::Role::Reduce && r->kind == ReductionKind::Max && is_floating(s.body->dtype);
}

bool reads_result(Scalar n, const Statement& of) {
  return n->op == ScalarOp::LinearLoad && n->buffer == of.op->outs[0] && n->index[0] == of.store && !n->mask;
}

/// The maximum itself, or 0 in its place where it is infinite.
bool is_shift(Scalar y, const Statement& max) {
  if (reads_result(y, max)) return true;
  if (y->op != ScalarOp::Where || y->args[0]->op != ScalarOp::IsInf) return false;
  return reads_result(y->args[0]->args[0], max) && y->args[1]->op == ScalarOp::Constant && y->args[1]->number == 0 &&
         reads_result(y->args[2], max);
}

bool is_softmax(const Statement& max, const Statement& sum) {
  if (sum.body->op != ScalarOp::Exp || sum.body->dtype != max.body->dtype) return false;
  Scalar difference = sum.body->args[0];
  return difference->op == ScalarOp::Sub && difference->args[0] == max.body && is_shift(difference->args[1], max);
}

/// Whether a value is the number of elements.
bool is_count(const sym::ShapeEnv& env, Scalar n, Expr length) {
  while (n->op == ScalarOp::Cast) n = n->args[0];
  if (n->op == ScalarOp::Index) return env.simplify(n->index[0]) == length;
  auto c = length.constant();
  if (n->op != ScalarOp::Constant || !c) return false;
  return is_floating(n->dtype) ? n->number == static_cast<double>(*c) : n->integer == *c;
}

/// A sum over the number of elements, or times that number's reciprocal as the type has it.
bool is_mean(const sym::ShapeEnv& env, Scalar n, const Statement& sum, Expr length) {
  if ((n->op != ScalarOp::Div && n->op != ScalarOp::Mul) || !reads_result(n->args[0], sum)) return false;
  if (n->op == ScalarOp::Div) return is_count(env, n->args[1], length);
  auto c = length.constant();
  return c && n->args[1]->op == ScalarOp::Constant &&
         std::abs(n->args[1]->number * static_cast<double>(*c) - 1) <= (n->dtype == DType::F64 ? 0x1p-52 : 0x1p-23);
}

bool is_moments(const sym::ShapeEnv& env, const Statement& sum, const Statement& squares, Expr length) {
  Scalar product = squares.body;
  if (product->op != ScalarOp::Mul || product->args[0] != product->args[1] || product->dtype != sum.body->dtype)
    return false;
  Scalar deviation = product->args[0];
  if (deviation->op != ScalarOp::Sub || deviation->args[0] != sum.body) return false;
  return is_mean(env, deviation->args[1], sum, length);
}

}  // namespace

std::vector<OnlinePair> online_pairs(const sym::ShapeEnv& env, const LoopNest& nest, Expr length) {
  std::vector<OnlinePair> pairs;
  auto taken = [&](const Statement& s) {
    return std::any_of(pairs.begin(), pairs.end(),
                       [&](const OnlinePair& p) { return p.first == &s || p.second == &s; });
  };
  for (const Statement& second : nest.statements)
    for (const Statement& first : nest.statements) {
      if (first.level + 1 != second.level || taken(first) || taken(second) || !is_sum(second)) continue;
      if (is_max(first) && is_softmax(first, second))
        pairs.push_back({OnlinePair::Kind::Softmax, &first, &second});
      else if (is_sum(first) && is_moments(env, first, second, length))
        pairs.push_back({OnlinePair::Kind::Moments, &first, &second});
    }
  return pairs;
}

}  // namespace coil::codegen
