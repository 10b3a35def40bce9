#include "codegen/triton/batch.h"

#include <fmt/format.h>

namespace coil::codegen {
namespace {

/// Halves the calls until one is left, so that a program decides few times for all pointers together.
void choose(const TritonParts& parts, std::size_t first, std::size_t end, int indent, std::string& out) {
  const std::string margin(static_cast<std::size_t>(4 * indent), ' ');
  if (end - first == 1) {
    for (const TritonParts::Tensor& t : parts.tensors) out += fmt::format("{0}{1} = {1}_{2}\n", margin, t.name, first);
    return;
  }
  const std::size_t middle = first + (end - first) / 2;
  out += fmt::format("{}if call < {}:\n", margin, middle);
  choose(parts, first, middle, indent + 1, out);
  out += margin + "else:\n";
  choose(parts, middle, end, indent + 1, out);
}

}  // namespace

TritonParts batch_triton_kernel(const TritonParts& parts, std::size_t count) {
  TritonParts out = parts;
  out.tensors.clear();
  for (std::size_t call = 0; call < count; ++call)
    for (const TritonParts::Tensor& t : parts.tensors)
      out.tensors.push_back({fmt::format("{}_{}", t.name, call), t.type});
  out.body = "    call = tl.program_id(1)\n";
  choose(parts, 0, count, 1, out.body);
  out.body += parts.body;
  return out;
}

}  // namespace coil::codegen
