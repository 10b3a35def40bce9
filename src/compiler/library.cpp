#include "compiler/library.h"

#include "ops/outside.h"
#include "passes/outside.h"
#include "support/error.h"

namespace coil {
namespace {

/// A functional operator: plans hand its results over by value.
void check_functional(const ops::Schema& schema) {
  auto has_alias = [](const ops::Parameter& p) { return p.alias.has_value(); };
  if (std::any_of(schema.parameters.begin(), schema.parameters.end(), has_alias) || std::any_of(schema.returns.begin(), schema.returns.end(), has_alias))
    throw Error(fmt::format("{} writes to its arguments or returns views of them; define one that returns new tensors: `{}`", schema.target, ops::to_string(schema)), schema.target, "");
}

}  // namespace

Library::Library(std::string name_space) : name_space_(std::move(name_space)) {
  if (name_space_ == "aten" || name_space_ == "prims" || name_space_.empty()) fail("operators of '{}' are torch's own; choose another namespace", name_space_);
}

Library& Library::define(std::string_view schema, Definition d) {
  std::string whole(schema);
  if (whole.find("::") == whole.npos || whole.find("::") > whole.find('(')) whole = name_space_ + "::" + whole;
  const ops::Schema parsed = ops::parse_schema(whole);
  if (!parsed.target.starts_with(name_space_ + ".")) fail("{} is no operator of the library {}", parsed.target, name_space_);
  check_functional(parsed);
  if (ops::find(parsed.target)) fail("operator {} is already defined", parsed.target);
  if (d.implementation) runtime::register_operator(ops::to_string(parsed), std::move(d.implementation));
  if (d.decomposition) passes::define_decomposition(parsed.target, std::move(d.decomposition));
  ops::define(whole, std::move(d.shape), d.random, d.side_effect);
  ops::leave_to_host(parsed.target);
  return *this;
}

void declare_registered_operators() {
  for (const std::string& schema : runtime::registered_schemas()) {
    const std::string target = runtime::operator_name(schema);
    if (!ops::find(target)) {
      check_functional(ops::parse_schema(schema));
      ops::define(schema, {});
    }
    ops::leave_to_host(target);
  }
}

}  // namespace coil
