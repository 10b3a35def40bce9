// What the forms of kernels know of the machine that runs them: enough to fill it, not which one it is.
#pragma once
#include <cstdint>

namespace coil::codegen {

struct GpuModel {
  std::int64_t multiprocessors = 132;
  std::int64_t block_bytes = 99 << 10;  ///< shared memory of which a multiprocessor has room for a block or two
  int most_cluster = 8;                 ///< blocks of a cluster; 1: the machine has none
  int cluster = 0;                      ///< blocks that share a long row; 0: as many as its length asks for
  int shape = 0;  ///< of those that a form finds worth trying, by number; 0: the one that this model takes. Past the
                  ///< end: the last
  std::int64_t threads() const { return multiprocessors * 2048; }
};

}  // namespace coil::codegen
