// The wrapper IR as the plan that the executor runs.
#pragma once
#include "runtime/plan/plan.h"
#include "wrapper/program.h"

namespace coil::wrapper {

runtime::Plan make_plan(const Program&);

}  // namespace coil::wrapper
