#include "codegen/triton/program.h"

#include <algorithm>
#include <cctype>

#include "device/pieces.h"

namespace coil::codegen {
namespace {

/// Whether the name stands in the text as a whole word; functions are handed over as well as called.
bool names(std::string_view text, std::string_view name) {
  const auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !part(text[at - 1])) && (end == text.size() || !part(text[end]))) return true;
  }
  return false;
}

}  // namespace

std::string triton_program(std::string_view kernel) {
  std::string out(kernel);
  auto pieces = device::pieces("triton/values.py");
  for (const char* file : {"triton/special.py", "triton/attention.py", "triton/grouped.py"})
    std::ranges::move(device::pieces(file), std::back_inserter(pieces));
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece)  // a piece calls only those before it
    if (names(out, piece->names.front())) out = piece->text + "\n\n" + out;
  if (out.find("coil_floordiv(") != std::string::npos || out.find("coil_ceildiv(") != std::string::npos ||
      out.find("coil_mod(") != std::string::npos || out.find("coil_pow(") != std::string::npos ||
      out.find("coil_shr(") != std::string::npos)
    out = device::piece("triton/sizes.py", "sizes") + "\n\n" + out;
  std::string imports = "import triton\nimport triton.language as tl\n";
  if (names(out, "libdevice")) imports += "from triton.language.extra import libdevice\n";
  return imports + "\n\n" + out;
}

}  // namespace coil::codegen
