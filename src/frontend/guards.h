// What torch.export took for granted of the inputs as it traced, as the archive says it: Python conditions such as
// `(L['x'].size()[2] // 2) == 4`, of which each decided something in the graph.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "sym/expr.h"

namespace coil::frontend {

/// What a guard names: an input as the graph calls it (`x`, `parts_0`), which is a number, or a size or a stride of it.
struct GuardOperand {
  enum class Kind { Number, Size, Stride };
  std::string input;
  Kind kind = Kind::Number;
  std::size_t dim = 0;
};

/// The condition; nothing where `find` does not know an operand, or where the text says what Coil has no form for.
std::optional<sym::Expr> parse_guard(std::string_view text,
                                     const std::function<std::optional<sym::Expr>(const GuardOperand&)>& find);

/// Whether sizes for which the guard does not hold give right results all the same: that sizes differ, or that one is
/// neither 0 nor 1, is what torch asks of itself, to tell broadcasting and layouts, which Coil tells for each call.
bool only_tells_layouts(sym::Expr condition);

/// The guard in the user's names: `(x.size()[2] // 2) == 4`.
std::string readable_guard(std::string_view text);

}  // namespace coil::frontend
