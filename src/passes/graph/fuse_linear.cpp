// `linear` over a batch comes out of run_decompositions() as a batched product with one matrix expanded over the batch,
// and the bias added apart. As one product of all rows with that matrix it is what the library and the packing of
// weights know.
#include "passes/graph/make.h"
#include "passes/graph/passes.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using ops::Value;
using sym::Expr;

/// The matrix that is the same for every batch: what `expand` took, or a view of it with a batch of 1.
Node* shared_matrix(const Value& operand) {
  Node* at = operand.as_node();
  if (!at->is_call("aten.expand.default")) return nullptr;
  const sym::TensorMeta& expanded = at->tensor();
  Node* input = at->args[0].as_node();
  if (!input->is_tensor() || input->tensor().rank() != 2 || expanded.rank() != 3) return nullptr;
  return input->tensor().sizes == sym::Exprs{expanded.sizes[1], expanded.sizes[2]} ? input : nullptr;
}

/// The call that adds a bias to every row, when it is the only one to use the product.
Node* bias_add(const Node* product, Expr columns, Node*& bias) {
  if (product->users().size() != 1) return nullptr;
  Node* add = product->users()[0];
  if (!add->is_call("aten.add.Tensor") || add->arg("alpha") != Value(1) ||
      add->args[0] != Value(const_cast<Node*>(product)))
    return nullptr;
  auto* other = add->args[1].get_if<Node*>();
  if (!other || !(*other)->is_tensor() || (*other)->tensor().sizes != sym::Exprs{columns} ||
      (*other)->tensor().dtype != product->tensor().dtype)
    return nullptr;
  bias = *other;
  return add;
}

void fuse(fx::GraphModule& m, Node* product) {
  Node* matrix = shared_matrix(product->args[1]);
  if (!matrix) return;
  Node* rows = product->args[0].as_node();
  const sym::Exprs sizes = product->tensor().sizes;
  Node* bias = nullptr;
  Node* result = bias_add(product, sizes[2], bias);
  if (!result) result = product;
  if (result->tensor() != product->tensor()) return;

  fx::InsertBefore here(result);
  const sym::Exprs& from = rows->tensor().sizes;
  Node* flat = make_call(m, product, "aten.reshape.default", {rows, sym::Exprs{from[0] * from[1], from[2]}});
  Node* made = bias ? make_call(m, result, "aten.addmm.default", {bias, flat, matrix})
                    : make_call(m, result, "aten.mm.default", {flat, matrix});
  made = make_call(m, result, "aten.view.default", {made, sizes});
  if (made->tensor() != result->tensor()) return;
  result->replace_all_uses_with(made);
}

}  // namespace

void fuse_linear(fx::GraphModule& m) {
  for (auto& [name, sub] : m.subgraphs) fuse_linear(*sub);
  std::vector<Node*> products;
  for (Node* n = m.graph.first(); n; n = n->next())
    if (n->is_call("aten.bmm.default") && n->args[0].is<Node*>() && n->args[1].is<Node*>() && n->is_tensor())
      products.push_back(n);
  for (Node* n : products) fuse(m, n);
  if (!products.empty()) m.graph.eliminate_dead_code();
}

}  // namespace coil::passes
