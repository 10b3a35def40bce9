// Typed reading of a call's attributes.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/plan.h"

namespace coil::runtime {

/// The attribute as the type asked for; `fallback` when it is absent. Throws Error naming it when it has another type.
std::int64_t int_attribute(const Attributes&, const std::string& name, std::int64_t fallback);
bool flag_attribute(const Attributes&, const std::string& name, bool fallback = false);
double double_attribute(const Attributes&, const std::string& name, double fallback);
std::vector<std::int64_t> ints_attribute(const Attributes&, const std::string& name,
                                         std::vector<std::int64_t> fallback);
/// One value for each of `spatial` dimensions, where a single one stands for all. Throws Error, naming `operation`, for
/// other numbers of them.
std::vector<std::int64_t> per_dimension(const Attributes&, const std::string& name, std::int64_t fallback,
                                        std::size_t spatial, std::string_view operation);
std::vector<double> doubles_attribute(const Attributes&, const std::string& name);
std::vector<std::string> strings_attribute(const Attributes&, const std::string& name);
std::string string_attribute(const Attributes&, const std::string& name);

}  // namespace coil::runtime
