// What a written FX graph calls. What is recorded of a result is all there is to know: where inputs lie and what
// numbers they hold, the run tells.
#include "ops/registry.h"
#include "ops/shapes/families.h"
#include "ops/wrapper_schemas.h"

namespace coil::ops::shapes {

void register_wrapper() {
  for (std::string_view schema : kWrapperSchemas) {
    const bool nothing = schema.ends_with("-> ()");
    // Inputs are checked as they are taken, and a buffer's end is one whether or not somebody asks.
    const bool kept = nothing || schema.starts_with("take") || schema.starts_with("lay_out");
    define("coil_wrapper::" + std::string(schema),
           nothing ? ShapeFunction([](const Call&) -> Value { return None{}; }) : ShapeFunction(), false, kept);
  }
}

}  // namespace coil::ops::shapes
