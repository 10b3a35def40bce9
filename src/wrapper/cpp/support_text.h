// The text that every program written as C++ has around its own: sizes that do not overflow, owning handles, calls into
// the C interface, a main function.
#pragma once
#include <string>

#include "tensor/device.h"

namespace coil::wrapper {

/// Headers and helpers, before the program. `over_host`: it lies on the CPU as well.
std::string cpp_support(Device, bool over_host);
/// The C entry, after `struct coil_program`.
std::string cpp_entry(Device);
/// `main`, under COIL_MAIN.
std::string cpp_main();

}  // namespace coil::wrapper
