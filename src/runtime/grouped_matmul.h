// The library operation `grouped_matmul`: x[S, K], w[G, K, N], offsets[G] -> y[S, N]. Rows up to offsets[0] meet w[0], from there up to offsets[1] w[1], and so on; rows behind the last offset are zero.
#pragma once
#include "runtime/library.h"

namespace coil::runtime {

std::unique_ptr<LibraryOp> make_grouped_matmul(const Attributes&);

}  // namespace coil::runtime
