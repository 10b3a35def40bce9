#include "compiler/signature.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "support/overloaded.h"

namespace coil {
namespace {

/// A Python number, string, bool or None that export fixed, as JSON.
std::string json_of(const ops::Value& value) {
  using Json = nlohmann::ordered_json;
  const Json j = std::visit(
      Overloaded{
          [](const ops::Bool& b) { return b.condition.is_constant() ? Json(*b.condition.constant() != 0) : Json(); },
          [](const ops::Expr& e) { return e.is_constant() ? Json(*e.constant()) : Json(); },
          [](double d) { return std::isfinite(d) ? Json(d) : Json(); }, [](const std::string& s) { return Json(s); },
          [](const auto&) { return Json(); }},
      static_cast<const ops::Value::variant&>(value));
  if (j.is_null() && !value.is_none()) return "";
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// `leaf` says of each leaf in turn which input or output it is, and what is known of it.
template <class Leaf>
runtime::Structure structure_of(const frontend::TreeSpec& spec, Leaf&& leaf) {
  runtime::Structure s;
  if (spec.is_leaf()) {
    leaf(s);
    return s;
  }
  s.type = spec.type;
  s.keys = spec.keys;
  s.context = spec.context;
  for (const frontend::TreeSpec& child : spec.children) s.children.push_back(structure_of(child, leaf));
  return s;
}

}  // namespace

std::optional<runtime::Signature> signature_of(const frontend::ExportedProgram& source, const runtime::Plan& plan) {
  const fx::GraphModule& module = *source.module;
  if (!source.call || module.inputs.size() != plan.inputs.size() || module.outputs.size() != plan.outputs.size())
    return {};
  for (std::size_t i = 0; i < plan.inputs.size(); ++i)
    if (plan.inputs[i].name != module.inputs[i].path) return {};
  for (std::size_t i = 0; i < plan.outputs.size(); ++i)
    if (plan.outputs[i].name != module.outputs[i].path) return {};
  runtime::Signature signature;
  std::size_t input = 0, output = 0;
  signature.inputs = structure_of(source.call->in, [&](runtime::Structure& s) {
    s.leaf = static_cast<std::int64_t>(input);
    if (const auto& constant = module.inputs[input++].constant) s.fixed = json_of(*constant);
  });
  signature.outputs =
      structure_of(source.call->out, [&](runtime::Structure& s) { s.leaf = source.output_of_leaf[output++]; });
  auto& names = signature.inputs.children[0].keys;
  std::copy_n(source.call->argument_names.begin(), std::min(names.size(), source.call->argument_names.size()),
              names.begin());
  return signature;
}

}  // namespace coil
