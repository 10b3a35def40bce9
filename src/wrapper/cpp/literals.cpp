#include "wrapper/cpp/literals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>

namespace coil::wrapper {

std::string c_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (byte < 0x20 || byte == 0x7f)
      fmt::format_to(std::back_inserter(out), "\\{:03o}", byte);
    else
      out += c;
  }
  return out + "\"";
}

std::string binary_literal(const std::vector<std::byte>& binary) {
  std::string out = "\"";
  std::size_t on_line = 0;
  for (std::byte b : binary) {
    const auto byte = std::to_integer<unsigned char>(b);
    if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\' && byte != '?')
      out += static_cast<char>(byte);
    else
      fmt::format_to(std::back_inserter(out), "\\{:03o}", byte);
    if (++on_line == 64 || byte == '\n') out += "\"\n    \"", on_line = 0;
  }
  return out + "\"";
}

bool is_source(const std::vector<std::byte>& binary) {
  return std::ranges::none_of(binary, [](std::byte b) { return b < std::byte{0x20} && b != std::byte{'\n'}; });
}

std::string real(double x) {
  if (std::isnan(x)) return "__builtin_nan(\"\")";
  if (std::isinf(x)) return x < 0 ? "-__builtin_inf()" : "__builtin_inf()";
  return fmt::format("{:a}", x);
}

std::string dtype(DType d) {
  std::string name(short_name(d));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
  return "COIL_" + name;
}

}  // namespace coil::wrapper
