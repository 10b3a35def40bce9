#include "wrapper/python/text.h"

#include <cctype>
#include <cmath>

#include "support/error.h"
#include "support/host_names.h"

namespace coil::wrapper {
namespace {

// Keywords, and names that text after them relies on.
constexpr const char* kReserved[] = {
    "False",    "None",   "True",  "and",   "as",     "assert",   "async",   "await",    "break", "class",
    "continue", "def",    "del",   "elif",  "else",   "except",   "finally", "for",      "from",  "global",
    "if",       "import", "in",    "is",    "lambda", "nonlocal", "not",     "or",       "pass",  "raise",
    "return",   "try",    "while", "with",  "yield",  "match",    "case",    "type",     "_",     "min",
    "max",      "bool",   "int",   "float", "list",   "tuple",    "torch",   "operator", "math",  "call",
    "load",     "self",   "print", "len",   "range",  "str",      "object",  "super",    "set",   "dict"};

/// The code point at `at`, which moves past it; invalid UTF-8 gives the replacement character for one byte.
char32_t next_point(std::string_view text, std::size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at++]);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xf0 && lead < 0xf5 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc2 ? 1 : 0;
  if (more == 0 || lead >= 0xf5 || at + static_cast<std::size_t>(more) > text.size()) return 0xfffd;
  char32_t point = lead & (0x3f >> more);
  for (int i = 0; i < more; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + static_cast<std::size_t>(i)]);
    if ((byte & 0xc0) != 0x80) return 0xfffd;
    point = point << 6 | (byte & 0x3f);
  }
  at += static_cast<std::size_t>(more);
  const bool overlong = (more == 2 && point < 0x800) || (more == 3 && point < 0x10000);
  return overlong || point > 0x10ffff || (point >= 0xd800 && point < 0xe000) ? 0xfffd : point;
}

/// One character of a string literal; printable ASCII as it is but for the backslash.
void literal(std::string& out, char32_t c) {
  if (c == '\\')
    out += "\\\\";
  else if (c >= 0x20 && c < 0x7f)
    out += static_cast<char>(c);
  else if (c < 0x100)
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned>(c));
  else if (c < 0x10000)
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
  else
    fmt::format_to(std::back_inserter(out), "\\U{:08x}", static_cast<unsigned>(c));
}

std::string value(std::int64_t v) { return std::to_string(v); }
std::string value(double v) { return python_real(v); }
std::string value(const std::string& v) { return python_string(v); }
template <class T>
std::string value(const std::vector<T>& items) {
  std::string out;
  for (const T& item : items) out += (out.empty() ? "" : ", ") + value(item);
  return "[" + out + "]";
}

}  // namespace

std::string python_string(std::string_view text) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_point(text, at);
    if (c == '"')
      out += "\\\"";
    else if (c == '\n')
      out += "\\n";
    else
      literal(out, c);
  }
  return out + "\"";
}

std::string python_block(std::string_view text) {
  std::string out = "\"\"\"";
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_point(text, at);
    if (c == '\n')
      out += '\n';
    else if (c == '"' && (text.substr(at, 2) == "\"\"" || at == text.size() || out.ends_with("\\\"")))
      out += "\\\"";  // a run of quotes, and one at the end
    else
      literal(out, c);
  }
  return out + "\"\"\"";
}

std::string python_comment(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_point(text, at);
    if (c >= 0x20 && c < 0x7f)
      out += static_cast<char>(c);
    else
      out += '?';
  }
  return out;
}

std::string python_real(double x) {
  if (std::isnan(x)) return "math.nan";
  if (std::isinf(x)) return x < 0 ? "-math.inf" : "math.inf";
  std::string text = fmt::format("{}", x);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string python_dtype(DType d) { return fmt::format("torch.{}", torch_name(d)); }

std::string python_attribute(const Attribute& attribute) {
  return std::visit([](const auto& v) { return value(v); }, attribute);
}

std::string python_operator(const std::string& op) {
  const auto behind = [&](std::string_view prefix) { return python_operator(op.substr(prefix.size())); };
  if (op.starts_with(kSized)) return fmt::format("sized({})", behind(kSized));
  if (op.starts_with(kKept)) return "kept";
  if (op.starts_with(kFlat)) return fmt::format("flat({})", behind(kFlat));
  bool begins = true, good = !op.empty();
  for (char c : op) {
    const bool letter = std::isalpha(static_cast<unsigned char>(c)) || c == '_';
    good = good && (letter || (!begins && (c == '.' || std::isdigit(static_cast<unsigned char>(c)))));
    begins = c == '.';
  }
  if (!good || begins) fail("the operator '{}' has a name that Python cannot write", op);
  return "torch.ops." + op;
}

std::string python_argument(const ops::CallArgument& a, const std::function<std::string(sym::Expr)>& size,
                            const std::function<std::string(std::size_t)>& operand) {
  return std::visit(
      [&]<class T>(const T& v) -> std::string {
        if constexpr (std::is_same_v<T, ops::None>)
          return "None";
        else if constexpr (std::is_same_v<T, bool>)
          return v ? "True" : "False";
        else if constexpr (std::is_same_v<T, sym::Expr>)
          return size(v);
        else if constexpr (std::is_same_v<T, double>)
          return python_real(v);
        else if constexpr (std::is_same_v<T, std::string>)
          return python_string(v);
        else if constexpr (std::is_same_v<T, DType>)
          return python_dtype(v);
        else if constexpr (std::is_same_v<T, Device>)
          return fmt::format("torch.device(\"{}\")", to_string(v));
        else if constexpr (std::is_same_v<T, ops::MemoryFormat> || std::is_same_v<T, ops::TensorLayout>)
          return fmt::format("torch.{}", ops::name_of(v));
        else if constexpr (std::is_same_v<T, ops::Operand>)
          return operand(v.index);
        else {
          std::string out;
          for (const ops::CallArgument& item : v)
            out += (out.empty() ? "" : ", ") + python_argument(item, size, operand);
          return "[" + out + "]";
        }
      },
      static_cast<const ops::CallArgument::variant&>(a));
}

std::string python_tuple(const std::vector<std::string>& items) {
  return fmt::format("({}{})", fmt::join(items, ", "), items.size() == 1 ? "," : "");
}

PythonNames::PythonNames(std::set<std::string> reserved) : taken_(std::move(reserved)) {
  taken_.insert(std::begin(kReserved), std::end(kReserved));
}

std::string PythonNames::unique(std::string_view name) {
  std::string out;
  for (char c : name)
    out += std::isalnum(static_cast<unsigned char>(c)) && static_cast<unsigned char>(c) < 0x80 ? c : '_';
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) || out.starts_with("__")) out = "n" + out;
  while (!taken_.insert(out).second) out += '_';
  return out;
}

}  // namespace coil::wrapper
