// What heuristics and emitters alike read off a loop nest.
#pragma once
#include <span>

#include "codegen/lanes.h"
#include "codegen/loop_nest.h"

namespace coil::codegen {

Expr product_of(std::span<const LoopDim> dims);
Exprs variables_of(std::span<const LoopDim> dims);
std::vector<const Statement*> statements_of(const LoopNest&);
/// All that the statements compute, operands first.
std::vector<ir::Scalar> roots_of(std::span<const Statement* const>);

/// Whether a value has one of these loop variables in it.
bool depends_on(ir::Scalar, std::span<const Expr> variables);

/// The widest vector along `dim`, of 1 to 8 elements, for which most of what is read and written with it moves as
/// accesses of up to 16 bytes. `cut_short`: the last vector may end before its width.
int widest_vector(ir::Graph&, const LoopNest&, const LoopDim& dim, bool cut_short = false);

}  // namespace coil::codegen
