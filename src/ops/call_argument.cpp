#include "ops/call_argument.h"

#include <fmt/format.h>

#include "support/overloaded.h"
#include "sym/print.h"

namespace coil::ops {
namespace {

std::string text(const CallArgument& a) {
  return std::visit(Overloaded{[](bool b) -> std::string { return b ? "True" : "False"; },
                               [](const Operand& o) { return fmt::format("%{}", o.index); },
                               [](const CallArguments& list) {
                                 std::string out = "[";
                                 for (std::size_t i = 0; i < list.size(); ++i) out += (i ? ", " : "") + text(list[i]);
                                 return out + "]";
                               },
                               [](const auto& v) { return to_string(Value(v)); }},
                    static_cast<const CallArgument::variant&>(a));
}

}  // namespace

std::string to_string(const std::vector<NamedArgument>& arguments) {
  std::string out;
  for (const NamedArgument& a : arguments)
    out += (out.empty() ? "" : ", ") + (a.keyword.empty() ? "" : a.keyword + "=") + text(a.value);
  return out;
}

void for_each_integer(const CallArgument& a, const std::function<void(Expr)>& f) {
  if (auto* e = std::get_if<Expr>(&a)) f(*e);
  if (auto* list = std::get_if<CallArguments>(&a))
    for (const CallArgument& item : *list) for_each_integer(item, f);
}

}  // namespace coil::ops
