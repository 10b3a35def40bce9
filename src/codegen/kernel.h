// A kernel's text and how to call it, whatever language it is in.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/heuristics/launch_config.h"
#include "ir/ir.h"
#include "ops/user_kernel.h"

namespace coil::codegen {

using sym::Expr;
using sym::Exprs;

/// A tensor of which a kernel gets a descriptor, behind all its other parameters: the GPU's copy engine finds tiles by
/// it.
struct MappedTensor {
  std::size_t pointer = 0;         ///< whose memory it lies in, among the kernel's buffers
  Expr offset = 0;                 ///< bytes into the buffer; a multiple of 16
  Exprs sizes, strides;            ///< the outermost dimension first; strides in bytes
  ops::UserKernel::TensorMap map;  ///< what its elements are and how large a tile is
};

/// How a GPU runs a kernel. A grid with a 0 in it launches nothing.
struct SymbolicLaunch {
  Exprs grid;             ///< blocks along x, y, z
  int block = 128;        ///< threads of a block, along x
  int cluster = 1;        ///< neighbouring blocks that exchange what they have; the text says so too
  int resident = 0;       ///< blocks that a multiprocessor's registers are to have room for; 0: as the compiler likes
  Expr shared_bytes = 0;  ///< dynamic shared memory
  std::vector<MappedTensor> maps = {};
};

/// A parameter of a kernel.
struct Parameter {
  std::string type, name;      ///< `const f32*`, `p0`
  bool restricted = false;     ///< no other parameter points to the same memory
  std::string attribute = {};  ///< behind the name: `[[buffer(0)]]`
  bool operator==(const Parameter&) const = default;
};

/// The text of a kernel on a GPU, in a language like C, in the parts that it consists of: its parameters are changed
/// here, and nobody reads them out of a text.
struct KernelParts {
  std::string qualifiers;             ///< in front of the symbol: `__global__ void __launch_bounds__(128)`
  std::vector<Parameter> parameters;  ///< pointers in the order of the kernel's buffers, its scalars, the status word
  std::string body;                   ///< lines
  bool operator==(const KernelParts&) const = default;

  /// `linkage`: what makes the symbol the name of the compiled kernel.
  std::string text(std::string_view symbol, std::string_view linkage = "extern \"C\" ") const;
};
/// Parameters as they are declared, in parentheses.
std::string to_string(std::span<const Parameter>);

/// What a kernel in Triton has beside its text.
struct TritonParts {
  struct Tensor {
    std::string name, type;  ///< `p0`, `fp32`: elements as Triton's signatures call them
  };
  std::vector<Tensor> tensors;       ///< parameters, in the order of the kernel's buffers
  std::vector<std::string> numbers;  ///< those of its scalars
  /// The parameter behind them is the status word: the kernel leaves at once where the run has failed, and tells where
  /// it fails itself.
  bool status = false;
  bool wide = false;  ///< the numbers have 64 bits, else 32
  int warps = 4;
  std::vector<std::pair<std::string, int>> constants;  ///< `XBLOCK` and its value
  std::string body;                                    ///< lines

  std::string text(std::string_view symbol) const;
};

/// One of several kernels that become one launch.
struct MemberKernel {
  const KernelParts* parts = nullptr;
  const SymbolicLaunch* launch = nullptr;
  std::size_t buffers = 0;  ///< of its parameters
  bool waits = false;       ///< for those in front of it
};

/// The text is a function of the fused node alone: buffers and symbols are named by position, so that equal kernels are
/// equal texts. On the CPU: `extern "C" void SYMBOL(void* const* buffers, const i64* scalars, i64 begin, i64 end)` over
/// a range of [0, extent). On a GPU: `extern "C" __global__ void SYMBOL(T0* b0, …, i64 s0, …, i64* status)`: one
/// pointer for each buffer, one i64 for each scalar, and the status word, which is always there.
struct Kernel {
  std::string symbol;  ///< `coil_` and a hash of the text
  std::string text;
  std::optional<KernelParts> parts;   ///< GPU: what the text is made of
  std::optional<TritonParts> triton;  ///< of a kernel whose text is Triton
  std::string language;               ///< where kernels have several: `Triton`, `CUDA C++: why`
  std::vector<ir::BufferId> buffers;  ///< in the order of the pointers the kernel takes; the status word follows
  std::vector<bool> written;          ///< for each buffer, whether the kernel writes it
  Exprs scalars;                      ///< integers that the host computes for each binding of sizes
  Expr extent;                        ///< CPU: of the parallel range
  std::int64_t grain = 1;             ///< CPU: parallel points worth a thread
  bool may_fail = false;              ///< sets the status word
  std::string_view failure = "an index read from a tensor is out of range";  ///< what has happened where it does
  /// Pairs {input, output} of buffers that may share memory: each element of the input is read only where, and before,
  /// the same element of the output is written.
  std::vector<std::pair<ir::BufferId, ir::BufferId>> in_place;
  std::optional<SymbolicLaunch> launch;  ///< GPU
  /// Launch configs worth a measurement, the heuristics' own first (scheduler::Group::launch_config is a place in this
  /// list); some may be equal texts. Empty where a kernel has just one.
  std::vector<LaunchConfig> candidates;
};

}  // namespace coil::codegen
