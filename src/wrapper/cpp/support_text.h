// The text that every program written as C++ has around its own: sizes that do not overflow, owning handles, calls into the C interface, a main function.
#pragma once
#include <string>

namespace coil::wrapper {

/// Headers and helpers, before the program.
std::string cpp_support();
/// The C entry but for coil_program_run and the ports, after `struct coil_program`.
std::string cpp_entry();
/// `main`, under COIL_MAIN.
std::string cpp_main();

}  // namespace coil::wrapper
