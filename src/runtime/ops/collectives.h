// Collectives of programs on devices with streams, whichever they are.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/device/library.h"

namespace coil::runtime {

/// Operations over the group that the device's backend makes (runtime/groups/process_group.h): for define_library_op.
std::vector<std::pair<std::string_view, QueueLibraryFactory>> collectives_on_streams();

}  // namespace coil::runtime
