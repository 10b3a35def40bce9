// Constants whose bytes were put off: packed weights, which nothing reads until the program is stored or run, are
// written while kernels are compiled.
#pragma once
#include <span>

#include "wrapper/program.h"

namespace coil::wrapper {

/// Writes them, each on one of so many threads. Throws what the first that fails throws.
void fill_constants(std::span<Constant>, int threads);

}  // namespace coil::wrapper
