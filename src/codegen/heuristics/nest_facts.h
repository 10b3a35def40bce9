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

/// A load or a store of a nest, by its index.
struct AccessOfNest {
  Expr index;
  std::size_t bytes = 0;           ///< of an element
  bool stores_each_point = false;  ///< a store, and not of a sum's result
};
std::vector<AccessOfNest> accesses_of(ir::Graph&, const LoopNest&);

/// Bytes of an element of all accesses that move along a run: of those that move as vectors, and of the others.
struct MovedBytes {
  std::size_t packed = 0, loose = 0;
  std::size_t narrowest = 16, widest = 1;  ///< elements that move as vectors
  std::size_t widest_stored = 1;           ///< of those, elements that are stored at every point
};
MovedBytes moved_bytes(const sym::ShapeEnv&, std::span<const AccessOfNest>, const Lanes&);
/// Whether vectors are worth it: more bytes of an element move in them than by themselves, by accesses of up to 16
/// bytes. Wide elements are read by several accesses, but stored by one: stores of neighbouring threads that leave room
/// between them move a third fewer bytes in a second (measured on an H200).
bool moves_in_vectors(const MovedBytes&, int width);

/// The widest vector along `dim`, of 1 to 8 elements, for which most of what is read and written with it moves as
/// accesses of up to 16 bytes. `cut_short`: the last vector may end before its width.
int widest_vector(ir::Graph&, const LoopNest&, const LoopDim& dim, bool cut_short = false);

}  // namespace coil::codegen
