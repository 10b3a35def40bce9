#include "passes/graph/functional_twin.h"

#include <algorithm>

#include "ops/outside.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using ops::Operator;
using ops::Parameter;
using ops::Schema;

struct Named {
  std::string_view in_place, functional;
};
// Where the name does not lead to the twin.
constexpr Named kNamed[] = {
    {"aten.batch_norm.default", "aten._native_batch_norm_legit_functional.default"},
    {"aten.native_batch_norm.default", "aten._native_batch_norm_legit_functional.default"},
    {"aten._native_batch_norm_legit.default", "aten._native_batch_norm_legit_functional.default"},
    {"aten.instance_norm.default", "coil.instance_norm_functional.default"},
    {"aten.zero_.default", "aten.zero.default"},
    {"aten.fill_diagonal_.default", "coil.fill_diagonal.default"},
    {"_c10d_functional.all_gather_into_tensor_out.default", "_c10d_functional.all_gather_into_tensor.default"},
    {"_c10d_functional.reduce_scatter_tensor_out.default", "_c10d_functional.reduce_scatter_tensor.default"},
    // What these write to is `self`, and `input` where they do not write.
    {"aten.dropout_.default", "aten.dropout.default"},
    {"aten.feature_dropout_.default", "aten.feature_dropout.default"},
    {"aten.alpha_dropout_.default", "aten.alpha_dropout.default"},
    {"aten.feature_alpha_dropout_.default", "aten.feature_alpha_dropout.default"},
};

/// The running statistics that batch and instance norm in training update, though their schemas do not say so.
std::vector<std::size_t> hidden_writes(const fx::Node& n) {
  const bool instance = n.target == "aten.instance_norm.default";
  if (!instance && n.target != "aten.batch_norm.default" && n.target != "aten.native_batch_norm.default") return {};
  if (n.arg(instance ? "use_input_stats" : "training") != ops::Value(true) || n.arg("running_mean").is_none())
    return {};
  return {n.op->schema.index("running_mean"), n.op->schema.index("running_var")};
}

bool is_written(const Parameter& p) { return p.alias && p.alias->write; }

/// Whether `twin` takes what `s` takes (but for parameters that are only written, as `out` is) under the same names.
bool takes_the_same(const Schema& twin, const Schema& s, bool drop_written) {
  if (twin.is_mutating()) return false;
  std::vector<const Parameter*> wanted;
  for (const Parameter& p : s.parameters)
    if (!drop_written || !is_written(p)) wanted.push_back(&p);
  return std::equal(wanted.begin(), wanted.end(), twin.parameters.begin(), twin.parameters.end(),
                    [](const Parameter* a, const Parameter& b) {
                      return a->name == b.name && a->type.kind == b.type.kind && a->type.list == b.type.list;
                    });
}

/// Overloads of `aten.add.` and the like, in order of name.
const Operator* find_overload(const std::string& prefix, const Schema& s, bool drop_written) {
  static const std::vector<std::string> builtin = ops::targets();
  for (auto it = std::lower_bound(builtin.begin(), builtin.end(), prefix);
       it != builtin.end() && it->starts_with(prefix); ++it)
    if (const Operator* op = ops::find(*it); takes_the_same(op->schema, s, drop_written)) return op;
  for (std::string_view overload : {"default", "Tensor", "Scalar"})  // operators defined since
    if (const Operator* op = ops::find(prefix + std::string(overload));
        op && takes_the_same(op->schema, s, drop_written))
      return op;
  return nullptr;
}

const Operator* find_twin(const Schema& s) {
  if (ops::is_left_to_host(s.target)) return nullptr;  // the host has this operator, and no other
  for (const Named& named : kNamed)
    if (named.in_place == s.target) return ops::find(named.functional);
  std::size_t first = s.target.find('.'), last = s.target.rfind('.');
  std::string space = s.target.substr(0, first + 1), name = s.target.substr(first + 1, last - first - 1),
              overload = s.target.substr(last);
  bool in_place = name.ends_with('_') && !name.ends_with("__");
  bool dunder = name.starts_with("__i") && name.ends_with("__");  // `__iand__`
  if (dunder)
    name = "__" + name.substr(3);
  else if (in_place)
    name.pop_back();
  bool drop_written = !in_place && !dunder;
  const Operator* same = ops::find(space + name + overload);
  if (!drop_written && same && takes_the_same(same->schema, s, false)) return same;
  for (std::string prefix : {space + name + ".", space + name + "_functional."})
    if (const Operator* op = find_overload(prefix, s, drop_written)) return op;
  return nullptr;
}

}  // namespace

std::optional<FunctionalTwin> functional_twin(const fx::Node& n) {
  if (!n.op) return {};
  const Schema& s = n.op->schema;
  FunctionalTwin twin;
  twin.written = hidden_writes(n);
  std::size_t aliased_results = 0;
  if (twin.written.empty()) {
    if (!s.is_mutating()) return {};
    // Results that are the written arguments give the order; a functional form lists new values as the in-place form
    // does.
    for (std::size_t i = 0; i < s.parameters.size(); ++i)
      if (is_written(s.parameters[i]) && !n.args[i].is_none()) twin.written.push_back(i);
    aliased_results = static_cast<std::size_t>(std::count_if(s.returns.begin(), s.returns.end(), is_written));
  }
  twin.own_results = s.returns.size() - aliased_results;
  twin.op = find_twin(s);
  if (twin.op || twin.written.empty()) return twin;
  if (s.target.starts_with("aten.") || s.target.starts_with("prims."))
    throw Error(fmt::format("{} writes to its argument {} and has no functional form", s.target,
                            s.parameters[twin.written.at(0)].name),
                s.target, n.where());
  // Its own results as they were recorded: a list may be several.
  const ops::Value& results = n.meta.value;
  twin.own_results = results.is_none()           ? 0
                     : results.is<ops::Values>() ? results.as_list().size() - aliased_results
                                                 : 1 - aliased_results;
  return twin;
}

std::vector<std::pair<std::string, ops::Value>> twin_arguments(const FunctionalTwin& twin, const fx::Node& n) {
  std::vector<std::pair<std::string, ops::Value>> named;
  const Schema& s = n.op->schema;
  for (const Parameter& p : twin.op->schema.parameters) {
    auto it = std::find_if(s.parameters.begin(), s.parameters.end(), [&](const Parameter& q) {
      return q.name == p.name || (q.name == "self" && p.name == "input");
    });
    if (it != s.parameters.end())
      named.emplace_back(p.name, n.args[static_cast<std::size_t>(it - s.parameters.begin())]);
  }
  return named;
}

}  // namespace coil::passes
