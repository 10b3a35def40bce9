#include "fx/infer.h"

#include <cmath>

#include "fx/scalar_functions.h"
#include "ops/requirements.h"
#include "support/checked_vector.h"
#include "support/error.h"

namespace coil::fx {

Value resolve(const Value& argument) {
  if (auto* n = argument.get_if<Node*>()) return (*n)->meta.value;
  if (auto* list = argument.get_if<Values>()) {
    Values out;
    out.reserve(list->size());
    for (const Value& v : *list) out.push_back(resolve(v));
    return out;
  }
  return argument;
}

namespace {

Value item(const Values& args) {
  if (args.size() != 2) fail("takes two arguments");
  const Values& list = args[0].as_list();
  Expr index = args[1].as_int();
  if (!index.is_constant() || *index.constant() < 0 || *index.constant() >= static_cast<std::int64_t>(list.size()))
    fail("index {} is outside a list of {}", ops::to_string(args[1]), list.size());
  return list[static_cast<std::size_t>(*index.constant())];
}

Values resolved_arguments(const Node& node) {
  Values args;
  args.reserve(node.args.size());
  for (const Value& v : node.args) args.push_back(resolve(v));
  return args;
}

std::string types_of(const Values& args) {
  std::vector<std::string> types;
  for (const Value& v : args)
    if (!v.is_none()) types.push_back(ops::to_string(v));
  return fmt::format("{}", fmt::join(types, ", "));
}

Value compute(const Node& node, sym::ShapeEnv& env) {
  Values args = resolved_arguments(node);
  if (node.op) {
    if (!node.op->shape) fail("the operator has no shape function");
    try {
      return node.op->shape(ops::Call{*node.op, args, env});
    } catch (const BeyondEnd&) {
      fail("takes no arguments of these dimensions: {}", types_of(args));
    }
  }
  if (node.target == "_operator.getitem") return item(args);
  if (const ScalarFunction* f = find_scalar_function(node.target)) {
    for (const auto& [name, v] : node.kwargs) args.push_back(resolve(v));
    return (*f)(ScalarCall{args, node.name});
  }
  fail("no such operator is known; register it with Library");
}

/// Runs `f`; an error of it names the node.
template <class F>
auto naming(const Node& node, F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    std::string message = e.what();
    if (!message.starts_with(node.target)) message = node.target + ": " + message;
    throw of_call(node, Error(fmt::format("{} (node %{})", message, node.name), node.target, node.where()));
  }
}

/// Whether all arguments have metadata: of nodes without it nothing follows.
bool has_known_arguments(const Node& node) {
  bool known = true;
  for (const Value& v : node.args)
    ops::for_each_node(v, [&](const Node* of) { known = known && !of->meta.value.is_none(); });
  return known;
}

bool is_number(const Value& v) {
  return v.is<ops::Expr>() || v.is<double>() || v.is<ops::Bool>() || v.is<ops::SymFloat>();
}

/// Complex numbers come as constants of no dimensions.
bool is_no_number(const Value& v) {
  const auto* t = v.get_if<sym::TensorMeta>();
  return t && !(t->rank() == 0 && is_complex(t->dtype));
}

/// `bool[3]` is an array of three in eager, where `int[3]` is a list of any length.
void check_length(const ops::Parameter& p, const Value& v) {
  const auto* list = v.get_if<Values>();
  if (!list || p.type.kind != ops::TypeKind::Bool || p.type.list_size == 0) return;
  if (list->size() != static_cast<std::size_t>(p.type.list_size))
    fail("argument {} is a list of {}, not of {}", p.name, p.type.list_size, list->size());
}

void check_kind(const ops::Operator& op, const ops::Parameter& p, const Value& v) {
  if (const auto* list = v.get_if<Values>())
    for (const Value& item : *list) check_kind(op, p, item);
  using ops::TypeKind;
  if (p.type.kind == TypeKind::Tensor && is_number(v) && !ops::takes_numbers_for_tensors(op.schema.target))
    fail("argument {} is a tensor, not {}", p.name, ops::to_string(v));
  const bool number = p.type.kind == TypeKind::Scalar || p.type.kind == TypeKind::Int ||
                      p.type.kind == TypeKind::Float || p.type.kind == TypeKind::Bool;
  if (number && is_no_number(v)) fail("argument {} is a number, not {}", p.name, ops::to_string(v));
}

}  // namespace

Error of_call(const Node& node, const Error& e) {
  const std::string message = e.what();
  if (message.starts_with(node.asked())) return e;
  return Error(fmt::format("{}: {}", node.asked(), message), node.asked(), "");
}

Value infer(const Node& node, sym::ShapeEnv& env) {
  if (node.opcode != Opcode::CallFunction) return node.meta.value;
  return naming(node, [&] { return compute(node, env); });
}

void check_call(const Node& node, sym::ShapeEnv& env) {
  if (node.opcode != Opcode::CallFunction || !node.op) return;
  const auto& parameters = node.op->schema.parameters;
  if (!has_known_arguments(node)) return;
  naming(node, [&] {
    const Values args = resolved_arguments(node);
    for (std::size_t i = 0; i < std::min(parameters.size(), args.size()); ++i) {
      check_length(parameters[i], args[i]);
      check_kind(*node.op, parameters[i], args[i]);
    }
    ops::check_requirements(ops::Call{*node.op, args, env});
  });
}

void infer_missing(GraphModule& m) {
  for (auto& [name, sub] : m.subgraphs) infer_missing(*sub);
  for (Node* n = m.graph.first(); n; n = n->next()) {
    const bool known = n->op ? static_cast<bool>(n->op->shape)
                             : n->target.starts_with("_operator.") || find_scalar_function(n->target);
    if (n->opcode != Opcode::CallFunction || !n->meta.value.is_none() || !known || !has_known_arguments(*n)) continue;
    check_call(*n, *m.env);
    n->meta.value = infer(*n, *m.env);
  }
}

}  // namespace coil::fx
