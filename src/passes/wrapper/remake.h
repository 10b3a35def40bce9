// Cheap values that are read long after they were made are made again.
#pragma once
#include "wrapper/program.h"

namespace coil::wrapper {

/// A value that one kernel makes of nothing, or of no more bytes of inputs and constants than it has itself (positions,
/// masks, a weight in another type), is made once more right before a reader, where its memory between two readers
/// raises the estimated peak of temporaries by more than a 64th. What is made again is at most a 16th of the bytes that
/// calls touch. What an operator of the host is given stays where it is, since copies may be made of it until a later
/// call. After calls are in their order and before lifetimes are planned; nothing happens in programs with branches and
/// loops.
void remake_for_memory(Program&);

}  // namespace coil::wrapper
