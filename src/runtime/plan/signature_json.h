// A program's signature as JSON: the plan's member `signature` (docs/package.md).
#pragma once
#include <nlohmann/json.hpp>

#include "runtime/plan/plan.h"

namespace coil::runtime {

nlohmann::ordered_json signature_to_json(const Signature&);
/// Throws Error, or nlohmann's own exceptions, on what is no signature; whether its leaves are there is check_plan's to
/// say.
Signature signature_from_json(const nlohmann::ordered_json&);

}  // namespace coil::runtime
