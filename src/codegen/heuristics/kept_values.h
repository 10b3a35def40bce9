// What a thread keeps of its part of a row from one pass over the row to the next, so that the row is read once.
#pragma once
#include <span>

#include "codegen/heuristics/launch_config.h"
#include "codegen/heuristics/online.h"
#include "codegen/loop_nest.h"

namespace coil::codegen {

/// Bytes of a row that one thread keeps in registers; and where a thread has fewer of them, since a block has more than
/// 512 threads or a multiprocessor is to hold several blocks.
inline constexpr int kKeptBytes = 192, kKeptBytesOfMany = kKeptBytes * 2 / 3;

/// A value of each element of a row that stays in registers from the level that makes it to later ones.
struct KeptValue {
  ir::Scalar value = nullptr;
  bool pack = false;  ///< as it was loaded, a vector as one; else as a number in a register
  int level = 0;
  /// Later levels convert its elements again: as converted numbers they would take twice the registers.
  bool converts_again = false;
};

struct KeptValues {
  bool fits = false;  ///< all that later levels need is kept; else nothing is, and they read the row again
  std::vector<KeptValue> values;
  int bytes = 0;  ///< of all of them, in one thread's registers
};

/// For a nest along rows whose threads take `unroll` vectors each. The second reductions of `pairs` are made in the
/// pass of the first: what they alone compute, no pass does.
KeptValues values_to_keep(ir::Graph&, const LoopNest&, const LaunchConfig&, std::span<const OnlinePair> pairs);

/// Bytes that a vector of a value takes in a thread's registers: as it lies in memory where it is a load that moves as
/// one access (`pack`), else a number in a register for each element.
int register_bytes(const ir::Graph&, ir::Scalar, bool pack, int vector);

}  // namespace coil::codegen
