// The stores by which the processes of a run find one another: a folder, or a server that one process holds.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "runtime/groups/transport.h"

namespace coil::runtime::groups {

/// A folder that all processes reach, a file for each key. It must be new for each run.
std::shared_ptr<Store> open_file_store(const std::string& folder);

/// A client of a server that speaks the protocol of torch.distributed's TCPStore; with `serve`, this process holds the
/// server too, for as long as it lives. Throws Error when it is not reached within the time.
std::shared_ptr<Store> open_tcp_store(const std::string& host, int port, bool serve, Milliseconds timeout);

/// A client of a server that outlives the programs which meet there, as that of torchrun's agent does: what earlier
/// ones left is not seen. `run` names the processes that were started together, of which this is the one of a rank; all
/// of them must have come here equally often before.
std::shared_ptr<Store> open_held_store(const std::string& host, int port, const std::string& run, int rank,
                                       Milliseconds timeout);

/// Returns when the key is in the store, which is asked again and again, ever more seldom: no one waits with the
/// store's connection to itself. Throws Error, which calls the store by `name`, where the time passes before.
void await_key(Store&, const std::string& key, Milliseconds timeout, const std::string& name);

/// The same store, every key behind a prefix.
std::shared_ptr<Store> with_prefix(std::shared_ptr<Store>, std::string prefix);

}  // namespace coil::runtime::groups
