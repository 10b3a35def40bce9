// The operator families: each registers the schemas and shape functions of its operators. A new family is one line here.
#pragma once
#include <initializer_list>

namespace coil::ops {

inline constexpr std::initializer_list<void (*)()> kFamilies = {};

}  // namespace coil::ops
