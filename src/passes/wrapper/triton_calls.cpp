#include "passes/wrapper/triton_calls.h"

#include "codegen/triton/compile.h"

namespace coil::wrapper {

void call_triton_kernels(Program& p) {
  std::vector<std::shared_ptr<const ops::UserKernel>> made(p.kernels.size());
  for (std::size_t k = 0; k < p.kernels.size(); ++k)
    if (p.kernels[k].triton) made[k] = codegen::define_triton_kernel(p.kernels[k].symbol, *p.kernels[k].triton);
  std::vector<std::size_t> places(p.kernels.size());  // of the kernels that stay
  std::vector<Kernel> kept;
  for (std::size_t k = 0; k < p.kernels.size(); ++k) {
    places[k] = kept.size();
    if (!made[k]) kept.push_back(std::move(p.kernels[k]));
  }
  p.kernels = std::move(kept);
  std::vector<Line> lines;
  for (Line& line : p.lines) {
    if (auto* define = std::get_if<DefineKernel>(&line)) {
      if (made[define->kernel]) continue;
      define->kernel = places[define->kernel];
    }
    auto* call = std::get_if<CallKernel>(&line);
    if (!call || !made[call->kernel]) {
      if (call) call->kernel = places[call->kernel];
      lines.push_back(std::move(line));
      continue;
    }
    CallUserKernel user{.kernel = made[call->kernel],
                        .tensors = {},
                        .written = std::move(call->written),
                        .numbers = std::move(call->scalars),
                        .grid = std::move(call->launch->grid),
                        .nodes = std::move(call->nodes),
                        .origins = std::move(call->origins),
                        .where = std::move(call->where)};
    for (BufferId b : call->buffers) user.tensors.push_back(whole(p, b));
    lines.emplace_back(std::move(user));
  }
  p.lines = std::move(lines);
}

}  // namespace coil::wrapper
