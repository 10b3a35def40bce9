#include "runtime/library_builtin.h"

namespace coil::runtime {

std::span<const BuiltinOp> builtin_ops() { return {}; }

}  // namespace coil::runtime
