// The library operation `complex_parts`: complex numbers as pairs of real ones, or pairs as complex numbers, bit for bit.
#pragma once
#include "runtime/library.h"

namespace coil::runtime {

/// One side is complex, the other of its real type with a last dimension of two more.
std::unique_ptr<LibraryOp> make_complex_parts(const Attributes&);

}  // namespace coil::runtime
