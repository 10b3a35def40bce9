#include "codegen/backend.h"

#include "support/error.h"

namespace coil::codegen {

Kernel Backend::kernel(ir::Graph&, LoopNest) const {
  fail("kernels for {} are not made from loop nests", to_string(device()));
}

}  // namespace coil::codegen
