#include <algorithm>
#include <set>

#include "passes/graph/passes.h"
#include "support/error.h"

namespace coil::passes {
namespace {

using sym::TensorMeta;

/// Calls `f` on the device of each tensor in a value; with `arguments`, also on devices that stand there themselves.
template <class F>
void for_each_device(ops::Value& v, bool arguments, const F& f) {
  if (auto* device = v.get_if<Device>(); device && arguments)
    f(*device);
  else if (auto* tensor = v.get_if<TensorMeta>())
    f(tensor->device);
  else if (auto* list = v.get_if<ops::Values>())
    for (ops::Value& x : *list) for_each_device(x, arguments, f);
}

/// Of all tensors, those that have no memory left out.
void collect_devices(fx::GraphModule& module, std::set<std::pair<std::uint8_t, int>>& kinds,
                     std::vector<Device>& found) {
  for (auto& [name, sub] : module.subgraphs) collect_devices(*sub, kinds, found);
  for (fx::Node* n : module.graph.nodes())
    for_each_device(n->meta.value, false, [&](Device& d) {
      if (!d.is_meta() && kinds.emplace(d.type.number(), d.index).second) found.push_back(d);
    });
}

bool lies_on_several(fx::GraphModule& module) {
  std::set<std::pair<std::uint8_t, int>> kinds;
  std::vector<Device> found;
  collect_devices(module, kinds, found);
  return std::ranges::any_of(found, [](Device d) { return d.is_host(); }) &&
         std::ranges::any_of(found, [](Device d) { return !d.is_host(); });
}

void tell(fx::GraphModule& module, bool several, bool elsewhere) {
  module.on_several_devices = several;
  module.makes_at_home = several || elsewhere;
  for (auto& [name, sub] : module.subgraphs) tell(*sub, several, elsewhere);
}

void move(ops::Value& v, Device to, bool all) {
  for_each_device(v, true, [&](Device& d) {
    if (!d.is_meta() && (all || !d.is_host())) d = to;
  });
}

void move(fx::GraphModule& module, Device to, bool all) {
  for (auto& [name, sub] : module.subgraphs) move(*sub, to, all);
  for (fx::Node* n : module.graph.nodes()) {
    move(n->meta.value, to, all);
    for (std::size_t k = 0; k < n->args.size(); ++k) {
      ops::Value arg = n->args[k];
      move(arg, to, all);
      if (!(arg == n->args[k])) n->set_arg(k, std::move(arg));
    }
    for (auto& [name, v] : n->kwargs) move(v, to, all);
  }
}

}  // namespace

void find_devices(fx::GraphModule& module, Device to, bool one_device) {
  std::set<std::pair<std::uint8_t, int>> kinds;
  std::vector<Device> found;
  collect_devices(module, kinds, found);
  std::vector<std::string> accelerators;
  bool on_host = false;
  for (Device d : found) {
    on_host = on_host || d.is_host();
    if (!d.is_host()) accelerators.push_back(to_string(d));
  }
  const bool several = !to.is_host() && !one_device && on_host && !accelerators.empty();
  if (several && accelerators.size() > 1)
    fail(
        "the program's tensors lie on cpu, {}; a program lies on the cpu and one other device: compile with --set "
        "one_device=true to have all of it on {}",
        fmt::join(accelerators, ", "), to_string(to));
  tell(module, several, !accelerators.empty());
}

void place_on_devices(fx::GraphModule& module, Device to) {
  tell(module, module.on_several_devices && lies_on_several(module), false);
  move(module, to, !module.on_several_devices);
}

}  // namespace coil::passes
