// Kernels that are written down as they are, not made of a loop nest: pointers, numbers, and the status behind them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "codegen/heuristics/launch_config.h"
#include "codegen/kernel.h"

namespace coil::codegen {

class PlainKernel {
 public:
  /// A parameter of the kernel, by name.
  std::string scalar(Expr);

 protected:
  /// The next pointer of the kernel, `p` and its number: to elements of `type` in the view's buffer.
  void take(const ir::BufferView&, std::string_view type, bool written);
  /// Of __launch_bounds__.
  static std::string bounds(const LaunchConfig&);
  /// Of the pointers that were taken.
  Kernel write(std::string_view prefix, std::string_view bounds, std::string_view body) {
    return write(prefix, bounds, std::move(pointers_), body);
  }
  /// `pointers`: the first parameters; `bounds`: those of __launch_bounds__; the launch is still to be filled in.
  Kernel write(std::string_view prefix, std::string_view bounds, std::vector<Parameter> pointers,
               std::string_view body);

  Kernel k_;

 private:
  std::vector<Parameter> pointers_, scalars_;
};

}  // namespace coil::codegen
