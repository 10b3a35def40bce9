// Kernels as a nest's loops stand, for languages that look like C: statement by statement, every value with a name and
// every result in memory. A language says what it has of its own; a device that can do better writes its own kernels.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/backend.h"

namespace coil::codegen {

/// What a kernel's text calls its arguments: `p0`, `p1`, … are pointers to elements of these types, `s0`, `s1`, … are
/// integers of 64 bits.
struct LoopParameters {
  std::vector<std::string> pointers;
  std::size_t scalars = 0;
};

class COIL_EXTENSION_API LoopLanguage {
 public:
  virtual ~LoopLanguage() = default;
  /// What messages call it, and symbols begin with: `abacus`.
  virtual std::string name() const = 0;
  /// The text in front of a kernel's loops: the head of a function without a result, up to its opening brace, and
  /// whatever gives the names of LoopParameters, `block`, the number of the kernel's block in its grid (i64), and
  /// `failed`, a pointer to an i64 that the kernel sets to 1 where an index is out of range.
  virtual std::string head(const std::string& symbol, const LoopParameters&) const = 0;
  /// The call of a function of this name in COIL_SCALAR_OPS (ir/scalar.h) which C has no operator for. Its arguments
  /// have the type of its result, but those of `isnan`, `isinf` and `signbit`. Throws Error where the language has
  /// none.
  virtual std::string call(std::string_view function, DType result, const std::vector<std::string>& args) const = 0;

  /// The name of a type of elements and values: `f32`, `i64`, `bool`. Throws Error where the language has none.
  virtual std::string type(DType) const;
  virtual std::string constant(DType, double number, std::int64_t integer) const;
  virtual std::string bit_cast(DType to, const std::string& value) const;
  /// What sums and the like of this type are made in.
  virtual DType accumulator(DType d) const { return d == DType::F32 ? DType::F64 : d; }
  /// How many points of the outer loops a block takes.
  virtual std::int64_t points_of_block() const { return 256; }
};

/// Throws Error, with the language's name, where it does not have what the loops are made of.
COIL_EXTENSION_API Kernel write_loops(const LoopLanguage&, ir::Graph&, LoopNest);

/// A backend that has all of its kernels in such a language. What derives from it compiles them.
class COIL_EXTENSION_API LoopBackend : public Backend {
 public:
  /// Without a policy of fusion (`choices`) it has the one that suits any device.
  LoopBackend(std::unique_ptr<LoopLanguage>, target::Target, std::unique_ptr<scheduler::Choices>);

  const target::Target& target() const override { return target_; }
  const scheduler::Choices& choices() const override { return *choices_; }
  std::optional<LoopNest> nest(ir::Graph&, const scheduler::Group&) const override;
  std::optional<LoopNest> nest(ir::Graph&, const ir::Operation&) const override;
  Kernel kernel(ir::Graph&, LoopNest) const override;
  Kernel group(ir::Graph&, const scheduler::Group&) const override;
  Kernel scatter(ir::Graph&, const ir::Operation&) const override;
  bool has_template(std::string_view) const override { return false; }
  Kernel template_kernel(ir::Graph&, const ir::Extern&) const override;

 private:
  std::unique_ptr<LoopLanguage> language_;
  target::Target target_;
  std::unique_ptr<scheduler::Choices> choices_;
};

}  // namespace coil::codegen
