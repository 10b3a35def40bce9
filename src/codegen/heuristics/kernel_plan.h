// The form that a kernel takes on a GPU, whatever language it is written in: an emitter visits the plan and prints.
#pragma once
#include <variant>

#include "codegen/heuristics/rows.h"
#include "codegen/heuristics/tiles.h"
#include "codegen/heuristics/windows.h"

namespace coil::codegen {

/// A thread takes vectors of neighbouring points, flat ones or ones along the last dimension (points.h).
struct PointPlan {
  LaunchChoice choice;
};
/// Threads side by side along a contiguous outer dimension, several over the reduced ones (columns.h).
struct ColumnPlan {
  LaunchChoice choice;
};
/// A block walks a row in chunks, or has one chunk of it (scans.h).
struct ScanPlan {
  LaunchChoice choice;
};
/// A thread walks a column.
struct ScanColumnPlan {
  LaunchChoice choice;
};
/// A thread for an iteration, or for a run of them (scatters.h).
struct ScatterPlan {
  LaunchChoice choice;
};

using KernelPlan =
    std::variant<PointPlan, TilePlan, RowPlan, ColumnPlan, WindowPlan, ScanPlan, ScanColumnPlan, ScatterPlan>;

/// The plan of a group's nest (codegen/grid_nest.h), or of a scatter's. It points to the nest's statements.
KernelPlan plan_kernel(ir::Graph&, const LoopNest&, const target::Target&, const LaunchRequest& = {});

/// What every plan has.
const LaunchChoice& choice_of(const KernelPlan&);

}  // namespace coil::codegen
