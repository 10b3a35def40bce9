// The structure of a program's inputs and outputs: how torch's pytree nests dicts, tuples, lists, named tuples and
// dataclasses, and the path of each leaf.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "frontend/json.h"

namespace coil::frontend {

struct TreeSpec {
  std::string type;               ///< `builtins.dict`, …; empty for a leaf
  std::vector<std::string> keys;  ///< of each child: dict key, position, field
  std::vector<TreeSpec> children;
  std::string context;  ///< of a container, as JSON; empty where it is null

  bool is_leaf() const { return type.empty(); }
  std::size_t leaves() const;
  /// Paths of the leaves in order, keys joined by dots, each after `prefix`: `cache.0.k`. A leaf's own path is
  /// `prefix`.
  std::vector<std::string> paths(const std::string& prefix = {}) const;
};

/// Structure of what a program takes and gives.
struct CallSpec {
  TreeSpec in, out;                         ///< `in`: a tuple of positional arguments, and a dict of named ones
  std::string in_text, out_text;            ///< as torch wrote them
  std::vector<std::string> argument_names;  ///< of positional arguments, then of named ones; may be shorter
};

/// `text` holds what `treespec_dumps` of torch.utils._pytree writes (protocol 1); `named_tuples` is the archive's
/// `treespec_namedtuple_fields`, or null.
TreeSpec parse_treespec(const std::string& text, const Json* named_tuples);

}  // namespace coil::frontend
