// What kernels take of a GPU's multiprocessor, for people.
#pragma once
#include <string>

#include "codegen/backend.h"
#include "wrapper/program.h"

namespace coil {

/// A line for each kernel of the libraries that the backend made, where it can tell. How many blocks fit at once is
/// said of those that the program calls, by their first call; free sizes count as what they were when the program was
/// exported.
std::string resources_text(const wrapper::Program&, const codegen::Backend&, const codegen::Libraries&);

}  // namespace coil
