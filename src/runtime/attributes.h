// Typed reading of a call's attributes.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan.h"

namespace coil::runtime {

/// The attribute as the type asked for; `fallback` when it is absent. Throws Error naming it when it has another type.
std::int64_t int_attribute(const Attributes&, const std::string& name, std::int64_t fallback);
double double_attribute(const Attributes&, const std::string& name, double fallback);
std::vector<std::int64_t> ints_attribute(const Attributes&, const std::string& name, std::vector<std::int64_t> fallback);
std::vector<double> doubles_attribute(const Attributes&, const std::string& name);
std::vector<std::string> strings_attribute(const Attributes&, const std::string& name);
std::string string_attribute(const Attributes&, const std::string& name);

}  // namespace coil::runtime
