// Kernels that are written down as they are, not made of a loop nest: pointers, numbers, and the status behind them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "codegen/kernel.h"

namespace coil::codegen {

class PlainKernel {
 public:
  /// A parameter of the kernel, by name.
  std::string scalar(Expr);

 protected:
  /// `pointers`: the first parameters; `bounds`: those of __launch_bounds__; the launch is still to be filled in.
  Kernel write(std::string_view prefix, std::string_view bounds, std::vector<Parameter> pointers,
               std::string_view body);

  Kernel k_;

 private:
  std::vector<Parameter> scalars_;
};

}  // namespace coil::codegen
