// The plan as JSON text: the manifest of a package (docs/package.md).
#pragma once
#include <string>
#include <string_view>

#include "runtime/plan/plan.h"

namespace coil::runtime {

/// Equal plans give equal text.
std::string plan_to_json(const Plan&);
/// Throws Error on anything but a plan of this version. Indices are left to check_plan.
Plan plan_from_json(std::string_view);

}  // namespace coil::runtime
