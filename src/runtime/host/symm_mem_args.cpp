#include "runtime/host/symm_mem_args.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "runtime/host/operators.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::vector<std::string>, std::less<>> names;  ///< by operator
};

Registry& registry() {
  static Registry r;
  return r;
}

struct Parameter {
  std::string type, name;
};

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// The parts of a list between commas that stand in no brackets or quotes.
std::vector<std::string_view> parts(std::string_view list) {
  std::vector<std::string_view> found;
  int depth = 0;
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : ',';
    if (c == '"' || c == '\'') quoted = !quoted;
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c != ',' || (i < list.size() && (depth > 0 || quoted))) continue;
    if (const std::string_view part = trimmed(list.substr(begin, i - begin)); !part.empty()) found.push_back(part);
    begin = i + 1;
  }
  return found;
}

/// The arguments and the results of a schema, as text.
std::pair<std::string_view, std::string_view> sides(std::string_view schema) {
  const std::size_t open = schema.find('('), arrow = schema.rfind("->");
  const std::size_t close = arrow == schema.npos ? schema.npos : schema.rfind(')', arrow);
  if (open == schema.npos || close == schema.npos || close < open) fail("'{}' is no schema of an operator", schema);
  return {schema.substr(open + 1, close - open - 1), trimmed(schema.substr(arrow + 2))};
}

std::vector<Parameter> parameters(std::string_view arguments) {
  std::vector<Parameter> found;
  for (std::string_view part : parts(arguments)) {
    if (part == "*") continue;
    part = trimmed(part.substr(0, part.find('=')));
    const std::size_t space = part.rfind(' ');
    if (space == part.npos) fail("'{}' is no argument of a schema", part);
    found.push_back({std::string(trimmed(part.substr(0, space))), std::string(part.substr(space + 1))});
  }
  return found;
}

void check_returns(const std::string& op, std::string_view returns, const std::vector<Parameter>& all) {
  if (returns.find('!') == returns.npos) return;
  const auto written = std::ranges::find_if(all, [](const Parameter& p) { return p.type.find('!') != p.type.npos; });
  fail(
      "{} returns an argument that it writes to ({}), of which programs would be given a copy; define it with `-> ()`, "
      "and let those who call it use {} itself",
      op, returns, written == all.end() ? "the argument" : written->name);
}

void check_names(const std::string& op, const std::vector<std::string>& names, const std::vector<Parameter>& all) {
  if (names.empty()) fail("{}: no argument was named", op);
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (std::find(names.begin(), name, *name) != name) fail("{}: the argument '{}' is named twice", op, *name);
    const auto found = std::ranges::find(all, *name, &Parameter::name);
    if (found == all.end()) {
      std::vector<std::string> known;
      for (const Parameter& p : all) known.push_back(p.name);
      fail("{} has no argument '{}'; it has {}", op, *name,
           known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
    }
    if (!found->type.starts_with("Tensor"))
      fail("{}: the argument '{}' is {}, and only tensors lie in shared memory", op, *name, found->type);
  }
}

}  // namespace

void register_symm_mem_args(std::string_view schema, std::vector<std::string> names) {
  const std::string op = operator_name(schema);
  const auto [arguments, returns] = sides(schema);
  const std::vector<Parameter> all = parameters(arguments);
  check_returns(op, returns, all);
  check_names(op, names, all);
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto [found, added] = r.names.try_emplace(op, names);
  if (!added && !std::ranges::is_permutation(found->second, names))
    fail("{} has the arguments {} in shared memory already, and cannot have {} instead", op,
         fmt::join(found->second, ", "), fmt::join(names, ", "));
}

std::vector<std::string> symm_mem_args(std::string_view operator_name) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto found = r.names.find(operator_name);
  return found == r.names.end() ? std::vector<std::string>{} : found->second;
}

bool has_symm_mem_args() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  return !r.names.empty();
}

}  // namespace coil::runtime
