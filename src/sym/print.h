// One expression, printed for people and for each target language; and the text form is parsed back.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "support/extension_api.h"
#include "sym/expr.h"

namespace coil::sym {

class ShapeEnv;

/// The text form of the IR: `2*s0 + 1`, `FloorDiv(s0, 4)`, `Mod(i0, 8)`, `Min(s0, 3)`. Parses back to the identical
/// expression.
COIL_EXTENSION_API std::string to_string(Expr);
/// Reads the text form, and what torch.export writes for symbolic sizes (sympy's print: `s0 + 1`, `(s0//2)`, `Max(1,
/// s0)`, `Eq(s0, 4)`, `s0 > 3`, `PythonMod`, `CleanDiv`, `IsNonOverlappingAndDenseIndicator` is refused). Symbols not
/// yet in the environment are added by `define`. Throws Error with the position of the fault.
Expr parse(std::string_view text, const std::function<Expr(std::string_view name)>& define);

/// What expressions are printed in. Kernels' languages compute in one width and their division rounds towards zero;
/// Python has neither limit.
enum class Language : std::uint8_t { Cpp, Cuda, Metal, Triton, Python };
enum class IntWidth : std::uint8_t { Bits32, Bits64 };
/// Code that has the expression's value in integers of this width (Python: in any). `name` gives a symbol's spelling,
/// which in C++, CUDA and Metal has that width's type. Division is `coil_floordiv`, `coil_mod`, … unless both operands
/// are known not to be negative by `nonnegative`, where the language's own serves. What `given` has a spelling for is
/// computed elsewhere.
COIL_EXTENSION_API std::string to_code(Language, Expr, const std::function<std::string(Expr)>& name,
                                       const std::function<bool(Expr)>& nonnegative, IntWidth = IntWidth::Bits64,
                                       const std::function<std::optional<std::string>(Expr)>& given = nullptr);
/// A call of a function of floats, which kernels are handed, for who computes it: in C++ (on `Size`) or Python.
/// `integer` spells the integers that it is made of.
std::string float_code(Language, Expr call, const std::function<std::string(Expr)>& integer);
/// The functions that such code calls (`coil_floordiv`, `coil_ceildiv`, `coil_mod`, `coil_min`, `coil_max`, `coil_pow`,
/// `coil_shr`), as text for the head of a generated file; none for Python.
COIL_EXTENSION_API std::string code_helpers(Language);

inline std::string to_cpp(Expr e, const std::function<std::string(Expr)>& name,
                          const std::function<bool(Expr)>& nonnegative, IntWidth width = IntWidth::Bits64) {
  return to_code(Language::Cpp, e, name, nonnegative, width);
}
inline std::string cpp_helpers() { return code_helpers(Language::Cpp); }
inline std::string to_python(Expr e, const std::function<std::string(Expr)>& name) {
  return to_code(Language::Python, e, name, nullptr);
}

}  // namespace coil::sym
