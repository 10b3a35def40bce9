#include "sym/print.h"

#include "support/error.h"

namespace coil::sym {

Expr parse(std::string_view text, const std::function<Expr(std::string_view name)>& define) {
  bool number = !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (number) return Expr(std::stoll(std::string(text)));
  bool name = !text.empty() && std::ranges::all_of(text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
  if (!name) fail("cannot read the size expression `{}`", text);
  return define(text);
}

}  // namespace coil::sym
