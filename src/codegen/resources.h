// What compiled kernels take of a GPU's multiprocessor: registers, shared memory, memory for what registers do not
// hold.
#pragma once
#include <cstdint>
#include <string>

namespace coil::codegen {

struct KernelResources {
  std::string symbol;
  int registers = 0;  ///< of a thread
  /// Shared memory of a block, beside what launches ask for (SymbolicLaunch::shared_bytes) and what the machine
  /// reserves.
  std::int64_t shared_bytes = 0;
  /// Memory of a thread: registers that were spilled, and arrays whose elements are not known by name.
  std::int64_t stack_bytes = 0;
  bool operator==(const KernelResources&) const = default;
};

}  // namespace coil::codegen
