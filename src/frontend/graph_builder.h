// Builds graphs in C++ with the same checks as the archive reader; the unit tests are written in it.
#pragma once
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "fx/graph.h"

namespace coil::frontend {

/// Metadata is computed as nodes are added (by the operators' shape functions), so errors come at the call that is
/// wrong.
class GraphBuilder {
 public:
  GraphBuilder();

  sym::Expr size(std::string_view name, std::optional<std::int64_t> hint = {},
                 sym::Range range = {0, sym::Range::kMax});
  fx::Node* input(std::string_view name, DType, sym::Exprs sizes);
  fx::Node* input(std::string_view name, sym::TensorMeta);
  fx::Node* constant(std::string_view name, Tensor);
  /// `op("aten.add.Tensor", {x, y}, {{"alpha", 2}})`. Throws Error on an unknown operator or arguments its schema or
  /// shape function refuses.
  fx::Node* op(std::string_view target, ops::Values args, std::vector<std::pair<std::string, ops::Value>> kwargs = {});
  /// One result of a call that has several.
  fx::Node* item(fx::Node* node, std::int64_t index);
  /// Names are `output` for one result, `0`, `1`, … for several.
  std::unique_ptr<fx::GraphModule> build(std::vector<fx::Node*> results);

 private:
  std::unique_ptr<fx::GraphModule> module_;
};

}  // namespace coil::frontend
