#include "frontend/graph_reader.h"

#include <algorithm>
#include <cstring>

#include "frontend/collectives.h"
#include "fx/infer.h"
#include "fx/scalar_functions.h"
#include "support/error.h"

namespace coil::frontend {

using fx::Node;
using ops::Value;
using ops::Values;
using sym::Expr;

namespace {

constexpr std::string_view kItem = "_operator.getitem";
constexpr std::string_view kHigherOrder = "higher_order.";
// (token, operator, its arguments …) -> (token, its results …).
constexpr std::string_view kWithEffects = "higher_order.with_effects";

/// An argument that is well formed but that Coil has no value for; `what()` says which kind.
struct UnsupportedArgument : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// `torch.ops.aten.add.Tensor` is `aten.add.Tensor` here; functions of Python (`_operator.add`) keep their name.
std::string target_of(const std::string& serialized) {
  constexpr std::string_view kOps = "torch.ops.";
  return serialized.starts_with(kOps) ? serialized.substr(kOps.size()) : serialized;
}

/// Functions by which an exported graph says what torch.vmap did (passes::outline_vmap).
bool is_vmap_border(std::string_view target) {
  constexpr std::string_view kPlace = "torch._functorch.predispatch.";
  if (!target.starts_with(kPlace)) return false;
  target.remove_prefix(kPlace.size());
  return target == "lazy_load_decompositions" || target == "_vmap_increment_nesting" ||
         target == "_vmap_decrement_nesting" || target == "_add_batch_dim" || target == "_remove_batch_dim";
}

bool is_known_without_schema(std::string_view target) {
  return target == kItem || target.starts_with(kHigherOrder) || is_vmap_border(target) ||
         fx::find_scalar_function(target);
}

/// Questions about types and sizes whose answers torch has taken as it traced: nothing in the graph reads them.
bool was_answered(std::string_view target) {
  constexpr std::string_view kQuestions[] = {"aten.promote_types.", "aten.result_type.", "aten.can_cast.",
                                             "aten.is_same_size."};
  return std::ranges::any_of(kQuestions, [&](std::string_view q) { return target.starts_with(q); });
}

/// The path of the innermost module in `key,path,type;key,path,type`.
std::string module_path(std::string_view stack) {
  const std::string_view last = stack.substr(stack.rfind(';') + 1);
  const std::size_t first_comma = last.find(','), last_comma = last.rfind(',');
  if (first_comma == last_comma) return {};
  return std::string(last.substr(first_comma + 1, last_comma - first_comma - 1));
}

void read_metadata(const Json& node, fx::Meta& meta) {
  const Json* metadata = node.find("metadata");
  if (!metadata) return;
  if (const Json* trace = metadata->find("stack_trace")) meta.stack_trace = trace->as_string();
  if (const Json* stack = metadata->find("nn_module_stack")) meta.module_path = module_path(stack->as_string());
}

/// The user's line in a stack trace, as nodes give it.
std::string where_of(const Json& node) {
  fx::Graph scratch;
  Node* n = scratch.placeholder("scratch", {});
  read_metadata(node, n->meta);
  return n->where();
}

}  // namespace

void UnsupportedOperators::add(std::string_view target, const std::string& where) {
  for (Use& use : uses_) {
    if (use.target != target) continue;
    ++use.count;
    if (use.where.empty()) use.where = where;
    return;
  }
  uses_.push_back({std::string(target), where, 1});
}

void UnsupportedOperators::report() const {
  if (uses_.empty()) return;
  std::vector<std::string> list;
  for (const Use& use : uses_) {
    std::vector<std::string> notes;
    if (!use.where.empty()) notes.push_back(use.where);
    if (use.count > 1) notes.push_back(fmt::format("{} uses", use.count));
    list.push_back(notes.empty() ? use.target : fmt::format("{} ({})", use.target, fmt::join(notes, ", ")));
  }
  throw Error(fmt::format("{} not supported: {}",
                          uses_.size() == 1 ? "an operator is" : fmt::format("{} operators are", uses_.size()),
                          fmt::join(list, ", ")),
              uses_.front().target, "");
}

struct GraphReader::Call {
  std::string target;
  const ops::Operator* op = nullptr;
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};

GraphReader::GraphReader(const Json& graph, fx::GraphModule& module, Symbols& symbols,
                         UnsupportedOperators& unsupported)
    : graph_(graph), module_(module), symbols_(symbols), unsupported_(unsupported), inputs_(graph["inputs"].items()) {
  symbols_.note_hints(graph);
  const std::pair<const char*, ValueKind> tables[] = {{"tensor_values", ValueKind::Tensor},
                                                      {"sym_int_values", ValueKind::Int},
                                                      {"sym_bool_values", ValueKind::Bool},
                                                      {"sym_float_values", ValueKind::Float}};
  for (const auto& [key, kind] : tables)
    if (const Json* table = graph.find(key))
      for (const auto& [name, value] : table->members()) values_.emplace(name, std::pair(kind, value));
}

Value GraphReader::metadata(const Json& name) {
  const auto it = values_.find(name.as_string());
  if (it == values_.end()) name.fail(fmt::format("nothing is recorded about the value '{}'", name.as_string()));
  const auto& [kind, value] = it->second;
  switch (kind) {
    case ValueKind::Tensor: return symbols_.read_tensor(*value);
    case ValueKind::Int: return symbols_.read_int(*value);
    case ValueKind::Bool: return symbols_.read_bool(*value);
    case ValueKind::Float: return symbols_.read_float(*value, name.as_string());
  }
  return ops::None{};
}

Node* GraphReader::lookup(const Json& name) const {
  const auto it = nodes_.find(name.as_string());
  if (it == nodes_.end()) name.fail(fmt::format("'{}' is not defined here", name.as_string()));
  return it->second;
}

void GraphReader::define(const Json& name, Node* node) {
  if (!nodes_.emplace(name.as_string(), node).second) name.fail(fmt::format("'{}' is defined twice", name.as_string()));
}

namespace {

/// The name that an argument of the kinds `as_tensor`, `as_sym_int`, `as_sym_bool`, `as_sym_float` refers to; null for
/// other kinds and for constants.
const Json* name_in(const Json& argument) {
  const auto& [kind, value] = argument.only_member();
  if (kind == "as_tensor") return &(*value)["name"];
  if (kind == "as_sym_int" || kind == "as_sym_bool" || kind == "as_sym_float") return value->find("as_name");
  return nullptr;
}

}  // namespace

std::optional<Value> GraphReader::input_constant(std::size_t i) const {
  const Json& input = *inputs_[i];
  const auto& [kind, value] = input.only_member();
  if (kind == "as_none") return Value(ops::None{});
  if (kind == "as_int") return Value(value->as_int());
  if (kind == "as_float") return Value(value->as_double());
  if (kind == "as_bool") return Value(value->as_bool());
  if (kind == "as_string") return Value(value->as_string());
  if (kind == "as_custom_obj")
    input.fail(fmt::format("inputs of class {} are not supported", (*value)["class_fqn"].as_string()));
  if (!name_in(input)) input.fail(fmt::format("unknown kind of input '{}'", kind));
  return {};
}

Node* GraphReader::add_placeholder(std::size_t i, const std::string& name) {
  if (auto constant = input_constant(i)) return module_.graph.placeholder(name, std::move(*constant));
  const Json& given = *name_in(*inputs_[i]);
  Node* node = module_.graph.placeholder(given.as_string(), metadata(given));
  node->meta.origins = {node->name};
  define(given, node);
  return node;
}

Node* GraphReader::add_attribute(std::size_t i, const std::string& attribute) {
  const Json& input = *inputs_[i];
  const Json* name = name_in(input);
  if (!name) input.fail(fmt::format("the attribute '{}' is no tensor", attribute));
  Node* node = module_.graph.get_attr(name->as_string(), attribute, metadata(*name));
  if (!node->is_tensor()) input.fail(fmt::format("the attribute '{}' is no tensor", attribute));
  node->meta.origins = {node->name};
  define(*name, node);
  return node;
}

void GraphReader::add_token(std::size_t i) {
  if (const Json* name = name_in(*inputs_[i])) tokens_.insert(name->as_string());
}

void GraphReader::read_calls() {
  for (const Json* node : graph_["nodes"].items()) {
    try {
      read_call(*node);
    } catch (const Error& e) {
      const std::string where = where_of(*node);
      if (where.empty() || !e.where().empty()) throw;
      throw Error(e.what(), target_of((*node)["target"].as_string()), where);
    }
  }
}

namespace {

/// Overloads that write their results to arguments of their own: `add.out`, `sum.IntList_out`, `max.dim_max`.
/// The functional overload of the operator that takes these arguments, which come first; null when there is none.
const ops::Operator* without_out(const std::string& target, const std::vector<std::pair<std::string, Value>>& given,
                                 std::size_t outs) {
  const std::string base = target.substr(0, target.rfind('.') + 1);
  auto fits = [](const ops::Parameter& p, const Value& v) {
    const bool tensor = p.type.kind == ops::TypeKind::Tensor;
    if (const auto* node = v.get_if<Node*>()) return (*node)->is_tensor() == tensor;
    return !tensor || v.is_none() || v.is<Values>();
  };
  auto takes = [&](const ops::Operator& op) {
    const auto& parameters = op.schema.parameters;
    if (op.schema.is_mutating() || op.schema.is_view() || op.schema.returns.size() != outs) return false;
    return std::all_of(given.begin(), given.end() - static_cast<std::ptrdiff_t>(outs), [&](const auto& argument) {
      return std::any_of(parameters.begin(), parameters.end(),
                         [&](const ops::Parameter& p) { return p.name == argument.first && fits(p, argument.second); });
    });
  };
  for (const std::string& other : ops::targets())
    if (other.starts_with(base))
      if (const ops::Operator* op = ops::find(other); op && takes(*op)) return op;
  return nullptr;
}

/// Whether a tensor is new and nobody has seen it: an operator that resizes it then may as well be given another.
bool is_fresh(const Node& tensor) {
  return tensor.op && tensor.users().empty() && !tensor.op->schema.is_view() && !tensor.op->schema.is_mutating();
}

Node* empty_like(fx::Graph& graph, const sym::TensorMeta& meta) {
  const ops::Operator* op = ops::find("aten.empty_strided.default");
  return graph.call(op->schema.target,
                    ops::normalize(*op, {meta.sizes, meta.strides}, {{"dtype", meta.dtype}, {"device", meta.device}}));
}

}  // namespace

/// A call that writes its results to arguments (`out=`), as the functional call and copies into them. False when it is
/// none, or no functional form is known.
bool GraphReader::read_out_variant(const Json& node, const std::string& target) {
  const auto inputs = node["inputs"].items(), outputs = node["outputs"].items();
  if (!target.starts_with("aten.") || outputs.empty() || inputs.size() <= outputs.size()) return false;
  // Each result is the argument that it was written to, in the order of the last arguments; these are always named
  // ones.
  constexpr std::int64_t kNamed = 2;
  const Json* kind = inputs.back()->find("kind");
  if (kind ? kind->as_int() != kNamed : !target.ends_with("out")) return false;
  std::vector<std::pair<std::string, Value>> given;
  for (const Json* input : inputs) given.emplace_back((*input)["name"].as_string(), argument((*input)["arg"]));
  const ops::Operator* op = without_out(target, given, outputs.size());
  if (!op) return false;
  std::vector<Node*> written;
  for (auto it = given.end() - static_cast<std::ptrdiff_t>(outputs.size()); it != given.end(); ++it) {
    const auto* out = it->second.get_if<Node*>();
    if (!out || !(*out)->is_tensor()) return false;
    written.push_back(*out);
  }
  given.resize(given.size() - outputs.size());
  auto described = [&](Node* made, Value meta) {
    read_metadata(node, made->meta);
    made->meta.origins = {made->name};
    made->meta.value = std::move(meta);
    return made;
  };
  Node* made = module_.graph.call(op->schema.target, ops::normalize(*op, {}, std::move(given)));
  made = described(made, {});
  made->meta.value = fx::infer(*made, *module_.env);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Json* name = name_in(*outputs[i]);
    if (!name) outputs[i]->fail("expected a tensor that was written to");
    const Value meta = metadata(*name);
    const bool resized = meta != written[i]->meta.value;
    if (resized && !is_fresh(*written[i]))
      throw Error(fmt::format("{} changes the sizes of its `out`, from {} to {}; make it in the size of the result",
                              target, ops::to_string(written[i]->meta.value), ops::to_string(meta)),
                  target, made->where());
    if (resized) written[i] = described(empty_like(module_.graph, meta.as_tensor()), meta);
    Node* result = made;
    if (made->meta.value.is<Values>())
      result =
          described(module_.graph.call(kItem, {made, static_cast<std::int64_t>(i)}), made->meta.value.as_list()[i]);
    define(*name,
           described(module_.graph.call("aten.copy_.default", {written[i], result, false}, name->as_string()), meta));
  }
  return true;
}

void GraphReader::read_dimension_move(const Json& node) {
  const auto inputs = node["inputs"].items(), outputs = node["outputs"].items();
  std::map<std::string, Value> given;
  for (const Json* input : inputs) given[(*input)["name"].as_string()] = argument((*input)["arg"]);
  const Json* name = outputs.size() == 1 ? name_in(*outputs[0]) : nullptr;
  if (!name || given.size() != 4) node.fail("expected a tensor, two dimensions and a process group");
  const Value meta = metadata(*name);
  const auto describe = [&](Node* made) {
    read_metadata(node, made->meta);
    made->meta.origins = {name->as_string()};
  };
  const auto number = [&](const char* which) { return *given.at(which).as_int().constant(); };
  define(*name, move_sharded_dimension(module_, given.at("input").as_node(), number("gather_dim"), number("shard_dim"),
                                       given.at("group_name").as_string(), meta.as_tensor(), describe));
}

void GraphReader::read_batch_of_messages(const Json& node) {
  std::map<std::string, Value> given;
  for (const Json* input : node["inputs"].items()) given[(*input)["name"].as_string()] = argument((*input)["arg"]);
  const auto outputs = node["outputs"].items();
  if (given.size() != 5 || outputs.size() != 1) node.fail("expected a list each of kinds, peers, tags and tensors");
  const auto names = outputs[0]->only_member().second->items();
  const Values &kinds = given.at("op_list").as_list(), &tensors = given.at("tensors").as_list();
  const sym::Exprs peers = given.at("peer_list").as_ints(), tags = given.at("tag_list").as_ints();
  const std::size_t count = names.size();
  if (kinds.size() != count || tensors.size() != count || peers.size() != count || tags.size() != count)
    node.fail("the lists of a batch of messages are of different lengths");
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& kind = kinds[i].as_string();
    if (kind != "isend" && kind != "irecv")
      node.fail(fmt::format("a message is an isend or an irecv, and not {}", kind));
    const std::string target = "_c10d_functional." + kind + ".default";
    const Json& name = (*names[i])["name"];
    Node* made = module_.graph.call(
        target, ops::normalize(*ops::find(target), {tensors[i], peers[i], tags[i], given.at("group_name")}, {}),
        name.as_string());
    read_metadata(node, made->meta);
    made->meta.origins = {made->name};
    made->meta.value = metadata(name);
    define(name, made);
  }
}

void GraphReader::read_call(const Json& node) {
  Call call;
  call.target = target_of(node["target"].as_string());
  if (was_answered(call.target)) return;
  auto inputs = node["inputs"].items(), outputs = node["outputs"].items();
  if (call.target == kWithEffects) {
    if (inputs.size() < 2 || outputs.empty())
      node.fail("with_effects takes a token and an operator, and gives a token");
    call.target = target_of((*inputs[1])["arg"]["as_operator"].as_string());
    if (const Json* token = name_in(*outputs[0])) tokens_.insert(token->as_string());
    inputs = inputs.subspan(2);
    outputs = outputs.subspan(1);
  }
  if (call.target == "_dtensor.shard_dim_alltoall.default") return read_dimension_move(node);
  if (call.target == "_c10d_functional.batch_p2p_ops.default") return read_batch_of_messages(node);
  call.op = ops::find(call.target);
  if (!call.op && !is_known_without_schema(call.target) && read_out_variant(node, call.target)) return;
  bool supported = call.op || is_known_without_schema(call.target);
  std::string name = call.target;
  if (supported) {
    try {
      read_arguments(inputs, call);
    } catch (const UnsupportedArgument& e) {
      supported = false;
      name += std::string(" with ") + e.what();
    }
  }
  if (!supported) {
    // Reading goes on, so that all are reported; the graph is not used then.
    unsupported_.add(name, where_of(node));
    call = {"unsupported." + call.target, nullptr, {}, {}};
  }

  const Json* own_name = node.find("name");
  // A higher-order operator may return a tuple of one, which only this flag tells from a bare value.
  const Json* bare = node.find("is_hop_single_tensor_return");
  const bool tuple_of_one = outputs.size() == 1 && bare && !bare->as_bool() && call.target.starts_with(kHigherOrder);
  if (outputs.size() == 1 && !tuple_of_one)
    if (const Json* name = name_in(*outputs[0])) own_name = name;

  Node* made = module_.graph.call(call.target, std::move(call.positional),
                                  own_name ? own_name->as_string() : std::string(), std::move(call.named));
  read_metadata(node, made->meta);
  made->meta.origins = {made->name};
  read_outputs(outputs, made, tuple_of_one);
  if (!complex_numbers_.empty()) settle_complex_numbers(*made);
}

void GraphReader::read_arguments(std::span<const Json* const> inputs, Call& call) {
  constexpr std::int64_t kPositional = 1;
  for (const Json* input : inputs) {
    Value value = argument((*input)["arg"]);
    const std::string& name = (*input)["name"].as_string();
    const Json* kind = input->find("kind");
    const bool positional =
        name.empty() || (kind ? kind->as_int() == kPositional : !call.target.starts_with(kHigherOrder));
    // Operators' arguments come with the schema's names, but for calls with effects; Python's functions take them by
    // position.
    if (name.empty() || (!call.op && positional))
      call.positional.push_back(std::move(value));
    else
      call.named.emplace_back(name, std::move(value));
  }
  if (call.op) {
    call.positional = ops::normalize(*call.op, std::move(call.positional), std::move(call.named));
    call.named.clear();
  }
}

void GraphReader::read_outputs(std::span<const Json* const> outputs, Node* made, bool tuple_of_one) {
  if (outputs.empty()) return;
  if (outputs.size() == 1 && !tuple_of_one) {
    const auto& [kind, value] = outputs[0]->only_member();
    if (kind == "as_none") return;
    if (const Json* name = name_in(*outputs[0])) {
      made->meta.value = metadata(*name);
      define(*name, made);
      return;
    }
    made->meta.value = make_items(made, value->items());
    return;
  }
  made->meta.value = make_items(made, outputs);
}

/// Several results: a `getitem` for each that has a user, as torch.fx has them. Returns the metadata of all.
Value GraphReader::make_items(Node* made, std::span<const Json* const> outputs) {
  Values all;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    all.push_back(make_item(made, static_cast<std::int64_t>(i), *outputs[i]));
  return all;
}

Value GraphReader::make_item(Node* made, std::int64_t index, const Json& output) {
  const auto& [kind, value] = output.only_member();
  if (kind == "as_none") return ops::None{};
  auto item = [&](std::string_view name, Value meta) {
    Node* node = module_.graph.call(kItem, {made, Expr(index)}, name);
    node->meta.value = std::move(meta);
    node->meta.stack_trace = made->meta.stack_trace;
    node->meta.module_path = made->meta.module_path;
    node->meta.origins = {node->name};
    return node;
  };
  if (value->is_list()) {  // a list of tensors among several results
    Node* list = item({}, ops::None{});
    return list->meta.value = make_items(list, value->items());
  }
  // Elements of `as_tensors` are `{"name": …}`, of `as_sym_ints` `{"as_name": …}`; other results are arguments.
  const Json* name = kind == "name" || kind == "as_name" ? value : name_in(output);
  if (!name) output.fail(fmt::format("unknown kind of result '{}'", kind));
  Value meta = metadata(*name);
  // `split_unused_1` is what the exporter calls a result without users.
  if (name->as_string().find("_unused_") == std::string::npos) define(*name, item(name->as_string(), meta));
  return meta;
}

Value GraphReader::argument(const Json& argument) {
  const auto& [kind, value] = argument.only_member();
  if (const Json* name = name_in(argument)) return lookup(*name);
  auto list = [&](auto&& read) {
    Values values;
    for (const Json* item : value->items()) values.push_back(read(*item));
    return Value(std::move(values));
  };
  auto tensor = [&](const Json& item) { return Value(lookup(item["name"])); };
  // `as_name`, or the constant.
  auto symbolic = [&](const Json& item) {
    const auto& [type, v] = item.only_member();
    if (type == "as_name") return Value(lookup(*v));
    if (type == "as_int") return Value(v->as_int());
    if (type == "as_bool") return Value(v->as_bool());
    if (type == "as_float") return Value(v->as_double());
    item.fail(fmt::format("unknown kind of number '{}'", type));
  };
  auto optional_tensor = [&](const Json& item) {
    const auto& [type, v] = item.only_member();
    return type == "as_none" ? Value(ops::None{}) : tensor(*v);
  };
  if (kind == "as_none") return ops::None{};
  if (kind == "as_tensors") return list(tensor);
  if (kind == "as_nested_tensors")
    return list([&](const Json& inner) {
      Values values;
      for (const Json* item : inner.items()) values.push_back(tensor(*item));
      return Value(std::move(values));
    });
  if (kind == "as_optional_tensor") return optional_tensor(*value);
  if (kind == "as_optional_tensors") return list(optional_tensor);
  if (kind == "as_int") return value->as_int();
  if (kind == "as_float") return value->as_double();
  if (kind == "as_bool") return value->as_bool();
  if (kind == "as_string" || kind == "as_operator") return Value(value->as_string());
  if (kind == "as_ints") return list([](const Json& j) { return Value(j.as_int()); });
  if (kind == "as_floats") return list([](const Json& j) { return Value(j.as_double()); });
  if (kind == "as_bools") return list([](const Json& j) { return Value(j.as_bool()); });
  if (kind == "as_strings") return list([](const Json& j) { return Value(j.as_string()); });
  if (kind == "as_int_lists" || kind == "as_float_lists")
    return list([&](const Json& inner) {
      Values values;
      for (const Json* item : inner.items())
        values.push_back(kind == "as_int_lists" ? Value(item->as_int()) : Value(item->as_double()));
      return Value(std::move(values));
    });
  if (kind == "as_sym_int" || kind == "as_sym_bool" || kind == "as_sym_float") return symbolic(*value);
  if (kind == "as_sym_ints" || kind == "as_sym_bools" || kind == "as_sym_floats") return list(symbolic);
  if (kind == "as_scalar_type") return read_dtype(*value);
  if (kind == "as_memory_format") return read_memory_format(*value);
  if (kind == "as_layout") return read_layout(*value);
  if (kind == "as_device") return read_device(*value);
  if (kind == "as_graph") return nested_graph(*value);
  if (kind == "as_custom_obj")
    throw UnsupportedArgument(fmt::format("an object of class {}", (*value)["class_fqn"].as_string()));
  if (kind == "as_complex") return complex_number({(*value)["real"].as_double(), (*value)["imag"].as_double()});
  if (kind == "as_string_to_argument") throw UnsupportedArgument("a dictionary");
  argument.fail(fmt::format("unknown kind of argument '{}'", kind));
}

namespace {

Tensor complex_tensor(std::complex<double> number, DType dtype) {
  Tensor t = Tensor::empty(dtype, {});
  const std::complex<float> narrow(number);
  if (dtype == DType::C128)
    std::memcpy(t.bytes(), &number, sizeof(number));
  else
    std::memcpy(t.bytes(), &narrow, sizeof(narrow));
  return t;
}

bool has_doubles(const Value& v) {
  if (const auto* t = v.get_if<ops::TensorMeta>()) return t->dtype == DType::F64 || t->dtype == DType::C128;
  const auto* node = v.get_if<Node*>();
  return node && has_doubles((*node)->meta.value);
}

}  // namespace

/// A constant without dimensions, which counts as a number beside tensors that have some. It gets its type when the
/// call is read.
Node* GraphReader::complex_number(std::complex<double> number) {
  std::string name = fmt::format("complex_number_{}", module_.attributes.size());
  while (module_.graph.find(name) || module_.attributes.contains(name)) name += "_";
  module_.attributes.emplace(name, complex_tensor(number, DType::C64));
  std::optional<fx::InsertBefore> here;
  if (Node* first = module_.graph.first()) here.emplace(first);
  Node* made = module_.graph.get_attr(name, name, ops::TensorMeta{.dtype = DType::C64});
  made->meta.origins = {name};
  complex_numbers_.emplace_back(made, number);
  return made;
}

/// No less exact than the call's tensors, and no wider: beside others without dimensions its type counts.
void GraphReader::settle_complex_numbers(const Node& call) {
  const auto numbers = std::exchange(complex_numbers_, {});
  if (!has_doubles(call.meta.value) && std::none_of(call.args.begin(), call.args.end(), has_doubles)) return;
  for (const auto& [node, number] : numbers) {
    module_.attributes.insert_or_assign(node->target, complex_tensor(number, DType::C128));
    node->meta.value = ops::TensorMeta{.dtype = DType::C128};
  }
}

Value GraphReader::nested_graph(const Json& graph_argument) {
  const std::string& name = graph_argument["name"].as_string();
  auto& slot = module_.subgraphs[name];
  if (!slot) slot = read_subgraph(graph_argument["graph"], name, module_.env, symbols_, unsupported_);
  return ops::GraphRef{name};
}

Values GraphReader::outputs() {
  Values results;
  for (const Json* output : graph_["outputs"].items()) {
    if (const Json* name = name_in(*output); name && tokens_.contains(name->as_string())) {
      results.push_back(ops::None{});
      continue;
    }
    try {
      if (output->find("as_complex")) throw UnsupportedArgument("a complex number");
      results.push_back(argument(*output));
    } catch (const UnsupportedArgument& e) {
      output->fail(fmt::format("{} as an output is not supported", e.what()));
    }
  }
  refuse_reads_of_received(module_.graph, results);
  return results;
}

bool GraphReader::returns_bare_value() const {
  const Json* flag = graph_.find("is_single_tensor_return");
  return flag && flag->as_bool();
}

std::unique_ptr<fx::GraphModule> read_subgraph(const Json& graph, const std::string& name,
                                               const std::shared_ptr<sym::ShapeEnv>& env, Symbols& symbols,
                                               UnsupportedOperators& unsupported) {
  auto module = std::make_unique<fx::GraphModule>();
  module->env = env;
  module->name = name;
  GraphReader reader(graph, *module, symbols, unsupported);
  for (std::size_t i = 0; i < reader.inputs(); ++i) {
    const Node* node = reader.add_placeholder(i, fmt::format("arg{}", i));
    module->inputs.push_back({node->name, node->name, reader.input_constant(i)});
  }
  reader.read_calls();
  Values results = reader.outputs();
  for (std::size_t i = 0; i < results.size(); ++i)
    module->outputs.push_back({reader.returns_bare_value() ? "output" : fmt::format("{}", i)});
  module->graph.output(std::move(results));
  return module;
}

}  // namespace coil::frontend
