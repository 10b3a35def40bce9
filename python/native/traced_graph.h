// A torch.fx graph on its way into Coil: Python walks its nodes and adds each here, with the metadata that tracing
// recorded.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "compiled.h"
#include "compiler/pipeline.h"
#include "fx/graph.h"

namespace coil::python {

namespace nb = nanobind;

/// A node as Python holds it. Valid while its graph does.
struct NodeHandle {
  fx::Node* node;
};
/// An argument that Python has no type of its own for here: a dtype, device, memory format or layout.
struct Literal {
  ops::Value value;
  static Literal dtype(const std::string& torch_name);
  static Literal device(const std::string&);
  static Literal memory_format(const std::string&);  ///< `channels_last`, …
  static Literal layout(const std::string&);
  static Literal graph(const std::string& name);  ///< one that begin_graph() began where it is an argument
};

/// Metadata comes as Python tells it: a tensor as (dtype, sizes, strides, offset, device), a list for several values,
/// None, a number; a symbolic integer as a string of sympy's `srepr`.
class TracedGraph {
 public:
  explicit TracedGraph(std::string name);

  /// A size symbol, with the value that tracing saw and its bounds (None: not known).
  void symbol(const std::string& name, std::optional<std::int64_t> hint, std::optional<std::int64_t> low,
              std::optional<std::int64_t> high, bool unbacked);
  /// A condition on sizes that holds in every call: sympy's `srepr`. The program may rely on it, and checks it.
  void assume(const std::string& condition, const std::string& reason);
  /// A number that sizes tell, for an argument: sympy's `srepr`.
  Literal number(const std::string& srepr);
  /// `strides`: how the memory that comes lies, where that is not as `meta` has it; None: as it has it. `lazy`: a
  /// tensor that torch may have put off to negate or conjugate when a call passes it. `goes`: the number of its memory,
  /// its bytes, and whether the program may write there then, where the caller lets go of it while a run lasts.
  NodeHandle placeholder(const std::string& name, nb::handle meta, nb::handle strides, bool lazy,
                         std::optional<std::tuple<std::uint32_t, std::uint64_t, bool>> goes);
  /// A tensor that belongs to the graph; its memory is shared, and `tensor` is what results that view it are views of.
  NodeHandle constant(const std::string& name, nb::object tensor, nb::handle meta);
  /// An input of the graph in whose place the program holds this tensor: calls pass one there, which is not looked at.
  NodeHandle frozen(const std::string& name, nb::object tensor, nb::handle meta);
  NodeHandle call(const std::string& target, nb::handle args, nb::dict kwargs, const std::string& name, nb::handle meta,
                  const std::string& stack_trace);
  /// What is added from here to end_graph() is a graph of its own, an argument of calls: symbols are those of all,
  /// placeholders what the call passes. Graphs may nest.
  void begin_graph(const std::string& name);
  /// `bare`: the one result is no list.
  void end_graph(nb::list results, bool bare);
  /// Each call begins with `call(*inputs)`.
  void before_calls(nb::callable call) { pattern_.before = std::move(call); }
  /// Ends the graph: a node, an int, None or another constant for each result. Those at the positions `any_strides` may
  /// lie in memory as is best (CompiledGraph::constant_strides tells how).
  void output(nb::list results, const std::set<std::size_t>& any_strides);

  std::string text() const;
  /// Where the graph's tensors lie: the one device beside the CPU, if there is one; else the CPU. Throws Error when
  /// there are several.
  Device device() const { return device_; }
  /// Compiles. The graph is used up. `keep_graph`: into the cache, if there is one, and out of it; kernels are kept
  /// there either way.
  std::unique_ptr<CompiledGraph> compile(const CompileOptions&, bool keep_graph = true);
  /// Gives metadata to the calls that came without, by their operators' shape functions.
  void infer();
  /// All of a compile but the host's compiler: the passes, the text of the kernels, the plan. One entry for each result
  /// of the program, sizes by their hints: a number (None: the run tells), or (dtype, sizes, strides, offset, the input
  /// whose memory it lies in or None). The graph is used up. For tests that try thousands of calls.
  nb::list lower(const CompileOptions&);
  /// Lowers the graph as `lower` does, and gives what a run of the program has in memory at its fullest
  /// (runtime/plan/planned_peaks.h), with the inputs of these names going as it has no more use for them: the number of
  /// their memory, and its bytes.
  nb::dict planned_peaks(const CompileOptions&,
                         const std::map<std::string, std::pair<std::uint32_t, std::uint64_t>>& going);

 private:
  std::pair<LoweredProgram, runtime::Plan> planned(const CompileOptions&);
  ops::Value value(nb::handle);
  ops::Value meta(nb::handle);
  sym::TensorMeta tensor_meta(nb::tuple);
  sym::Expr integer(nb::handle);
  sym::Expr expression(std::string_view srepr);

  fx::GraphModule& current() const { return open_.empty() ? *module_ : *open_.back(); }

  std::unique_ptr<fx::GraphModule> module_;
  std::vector<fx::GraphModule*> open_;  ///< graphs that are begun and not ended, the innermost last
  std::unordered_map<std::string, sym::Expr> parsed_;
  std::unordered_map<const fx::Node*, std::size_t> arguments_;  ///< what came in, by its place in a call
  CallPattern pattern_;
  Device device_;
  std::set<const fx::Node*> laid_out_anew_;  ///< placeholders whose memory comes in strides of its own
  std::set<const fx::Node*> on_host_;        ///< nodes whose value is a tensor on the CPU
};

/// Defines an operator that Coil does not know by its schema in torch's notation, so that its arguments have names and
/// its results aliases; nothing when it is known, false when the schema cannot be read.
bool declare_operator(const std::string& target, const std::string& schema, bool random, bool side_effect);

}  // namespace coil::python
