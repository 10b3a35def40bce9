// A backend whose kernels run as grids of threads, written by this folder's emitters in one of their dialects.
#pragma once
#include <memory>
#include <utility>

#include "codegen/backend.h"
#include "codegen/cuda/kernel.h"
#include "codegen/heuristics/alternatives.h"

namespace coil::codegen {

class GridBackend : public Backend {
 public:
  const target::Target& target() const override { return target_; }
  const scheduler::Choices& choices() const override { return *choices_; }
  Kernel group(ir::Graph&, const scheduler::Group&) const override;
  Kernel scatter(ir::Graph&, const ir::Operation&) const override;
  std::optional<LoopNest> nest(ir::Graph&, const scheduler::Group&) const override;
  std::optional<LoopNest> nest(ir::Graph&, const ir::Operation&) const override;
  Kernel kernel(ir::Graph&, LoopNest) const override;
  std::vector<KernelAlternative> alternatives(ir::Graph&, const scheduler::Group&, const Kernel& usual) const override;

 protected:
  /// `launch_config` is that of kernels whose group names none: its number among the candidates.
  GridBackend(const Dialect& dialect, target::Target target, std::unique_ptr<scheduler::Choices> choices,
              int launch_config)
      : target_(std::move(target)), choices_(std::move(choices)), dialect_(dialect) {
    request_.candidate = launch_config;
  }
  /// What becomes of a kernel that has been written.
  virtual Kernel written(Kernel kernel) const { return kernel; }

  target::Target target_;
  std::unique_ptr<scheduler::Choices> choices_;
  LaunchRequest request_;
  Alternatives alternatives_ = Alternatives::Off;  ///< kernels for some of the sizes that are written too

 private:
  /// Adds the kernel for the sizes at which `when` holds, unless it is the usual one.
  void add_alternative(ir::Graph&, const scheduler::Group&, const Kernel& usual, Expr when, const LaunchRequest&,
                       std::vector<KernelAlternative>&) const;
  /// Adds those for ranges of sizes, where `where` holds as well; none for rows that may be longer than `longest`.
  void add_alternatives(ir::Graph&, const scheduler::Group&, const Kernel& usual, Expr where, const LaunchRequest&,
                        std::int64_t longest, std::vector<KernelAlternative>&) const;

  const Dialect& dialect_;
};

}  // namespace coil::codegen
