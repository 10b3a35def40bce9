// Kernels that are written down as they are, not made of a loop nest: pointers, numbers, and the status behind them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cuda/dialect.h"
#include "codegen/heuristics/launch_config.h"
#include "codegen/kernel.h"

namespace coil::codegen {

class PlainKernel {
 public:
  explicit PlainKernel(const Dialect& dialect = cuda_dialect()) : dialect_(dialect) {}
  /// A parameter of the kernel, by name.
  std::string scalar(Expr);

 protected:
  /// The next pointer of the kernel, `p` and its number: to elements of `type` in the view's buffer.
  void take(const ir::BufferView& view, std::string_view type, bool written) { take(view.buffer, type, written); }
  void take(ir::BufferId, std::string_view type, bool written);
  /// How a kernel is launched by this config, on so many blocks.
  static SymbolicLaunch launch(Expr blocks, const LaunchConfig&);
  /// Where blocks form clusters, the body itself leaves when the run has failed: all blocks of a cluster or none.
  Kernel write(std::string_view prefix, SymbolicLaunch, std::string_view body);

  const Dialect& dialect_;
  Kernel k_;

 private:
  std::vector<DevicePointer> pointers_;
};

}  // namespace coil::codegen
