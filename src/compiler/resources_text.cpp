#include "compiler/resources_text.h"

#include <map>

#include "compiler/report.h"
#include "target/occupancy.h"

namespace coil {
namespace {

struct Block {
  int threads = 0;
  std::int64_t dynamic_bytes = 0;  ///< of shared memory
};

/// The block of each kernel's first call, by symbol.
std::map<std::string, Block> blocks_of(const wrapper::Program& program) {
  std::map<std::string, Block> out;
  for (const wrapper::Line& line : program.lines) {
    if (const auto* call = std::get_if<wrapper::CallKernel>(&line); call && call->launch)
      out.try_emplace(program.kernels.at(call->kernel).symbol,
                      Block{call->launch->block, program.env->hint_or(call->launch->shared_bytes, 0)});
    if (const auto* call = std::get_if<wrapper::CallUserKernel>(&line))
      out.try_emplace(call->kernel->symbol,
                      Block{static_cast<int>(call->kernel->block), std::int64_t{call->kernel->shared_bytes}});
  }
  return out;
}

std::string bytes(std::int64_t count) { return human_bytes(static_cast<std::uint64_t>(count)); }

}  // namespace

std::string resources_text(const wrapper::Program& program, const codegen::Backend& backend,
                           const codegen::Libraries& libraries) {
  const std::map<std::string, Block> blocks = blocks_of(program);
  std::string text;
  for (const codegen::KernelResources& k : backend.resources(libraries)) {
    const auto block = blocks.find(k.symbol);
    const std::int64_t shared = k.shared_bytes + (block == blocks.end() ? 0 : block->second.dynamic_bytes);
    text += fmt::format("{}: {} registers, {} of shared memory, {} of stack", k.symbol, k.registers, bytes(shared),
                        bytes(k.stack_bytes));
    const auto fits = block == blocks.end()
                          ? std::nullopt
                          : target::occupancy(backend.target(), {block->second.threads, k.registers, shared});
    if (fits)
      text += fmt::format("; {} blocks of {} threads at once, {:.0f} % of all threads, limited by {}", fits->blocks,
                          block->second.threads, fits->share * 100, fits->limit);
    text += "\n";
  }
  return text;
}

}  // namespace coil
