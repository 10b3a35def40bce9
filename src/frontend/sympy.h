// Symbolic sizes as torch.export writes them: sympy's `srepr`, such as `Add(Symbol('s77', positive=True, integer=True),
// Integer(1))`.
#pragma once
#include <functional>
#include <string_view>

#include "sym/expr.h"

namespace coil::frontend {

/// Integers, and relations and logic over them (which are 0 or 1); floats may be among what they are made of
/// (`TruncToInt(Mul(Float('0.3'), ToFloat(…)))`). `define` gives the expression of a symbol. Throws Error on malformed
/// text and, by name, on functions that Coil has no form for. A symbol `zuf0` is a float that data tell; the one that
/// `define` gives stands for its bits.
sym::Expr parse_srepr(std::string_view text, const std::function<sym::Expr(std::string_view name)>& define);

/// The same for the text of a float: what sym/floats.h takes as an operand.
sym::Expr parse_float_srepr(std::string_view text, const std::function<sym::Expr(std::string_view name)>& define);

/// The name, when the text is a single symbol; else empty.
std::string_view srepr_symbol(std::string_view text);

}  // namespace coil::frontend
