// A process group over a transport that blocks: a thread of the group carries out what was started, in order.
//
// Before values are exchanged the ranks tell one another what they are about to do, so that ranks that run other
// programs, or have other sizes, are an error and no corrupted memory. When an exchange fails the connections are
// closed, which wakes all that wait for this rank, and the ranks that are left say so in the store: who does not is
// named.
#pragma once
#include <memory>

#include "runtime/groups/process_group.h"

namespace coil::runtime::groups {

/// Returns when all ranks are there and connected; throws Error naming those that are not within the time.
std::shared_ptr<ProcessGroup> join_host_group(const GroupOptions&, OpenTransport);

}  // namespace coil::runtime::groups
