#include "runtime/attributes.h"

#include "support/error.h"

namespace coil::runtime {
namespace {

template <class T>
T read(const Attributes& attributes, const std::string& name, T fallback) {
  auto found = attributes.find(name);
  if (found == attributes.end()) return fallback;
  const auto* value = std::get_if<T>(static_cast<const Attribute::variant*>(&found->second));
  if (!value) fail("attribute '{}' of a library operation has the wrong type", name);
  return *value;
}

}  // namespace

std::int64_t int_attribute(const Attributes& a, const std::string& name, std::int64_t fallback) { return read(a, name, fallback); }

double double_attribute(const Attributes& a, const std::string& name, double fallback) { return read(a, name, fallback); }

std::vector<std::int64_t> ints_attribute(const Attributes& a, const std::string& name, std::vector<std::int64_t> fallback) {
  return read(a, name, std::move(fallback));
}

std::vector<double> doubles_attribute(const Attributes& a, const std::string& name) { return read(a, name, std::vector<double>()); }

std::vector<std::string> strings_attribute(const Attributes& a, const std::string& name) {
  return read(a, name, std::vector<std::string>());
}

std::string string_attribute(const Attributes& a, const std::string& name) { return read(a, name, std::string()); }

}  // namespace coil::runtime
