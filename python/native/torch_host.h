// Operators without lowering, called in torch: what the runtime knows as its host (runtime/host/host.h).
#pragma once
#include <nanobind/nanobind.h>

#include "runtime/host/host.h"
#include "tensor/device.h"

namespace coil::python {

/// `find(name)` gives the Python callable of an operator, or None. Set once, before the first program that needs it is
/// loaded.
void set_host(nanobind::callable find);

/// `draw()` gives the seed of one call of a program, from torch's default generator.
void set_seed_source(nanobind::callable draw);
std::uint64_t torch_seed();

/// Calls go through Python: tensors are lent by DLPack, results copied into the program's memory. Holds the GIL only
/// while torch works. Fails when a result has another dtype or size than was compiled for.
runtime::Host torch_host(Device);

}  // namespace coil::python
