// Small launches that come one after another, of any kernels, put together into one: a launch takes longer than what
// such kernels do.
#pragma once
#include "codegen/backend.h"
#include "wrapper/program.h"

namespace coil::wrapper {

/// Before lifetimes are planned. A launch joins those before it that nothing keeps from going later: as blocks beside
/// theirs where it does not depend on them, else behind them in one block, as far as the backend finds that worth it.
void combine_launches(Program&, const codegen::Backend&);

}  // namespace coil::wrapper
