#include "frontend/graph_builder.h"

#include "fx/infer.h"
#include "fx/text.h"
#include "support/error.h"

namespace coil::frontend {

using fx::Node;

GraphBuilder::GraphBuilder() : module_(std::make_unique<fx::GraphModule>()) {}

sym::Expr GraphBuilder::size(std::string_view name, std::optional<std::int64_t> hint, sym::Range range) {
  if (fx::is_reserved(name)) fail("`{}` cannot name a size", name);
  if (module_->env->context().find(name)) fail("the size {} is there already", name);
  return module_->env->add_size(name, hint, range);
}

Node* GraphBuilder::input(std::string_view name, DType dtype, sym::Exprs sizes) {
  return input(name, sym::contiguous(dtype, Device{}, std::move(sizes)));
}

Node* GraphBuilder::input(std::string_view name, sym::TensorMeta meta) {
  if (meta.sizes.size() != meta.strides.size())
    fail("input {}: {} sizes but {} strides", name, meta.sizes.size(), meta.strides.size());
  if (module_->graph.find(name)) fail("the name {} is taken", name);
  Node* node = module_->graph.placeholder(name, std::move(meta));
  node->meta.origins = {node->name};
  module_->inputs.push_back({node->name, std::string(name), {}});
  return node;
}

Node* GraphBuilder::constant(std::string_view name, Tensor tensor) {
  tensor.check_bounds();
  std::string key(name);
  if (module_->attributes.contains(key)) fail("the constant {} is there already", name);
  sym::TensorMeta meta{.dtype = tensor.dtype};
  meta.sizes.assign(tensor.sizes.begin(), tensor.sizes.end());
  meta.strides.assign(tensor.strides.begin(), tensor.strides.end());
  meta.offset = tensor.offset;
  module_->attributes.emplace(key, std::move(tensor));
  Node* node = module_->graph.get_attr(name, name, std::move(meta));
  node->meta.origins = {node->name};
  return node;
}

Node* GraphBuilder::op(std::string_view target, ops::Values args,
                       std::vector<std::pair<std::string, ops::Value>> kwargs) {
  auto check = [&](fx::Node* n) {
    if (!n || &n->graph() != &module_->graph) fail("{}: an argument is not a node of this graph", target);
  };
  for (const ops::Value& v : args) ops::for_each_node(v, check);
  for (const auto& [name, v] : kwargs) ops::for_each_node(v, check);
  if (const ops::Operator* found = ops::find(target))
    args = ops::normalize(*found, std::move(args), std::exchange(kwargs, {}));
  Node* node = module_->graph.call(target, std::move(args), {}, std::move(kwargs));
  try {
    node->meta.value = fx::infer(*node, *module_->env);
  } catch (...) {
    module_->graph.erase(node);
    throw;
  }
  node->meta.origins = {node->name};
  return node;
}

Node* GraphBuilder::item(Node* node, std::int64_t index) { return op("_operator.getitem", {node, index}); }

std::unique_ptr<fx::GraphModule> GraphBuilder::build(std::vector<Node*> results) {
  for (std::size_t i = 0; i < results.size(); ++i)
    module_->outputs.push_back({fx::plain_output_name(i, results.size())});
  module_->graph.output(ops::Values(results.begin(), results.end()));
  module_->graph.lint();
  return std::exchange(module_, std::make_unique<fx::GraphModule>());
}

}  // namespace coil::frontend
