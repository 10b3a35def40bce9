// Reads what `torch.export.save` writes.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontend/treespec.h"
#include "fx/graph.h"
#include "support/archive.h"

namespace coil::frontend {

/// What an attribute was in the module.
enum class AttributeKind : std::uint8_t { Parameter, Buffer, Constant };

/// A program as exported: parameters, buffers and constants have become `get_attr` nodes; every node has the metadata
/// that the archive records.
struct ExportedProgram {
  std::unique_ptr<fx::GraphModule> module;
  /// `data/sample_inputs`, one for each of `module->inputs` (a number is a 0-d tensor, None a tensor of no storage);
  /// nothing when the archive has none.
  std::optional<std::vector<Tensor>> sample_inputs;
  std::string torch_version;
  std::map<std::string, AttributeKind> attributes;  ///< of the archive; the module may have others after passes
  std::optional<CallSpec> call;                     ///< nothing where the archive does not say
  std::vector<std::int64_t>
      output_of_leaf;  ///< for each leaf of `call->out`, its place among `module->outputs`; -1: None
};

/// Weights are mapped from the file and shared where the archive shares them. Throws Error on anything malformed, and
/// on operators whose *schema* is unknown (all of them at once, each with its source line).
ExportedProgram read_pt2(const std::filesystem::path&);
/// An archive already open.
ExportedProgram read_pt2(const Archive&);

}  // namespace coil::frontend
