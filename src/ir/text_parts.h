// Parts that the texts of the loop IR and of the wrapper's lines share: names, attributes, borders of blocks, calls of
// the host; printed, and read back from one line at a time.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "ir/ir.h"
#include "support/line_cursor.h"

namespace coil::ir {

/// `[s0, 4]`
std::string list_text(const Exprs&);
/// A name as it is where it reads back so, in quotes otherwise.
std::string word_text(std::string_view);
/// `3`, `0.5`, `"flag"`, `["relu", "add"]`; of a list without elements also their type: `reals[]`.
std::string attribute_text(const library_ops::Attribute&);
/// ` writes %0, %2`, of a call of the host; nothing where it writes to none of its operands.
std::string writes_text(const std::vector<std::size_t>& operands);
/// `if u0:`, `else:`, `loop u1 < s0:`, …
std::string control_text(const Control&);

/// The value of a constant that came as text, without it: zeros, as they lie. Faults where it has no sizes or no room.
Tensor zeros(LineCursor&, DType, const Exprs& sizes, const Exprs& strides);

/// Reads such parts. What does not belong is a fault, an Error that names the line and the column.
class PartReader {
 public:
  /// Sizes are symbols of `env`. `loops`: so are variables of loops (`i0`, `r1`, `x0`), which nobody declares.
  PartReader(sym::ShapeEnv& env, bool loops) : env_(env), loops_(loops) {}

  /// Up to one of `stops`, or to a bracket that the expression did not open.
  Expr expr(LineCursor&, std::initializer_list<std::string_view> stops) const;
  /// `[s0, 4]`
  Exprs exprs(LineCursor&) const;
  /// A symbol that was declared.
  Expr symbol(LineCursor&) const;
  DType dtype(LineCursor&) const;
  /// `cpu`, `cuda:0`
  Device device(LineCursor&) const;
  double real(LineCursor&, const std::string& text) const;
  library_ops::Attribute attribute(LineCursor&) const;
  /// `(%0, [1, s0], dtype=f32)`; `operands` becomes one more than the highest number of an operand.
  std::vector<ops::NamedArgument> arguments(LineCursor&, std::size_t& operands) const;
  /// The numbers after ` writes`, if it stands here.
  std::vector<std::size_t> writes(LineCursor&) const;
  /// A border of a block, if the line is one.
  std::optional<Control> control(LineCursor&) const;

 private:
  Expr named(std::string_view name) const;
  ops::CallArgument argument(LineCursor&, std::size_t& operands) const;

  sym::ShapeEnv& env_;
  const bool loops_;
};

}  // namespace coil::ir
