// Copies between the devices of a program: an operation reads memory of its own device, and is carried out by one that
// has a form of it.
#pragma once
#include <functional>

#include "ir/ir.h"

namespace coil {

/// Whether the program's device carries out a library call on its operands.
using CarriesOut = std::function<bool(const ir::Extern&)>;

/// A library call that the program's device does not carry out, and that works on copies, becomes the CPU's, with
/// copies of its results behind it: the program lies on several devices then. In front of each operation that reads a
/// buffer of another device, a call of `device_copy` to a buffer of its own device with the same layout, which later
/// operations of the block read as well; of a view that a library call takes only the part that it spans, where that is
/// at most half of the buffer. What an operation reads so are numbers that lie on the CPU beside tensors
/// elsewhere, indices, the seed: copies that the program's author wrote are such calls already. Throws Error naming a
/// call of the host, or of a kernel that the user wrote, that touches memory of the CPU beside a device.
void copy_between_devices(ir::Graph&, const CarriesOut&);

}  // namespace coil
