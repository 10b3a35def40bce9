#include "library_ops/attribute.h"

#include "support/error.h"
#include "support/overloaded.h"

namespace coil::library_ops {
namespace {

template <class T>
const T* given(const Attributes& attributes, std::string_view name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return nullptr;
  const auto* value = std::get_if<T>(&found->second);
  if (!value) fail("attribute '{}' of a library operation has the wrong type", name);
  return value;
}

template <class T>
const std::vector<T>& list(const Attributes& attributes, const ListKey<T>& key) {
  static const std::vector<T> none;
  const auto* value = given<std::vector<T>>(attributes, key.name);
  return value ? *value : none;
}

template <class K>
AttributeInfo info(const K& key, AttributeType type, Attribute fallback) {
  AttributeInfo out;
  out.name = key.name;
  out.type = type;
  out.presence = key.presence;
  out.fallback = std::move(fallback);
  out.sentence = key.sentence;
  return out;
}

template <class T>
AttributeInfo list_info(const ListKey<T>& key, AttributeType type) {
  AttributeInfo out = info(key, type, std::vector<T>());
  if (!key.each) return out;
  out.presence = Presence::Defaulted;
  out.fallback = *key.each;
  return out;
}

}  // namespace

std::string_view to_string(AttributeType type) {
  switch (type) {
    case AttributeType::Flag: return "flag";
    case AttributeType::Integer: return "integer";
    case AttributeType::Number: return "number";
    case AttributeType::Text: return "text";
    case AttributeType::Integers: return "list of integers";
    case AttributeType::Numbers: return "list of numbers";
    case AttributeType::Texts: return "list of texts";
  }
  return {};
}

bool is_of(const Attribute& value, AttributeType type) {
  switch (type) {
    case AttributeType::Flag:
    case AttributeType::Integer: return std::holds_alternative<std::int64_t>(value);
    case AttributeType::Number: return std::holds_alternative<double>(value);
    case AttributeType::Text: return std::holds_alternative<std::string>(value);
    case AttributeType::Integers: return std::holds_alternative<std::vector<std::int64_t>>(value);
    case AttributeType::Numbers: return std::holds_alternative<std::vector<double>>(value);
    case AttributeType::Texts: return std::holds_alternative<std::vector<std::string>>(value);
  }
  return false;
}

std::string to_string(const Attribute& a) {
  return std::visit(
      Overloaded{[](const std::string& s) { return fmt::format("\"{}\"", s); },
                 [](const std::vector<std::string>& v) { return fmt::format("[{}]", fmt::join(v, ", ")); },
                 [](const std::vector<std::int64_t>& v) { return fmt::format("[{}]", fmt::join(v, ", ")); },
                 [](const std::vector<double>& v) { return fmt::format("[{}]", fmt::join(v, ", ")); },
                 [](const auto& v) { return fmt::format("{}", v); }},
      a);
}

bool read(const Attributes& attributes, const Flag& key) {
  const auto* value = given<std::int64_t>(attributes, key.name);
  return value ? *value != 0 : key.fallback;
}

std::int64_t read(const Attributes& attributes, const Integer& key) {
  return find(attributes, key).value_or(key.fallback);
}

double read(const Attributes& attributes, const Number& key) {
  const auto* value = given<double>(attributes, key.name);
  return value ? *value : key.fallback;
}

const std::string& read(const Attributes& attributes, const Text& key) {
  static const std::string none;
  const auto* value = given<std::string>(attributes, key.name);
  COIL_CHECK(key.fallback.empty(), "the text {} has a default", key.name);
  return value ? *value : none;
}

const std::vector<std::int64_t>& read(const Attributes& attributes, const Integers& key) {
  return list(attributes, key);
}
const std::vector<double>& read(const Attributes& attributes, const Numbers& key) { return list(attributes, key); }
const std::vector<std::string>& read(const Attributes& attributes, const Texts& key) { return list(attributes, key); }

std::optional<std::int64_t> find(const Attributes& attributes, const Integer& key) {
  const auto* value = given<std::int64_t>(attributes, key.name);
  return value ? std::optional(*value) : std::nullopt;
}

std::vector<std::int64_t> per_dimension(const Attributes& attributes, const Integers& key, std::size_t spatial,
                                        std::string_view operation) {
  const auto* value = given<std::vector<std::int64_t>>(attributes, key.name);
  if (!value) return std::vector<std::int64_t>(spatial, key.each.value_or(0));
  if (value->size() == 1) return std::vector<std::int64_t>(spatial, value->front());
  if (value->size() != spatial)
    fail("{}: attribute '{}' has {} values for {} dimensions", operation, key.name, value->size(), spatial);
  return *value;
}

AttributeInfo::AttributeInfo(const Flag& key)
    : AttributeInfo(info(key, AttributeType::Flag, std::int64_t{key.fallback})) {}
AttributeInfo::AttributeInfo(const Integer& key) : AttributeInfo(info(key, AttributeType::Integer, key.fallback)) {}
AttributeInfo::AttributeInfo(const Number& key) : AttributeInfo(info(key, AttributeType::Number, key.fallback)) {}
AttributeInfo::AttributeInfo(const Text& key)
    : AttributeInfo(info(key, AttributeType::Text, std::string(key.fallback))) {}
AttributeInfo::AttributeInfo(const Integers& key) : AttributeInfo(list_info(key, AttributeType::Integers)) {}
AttributeInfo::AttributeInfo(const Numbers& key) : AttributeInfo(list_info(key, AttributeType::Numbers)) {}
AttributeInfo::AttributeInfo(const Texts& key) : AttributeInfo(list_info(key, AttributeType::Texts)) {}

}  // namespace coil::library_ops
