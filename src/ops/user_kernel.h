// Kernels that users wrote in a language of their own (Triton): compiled before their graph comes to Coil, called by
// `coil.user_kernel.default`.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coil::ops {

/// `coil::user_kernel(str kernel, Tensor[] tensors, SymInt[] numbers, SymInt[] grid, int[] written, SymInt[]
/// memories=[])
/// -> Tensor[]`: the tensors at the places `written` as the kernel leaves them; it reads them, and those that it is
/// given stay as they are. `memories`: for each tensor the place of the one that it is a view of, its own where it is
/// none; behind the kernel's tensors there may be others that are given for this alone. A graph that comes in has the
/// kernel's definition there as JSON; fx::take_user_kernels leaves its symbol, and where tensors lie in the place of
/// `memories`.
inline constexpr std::string_view kUserKernelCall = "coil.user_kernel.default";

struct UserKernel {
  /// What an entry of the argument block is: a pointer to the call's next tensor (or a descriptor of it), a size or a
  /// stride of the tensor that came last, the call's next number, its status word (of Coil's own kernels), or always
  /// the same; or a pointer to memory that the call has for itself.
  enum class Kind : std::uint8_t { Tensor, Size, Stride, Number, Status, Constant, Workspace };
  /// How the copy engine of a GPU finds tiles of a tensor: values of CUDA's driver, and a tile's sizes.
  struct TensorMap {
    std::uint32_t element = 0, swizzle = 0;
    std::vector<std::uint32_t> box;
  };
  struct Parameter {
    std::string name;
    Kind kind = Kind::Tensor;
    std::uint32_t bytes = 8;
    bool aligned = false;               ///< of a pointer: the kernel was compiled for multiples of 16 bytes
    std::int64_t bits = 0;              ///< of a constant: its value, or the bits of a float, in the low bytes
    std::uint32_t dimension = 0;        ///< of a size or a stride
    std::optional<TensorMap> map = {};  ///< of a tensor that the kernel takes a descriptor of
  };
  std::string symbol;             ///< one name for one kernel with its constants: the entry point in the binary
  std::string name, where;        ///< the user's name and `file.py:12`
  std::string arch;               ///< of the binary: `sm_90`; empty where there is none
  std::vector<std::byte> binary;  ///< a cubin
  std::string ptx;                ///< the same for other GPUs; may be empty
  std::uint32_t block = 0, shared_bytes = 0;
  std::int64_t workspace_bytes = 0;   ///< for each block, of the memory that a workspace parameter points to
  std::vector<Parameter> parameters;  ///< in the order of the argument block
  std::string program;  ///< what a Python process carries the call out by (python/coil/user_kernels.py), as JSON:
                        ///< source text, constants, options

  std::size_t count(Kind) const;
  /// Whether it leaves at once where the run has failed, and tells where it fails.
  bool has_status() const { return count(Kind::Status) > 0; }
  /// Whether calls in the loops and in the wrapper have one tensor more than those of a graph, the last: its workspace.
  bool has_workspace() const { return count(Kind::Workspace) > 0; }
  /// The parameter that takes the call's tensor `k`.
  const Parameter& tensor(std::size_t k) const;
};

/// Throws Error on what is no definition.
std::shared_ptr<const UserKernel> parse_user_kernel(std::string_view json);

}  // namespace coil::ops
