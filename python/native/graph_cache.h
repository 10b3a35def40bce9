// Whole compiles kept on disk: equal graphs with equal options are loaded, in this process or a later one, instead of
// compiled again.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "coil/coil.h"
#include "fx/graph.h"
#include "runtime/executor/executor.h"

namespace coil::python {

/// The entry of a graph under options: names everything that the result depends on, build_and_machine() and the
/// libraries loaded so far included.
std::string cache_entry(const fx::GraphModule&, const CompileOptions&);

/// This build of Coil and the machine's instruction set: two processes that agree on it may exchange compiled graphs.
std::string build_and_machine();

struct CachedCompile {
  runtime::StoredProgram program;
  std::string report;
};
/// Nothing where there is no entry, or one that is torn, altered or of another version.
std::optional<CachedCompile> load_cached(const std::filesystem::path& cache, const std::string& entry);
/// Failing to write (a full or read-only disk) costs the next compile its time and nothing else.
void store_cached(const std::filesystem::path& cache, const std::string& entry, const runtime::StoredProgram&,
                  const std::string& report);

}  // namespace coil::python
