// Where communication buffers lie in the memory that the ranks of their group share.
#pragma once
#include "wrapper/program.h"

namespace coil::wrapper {

/// Gives each communication buffer its place in its group's pool; buffers that do not live at once may share one. The
/// result follows from the lines alone, so that ranks with the same program plan alike. Behind the last use of a buffer
/// that shares its place and that an operator of the host's uses, all ranks meet at a barrier: its peers may be reading
/// it when the operator has returned. (Coil's own exchanges end when no rank reads their operands any more.)
void plan_comm_buffers(Program&);

}  // namespace coil::wrapper
