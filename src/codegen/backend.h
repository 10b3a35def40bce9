// What turns scheduled operations into kernels for one device: text first, binaries when all texts are known.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/kernel.h"
#include "codegen/loop_nest.h"
#include "codegen/resources.h"
#include "scheduler/schedule.h"
#include "support/extension_api.h"
#include "target/target.h"

namespace coil::codegen {

struct CompileKernels {
  int jobs = 2;                                ///< compilers that run at once
  std::optional<std::filesystem::path> cache;  ///< folder of binaries by content; none: nothing is cached
};

/// Kernels as loadable binaries, and their whole text.
using Libraries = std::vector<std::vector<std::byte>>;
struct Binaries {
  Libraries libraries;  ///< shared objects, or cubins and PTX
  std::string source;
};

/// Another form of a kernel, on the same buffers, for the sizes at which a condition holds.
struct KernelAlternative {
  Expr when;
  Kernel kernel;
};

/// One device's kernels. Outsiders may derive from it.
class COIL_EXTENSION_API Backend {
 public:
  virtual ~Backend() = default;
  /// What the program is compiled for.
  virtual const target::Target& target() const = 0;
  /// Where the program runs.
  Device device() const { return target().device; }
  /// Instruction set or architecture that the binaries need: `avx512`, `sm_90a`.
  const std::string& isa() const { return target().arch; }
  /// Whether kernels wait, before they touch memory, for the one that was launched before them.
  virtual bool dependent_launches() const { return false; }
  /// Fusion policy that suits the device.
  virtual const scheduler::Choices& choices() const = 0;
  virtual Kernel group(ir::Graph&, const scheduler::Group&) const = 0;
  virtual Kernel scatter(ir::Graph&, const ir::Operation&) const = 0;
  /// The loops that a group's or a scatter's kernel is written from, where the backend has its kernels from a LoopNest.
  virtual std::optional<LoopNest> nest(ir::Graph&, const scheduler::Group&) const { return std::nullopt; }
  virtual std::optional<LoopNest> nest(ir::Graph&, const ir::Operation&) const { return std::nullopt; }
  /// The kernel of such loops. Throws Error where the backend has none of its kernels from them.
  virtual Kernel kernel(ir::Graph&, LoopNest) const;
  /// Whether extern operations of this name are template kernels; where not, a library carries them out at run time.
  virtual bool has_template(std::string_view op) const = 0;
  /// The kernel of an operation that has one.
  virtual Kernel template_kernel(ir::Graph&, const ir::Extern&) const = 0;
  /// The kernel for `count` sets of its `buffers` in one launch, set k at blockIdx.y = k. It takes the pointers of all
  /// sets, one set after the other. Nothing where the device launches no grids.
  virtual std::optional<KernelParts> batch(const KernelParts&, std::size_t buffers, std::size_t count) const {
    (void)buffers, (void)count;
    return std::nullopt;
  }
  /// How to launch one kernel that does what several do, side by side or, where any waits for those in front of it, one
  /// after the other in one block. Nothing where that cannot be, or would take longer than their own launches.
  virtual std::optional<SymbolicLaunch> launch_together(std::span<const MemberKernel>) const { return std::nullopt; }
  /// The kernel of that launch. It takes the pointers of all, one kernel's after the other's, and then their scalars.
  virtual KernelParts together(std::span<const MemberKernel>, const SymbolicLaunch&) const {
    throw Error("the backend does not put kernels together");
  }
  /// Throws Error with the compiler's first complaint.
  virtual Binaries compile(std::span<const std::string> kernels, const CompileKernels&) const = 0;
  /// What the kernels take of a multiprocessor, where that can be told of such binaries.
  virtual std::vector<KernelResources> resources(const Libraries&) const { return {}; }
  /// The binaries as people read them, where there is such a text: for a family of machines (PTX), and the
  /// instructions of one (SASS).
  virtual std::string portable_text(const Libraries&) const { return {}; }
  virtual std::string machine_text(const Libraries&) const { return {}; }
  /// The forms that are better than `usual`, the group's kernel, at other sizes than those that it was written for.
  /// Their conditions exclude each other, and `usual` is right for all sizes.
  virtual std::vector<KernelAlternative> alternatives(ir::Graph&, const scheduler::Group&, const Kernel& usual) const {
    (void)usual;
    return {};
  }
};

}  // namespace coil::codegen
