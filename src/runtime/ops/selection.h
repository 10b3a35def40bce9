// Operations that find positions: where a mask is true, what repeats how often, which rows are distinct.
#pragma once
#include <memory>

#include "runtime/device/library.h"

namespace coil::runtime {

std::unique_ptr<LibraryOp> make_nonzero(const Attributes&);
std::unique_ptr<LibraryOp> make_repeat_positions(const Attributes&);
std::unique_ptr<LibraryOp> make_unique_rows(const Attributes&);

}  // namespace coil::runtime
