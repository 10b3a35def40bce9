// Products beside the exchange of what they make or take.
#pragma once
#include "target/target.h"
#include "wrapper/program.h"

namespace coil::wrapper {

/// What stands for the number of chunks that the model of costs finds.
inline constexpr std::int64_t kChunksByModel = -1;

/// Cuts the rows of products, and the exchanges beside them, into chunks: an all-reduce or a reduce-scatter of what a
/// product makes starts chunk by chunk while the product goes on, and products of what is gathered begin when a part of
/// it has come. `chunks` is their number: kChunksByModel for as many as gain by scheduler/exchange_chunks.h and
/// line_costs.h, if any do.
///
/// Chunks are views of the operands and results that are there, but for what has to lie in one piece to be exchanged
/// (the operands of a reduce-scatter, the results of an all-gather), which get buffers of their own in place of the
/// whole one's. The rows of each are computed as before. The packed peak of temporaries does not rise. What is cut, and
/// what is not and why, is noted in the program.
///
/// Ranks have to cut alike: programs that differ in the products around an exchange may not.
void chunk_collectives(Program&, const target::Costs&, std::int64_t chunks);

}  // namespace coil::wrapper
