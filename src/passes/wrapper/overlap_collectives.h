// Exchanges with other processes beside what the program computes.
#pragma once
#include <string>

#include "target/target.h"
#include "wrapper/program.h"

namespace coil::wrapper {

struct OverlapOptions {
  std::int64_t bucket_bytes = 0;  ///< of the results of exchanges that start together; 0: each starts by itself
  std::int64_t extra_bytes = 0;   ///< that temporaries may need more at their peak than before
};

/// Moves starts of exchanges ahead and waits back, with what they need, and starts exchanges of one kind together,
/// where that saves time by the model of scheduler/exchange_overlap.h and line_costs.h. The peak of temporaries, packed
/// too, stays within what it was and `extra_bytes`. Exchanges keep their order, so that all ranks have one order
/// whatever each of them has in between; whether those of a bucket do go together is agreed upon when they start
/// (runtime/groups/process_group.h). Notes in the program what it did. Nothing happens in a program without exchanges.
/// Lines about memory go where anything is moved.
void overlap_collectives(Program&, const target::Costs&, const OverlapOptions&);

/// A call, or an exchange, of a run by the model.
struct StreamEntry {
  double begin = 0, end = 0;  ///< seconds
  std::size_t line = 0;       ///< that calls or starts it
  std::string group;          ///< that carries it out; empty: the program itself
};
/// In the order in which they begin; none without exchanges.
std::vector<StreamEntry> exchange_streams(const Program&, const target::Costs&);

}  // namespace coil::wrapper
