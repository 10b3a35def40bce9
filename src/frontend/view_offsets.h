// Where views begin in their storage, for archives that do not say it.
#pragma once
#include "fx/graph.h"

namespace coil::frontend {

/// torch 2.8 writes an offset of 0 for every tensor. Where a program has no other, those of views are found anew from
/// their arguments.
void fill_in_view_offsets(fx::GraphModule&);

}  // namespace coil::frontend
