// Cuts a program into parts that a graph of the device can hold.
#pragma once
#include "target/target.h"
#include "wrapper/program.h"

namespace coil::wrapper {

/// What a line is to a recording.
struct Recorded {
  enum class As : std::uint8_t {
    Work,    ///< a call that a graph holds, or the border of a block that one holds whole
    Beside,  ///< memory and definitions, which are where the calls are
    Apart    ///< what no graph holds
  } as = As::Beside;
  std::string why = {};  ///< of what lies apart, for people; empty for what comes before all work
};
/// For each line. Asked are the target, the traits of library operations and their operands, and what lines depend on;
/// never the names of operations.
std::vector<Recorded> recorded_lines(const Program&, const target::Target&);

/// Runs of lines in one block that a graph can hold, with at least kFewestCalls calls, become parts: their borders are
/// lines, and what crosses them is told by Program::parts. Memory that a part's lines use first is allocated in it, and
/// what they use last is freed in it. For a program with lifetimes and symbols; the parts that were there go.
void partition(Program&, const target::Target&);
inline constexpr std::size_t kFewestCalls = 2;  // a graph of one costs more than it saves

/// Moves calls where that lets fewer runs of recordable calls be left between cuts, and the arena's peak, estimated
/// and packed, does not grow. Kept is what order_for_memory keeps, but for symbols and assertions: what mentions a
/// symbol comes behind its definition, and behind the assertions about it that it was behind. Notes the number of runs
/// before and after in the program. Lines about memory go.
void order_for_parts(Program&, const target::Target&);

/// The parts of a program and what lies between them, with the reasons, for people; empty for a program without cuts
/// and parts.
std::string parts_text(const Program&, const target::Target&);

}  // namespace coil::wrapper
