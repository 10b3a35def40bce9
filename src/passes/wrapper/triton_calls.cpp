#include "passes/wrapper/triton_calls.h"

#include "codegen/triton/compile.h"
#include "wrapper/failures.h"

namespace coil::wrapper {
namespace {

/// The kernel with a status, by which it leaves at once where the run has failed.
std::shared_ptr<const ops::UserKernel> stops(const std::string& symbol, codegen::TritonParts parts) {
  parts.status = true;
  return codegen::define_triton_kernel(symbol + "_stops", parts);
}

}  // namespace

void call_triton_kernels(Program& p) {
  std::vector<std::shared_ptr<const ops::UserKernel>> made(p.kernels.size()), stopping(p.kernels.size());
  const std::set<std::size_t> guarded = p.device.is_host() ? std::set<std::size_t>{} : failure_sites(p).guarded;
  std::vector<std::optional<codegen::TritonParts>> triton;
  for (std::size_t k = 0; k < p.kernels.size(); ++k) {
    triton.push_back(p.kernels[k].triton);
    if (triton[k]) made[k] = codegen::define_triton_kernel(p.kernels[k].symbol, *triton[k]);
  }
  std::vector<std::size_t> places(p.kernels.size());  // of the kernels that stay
  std::vector<KernelEntry> kept;
  for (std::size_t k = 0; k < p.kernels.size(); ++k) {
    places[k] = kept.size();
    if (!made[k]) kept.push_back(std::move(p.kernels[k]));
  }
  p.kernels = std::move(kept);
  std::vector<Line> lines;
  for (std::size_t at = 0; at < p.lines.size(); ++at) {
    Line& line = p.lines[at];
    if (auto* define = std::get_if<DefineKernel>(&line)) {
      if (made[define->kernel]) continue;
      define->kernel = places[define->kernel];
    }
    auto* call = std::get_if<CallKernel>(&line);
    if (!call || !made[call->kernel]) {
      if (call) for_each_kernel(*call, [&](std::size_t& kernel) { kernel = places[kernel]; });
      lines.push_back(std::move(line));
      continue;
    }
    std::shared_ptr<const ops::UserKernel> kernel = made[call->kernel];
    if (guarded.contains(at) && !kernel->has_status()) {
      if (!stopping[call->kernel]) stopping[call->kernel] = stops(kernel->symbol, *triton[call->kernel]);
      kernel = stopping[call->kernel];
    }
    CallUserKernel user{.kernel = std::move(kernel),
                        .tensors = {},
                        .written = std::move(call->written),
                        .numbers = std::move(call->scalars),
                        .grid = std::move(call->launch->grid),
                        .failure = std::move(call->failure),
                        .nodes = std::move(call->nodes),
                        .origins = std::move(call->origins),
                        .where = std::move(call->where)};
    for (BufferId b : call->buffers) user.tensors.push_back(whole(p, b));
    lines.emplace_back(std::move(user));
  }
  p.lines = std::move(lines);
}

}  // namespace coil::wrapper
