// A pass is a record. The pipeline, the logs, `coil opt`, the table of compile times and docs/passes.md are made from
// it.
#pragma once
#include <cstdint>
#include <string_view>

#include "target/settings.h"
#include "target/target.h"

namespace coil::passes {

/// What a pass may ask about beside the program. Levels add to it.
struct Context {
  const target::Target& target;
  const Settings& settings;
};

using Condition = bool (*)(const target::Target&, const Settings&);
inline bool always(const target::Target&, const Settings&) { return true; }
inline bool verifies(const target::Target&, const Settings& settings) { return settings.verify; }

template <target::Feature F>
bool has(const target::Target& target, const Settings&) {
  return target.has(F);
}
template <target::Feature F>
bool lacks(const target::Target& target, const Settings&) {
  return !target.has(F);
}

/// A function that rewrites a `Program`: an fx::GraphModule, an ir::Graph, or a wrapper::Program.
template <class Program, class Given>
struct Pass {
  std::string_view name;      ///< as it is called in logs and by `coil opt --pass`
  std::string_view sentence;  ///< what it does
  void (*run)(Program&, const Given&);
  Condition enabled = always;
};

/// A place in a pipeline: a pass, and when it runs there if not always.
template <class Program, class Given>
struct Step {
  const Pass<Program, Given>* pass;
  Condition when = always;
};

}  // namespace coil::passes
