#include "codegen/kernel.h"

#include <fmt/format.h>

namespace coil::codegen {

std::string to_string(std::span<const Parameter> parameters) {
  std::string out;
  for (const Parameter& p : parameters)
    out += fmt::format("{}{}{} {}{}{}", out.empty() ? "" : ", ", p.type, p.restricted ? " __restrict__" : "", p.name,
                       p.attribute.empty() ? "" : " ", p.attribute);
  return "(" + out + ")";
}

std::string KernelParts::text(std::string_view symbol, std::string_view linkage) const {
  return fmt::format("{}{} {}{} {{\n{}}}\n", linkage, qualifiers, symbol, to_string(parameters), body);
}

std::string TritonParts::text(std::string_view symbol) const {
  std::vector<std::string> parameters;
  std::string sizes;
  for (const Tensor& t : tensors) parameters.push_back(t.name);
  parameters.insert(parameters.end(), numbers.begin(), numbers.end());
  if (status) parameters.emplace_back("status");
  for (const auto& [name, number] : constants) {
    parameters.push_back(name + ": tl.constexpr");
    sizes += fmt::format("{} = {}, ", name, number);
  }
  return fmt::format("# {}{} warps\n@triton.jit\ndef {}({}):\n{}{}", sizes, warps, symbol, fmt::join(parameters, ", "),
                     status ? "    if tl.load(status) != 0:\n        return\n" : "", body);
}

}  // namespace coil::codegen
