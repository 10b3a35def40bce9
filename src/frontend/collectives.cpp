#include "frontend/collectives.h"

#include <algorithm>

#include "fx/infer.h"
#include "support/error.h"
#include "sym/print.h"

namespace coil::frontend {

using fx::Node;
using ops::Value;
using ops::Values;
using sym::Expr;
using sym::Exprs;

namespace {

constexpr std::string_view kMove = "_dtensor.shard_dim_alltoall", kReceive = "_c10d_functional.irecv.default";

std::size_t dimension(std::int64_t d, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(rank);
  if (d < -n || d >= n) fail("{}: dimension {} of a tensor of {}", kMove, d, rank);
  return static_cast<std::size_t>(d < 0 ? d + n : d);
}

/// How many ranks there are: the sizes say it.
std::int64_t ranks_of(sym::ShapeEnv& env, Expr whole, Expr part) {
  const Expr ranks = env.simplify(sym::floor_div(whole, part));
  if (part.is_constant(0) || !ranks.is_constant() || *ranks.constant() < 1)
    fail("{}: sizes {} and {} do not tell how many ranks there are", kMove, sym::to_string(part),
         sym::to_string(whole));
  return *ranks.constant();
}

void require_fresh(const Node& receive, const Values& results) {
  const Node* into = receive.args[0].as_node();
  const bool is_view = into->opcode != fx::Opcode::CallFunction || !into->op || into->op->schema.is_view();
  const bool is_result = std::ranges::any_of(results, [&](const Value& v) {
    const auto* node = v.get_if<Node*>();
    return node && *node == into;
  });
  if (is_view || is_result || into->users().size() != 1)
    throw Error(
        "receives into a tensor that the program also uses otherwise: eager writes to it, and the graph does not say "
        "so; receive into a new tensor (torch.empty_like) and use what irecv gives",
        receive.target, receive.where());
}

}  // namespace

Node* move_sharded_dimension(fx::GraphModule& module, Node* x, std::int64_t gather, std::int64_t shard,
                             const std::string& group, const sym::TensorMeta& result,
                             const std::function<void(Node*)>& describe) {
  const Exprs& sizes = x->tensor().sizes;
  const std::size_t g = dimension(gather, sizes.size()), s = dimension(shard, sizes.size());
  if (g == s) fail("{}: dimension {} cannot be gathered and shared at once", kMove, g);
  const std::int64_t ranks = ranks_of(*module.env, result.sizes.at(g), sizes[g]);
  if (sizes[s].is_constant() && *sizes[s].constant() % ranks != 0)
    fail("{}: dimension {} of size {} cannot be shared by {} ranks equally", kMove, s, *sizes[s].constant(), ranks);
  const auto call = [&](std::string_view target, Values args) {
    Node* made = module.graph.call(target, ops::normalize(*ops::find(target), std::move(args), {}));
    made->meta.value = fx::infer(*made, *module.env);
    describe(made);
    return made;
  };
  Exprs shares = sizes, order, back;
  shares[s] = module.env->simplify(sym::floor_div(sizes[s], ranks));
  shares.insert(shares.begin() + static_cast<std::ptrdiff_t>(s), Expr(ranks));
  order.push_back(static_cast<std::int64_t>(s));
  for (std::size_t d = 0; d <= sizes.size(); ++d)
    if (d != s) order.push_back(static_cast<std::int64_t>(d));
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (d == g) back.push_back(0);
    back.push_back(static_cast<std::int64_t>(d) + 1);
  }
  Node* const apart = call("aten.permute.default", {call("aten.reshape.default", {x, Value(shares)}), Value(order)});
  Node* const moved = call("_c10d_functional.all_to_all_single.default", {apart, Values{}, Values{}, Value(group)});
  Node* const there = call("_c10d_functional.wait_tensor.default", {moved});
  return call("aten.reshape.default", {call("aten.permute.default", {there, Value(back)}), Value(result.sizes)});
}

void refuse_reads_of_received(const fx::Graph& graph, const Values& results) {
  for (const Node* n : graph.nodes())
    if (n->is_call(kReceive)) require_fresh(*n, results);
}

}  // namespace coil::frontend
