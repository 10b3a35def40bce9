#include "ops/registry.h"

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "ops/shapes/families.h"
#include "support/error.h"

namespace coil::ops {

namespace {

struct Table {
  std::shared_mutex mutex;
  std::map<std::string, std::unique_ptr<const Operator>, std::less<>> operators;
};

Table& table() {
  static Table t;
  return t;
}

// The families call `define` while `register_builtin` holds its once-flag.
thread_local bool registering_builtin = false;

bool is_number(const Value& v) { return v.is<Expr>() || v.is<double>() || v.is<Bool>() || v.is<SymFloat>(); }

/// Whether an argument fits a parameter's type. Nodes stand for tensors and for numbers; a number may stand for a
/// tensor (`add.Tensor(x, 1)`).
bool fits(const Value& v, TypeKind kind) {
  bool node = v.is<fx::Node*>();
  switch (kind) {
    case TypeKind::Tensor: return node || v.is<TensorMeta>() || is_number(v);
    case TypeKind::Int: return node || v.is<Expr>();
    case TypeKind::Float: return node || v.is<double>() || v.is<SymFloat>() || v.is<Expr>();
    case TypeKind::Bool: return node || v.is<Bool>();
    case TypeKind::Scalar: return node || is_number(v);
    case TypeKind::String: return v.is<std::string>();
    case TypeKind::DType: return v.is<DType>();
    case TypeKind::Layout: return v.is<TensorLayout>();
    case TypeKind::Device: return v.is<Device>();
    case TypeKind::MemoryFormat: return v.is<MemoryFormat>();
    case TypeKind::Generator: return false;  // only None: graphs hold no generators
    case TypeKind::Other: return true;
  }
  return false;
}

/// Torch's own conversions at a call: int and bool to float, bool to int, int to bool.
Value converted(Value v, TypeKind kind) {
  if (kind == TypeKind::Float && !v.is<double>() && (v.is<Expr>() || v.is<Bool>()) && v.as_int().is_constant())
    return v.as_double();
  if (kind == TypeKind::Int && v.is<Bool>()) return v.as_int();
  if (kind == TypeKind::Bool)
    if (auto* e = v.get_if<Expr>(); e && e->is_constant()) return *e->constant() != 0;
  return v;
}

Value checked(const Operator& op, const Parameter& p, Value v) {
  auto refuse = [&](const Value& found) -> void {
    throw Error(fmt::format("{}: argument {} cannot be {}; the schema is {}", op.schema.target, p.name,
                            to_string(found), to_string(op.schema)),
                op.schema.target, "");
  };
  if (v.is_none()) {
    // A list of operators' defaults aside, torch takes None only where the schema says so.
    // Of operators that only the host knows, any tensor may be undefined.
    if (!op.shape && p.type.kind == TypeKind::Tensor && !p.type.list) return v;
    if (!p.type.optional && p.type.kind != TypeKind::Generator && !(p.fallback && p.fallback->is_none())) refuse(v);
    return v;
  }
  if (!p.type.list) {
    v = converted(std::move(v), p.type.kind);
    if (!fits(v, p.type.kind)) refuse(v);
    return v;
  }
  if (!v.is<Values>()) {
    v = converted(std::move(v), p.type.kind);
    // A node may stand for a whole list of tensors.
    bool list_node = v.is<fx::Node*>() && p.type.kind == TypeKind::Tensor;
    if (list_node) return v;
    if (p.type.list_size == 0 || !fits(v, p.type.kind)) refuse(v);
    return Values(static_cast<std::size_t>(p.type.list_size), v);
  }
  Values items = std::move(*v.get_if<Values>());
  for (Value& item : items) {
    if (item.is_none() && p.type.optional_items) continue;
    item = converted(std::move(item), p.type.kind);
    if (!fits(item, p.type.kind)) refuse(item);
  }
  return items;
}

}  // namespace

const Value& Call::operator[](std::string_view name) const { return args[op.schema.index(name)]; }

void register_builtin() {
  static std::once_flag once;
  std::call_once(once, [] {
    registering_builtin = true;
    for (auto* family : kFamilies) family();
    registering_builtin = false;
  });
}

const Operator* find(std::string_view target) {
  register_builtin();
  Table& t = table();
  std::shared_lock lock(t.mutex);
  auto it = t.operators.find(target);
  return it == t.operators.end() ? nullptr : it->second.get();
}

std::vector<std::string> targets() {
  register_builtin();
  Table& t = table();
  std::shared_lock lock(t.mutex);
  std::vector<std::string> names;
  names.reserve(t.operators.size());
  for (const auto& [name, op] : t.operators) names.push_back(name);
  return names;
}

const Operator& define(std::string_view schema, ShapeFunction shape, bool random, bool side_effect) {
  if (!registering_builtin) register_builtin();
  auto op = std::make_unique<Operator>(Operator{parse_schema(schema), std::move(shape), random, side_effect});
  Table& t = table();
  std::unique_lock lock(t.mutex);
  auto [it, fresh] = t.operators.try_emplace(op->schema.target, nullptr);
  if (!fresh) fail("operator {} is already defined", it->first);
  it->second = std::move(op);
  return *it->second;
}

Values normalize(const Operator& op, Values positional, std::vector<std::pair<std::string, Value>> named) {
  const std::vector<Parameter>& parameters = op.schema.parameters;
  const std::string& target = op.schema.target;
  std::vector<std::optional<Value>> given(parameters.size());
  std::size_t allowed = static_cast<std::size_t>(
      std::count_if(parameters.begin(), parameters.end(), [](const Parameter& p) { return !p.keyword_only; }));
  if (positional.size() > allowed)
    throw Error(fmt::format("{} takes {} positional arguments, found {}; the schema is {}", target, allowed,
                            positional.size(), to_string(op.schema)),
                target, "");
  for (std::size_t i = 0; i < positional.size(); ++i) given[i] = std::move(positional[i]);
  for (auto& [name, value] : named) {
    auto p = std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& x) { return x.name == name; });
    if (p == parameters.end()) throw Error(fmt::format("{} has no argument named {}", target, name), target, "");
    auto& slot = given[static_cast<std::size_t>(p - parameters.begin())];
    if (slot) throw Error(fmt::format("{}: argument {} is given twice", target, name), target, "");
    slot = std::move(value);
  }
  Values out;
  out.reserve(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    if (given[i])
      out.push_back(checked(op, p, std::move(*given[i])));
    else if (p.fallback)
      out.push_back(*p.fallback);
    else
      throw Error(fmt::format("{}: argument {} is missing", target, p.name), target, "");
  }
  return out;
}

}  // namespace coil::ops
