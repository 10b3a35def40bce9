// How a language that is C++ with grids of threads spells what not all such languages spell alike: CUDA C++ here, Metal
// in codegen/metal. The emitters of this folder write for all of them.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "codegen/kernel.h"
#include "codegen/loop_nest.h"
#include "sym/print.h"
#include "target/target.h"

namespace coil::codegen {

/// A pointer that a kernel is given.
struct DevicePointer {
  std::string type;  ///< of elements, as they are stored
  bool written = false;
  bool shares = false;  ///< another parameter may point to the same memory
};

/// One element of a buffer that several threads update.
struct AtomicUpdate {
  DType dtype;  ///< as stored
  ir::StoreMode mode;
  std::string buffer, index, value;
};

struct Dialect {
  sym::Language language;          ///< of index expressions
  std::string_view linkage;        ///< in front of a kernel
  std::string_view block, thread;  ///< the places of a block in its grid and of a thread in its block, along x
  std::string_view shared;         ///< begins a declaration of memory that the threads of a block share
  std::string_view wide;           ///< ends a literal of 64 bits
  bool has_f64;                    ///< floats of 64 bits
  bool has_digits;                 ///< lanes find those with the same digit, and blocks may wait for each other
  /// A literal of a floating type.
  std::string (*number)(double, DType);
  /// The kernel's qualifiers, its parameters (pointers, numbers of 64 bits, the status word), and how its body begins.
  KernelParts (*parts)(std::span<const DevicePointer>, std::size_t scalars, const SymbolicLaunch&);
  /// Number i among a kernel's parameters, as its body names it.
  std::string (*scalar)(std::size_t i, std::size_t pointers, std::size_t scalars);
  /// The statement that carries out an update of an element. Throws Error where the machine has none such.
  std::string (*update)(const AtomicUpdate&);
  /// A processor that runs its kernels, for tests.
  target::Target (*emulated)(std::string isa);
  /// Why the language has no kernel of these loops; nothing where it has.
  std::optional<std::string> (*refusal)(const ir::Graph&, const LoopNest&);
};

const Dialect& cuda_dialect();

/// The function that combines the values of a place.
const char* combining(ir::StoreMode);
std::string integer_literal(const Dialect&, std::int64_t, DType);

}  // namespace coil::codegen
