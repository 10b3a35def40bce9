// Checks on tensors that a program makes of its own values when it was asked to: they read, write nothing, and fail the
// run.
#pragma once
#include "runtime/device/library.h"

namespace coil::runtime {

std::unique_ptr<LibraryOp> make_assert_finite(const Attributes&);
std::unique_ptr<LibraryOp> make_assert_aligned(const Attributes&);

}  // namespace coil::runtime
