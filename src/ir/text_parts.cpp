#include "ir/text_parts.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "support/error.h"
#include "support/overloaded.h"
#include "sym/print.h"
#include "tensor/zeros.h"

namespace coil::ir {
namespace {

std::string value(std::int64_t v) { return std::to_string(v); }
std::string value(double v) { return ops::to_string(v); }
std::string value(const std::string& v) { return ops::quote(v); }
template <class T>
std::string value(const std::vector<T>& items) {
  if (items.empty()) return std::is_same_v<T, double> ? "reals[]" : std::is_same_v<T, std::string> ? "strings[]" : "[]";
  std::string out;
  for (const T& item : items) out += (out.empty() ? "" : ", ") + value(item);
  return "[" + out + "]";
}

bool is_real(std::string_view text) { return text.find_first_of(".en") != text.npos; }

std::int64_t integer(LineCursor& c, const std::string& text) {
  std::int64_t v = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (status != std::errc() || end != text.data() + text.size()) c.fault(fmt::format("'{}' is no integer", text));
  return v;
}

/// `i0`, `r12`, `x3`
bool is_loop_variable(std::string_view name) {
  return name.size() > 1 && (name[0] == 'i' || name[0] == 'r' || name[0] == 'x') &&
         std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string list_text(const Exprs& values) {
  std::string out;
  for (Expr e : values) out += (out.empty() ? "" : ", ") + sym::to_string(e);
  return "[" + out + "]";
}

std::string word_text(std::string_view text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), is_word);
  return plain && !text.ends_with('.') ? std::string(text) : ops::quote(text);
}

std::string attribute_text(const library_ops::Attribute& a) {
  return std::visit([](const auto& x) { return value(x); }, a);
}

std::string writes_text(const std::vector<std::size_t>& operands) {
  std::string out;
  for (std::size_t k : operands) out += fmt::format("{}%{}", out.empty() ? " writes " : ", ", k);
  return out;
}

std::string control_text(const Control& c) {
  switch (c.kind) {
    case Control::Kind::If: return fmt::format("if {}:", sym::to_string(c.condition));
    case Control::Kind::Else: return "else:";
    case Control::Kind::EndIf: return "end if";
    case Control::Kind::Loop:
      return fmt::format("loop {}{}:", sym::to_string(c.counter),
                         c.extent.is_constant(sym::Range::kMax) ? "" : " < " + sym::to_string(c.extent));
    case Control::Kind::BreakUnless: return "break unless " + sym::to_string(c.condition);
    case Control::Kind::EndLoop: return "end loop";
  }
  return {};
}

Tensor zeros(LineCursor& c, DType dtype, const Exprs& sizes, const Exprs& strides) {
  std::vector<std::int64_t> numbers[2];
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const auto size = sizes[d].constant(), stride = strides[d].constant();
    if (!size || !stride || *size < 0 || *stride < 0) c.fault("a constant has sizes that are numbers");
    numbers[0].push_back(*size);
    numbers[1].push_back(*stride);
  }
  auto value = coil::zeros(dtype, numbers[0], numbers[1]);
  if (!value) c.fault("the constant is too large");
  return std::move(*value);
}

Expr PartReader::named(std::string_view name) const {
  if (auto found = env_.context().find(name)) return *found;
  if (loops_ && is_loop_variable(name)) return env_.loop_var(name);
  fail("the size {} is not declared", name);
}

Expr PartReader::expr(LineCursor& c, std::initializer_list<std::string_view> stops) const {
  const std::string text(c.until(stops));
  try {
    return sym::parse(text, [this](std::string_view name) { return named(name); });
  } catch (const Error& e) {
    c.fault(e.what());
  }
}

Exprs PartReader::exprs(LineCursor& c) const {
  Exprs out;
  c.expect("[");
  c.items(']', [&] { out.push_back(expr(c, {","})); });
  c.expect("]");
  return out;
}

Expr PartReader::symbol(LineCursor& c) const {
  const std::string name = c.identifier();
  auto found = env_.context().find(name);
  if (!found || found->symbol_kind() == sym::SymbolKind::Loop)
    c.fault(fmt::format("the size {} is not declared", name));
  return *found;
}

DType PartReader::dtype(LineCursor& c) const {
  const std::string name = c.bare();
  auto d = dtype_from_short_name(name);
  if (!d) c.fault(fmt::format("'{}' is no dtype", name));
  return *d;
}

Device PartReader::device(LineCursor& c) const {
  std::string text = c.bare();
  if (const auto type = DeviceType::find(text); type && !type->is_host() && !type->is_meta() && c.accept(":"))
    text += ":" + c.bare();
  return parse_device(text);
}

double PartReader::real(LineCursor& c, const std::string& text) const {
  char* end = nullptr;
  const double v = std::strtod(text.c_str(), &end);
  if (text.empty() || *end) c.fault(fmt::format("'{}' is no number", text));
  return v;
}

library_ops::Attribute PartReader::attribute(LineCursor& c) const {
  if (c.peek() == '"') return c.quoted();
  if (c.accept("reals[]")) return std::vector<double>{};
  if (c.accept("strings[]")) return std::vector<std::string>{};
  if (!c.accept("[")) {
    const std::string text(c.until({" "}));
    if (is_real(text)) return real(c, text);
    return integer(c, text);
  }
  std::vector<std::string> strings, numbers;
  bool reals = false;
  c.items(']', [&] {
    if (c.peek() == '"')
      strings.push_back(c.quoted());
    else
      numbers.emplace_back(c.until({","})), reals = reals || is_real(numbers.back());
  });
  c.expect("]");
  if (!strings.empty() && !numbers.empty()) c.fault("a list holds strings or numbers, not both");
  if (!strings.empty()) return strings;
  if (reals) {
    std::vector<double> out;
    for (const std::string& n : numbers) out.push_back(real(c, n));
    return out;
  }
  std::vector<std::int64_t> out;
  for (const std::string& n : numbers) out.push_back(integer(c, n));
  return out;
}

std::vector<ops::NamedArgument> PartReader::arguments(LineCursor& c, std::size_t& operands) const {
  std::vector<ops::NamedArgument> out;
  c.expect("(");
  c.items(')', [&] {
    std::string keyword;
    if (LineCursor ahead = c; is_word(ahead.peek())) {
      const std::string word = ahead.bare();
      if (ahead.accept("=")) keyword = c.identifier(), c.expect("=");
    }
    out.push_back({std::move(keyword), argument(c, operands)});
  });
  c.expect(")");
  return out;
}

ops::CallArgument PartReader::argument(LineCursor& c, std::size_t& operands) const {
  if (c.peek() == '"') return c.quoted();
  if (c.accept("[")) {
    ops::CallArguments items;
    c.items(']', [&] { items.push_back(argument(c, operands)); });
    c.expect("]");
    return items;
  }
  if (c.accept("%")) {
    const std::int64_t index = c.integer();
    if (index < 0 || index > 0xffff) c.fault("no call has so many operands");
    operands = std::max(operands, static_cast<std::size_t>(index) + 1);
    return ops::Operand{static_cast<std::size_t>(index)};
  }
  LineCursor before = c;
  const std::string text(c.until({","}));
  if (text == "None") return ops::None{};
  if (text == "True" || text == "False") return text == "True";
  if (auto d = dtype_from_short_name(text)) return *d;
  if (text == "cpu" || text == "meta" || text.starts_with("cuda")) return parse_device(text);
  using ops::MemoryFormat;
  for (MemoryFormat m :
       {MemoryFormat::Contiguous, MemoryFormat::Preserve, MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d})
    if (text == ops::name_of(m)) return m;
  for (ops::TensorLayout l : {ops::TensorLayout::Strided, ops::TensorLayout::Sparse})
    if (text == ops::name_of(l)) return l;
  if (char* end = nullptr; is_real(text) && (std::strtod(text.c_str(), &end), end == text.c_str() + text.size()))
    return real(c, text);
  c = before;
  return expr(c, {","});
}

std::vector<std::size_t> PartReader::writes(LineCursor& c) const {
  std::vector<std::size_t> out;
  if (!c.accept("writes")) return out;
  do {
    c.expect("%");
    out.push_back(static_cast<std::size_t>(c.integer()));
  } while (c.accept(","));
  return out;
}

std::optional<Control> PartReader::control(LineCursor& c) const {
  if (c.accept("else:")) return Control{Control::Kind::Else};
  if (c.accept("end if")) return Control{Control::Kind::EndIf};
  if (c.accept("end loop")) return Control{Control::Kind::EndLoop};
  if (c.accept("break unless")) return Control{Control::Kind::BreakUnless, expr(c, {})};
  if (c.accept("if")) {
    Control border{Control::Kind::If, expr(c, {":"})};
    c.expect(":");
    return border;
  }
  if (!c.accept("loop")) return std::nullopt;
  Control border{Control::Kind::Loop};
  border.counter = symbol(c);
  if (c.accept("<")) border.extent = expr(c, {":"});
  c.expect(":");
  return border;
}

}  // namespace coil::ir
