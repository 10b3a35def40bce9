// Refuses plans that would make the executor reach outside of its own tables: a package may come from anywhere.
#pragma once
#include <functional>
#include <string_view>

#include "runtime/plan/plan.h"

namespace coil::runtime {

/// Whether a library operation can be called on a device.
using HasOperation = std::function<bool(std::string_view op, DeviceType)>;

/// Throws Error on an index out of range, a shape instruction that reads a later one, a chain of shared buffers that
/// does not end in memory of its own, or an operation that `has` denies (none is asked: any may be
/// called). What kernels do with their pointers is beyond it.
void check_plan(const Plan&, const HasOperation& has = {});

/// The buffer whose memory `id` lives in.
BufferId memory_of(const Plan&, BufferId id);

}  // namespace coil::runtime
