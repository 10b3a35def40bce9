// One expression, printed for people and for each target language; and parsed back from the first two.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "sym/expr.h"

namespace coil::sym {

class ShapeEnv;

/// The text form of the IR: `2*s0 + 1`, `FloorDiv(s0, 4)`, `Mod(i0, 8)`, `Min(s0, 3)`. Parses back to the identical expression.
std::string to_string(Expr);
/// Reads the text form, and what torch.export writes for symbolic sizes (sympy's print: `s0 + 1`, `(s0//2)`, `Max(1, s0)`, `Eq(s0, 4)`, `s0 > 3`,
/// `PythonMod`, `CleanDiv`, `IsNonOverlappingAndDenseIndicator` is refused). Symbols not yet in the environment are added by `define`. Throws Error with the position of the fault.
Expr parse(std::string_view text, const std::function<Expr(std::string_view name)>& define);

enum class IntWidth { Bits32, Bits64 };
/// A C++ expression in int64_t (or int32_t) arithmetic. `name` gives a symbol's spelling. Division is `coil_floordiv` / `coil_mod` unless both
/// operands are known not to be negative by `nonnegative`, where plain `/` and `%` serve.
std::string to_cpp(Expr, const std::function<std::string(Expr)>& name, const std::function<bool(Expr)>& nonnegative, IntWidth = IntWidth::Bits64);
/// The C++ functions that `to_cpp` calls (`coil_floordiv`, `coil_ceildiv`, `coil_mod`, `coil_min`, `coil_max`, `coil_pow`), as text for the head of a generated file.
std::string_view cpp_helpers();
/// Python, with `//`, `%`, `min`, `max`.
std::string to_python(Expr, const std::function<std::string(Expr)>& name);

}  // namespace coil::sym
