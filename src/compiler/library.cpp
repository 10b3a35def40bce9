#include "compiler/library.h"

#include <algorithm>

#include "ops/outside.h"
#include "passes/graph/outside.h"
#include "runtime/host/symm_mem_args.h"
#include "support/error.h"

namespace coil {
namespace {

/// Plans hand its own results over by value; what it writes to may come behind them.
void check_results(const ops::Schema& schema) {
  auto is_written = [](const ops::Parameter& p) { return p.alias && p.alias->write; };
  auto is_view = [&](const ops::Parameter& p) { return p.alias && !p.alias->write; };
  if (std::any_of(schema.returns.begin(), schema.returns.end(), is_view))
    throw Error(fmt::format("{} returns views of its arguments; define one that returns new tensors: `{}`",
                            schema.target, ops::to_string(schema)),
                schema.target, "");
  if (!std::is_partitioned(schema.returns.begin(), schema.returns.end(),
                           [&](const ops::Parameter& p) { return !is_written(p); }))
    throw Error(fmt::format("{} returns arguments that it writes to before results of its own; list them last: `{}`",
                            schema.target, ops::to_string(schema)),
                schema.target, "");
}

}  // namespace

Library::Library(std::string name_space) : name_space_(std::move(name_space)) {
  if (name_space_ == "aten" || name_space_ == "prims" || name_space_.empty())
    fail("operators of '{}' are torch's own; choose another namespace", name_space_);
}

Library& Library::define(std::string_view schema, Definition d) {
  std::string whole(schema);
  if (whole.find("::") == whole.npos || whole.find("::") > whole.find('(')) whole = name_space_ + "::" + whole;
  const ops::Schema parsed = ops::parse_schema(whole);
  if (!parsed.target.starts_with(name_space_ + "."))
    fail("{} is no operator of the library {}", parsed.target, name_space_);
  check_results(parsed);
  if (ops::find(parsed.target)) fail("operator {} is already defined", parsed.target);
  if (d.implementation) runtime::register_operator(ops::to_string(parsed), std::move(d.implementation));
  if (d.results) runtime::register_operator(ops::to_string(parsed), std::move(d.results));
  if (d.decomposition) passes::define_decomposition(parsed.target, std::move(d.decomposition));
  ops::define(whole, std::move(d.shape), d.random, d.side_effect);
  ops::leave_to_host(parsed.target);
  return *this;
}

Library& Library::register_symm_mem_args(std::string_view op, std::vector<std::string> names) {
  std::string target(op);
  if (const std::size_t colons = target.find("::"); colons != target.npos) target.replace(colons, 2, ".");
  if (!target.starts_with(name_space_ + ".")) target = name_space_ + "." + target;
  if (std::ranges::count(target, '.') == 1) target += ".default";
  const ops::Operator* known = ops::find(target);
  if (!known) fail("there is no operator {} in the library {}; define it first", target, name_space_);
  runtime::register_symm_mem_args(ops::to_string(known->schema), std::move(names));
  return *this;
}

void check_schema(std::string_view schema) { check_results(ops::parse_schema(schema)); }

void declare_registered_operators() {
  for (const std::string& schema : runtime::registered_schemas()) {
    const std::string target = runtime::operator_name(schema);
    if (!ops::find(target)) {
      check_results(ops::parse_schema(schema));
      ops::define(schema, {});
    }
    ops::leave_to_host(target);
  }
}

}  // namespace coil
