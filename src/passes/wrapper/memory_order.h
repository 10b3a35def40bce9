// The order of calls in which temporaries need the least memory.
#pragma once
#include "scheduler/memory_order.h"
#include "wrapper/program.h"

namespace coil::wrapper {

/// The lines as steps over storages, for the estimate of the peak (scheduler/peak.h). Sizes are those that symbols hint
/// at. What a block of lines shares with what is around it is touched at the borders of the block, so that it lives as
/// long as plan_lifetimes has it live.
struct LineSteps {
  scheduler::MemoryProgram program;
  std::vector<std::size_t> line_of;  ///< of each step
};
/// Whether nothing moves over exchanges with other processes and waits for them, or they move as well: exchanges among
/// each other in the program's order, as what touches memory that ranks share, and waits behind all that began before
/// them.
enum class Exchanges : std::uint8_t { Stay, Move };
/// What keeps a line in its place to symbols that the run tells: they and assertions stay where they are to all others,
/// or to what mentions the same symbols.
enum class SymbolOrder : std::uint8_t { AsWritten, ByUse };
LineSteps steps_of(const Program&, Exchanges = Exchanges::Stay, SymbolOrder = SymbolOrder::AsWritten);

/// Bytes of the arena in this order, packed in short.
std::uint64_t packed_bytes(const scheduler::MemoryProgram&, std::span<const scheduler::StepId> order);
/// The lines in another order of their steps, each kernel's definition before its first call. Lines about memory go.
void reorder(Program&, const LineSteps&, std::span<const scheduler::StepId> order);

/// Reorders the calls where that lowers the estimated peak of temporaries by more than a 64th, and what the arena's
/// planner makes of it too; notes both peaks in the program. Kept as written are: what one call needs of another,
/// borders of blocks, symbols, assertions, collectives and waits for them, calls that the host carries out among each
/// other, and whether something that may fail comes before or after a write to memory of the caller. Lines about memory
/// go.
void order_for_memory(Program&);

}  // namespace coil::wrapper
