#include "codegen/cuda/plain_kernel.h"

#include <fmt/format.h>

#include "support/hash.h"

namespace coil::codegen {

std::string PlainKernel::scalar(Expr e) {
  parameters_ += fmt::format(", i64 n{}", k_.scalars.size());
  k_.scalars.push_back(e);
  return fmt::format("n{}", k_.scalars.size() - 1);
}

Kernel PlainKernel::write(std::string_view prefix, std::string_view bounds, std::string_view pointers,
                          std::string_view body) {
  const std::string signature = fmt::format("({}{}, i64* status)", pointers, parameters_);
  const std::string text = fmt::format("  if (c_stop(status)) return;\n{}", body);
  k_.symbol = std::string(prefix) + to_hex(hash(signature + text)).substr(0, 16);
  k_.text = fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}{} {{\n{}}}\n", bounds, k_.symbol,
                        signature, text);
  return std::move(k_);
}

}  // namespace coil::codegen
