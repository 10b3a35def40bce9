// One graph of an archive: its inputs, calls with their arguments, outputs, and the graphs nested in it.
#pragma once
#include <complex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontend/json.h"
#include "frontend/values.h"
#include "fx/graph.h"

namespace coil::frontend {

/// Operators met that have no schema, gathered over a whole archive so that they are reported at once.
class UnsupportedOperators {
 public:
  void add(std::string_view target, const std::string& where);
  /// Throws Error listing all of them: `2 operators are not supported: aten.foo.default (model.py:12), …`.
  void report() const;

 private:
  struct Use {
    std::string target, where;
    int count = 0;
  };
  std::vector<Use> uses_;
};

/// Reads into `module`; used once, its members in the order below. Throws Error naming the place in the JSON, or the
/// node and its source line.
class GraphReader {
 public:
  GraphReader(const Json& graph, fx::GraphModule& module, Symbols& symbols, UnsupportedOperators& unsupported);

  std::size_t inputs() const { return inputs_.size(); }
  /// Input `i` becomes a placeholder (of `name` if the graph gives it none), or an attribute. Constants (a Python
  /// number, string or None) give the placeholder no users.
  fx::Node* add_placeholder(std::size_t i, const std::string& name);
  fx::Node* add_attribute(std::size_t i, const std::string& attribute);
  /// Input `i` orders calls with effects, which here their order in the graph does: it has no value.
  void add_token(std::size_t i);
  /// The constant that input `i` is, or nothing.
  std::optional<ops::Value> input_constant(std::size_t i) const;
  void read_calls();
  /// The graph's outputs; None where one is a token.
  ops::Values outputs();
  /// The graph returns one bare value.
  bool returns_bare_value() const;

 private:
  struct Call;
  void read_call(const Json& node);
  void read_arguments(std::span<const Json* const> inputs, Call& call);
  void read_dimension_move(const Json& node);
  /// Reads a batch of messages as the messages one after the other: those that nothing stands between begin together.
  void read_batch_of_messages(const Json& node);
  bool read_out_variant(const Json& node, const std::string& target);
  void read_outputs(std::span<const Json* const> outputs, fx::Node* made, bool tuple_of_one);
  ops::Value make_items(fx::Node* made, std::span<const Json* const> outputs);
  ops::Value make_item(fx::Node* made, std::int64_t index, const Json& output);
  ops::Value argument(const Json& argument);
  fx::Node* complex_number(std::complex<double>);
  void settle_complex_numbers(const fx::Node& call);
  ops::Value nested_graph(const Json& graph_argument);
  fx::Node* lookup(const Json& name) const;
  void define(const Json& name, fx::Node* node);
  ops::Value metadata(const Json& name);

  const Json& graph_;
  fx::GraphModule& module_;
  Symbols& symbols_;
  UnsupportedOperators& unsupported_;
  std::span<const Json* const> inputs_;
  enum class ValueKind : std::uint8_t { Tensor, Int, Bool, Float };
  std::unordered_map<std::string_view, std::pair<ValueKind, const Json*>> values_;
  std::unordered_map<std::string, fx::Node*> nodes_;
  std::unordered_set<std::string> tokens_;
  std::vector<std::pair<fx::Node*, std::complex<double>>> complex_numbers_;  ///< of the call that is being read
};

/// Reads a nested graph as a module of its own, which shares the environment.
std::unique_ptr<fx::GraphModule> read_subgraph(const Json& graph, const std::string& name,
                                               const std::shared_ptr<sym::ShapeEnv>& env, Symbols&,
                                               UnsupportedOperators&);

}  // namespace coil::frontend
