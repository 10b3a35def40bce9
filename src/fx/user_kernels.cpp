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
    const bool more = arg == 1 && node.args.size() > 5;  // whose memory others lie in
    if (!list || (more ? list->size() < wanted : list->size() != wanted))
      fail("%{}: the kernel {} ({}) takes {} {}", node.name, kernel.name, kernel.where, wanted, what);
  };
  fits(1, kernel.count(Kind::Tensor), "tensors");
  fits(2, kernel.count(Kind::Number), "numbers");
  fits(3, 3, "numbers of blocks");
  check_dimensions(node, kernel);
}

const sym::TensorMeta& meta_of(const Node& call, const ops::Value& tensor) {
  const Node* node = tensor.as_node();
  const auto* meta = node ? node->meta.value.get_if<sym::TensorMeta>() : nullptr;
  if (!meta) fail("%{}: {} takes tensors", call.name, call.target);
  return *meta;
}

/// For each tensor the one in whose memory it lies, its rank, sizes and strides, and where in that memory it begins, as
/// they are recorded now: passes put other nodes in the places of these. `memories`: the argument of that name, if any;
/// without it a tensor that is given twice is one memory.
Values places(const Node& call, const Values* memories) {
  const auto& tensors = *call.args[1].get_if<Values>();
  if (memories && memories->size() != tensors.size())
    fail("%{}: {} takes a memory for each tensor", call.name, call.target);
  Values out;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    std::size_t memory = 0;
    if (memories) {
      memory = static_cast<std::size_t>((*memories)[k].as_int().constant().value_or(-1));
      if (memory >= tensors.size()) fail("%{}: {} has no tensor {}", call.name, call.target, memory);
    } else {
      while (tensors[memory].as_node() != tensors[k].as_node()) ++memory;
    }
    const sym::TensorMeta &meta = meta_of(call, tensors[k]), &whole = meta_of(call, tensors[memory]);
    if (meta.dtype != whole.dtype) fail("%{}: views of one memory have two types", call.name);
    out.emplace_back(static_cast<std::int64_t>(memory));
    out.emplace_back(static_cast<std::int64_t>(meta.rank()));
    out.insert(out.end(), meta.sizes.begin(), meta.sizes.end());
    out.insert(out.end(), meta.strides.begin(), meta.strides.end());
    out.emplace_back(meta.offset - whole.offset);
  }
  return out;
}

void take(GraphModule& root, GraphModule& module) {
  for (auto& [name, sub] : module.subgraphs) take(root, *sub);
  for (Node* n = module.graph.first(); n; n = n->next()) {
    if (!n->is_call(std::string(ops::kUserKernelCall))) continue;
    const auto* text = n->args.empty() ? nullptr : n->args[0].get_if<std::string>();
    if (!text) fail("%{}: {} takes the kernel's definition first", n->name, n->target);
    if (!text->starts_with("{")) continue;  // taken already
    auto kernel = ops::parse_user_kernel(*text);
    if (n->args.size() != 5 && n->args.size() != 6) fail("%{}: {} takes 5 or 6 arguments", n->name, n->target);
    check(*n, *kernel);
    std::string symbol = kernel->symbol;
    root.user_kernels.emplace(symbol, std::move(kernel));
    n->set_arg(0, std::move(symbol));
    const Values* memories = n->args.size() > 5 ? n->args[5].get_if<Values>() : nullptr;
    Values args = n->args;
    args.resize(5);
    args.emplace_back(places(*n, memories));
    n->set_args(std::move(args));
  }
}

}  // namespace

void take_user_kernels(GraphModule& module) { take(module, module); }

}  // namespace coil::fx
