// How long calls and exchanges take, by a model: what they compute and move, at a machine's rates.
#pragma once
#include "target/target.h"
#include "wrapper/program.h"

namespace coil::wrapper {

/// Seconds that the program itself spends on a line; of an exchange or a wait that of a call. Sizes are those that
/// symbols hint at; lines that call nothing take no time.
double seconds_of_line(const Program&, const Line&, const target::Costs&);

/// Seconds of a product by what it computes and moves, where a GPU's multiprocessors take one tile of the result after
/// the other: a few tiles take as long as one for each.
double seconds_of_product(const Program&, const CallExtern&, const target::Costs&);

/// What an exchange takes beside the program.
struct ExchangeCost {
  double seconds = 0;
  std::uint64_t bytes = 0;  ///< of its result
};
/// What an exchange costs. For sums, whose number of ranks a call does not tell, two are assumed: what is chosen by it
/// may be no better than what was, and is as right.
ExchangeCost exchange_cost(const Program&, const CallExtern&, const target::Costs&);

}  // namespace coil::wrapper
