// A call of `device_copy`: memory that moves from one device of a program to another, between their queues.
#pragma once
#include <memory>

#include "runtime/device/device.h"

namespace coil::runtime {

/// A copy to the host is done when `run` returns, unless it is `non_blocking`: then the queue it comes from is to be
/// waited for before anybody reads it. A copy from the host has read all of its memory when `run` returns. One between
/// two other devices goes through memory of the host. `run` throws Error naming the devices.
std::unique_ptr<LibraryOp> make_device_copy(Queue& from, Queue& to, bool non_blocking);

}  // namespace coil::runtime
