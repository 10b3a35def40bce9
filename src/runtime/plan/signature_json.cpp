#include "runtime/plan/signature_json.h"

#include "support/error.h"

namespace coil::runtime {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Structure& s) {
  if (s.is_leaf()) {
    if (s.leaf < 0) return nullptr;
    return s.fixed.empty() ? Json(s.leaf) : Json{{"leaf", s.leaf}, {"fixed", Json::parse(s.fixed)}};
  }
  Json children = Json::array();
  for (const Structure& child : s.children) children.push_back(to_json(child));
  Json j = {{"type", s.type}, {"keys", s.keys}, {"children", std::move(children)}};
  if (!s.context.empty()) j["context"] = Json::parse(s.context);
  return j;
}

std::int64_t leaf_from(const Json& j) {
  if (!j.is_number_integer() || j.get<std::int64_t>() < 0) fail("the signature has a leaf that is no position");
  return j.get<std::int64_t>();
}

Structure from_json(const Json& j) {
  Structure s;
  if (j.is_null()) return s;
  if (j.is_number()) {
    s.leaf = leaf_from(j);
    return s;
  }
  if (j.contains("leaf")) {
    s.leaf = leaf_from(j.at("leaf"));
    s.fixed = j.at("fixed").dump();
    return s;
  }
  s.type = j.at("type").get<std::string>();
  s.keys = j.at("keys").get<std::vector<std::string>>();
  for (const Json& child : j.at("children")) s.children.push_back(from_json(child));
  if (s.type.empty() || s.keys.size() != s.children.size())
    fail("the signature has a container of {} keys and {} children", s.keys.size(), s.children.size());
  if (j.contains("context")) s.context = j.at("context").dump();
  return s;
}

}  // namespace

Json signature_to_json(const Signature& s) { return {{"inputs", to_json(s.inputs)}, {"outputs", to_json(s.outputs)}}; }

Signature signature_from_json(const Json& j) { return {from_json(j.at("inputs")), from_json(j.at("outputs"))}; }

}  // namespace coil::runtime
