// What kernels of attention are written for, one by one.
#pragma once
#include "ir/ir.h"
#include "support/error.h"

namespace coil::codegen {

/// Elements of a row of a head: the last of four dimensions. Throws Error where only the program's run tells them.
inline std::int64_t head_size(const ir::BufferView& rows) {
  const auto size = rows.sizes[3].constant();
  if (!size) fail("attention needs head sizes that are known at compile time");
  return *size;
}

}  // namespace coil::codegen
