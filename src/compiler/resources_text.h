// What kernels take of a GPU's multiprocessor, for people.
#pragma once
#include <span>
#include <string>

#include "codegen/resources.h"
#include "target/target.h"
#include "wrapper/program.h"

namespace coil {

/// A line for each kernel. How many blocks fit at once is said of those that the program calls, by their first call;
/// free sizes count as what they were when the program was exported.
std::string resources_text(const wrapper::Program&, std::span<const codegen::KernelResources>, const target::Target&);

}  // namespace coil
