// Exchanges that the calling thread's program has started and not waited for yet, by where their results lie. A
// program's starts and waits are calls of one run, and so of one thread.
#pragma once
#include "runtime/groups/process_group.h"

namespace coil::runtime::groups {

/// Remembers an exchange whose result begins at an address.
void started(const void* result, Started);
/// Waits for the exchange that gives what begins there. Throws Error where it failed; nothing where there is none.
void wait_for(const void* result);
/// The same for what is queued on a stream from now on.
void wait_for(const void* result, void* stream, bool recorded);
/// Returns when none is on its way any more, whatever became of it: for a run that fails half way, before its memory
/// goes.
void settle() noexcept;

}  // namespace coil::runtime::groups
