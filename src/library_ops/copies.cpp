#include "library_ops/copies.h"

#include "library_ops/table.h"

namespace coil::library_ops {

std::vector<Descriptor> copy_ops() {
  return {{.name = std::string(copies::kDeviceCopy),
           .sentence = "y = x, where the two lie on different devices of the program. The runtime carries it out "
                       "between the devices' queues, whatever the devices are.",
           .operands = {{"x", "any"}},
           .results = {{"y", "like x"}},
           .attributes = {copies::kNonBlocking},
           .traits = {Trait::DeviceCopy}}};
}

}  // namespace coil::library_ops
