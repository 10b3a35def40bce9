#include "codegen/cuda/plain_kernel.h"

#include <fmt/format.h>

#include "support/hash.h"

namespace coil::codegen {

std::string PlainKernel::scalar(Expr e) {
  const std::string name = fmt::format("n{}", k_.scalars.size());
  scalars_.push_back({"i64", name});
  k_.scalars.push_back(e);
  return name;
}

void PlainKernel::take(const ir::BufferView& view, std::string_view type, bool written) {
  pointers_.push_back({fmt::format("{}{}*", written ? "" : "const ", type), fmt::format("p{}", k_.buffers.size())});
  k_.buffers.push_back(view.buffer);
  k_.written.push_back(written);
}

std::string PlainKernel::bounds(const LaunchConfig& config) {
  return std::to_string(config.threads) + (config.min_blocks ? fmt::format(", {}", config.min_blocks) : "");
}

Kernel PlainKernel::write(std::string_view prefix, std::string_view bounds, std::vector<Parameter> pointers,
                          std::string_view body) {
  KernelParts parts{.qualifiers = fmt::format("__global__ void __launch_bounds__({})", bounds),
                    .parameters = std::move(pointers),
                    .body = fmt::format("  if (c_stop(status)) return;\n{}", body)};
  parts.parameters.insert(parts.parameters.end(), scalars_.begin(), scalars_.end());
  parts.parameters.push_back({"i64*", "status"});
  k_.symbol = std::string(prefix) + to_hex(hash(to_string(parts.parameters) + parts.body)).substr(0, 16);
  k_.text = parts.text(k_.symbol);
  k_.parts = std::move(parts);
  return std::move(k_);
}

}  // namespace coil::codegen
