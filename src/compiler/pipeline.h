// The way from an archive to the wrapper IR: what every form of output shares.
#pragma once
#include <filesystem>
#include <memory>

#include "compiler/machine.h"
#include "compiler/options.h"
#include "compiler/pipelines.h"
#include "compiler/report.h"
#include "compiler/stages.h"
#include "frontend/pt2.h"
#include "ir/ir.h"
#include "runtime/executor/executor.h"
#include "scheduler/schedule.h"
#include "wrapper/program.h"

namespace coil {

/// A program as wrapper lines, with the stages behind it that reports ask about.
struct LoweredProgram {
  frontend::ExportedProgram source;
  SourceLines source_lines;  ///< of the graph as it came
  std::unique_ptr<ir::Graph> graph;
  scheduler::Schedule schedule;
  Machine machine;
  wrapper::Program lines;
};

/// The whole way down for a program from any front door. Throws Error.
LoweredProgram lower_program(frontend::ExportedProgram, const CompileOptions&, Stages&, bool keep_source = false);
/// Throws Error.
/// `keep_source`: the lines carry the text of the incoming graph.
LoweredProgram lower_archive(const std::filesystem::path& pt2, const CompileOptions&, Stages&,
                             bool keep_source = false);

/// What graph passes may ask about. `run` computes parts of the program for fold-constants.
passes::GraphContext graph_context(const Machine&, const Settings&, RunModule run);
/// Compiles parts of a program for this machine's CPU, and runs them. The machine must live as long.
RunModule run_here(const Machine&, const Settings&, const CompileOptions&);
/// Compiles and runs parts of a program that have inputs, likewise.
RunModuleOn run_on(const Machine&, const Settings&, const CompileOptions&);

/// Whether a kernel is launched before the one before it has ended: where the backend's kernels wait for that one
/// themselves, and no call waits for another process: blocks that wait behind such a call would hold what the other
/// process waits for.
bool launches_early(const Machine&, const wrapper::Program&);
/// Triton makes code of the kernels of Coil's own that are its text; the calls then hold it. Nothing on the CPU.
void compile_triton_kernels(wrapper::Program&, const codegen::Backend&, const CompileOptions&, Stages&);
/// The kernels of a program that run on the backend's device, compiled.
codegen::Binaries compile_kernels(const wrapper::Program&, const codegen::Backend&, const CompileOptions&, Stages&);
/// Lines, with the kernels compiled, as what a runtime loads. Takes the constants out of `lines`.
runtime::StoredProgram assemble(wrapper::Program& lines, const Machine&, const CompileOptions&, Stages&);

/// `compile` for a program that is in memory.
Compiled compile_program(frontend::ExportedProgram, const CompileOptions&);

}  // namespace coil
