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

}  // namespace coil::codegen
