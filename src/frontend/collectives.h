// What exported programs say about exchanges between processes in a way of their own: an operator that is several
// others, and one that writes to its argument without saying so.
#pragma once
#include "fx/graph.h"

namespace coil::frontend {

/// The tensor that `_dtensor.shard_dim_alltoall` gives, whose values are there: dimension `gather` is whole, and
/// `shard` is shared by the ranks. `result` is what the program recorded for it. Made of views and an
/// all_to_all_single, each of which `describe` is called on. Throws Error where the ranks cannot have equal shares.
fx::Node* move_sharded_dimension(fx::GraphModule&, fx::Node* x, std::int64_t gather, std::int64_t shard,
                                 const std::string& group, const sym::TensorMeta& result,
                                 const std::function<void(fx::Node*)>& describe);

/// Throws Error where a program reads the argument of an `irecv` otherwise than as its result: eager writes to it, and
/// the graph does not say so. `results` are what the graph gives.
void refuse_reads_of_received(const fx::Graph&, const ops::Values& results);

}  // namespace coil::frontend
