#include "frontend/treespec.h"

#include <nlohmann/json.hpp>

#include "support/error.h"

namespace coil::frontend {

namespace {

/// A dict key as `str()` prints it. Enumerators come as `{"__enum__": true, "fqn": "module:Class", "name": "A"}`.
std::string key_text(const Json& key) {
  switch (key.kind()) {
    case Json::Kind::String: return key.as_string();
    case Json::Kind::Int: return fmt::format("{}", key.as_int());
    case Json::Kind::Bool: return key.as_bool() ? "True" : "False";
    case Json::Kind::Null: return "None";
    case Json::Kind::Object:
      if (key.find("__enum__")) {
        const std::string& type = key["fqn"].as_string();
        return type.substr(type.find_last_of(".:") + 1) + "." + key["name"].as_string();
      }
      break;
    default: break;
  }
  key.fail("unknown kind of key");
}

std::vector<std::string> key_list(const Json& list) {
  std::vector<std::string> keys;
  for (const Json* key : list.items()) keys.push_back(key_text(*key));
  return keys;
}

/// The children's keys that a context names: a list of keys (dicts, and most classes that register themselves), a pair
/// of the lists of present and absent fields (dataclasses), or a defaultdict's record. Empty when it names none.
std::vector<std::string> keys_of(const std::string& type, const Json& context, const Json* named_tuples) {
  if (context.is_object()) {
    const Json* keys = context.find("dict_context");
    return keys ? key_list(*keys) : std::vector<std::string>();
  }
  if (context.is_string() && named_tuples)
    if (const Json* fields = named_tuples->find(context.as_string())) return key_list((*fields)["field_names"]);
  if (!context.is_list() || type == "collections.deque") return {};
  const auto items = context.items();
  if (items.size() == 2 && items[0]->is_list() && items[1]->is_list()) return key_list(*items[0]);
  for (const Json* key : items)
    if (key->is_list() || (key->is_object() && !key->find("__enum__"))) return {};
  return key_list(context);
}

nlohmann::ordered_json copied(const Json& j) {
  switch (j.kind()) {
    case Json::Kind::Null: return nullptr;
    case Json::Kind::Bool: return j.as_bool();
    case Json::Kind::Int: return j.as_int();
    case Json::Kind::Float: return j.as_double();
    case Json::Kind::String: return j.as_string();
    case Json::Kind::List: {
      auto list = nlohmann::ordered_json::array();
      for (const Json* item : j.items()) list.push_back(copied(*item));
      return list;
    }
    case Json::Kind::Object: break;
  }
  auto object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : j.members()) object[name] = copied(*value);
  return object;
}

TreeSpec read(const Json& j, const Json* named_tuples) {
  TreeSpec spec;
  const Json* type = j.find("type");
  if (!type) return spec;
  spec.type = type->as_string();
  for (const Json* child : j["children_spec"].items()) spec.children.push_back(read(*child, named_tuples));
  // The context is mostly JSON within a string.
  if (const Json* context = j.find("context")) {
    if (!context->is_string() || context->as_string() != "null")
      spec.context = copied(*context).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    if (context->is_string()) {
      std::optional<JsonDocument> inner;
      try {
        inner.emplace(context->as_string(), "a treespec's context");
      } catch (const Error&) {
        // Plain text, such as the name of a named tuple's class.
      }
      spec.keys = keys_of(spec.type, inner ? inner->root() : *context, named_tuples);
    } else {
      spec.keys = keys_of(spec.type, *context, named_tuples);
    }
  }
  if (spec.keys.size() != spec.children.size()) {
    spec.keys.clear();
    for (std::size_t i = 0; i < spec.children.size(); ++i) spec.keys.push_back(fmt::format("{}", i));
  }
  return spec;
}

void collect(const TreeSpec& spec, const std::string& path, std::vector<std::string>& paths) {
  if (spec.is_leaf()) paths.push_back(path);
  for (std::size_t i = 0; i < spec.children.size(); ++i)
    collect(spec.children[i], path.empty() ? spec.keys[i] : path + "." + spec.keys[i], paths);
}

}  // namespace

std::size_t TreeSpec::leaves() const {
  std::size_t n = is_leaf() ? 1 : 0;
  for (const TreeSpec& child : children) n += child.leaves();
  return n;
}

std::vector<std::string> TreeSpec::paths(const std::string& prefix) const {
  std::vector<std::string> paths;
  collect(*this, prefix, paths);
  return paths;
}

TreeSpec parse_treespec(const std::string& text, const Json* named_tuples) {
  const JsonDocument document(text, "treespec");
  constexpr std::int64_t kProtocol = 1;
  const auto items = document.root().items();
  if (items.size() != 2 || items[0]->as_int() != kProtocol)
    document.root().fail("unknown protocol of input and output structure");
  return read(*items[1], named_tuples);
}

}  // namespace coil::frontend
