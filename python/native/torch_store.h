// A store of torch.distributed's, of whatever kind, as the runtime's groups use stores.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>

#include "runtime/groups/transport.h"

namespace coil::python {

/// Threads call it without the GIL. Throws Error where Python raises, and when the interpreter is gone.
std::shared_ptr<runtime::groups::Store> torch_store(nanobind::object store);

}  // namespace coil::python
