#include "runtime/plan/attributes.h"

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

std::int64_t int_attribute(const Attributes& a, const std::string& name, std::int64_t fallback) {
  return read(a, name, fallback);
}

bool flag_attribute(const Attributes& a, const std::string& name, bool fallback) {
  return int_attribute(a, name, fallback) != 0;
}

double double_attribute(const Attributes& a, const std::string& name, double fallback) {
  return read(a, name, fallback);
}

std::vector<std::int64_t> ints_attribute(const Attributes& a, const std::string& name,
                                         std::vector<std::int64_t> fallback) {
  return read(a, name, std::move(fallback));
}

std::vector<std::int64_t> per_dimension(const Attributes& attributes, const std::string& name, std::int64_t fallback,
                                        std::size_t spatial, std::string_view operation) {
  std::vector<std::int64_t> values = ints_attribute(attributes, name, std::vector<std::int64_t>(spatial, fallback));
  if (values.size() == 1) values.assign(spatial, values[0]);
  if (values.size() != spatial)
    fail("{}: attribute '{}' has {} values for {} dimensions", operation, name, values.size(), spatial);
  return values;
}

std::vector<double> doubles_attribute(const Attributes& a, const std::string& name) {
  return read(a, name, std::vector<double>());
}

std::vector<std::string> strings_attribute(const Attributes& a, const std::string& name) {
  return read(a, name, std::vector<std::string>());
}

std::string string_attribute(const Attributes& a, const std::string& name) { return read(a, name, std::string()); }

}  // namespace coil::runtime
