#include "passes/graph/make.h"

#include "fx/infer.h"
#include "support/error.h"

namespace coil::passes {

fx::Node* make_call(fx::GraphModule& m, const fx::Node* from, std::string_view target, ops::Values args,
                    std::vector<std::pair<std::string, ops::Value>> named, std::string_view name) {
  const ops::Operator* op = ops::find(target);
  const bool complete = op && named.empty() && args.size() == op->schema.parameters.size();
  if (op && !complete) args = ops::normalize(*op, std::move(args), std::exchange(named, {}));
  fx::Node* made = m.graph.call(target, std::move(args), name, std::move(named));
  fx::Graph::inherit(made, from);
  try {
    made->meta.value = fx::infer(*made, *m.env);
  } catch (...) {
    m.graph.erase(made);
    throw;
  }
  return made;
}

}  // namespace coil::passes
