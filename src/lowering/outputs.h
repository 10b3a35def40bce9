// The border of a program: buffers of its inputs and attributes, what it returns (aliases included), and what it writes
// back.
#pragma once
#include <map>
#include <set>
#include <string>

#include "lowering/lowering.h"

namespace coil::lowering {

/// Buffers that exist before the program runs. Each attribute has one, however many nodes name it.
class ProgramStorage {
 public:
  ProgramStorage(const fx::GraphModule& module, ir::Graph& graph);

  TensorBox input(const fx::Input&, const fx::Node& placeholder);
  /// An attribute's value; one element that nothing writes to is a constant in bodies.
  TensorBox attribute(const fx::Node& get_attr);
  /// The buffer of a placeholder or get_attr node.
  ir::BufferId buffer(const fx::Node&);
  ir::BufferId target(const fx::Mutation&);
  /// Whether an input's memory lies otherwise than its placeholder is recorded: what is returned of it is a copy.
  bool is_laid_out_anew(const fx::Node& placeholder) const { return anew_.contains(placeholder.name); }

 private:
  ir::BufferId attribute_buffer(const std::string& name);
  Device attribute_device(const std::string& name) const;
  const fx::GraphModule& module_;
  ir::Graph& graph_;
  std::map<std::string, ir::BufferId> inputs_, attributes_;
  std::set<std::string> anew_;
};

/// Calls whose value, or a view of it, is a result in 16-bit floats.
std::set<const fx::Node*> results_in_16_bits(const fx::GraphModule&);

/// Lowers the output node: returned values, then write-backs.
void lower_outputs(Context&, const fx::Node& output, ProgramStorage&);

}  // namespace coil::lowering
