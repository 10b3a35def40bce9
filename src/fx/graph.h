// The graph that programs arrive as and passes rewrite: `placeholder`, `get_attr`, `call_function`, `output`, as in
// torch.fx.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/registry.h"
#include "ops/user_kernel.h"
#include "ops/value.h"
#include "support/going_memory.h"
#include "sym/shape_env.h"
#include "tensor/tensor.h"

namespace coil::fx {

using ops::Value;
using ops::Values;
using sym::Expr;
using sym::Exprs;
using sym::TensorMeta;

enum class Opcode : std::uint8_t { Placeholder, GetAttr, CallFunction, Output };

/// What is known of a node besides its computation.
struct Meta {
  Value value;              ///< TensorMeta, Expr (symbolic int), Bool, SymFloat, Values of those, or None
  std::string stack_trace;  ///< the user's, innermost frame last, as the archive has it; may be empty
  std::string module_path;  ///< `encoder.layer.0.attention`; may be empty
  std::vector<std::string>
      origins;  ///< names of the nodes of the incoming graph that this one computes; a node of that graph names itself
  std::string
      part_of;  ///< target of the incoming graph's call that this one is a part of; empty for such a call itself
};

class Graph;

class Node {
 public:
  Opcode opcode;
  std::string name;                   ///< unique in the graph
  std::string target;                 ///< `aten.add.Tensor`, `_operator.getitem`, attribute or input name
  const ops::Operator* op = nullptr;  ///< of a call_function whose target is registered
  /// The arguments of a registered operator: one value per schema parameter, defaults filled in. Those of others
  /// (`_operator.add`) are as they came. An output node has one argument for each output.
  Values args;
  std::vector<std::pair<std::string, Value>> kwargs;  ///< only of unregistered targets
  Meta meta;

  Graph& graph() const { return *graph_; }
  /// Taken out of its graph by `Graph::erase`: a call of nothing, without arguments, users or metadata.
  bool erased() const { return erased_; }
  Node* next() const { return next_; }  ///< null after the last; of an erased node, what followed it then
  Node* prev() const { return prev_; }
  /// Users, each once, in order of first use being recorded.
  const std::vector<Node*>& users() const {
    if (holes_) close_holes();
    return users_;
  }
  bool is_call(std::string_view t) const { return opcode == Opcode::CallFunction && target == t; }
  /// Whether it is a call of one of these.
  bool is_call(std::span<const std::string_view> any) const {
    return opcode == Opcode::CallFunction && std::ranges::find(any, target) != any.end();
  }
  bool is_call(std::initializer_list<std::string_view> any) const {
    return is_call(std::span(any.begin(), any.size()));
  }
  /// Argument by the schema's name; throws Error if there is none.
  const Value& arg(std::string_view name) const;

  const TensorMeta& tensor() const { return meta.value.as_tensor(); }
  bool is_tensor() const { return meta.value.is<TensorMeta>(); }

  void set_arg(std::size_t index, Value value);
  void set_args(Values args);
  /// Every use of this node (in args and kwargs of others) becomes `other`. `except` keeps its use.
  void replace_all_uses_with(Node* other, const Node* except = nullptr);
  /// What the incoming graph calls here: the target, or that of the call that this one is a part of. Refusals name it.
  const std::string& asked() const { return meta.part_of.empty() ? target : meta.part_of; }
  /// The innermost user frame, `model.py:12`; empty when not known.
  std::string where() const;

 private:
  friend class Graph;
  Node(Graph* graph, Opcode opcode, std::string name, std::string target);
  void link_inputs();
  void unlink_inputs();
  void add_user(Node*);
  void remove_user(Node*);
  void close_holes() const;
  Graph* graph_;
  Node *prev_ = nullptr, *next_ = nullptr;
  bool erased_ = false;
  // A weight or a scale may have ten thousand users, each of which goes in its turn: those of a node with many are
  // found by their position, and leave a hole that is closed when somebody looks.
  mutable std::vector<Node*> users_;
  mutable std::size_t holes_ = 0;
  mutable std::unordered_map<const Node*, std::size_t> position_;  ///< of all users, or empty while they are few
};

/// The nodes of a graph at one moment, in execution order. Walking over it leaves out those that have been erased
/// since, and does not meet new ones.
class Snapshot {
 public:
  class Iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = Node*;
    Iterator() = default;
    Iterator(std::vector<Node*>::const_iterator at, std::vector<Node*>::const_iterator end) : at_(at), end_(end) {
      skip();
    }
    Node* operator*() const { return *at_; }
    Iterator& operator++() {
      ++at_;
      skip();
      return *this;
    }
    Iterator operator++(int) { return std::exchange(*this, ++Iterator(*this)); }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    void skip() {
      while (at_ != end_ && (*at_)->erased()) ++at_;
    }
    std::vector<Node*>::const_iterator at_, end_;
  };

  explicit Snapshot(std::vector<Node*> nodes) : nodes_(std::move(nodes)) {}
  Iterator begin() const { return {nodes_.begin(), nodes_.end()}; }
  Iterator end() const { return {nodes_.end(), nodes_.end()}; }
  /// The nodes at that moment, by position, the erased ones with them.
  const std::vector<Node*>& all() const { return nodes_; }

 private:
  std::vector<Node*> nodes_;
};

/// Nodes in execution order. Iterate `for (Node* n = g.first(); n; n = n->next())`, or `for (Node* n : g.nodes())` over
/// a snapshot when nodes are erased or added on the way. An erased node stays in memory until the graph goes, so that
/// whoever still has it finds a call of nothing.
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Node* first() const { return first_; }
  Node* last() const { return last_; }
  Snapshot nodes() const;
  std::size_t size() const { return size_; }
  Node* find(std::string_view name) const;
  std::vector<Node*> placeholders() const;
  Node* output() const;  ///< null before it is added

  /// New nodes go before `node`, or at the end for null. Returns the previous point. `InsertBefore` restores it.
  Node* set_insert_point(Node* before);

  Node* placeholder(std::string_view name, Value meta);
  Node* get_attr(std::string_view name, std::string_view attribute, Value meta);
  /// A call with arguments already normalised (registered operators) or as they are. Does not compute metadata
  /// (passes/propagate does). The name derives from the target's (`add`, `add_1`) when `name` is empty; a name already
  /// taken gets a number.
  Node* call(std::string_view target, Values args, std::string_view name = {},
             std::vector<std::pair<std::string, Value>> kwargs = {});
  Node* output(Values results);
  /// Copies origins, stack trace and module path of one node to another: what a pass does for the nodes it makes.
  static void inherit(Node* made, const Node* from);

  /// Throws (COIL_CHECK) while the node still has users.
  void erase(Node*);
  /// Moves a node before another.
  void move_before(Node* node, Node* before);
  /// Removes calls without users or side effects, last to first. Returns how many.
  std::size_t eliminate_dead_code();
  /// Users and links agree, names are unique, every use comes after its definition. Throws Error.
  void lint() const;

 private:
  friend class Node;
  Node* add(Opcode, std::string_view name, std::string_view target);
  std::string unique_name(std::string_view wanted);
  Node *first_ = nullptr, *last_ = nullptr, *insert_before_ = nullptr;
  std::vector<std::unique_ptr<Node>> erased_;
  std::size_t size_ = 0;
  std::unordered_map<std::string, Node*> by_name_;
  std::unordered_map<std::string, int> next_suffix_;
};

class InsertBefore {
 public:
  explicit InsertBefore(Node* node) : graph_(node->graph()), old_(graph_.set_insert_point(node)) {}
  ~InsertBefore() { graph_.set_insert_point(old_); }
  InsertBefore(const InsertBefore&) = delete;
  InsertBefore& operator=(const InsertBefore&) = delete;

 private:
  Graph& graph_;
  Node* old_;
};

/// A user input. The placeholder has the graph's name (`state_h`), the file of inputs has the path (`state.h`).
struct Input {
  std::string placeholder, path;
  /// What export fixed (a Python number, string or None); such an input has a placeholder without users and is not
  /// read.
  std::optional<Value> constant;
  /// How its memory lies, where that is not as the placeholder is recorded: what a program reads that another one saved
  /// for it (Output::any_strides). Operators see the recorded strides.
  std::optional<Exprs> strides = {};
  /// Its memory goes while a run lasts, when nothing needs it any more.
  std::optional<GoingMemory> goes = {};
};

/// A user output and its path in the program's result (`y.0`; `output` for one bare value); its value is the output
/// node's argument at the same position.
struct Output {
  std::string path;
  /// Who takes it asks where its elements lie: the compiler may choose strides, which are constants. The recorded ones
  /// are a proposal.
  bool any_strides = false;
};

/// A write that a run must leave behind: the value of output argument `output` goes to the input (by placeholder name)
/// or attribute.
struct Mutation {
  enum class Target : std::uint8_t { Input, Attribute };
  Target kind = Target::Input;
  std::string target;
  std::size_t output = 0;
};

/// A graph with what its attributes hold and how it meets its caller. Arguments of the output node: first one for each
/// of `outputs`, then one for each of `mutations`. Before passes/functionalize has run, in-place operators are in the
/// graph and may write to placeholders and attributes.
struct GraphModule {
  std::shared_ptr<sym::ShapeEnv> env = std::make_shared<sym::ShapeEnv>();
  std::string name = "main";
  Graph graph;
  std::map<std::string, Tensor>
      attributes;             ///< parameters, buffers, constants by qualified name; storages may be shared
  std::vector<Input> inputs;  ///< user inputs, in order
  std::vector<Output> outputs;
  std::vector<Mutation> mutations;
  std::set<std::string> exchanged;  ///< attributes that others may take the place of: nothing follows from their values
  /// Kernels that users wrote, by symbol: of all calls, those in subgraphs too (fx/user_kernels.h).
  std::map<std::string, std::shared_ptr<const ops::UserKernel>> user_kernels;
  std::map<std::string, std::unique_ptr<GraphModule>> subgraphs;  ///< share `env`

  /// Values lie on the device that is compiled for and on the CPU, as the pass find-devices found; where not,
  /// all lie on the one.
  bool on_several_devices = false;
  /// Tensors lie elsewhere than on the CPU, and what passes make for them has to lie there as well: in a program over
  /// several devices, and in any that came from another device until it is placed as a whole.
  bool makes_at_home = false;
  /// Where sizes must be known, whoever traced it fixes them and compiles again (sym::NeedsValue).
  bool has_tracer = false;

  /// Whether an attribute has the value that is known now in every run.
  bool is_constant(const std::string& attribute) const;
};

}  // namespace coil::fx
