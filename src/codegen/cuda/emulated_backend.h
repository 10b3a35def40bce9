// Kernels for grids of threads on the CPU: their text behind a machine part that runs a block's threads as fibers
// (device/grid/fibers.h), for tests of values where there is no GPU.
#pragma once
#include <string>
#include <string_view>

#include "codegen/cpp/toolchain.h"
#include "codegen/cuda/grid_backend.h"

namespace coil::codegen {

/// Packages are the CPU's, and so are the libraries. A language derives from it.
class EmulatedBackend : public GridBackend {
 public:
  EmulatedBackend(const Dialect&, Toolchain, std::unique_ptr<scheduler::Choices>, int launch_config);

  const scheduler::Choices& choices() const override { return choices_ ? *choices_ : cpp_->choices(); }
  bool has_template(std::string_view op) const override { return cpp_->has_template(op); }
  Kernel template_kernel(ir::Graph& graph, const ir::Extern& call) const override {
    return cpp_->template_kernel(graph, call);
  }
  Binaries compile(std::span<const std::string> kernels, const CompileKernels&) const override;

 protected:
  /// Called as CPU kernels are: once, with the launch's grid behind the scalars.
  Kernel written(Kernel) const override;
  /// What a kernel of the language has in its text, and one of the CPU's has not.
  virtual std::string_view mark() const = 0;
  /// A unit for the CPU's compiler: kernels with all that they call.
  virtual std::string unit(const std::string& kernels) const = 0;

 private:
  std::unique_ptr<Backend> cpp_;
  Toolchain toolchain_;
};

}  // namespace coil::codegen
