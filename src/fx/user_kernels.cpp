#include "fx/user_kernels.h"

#include "ops/user_kernel.h"
#include "support/error.h"

namespace coil::fx {
namespace {

/// Sizes, strides and descriptors are of tensors that have as many dimensions.
void check_dimensions(const Node& node, const ops::UserKernel& kernel) {
  using Kind = ops::UserKernel::Kind;
  const auto& tensors = *node.args.at(1).get_if<Values>();
  std::size_t next = 0, rank = 0;
  for (const ops::UserKernel::Parameter& p : kernel.parameters) {
    if (p.kind == Kind::Tensor) {
      const Node* tensor = tensors[next++].as_node();
      const auto* meta = tensor ? tensor->meta.value.get_if<sym::TensorMeta>() : nullptr;
      rank = meta ? meta->rank() : 0;
      if (p.map && p.map->box.size() != rank)
        fail("%{}: the kernel {} ({}) takes a descriptor of {} dimensions for `{}`, which has {}", node.name,
             kernel.name, kernel.where, p.map->box.size(), p.name, rank);
    }
    if ((p.kind == Kind::Size || p.kind == Kind::Stride) && p.dimension >= rank)
      fail("%{}: the kernel {} ({}) takes a size of `{}`, which has {} dimensions", node.name, kernel.name,
           kernel.where, p.name, rank);
  }
}

void check(const Node& node, const ops::UserKernel& kernel) {
  using Kind = ops::UserKernel::Kind;
  const auto fits = [&](std::size_t arg, std::size_t wanted, const char* what) {
    const auto* list = node.args.at(arg).get_if<Values>();
    if (!list || list->size() != wanted)
      fail("%{}: the kernel {} ({}) takes {} {}", node.name, kernel.name, kernel.where, wanted, what);
  };
  fits(1, kernel.count(Kind::Tensor), "tensors");
  fits(2, kernel.count(Kind::Number), "numbers");
  fits(3, 3, "numbers of blocks");
  check_dimensions(node, kernel);
}

void take(GraphModule& root, GraphModule& module) {
  for (auto& [name, sub] : module.subgraphs) take(root, *sub);
  for (Node* n = module.graph.first(); n; n = n->next()) {
    if (!n->is_call(std::string(ops::kUserKernelCall))) continue;
    const auto* text = n->args.empty() ? nullptr : n->args[0].get_if<std::string>();
    if (!text) fail("%{}: {} takes the kernel's definition first", n->name, n->target);
    if (!text->starts_with("{")) continue;  // taken already
    auto kernel = ops::parse_user_kernel(*text);
    if (n->args.size() != 5) fail("%{}: {} takes 5 arguments", n->name, n->target);
    check(*n, *kernel);
    std::string symbol = kernel->symbol;
    root.user_kernels.emplace(symbol, std::move(kernel));
    n->set_arg(0, std::move(symbol));
  }
}

}  // namespace

void take_user_kernels(GraphModule& module) { take(module, module); }

}  // namespace coil::fx
