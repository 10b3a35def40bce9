// A group's loops made ready for printing: accesses linear, dimensions ordered and merged, the vector dimension chosen.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/ir.h"
#include "scheduler/schedule.h"
#include "support/extension_api.h"

namespace coil::codegen {

using sym::Expr;
using sym::Exprs;

struct LoopDim {
  Expr var, size;
};

/// One operation's part of a kernel. Loads are linear (elements from the buffer's start).
struct Statement {
  const ir::Operation* op = nullptr;
  scheduler::Role role = scheduler::Role::Outer;
  int level = 0;
  ir::Scalar body = nullptr;
  std::vector<ir::Scalar> indirect{};  ///< of a scatter
  Expr store{};                        ///< element of outs[0] stored to
  Expr position{};                     ///< of ArgMax and ArgMin: place in the flattened reduced dimensions
  bool stored = true;                  ///< false: the value never leaves registers or scratch
};

struct LoopNest {
  std::vector<LoopDim> outer, inner;  ///< in loop order, outermost first
  std::vector<Statement> statements;
  int levels = 1;
  /// Dimension whose points fill vectors: the last of `outer` or of `inner`; none for scalar loops.
  enum class Vector : std::uint8_t { None, Outer, Inner } vector = Vector::None;
  /// Dimension of `outer` (not the last) that is cut into runs inside the vector loop: some access walks it
  /// contiguously where the vector dimension strides, so that cache lines are used up while they are near; or much of
  /// what a vector computes is the same all along it.
  std::optional<std::size_t> tiled;
  /// Of a scatter whose iterations cannot be told apart before they run: the value of `indirect` that says which thread
  /// an iteration belongs to, and how many places it ranges over. Every thread walks all iterations and carries out
  /// those of its own range of places, so that each place sees its writes in order.
  struct Partition {
    std::size_t indirect = 0;
    Expr places;
  };
  std::optional<Partition> partition;
  /// Of a scatter: the dimension of `inner` whose points are shared out to threads, as the last of the parallel range.
  /// Each thread walks its own part of it inside the loops before, so that what lies side by side is read side by side.
  std::optional<std::size_t> shared;
  COIL_EXTENSION_API std::vector<sym::LoopVar> vars() const;
};

/// `scans_along`: neighbours along a scan may be computed together whatever its operator is; else only those whose
/// operator vectors have.
COIL_EXTENSION_API LoopNest make_loop_nest(ir::Graph&, const scheduler::Group&, int lanes, bool scans_along = false);
/// Loops of a scatter as they come, all inner.
COIL_EXTENSION_API LoopNest make_scatter_nest(ir::Graph&, const ir::Operation&);
/// Loops of a scatter for threads. Iterations that differ in a variable which is itself the place in some dimension
/// never meet: such loops are outer, or fill vectors; the others keep their order.
LoopNest make_threaded_scatter_nest(ir::Graph&, const ir::Operation&, int lanes);

}  // namespace coil::codegen
