#include <algorithm>

#include "passes/graph/metadata.h"
#include "passes/graph/passes.h"
#include "support/error.h"

namespace coil::passes {
namespace {

/// The devices of all tensors, but for those that have no memory.
struct Devices {
  bool on_host = false;
  std::vector<Device> others;

  bool are_several() const { return on_host && !others.empty(); }
};

void collect(fx::GraphModule& module, Devices& found) {
  for (auto& [name, sub] : module.subgraphs) collect(*sub, found);
  for (fx::Node* n : module.graph.nodes())
    for_each_tensor(n->meta.value, [&](const sym::TensorMeta& t) {
      found.on_host = found.on_host || t.device.is_host();
      const bool is_new = std::ranges::find(found.others, t.device) == found.others.end();
      if (!t.device.is_host() && !t.device.is_meta() && is_new) found.others.push_back(t.device);
    });
}

Devices devices_of(fx::GraphModule& module) {
  Devices found;
  collect(module, found);
  return found;
}

void tell(fx::GraphModule& module, bool several, bool elsewhere) {
  module.on_several_devices = several;
  module.makes_at_home = several || elsewhere;
  for (auto& [name, sub] : module.subgraphs) tell(*sub, several, elsewhere);
}

/// Tensors, and devices that stand in arguments themselves.
void move(ops::Value& v, Device to, bool all) {
  const auto move_one = [&](Device& d) {
    if (!d.is_meta() && (all || !d.is_host())) d = to;
  };
  if (auto* list = v.get_if<ops::Values>())
    for (ops::Value& item : *list) move(item, to, all);
  else if (auto* device = v.get_if<Device>())
    move_one(*device);
  else
    for_each_tensor(v, [&](sym::TensorMeta& t) { move_one(t.device); });
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
  const Devices found = devices_of(module);
  std::vector<std::string> accelerators;
  for (Device d : found.others) accelerators.push_back(to_string(d));
  const bool several = !to.is_host() && !one_device && found.are_several();
  if (several && accelerators.size() > 1)
    fail(
        "the program's tensors lie on cpu, {}; a program lies on the cpu and one other device: compile with --set "
        "one_device=true to have all of it on {}",
        fmt::join(accelerators, ", "), to_string(to));
  tell(module, several, !accelerators.empty());
}

void place_on_devices(fx::GraphModule& module, Device to) {
  tell(module, module.on_several_devices && devices_of(module).are_several(), false);
  move(module, to, !module.on_several_devices);
}

}  // namespace coil::passes
