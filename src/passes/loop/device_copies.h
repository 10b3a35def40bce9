// Copies between the devices of a program: an operation reads memory of its own device.
#pragma once
#include "ir/ir.h"

namespace coil {

/// In front of each operation that reads a buffer of another device, a call of `device_copy` to a buffer of its own
/// device with the same layout, which later operations of the block read as well. What an operation reads so are
/// numbers that lie on the CPU beside tensors elsewhere, indices, the seed: copies that the program's author wrote are
/// such calls already. Nothing in a program on one device. Throws Error naming a call of the host, or of a kernel that
/// the user wrote, that touches memory of the CPU beside a device.
void copy_between_devices(ir::Graph&);

}  // namespace coil
