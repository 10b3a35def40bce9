#include "codegen/cuda/plain_kernel.h"

#include <fmt/format.h>

#include "support/hash.h"

namespace coil::codegen {

std::string PlainKernel::scalar(Expr e) {
  k_.scalars.push_back(e);
  return fmt::format("n{}", k_.scalars.size() - 1);
}

void PlainKernel::take(ir::BufferId buffer, std::string_view type, bool written) {
  pointers_.push_back({.type = std::string(type), .written = written, .shares = true});
  k_.buffers.push_back(buffer);
  k_.written.push_back(written);
}

SymbolicLaunch PlainKernel::launch(Expr blocks, const LaunchConfig& config) {
  return {.grid = {blocks, 1, 1},
          .block = config.threads,
          .resident = config.min_blocks,
          .shared_bytes = config.shared_bytes};
}

Kernel PlainKernel::write(std::string_view prefix, SymbolicLaunch launch, std::string_view body) {
  const std::size_t scalars = k_.scalars.size();
  KernelParts parts = dialect_.parts(pointers_, scalars, launch);
  if (launch.cluster == 1) parts.body += "  if (c_stop(status)) return;\n";
  for (std::size_t i = 0; i < scalars; ++i)
    if (const std::string name = dialect_.scalar(i, pointers_.size(), scalars); name != fmt::format("n{}", i))
      parts.body += fmt::format("  const i64 n{} = {};\n", i, name);
  parts.body += body;
  k_.symbol = std::string(prefix) + to_hex(hash(to_string(parts.parameters) + parts.body)).substr(0, 16);
  k_.text = parts.text(k_.symbol, dialect_.linkage);
  k_.parts = std::move(parts);
  k_.launch = std::move(launch);
  return std::move(k_);
}

}  // namespace coil::codegen
