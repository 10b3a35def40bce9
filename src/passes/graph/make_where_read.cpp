#include "passes/graph/make_where_read.h"

#include <algorithm>
#include <ranges>
#include <unordered_set>

#include "passes/graph/metadata.h"

namespace coil::passes {
namespace {

using fx::Node;
using fx::Opcode;

/// Where the tensors of a node lie.
struct Places {
  bool here = false, there = false;  ///< on the CPU, elsewhere
};

Places places_of(Node* n) {
  Places p;
  for_each_tensor(n->meta.value, [&](const sym::TensorMeta& t) { (t.device.is_host() ? p.here : p.there) = true; });
  return p;
}

class Movable {
 public:
  Movable(fx::GraphModule& module, const target::Target& target, const IsLowered& is_lowered)
      : module_(module), target_(target), is_lowered_(is_lowered) {
    std::vector<Node*> in_order;
    for (Node* n = module.graph.first(); n; n = n->next())
      if (lies_here(n) && repeats(n) && suits(n) && reads_alone(n) && found_.insert(n).second) in_order.push_back(n);
    // One that stays keeps what it reads, which stands before it, and what reads it.
    for (std::size_t before = 0; before != found_.size();) {
      before = found_.size();
      for (Node* n : in_order | std::views::reverse)
        if (found_.contains(n) && !is_read_there(n)) found_.erase(n);
      for (Node* n : in_order)
        if (found_.contains(n) && !reads_alone(n)) found_.erase(n);
    }
  }

  void move_to(Device to) {
    for (Node* n : found_) {
      for_each_tensor(n->meta.value, [&](sym::TensorMeta& t) { t.device = to; });
      if (!n->op) continue;  // an item of a list
      const auto& parameters = n->op->schema.parameters;
      for (std::size_t k = 0; k < std::min(n->args.size(), parameters.size()); ++k)
        if (parameters[k].name == "device") n->set_arg(k, to);
    }
  }

 private:
  static bool lies_here(Node* n) {
    const Places p = places_of(n);
    return p.here && !p.there;
  }

  /// Whether kernels of the other device compute in the node's types.
  bool suits(Node* n) const {
    bool suits = true;
    for_each_tensor(n->meta.value, [&](const sym::TensorMeta& t) { suits = suits && t.dtype != DType::F64; });
    return suits || !target_.has(target::Feature::NarrowFloats);
  }

  bool repeats(const Node* n) const {
    if (n->opcode == Opcode::GetAttr) return is_small_constant(*n);
    if (n->opcode != Opcode::CallFunction) return false;
    if (n->is_call("_operator.getitem")) return true;
    return n->op && is_lowered_(n->target) && !n->op->random && !n->op->side_effect && !n->op->schema.is_mutating();
  }

  /// Whoever keeps large weights on the CPU may have no room for them elsewhere.
  bool is_small_constant(const Node& attribute) const {
    constexpr std::size_t kSmall = 64 << 10;  // bytes
    const auto found = module_.attributes.find(attribute.target);
    const auto is_alike = [&](const Node* n) { return n->opcode == Opcode::GetAttr && n->target == attribute.target; };
    return found != module_.attributes.end() && module_.is_constant(attribute.target) &&
           found->second.storage.bytes <= kSmall && std::ranges::count_if(module_.graph.nodes(), is_alike) == 1;
  }

  /// Whether all tensors that a call reads are to move too.
  bool reads_alone(Node* n) const {
    bool alone = true;
    for (const ops::Value& arg : n->args)
      ops::for_each_node(arg, [&](Node* x) {
        const Places p = places_of(x);
        alone = alone && ((!p.here && !p.there) || found_.contains(x));
      });
    return alone;
  }

  /// Whether nothing on the CPU reads it but what moves too.
  bool is_read_there(const Node* n) const {
    return std::ranges::all_of(n->users(), [&](Node* user) {
      const Places p = places_of(user);
      return found_.contains(user) || (user->opcode == Opcode::CallFunction && user->op && p.there && !p.here);
    });
  }

  const fx::GraphModule& module_;
  const target::Target& target_;
  const IsLowered& is_lowered_;
  std::unordered_set<Node*> found_;
};

}  // namespace

void make_where_read(fx::GraphModule& module, const target::Target& target, const IsLowered& is_lowered) {
  if (!module.on_several_devices) return;
  std::optional<Device> other;
  for (Node* n : module.graph.nodes())
    for_each_tensor(n->meta.value, [&](const sym::TensorMeta& t) {
      if (!t.device.is_host() && !t.device.is_meta()) other = t.device;
    });
  if (other) Movable(module, target, is_lowered).move_to(*other);
}

}  // namespace coil::passes
