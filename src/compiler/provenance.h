// Where each call of a compiled program comes from: incoming node, node after the passes, kernel or library call, lines
// of the written program; both ways.
#pragma once
#include <string>
#include <vector>

#include "compiler/pipeline.h"
#include "wrapper/emitter.h"

namespace coil {

/// A call of the wrapper and the nodes behind it.
struct ProvenanceCall {
  std::size_t line = 0;  ///< of the wrapper IR
  bool kernel = false;   ///< else a library call
  std::string name;      ///< the kernel's symbol, or the library operation
  const std::set<std::string>*nodes = nullptr, *origins = nullptr;
  const std::string* where = nullptr;
};
std::vector<ProvenanceCall> provenance_calls(const wrapper::Program&);

/// The provenance as JSON (docs/emitted.md describes it). `form` is what was written (`package`, `python`, …), `lines`
/// its lines for each wrapper line; none for a package, whose steps are numbered instead.
std::string provenance_json(const LoweredProgram&, const std::string& form,
                            const std::vector<wrapper::TextLines>& lines);

}  // namespace coil
