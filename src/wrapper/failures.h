// Where kernels of a program on a GPU, whose host runs ahead, may fail; and what must not run behind one that has.
#pragma once
#include <map>
#include <set>

#include "wrapper/program.h"

namespace coil::wrapper {

/// Lines by their place. Nothing on the CPU, where a kernel that fails is the last to run.
struct FailureSites {
  std::map<std::size_t, std::size_t> sites;  ///< calls of kernels that may fail, counted from 0
  std::set<std::size_t> behind;   ///< lines that one which may fail comes before; in programs with blocks, all
  std::set<std::size_t> guarded;  ///< of those the ones that write to memory of the caller, or to a state
};
FailureSites failure_sites(const Program&);
/// What a call that failed says; empty for lines that cannot fail so.
const std::string& failure_of(const Line&);

}  // namespace coil::wrapper
