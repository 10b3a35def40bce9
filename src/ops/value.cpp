#include "ops/value.h"

#include <cmath>

#include "support/error.h"
#include "support/overloaded.h"
#include "sym/floats.h"
#include "sym/print.h"

namespace coil::ops {

namespace {

[[noreturn]] void wrong(std::string_view wanted, const Value& found) {
  fail("expected {}, found {}", wanted, to_string(found));
}

}  // namespace

Expr Value::as_int() const {
  if (auto* e = get_if<Expr>()) return *e;
  if (auto* b = get_if<Bool>()) return b->condition;
  wrong("an integer", *this);
}

bool Value::as_bool() const {
  auto* b = get_if<Bool>();
  if (b && b->condition.is_constant()) return *b->condition.constant() != 0;
  wrong("a constant bool", *this);
}

double Value::as_double() const {
  if (auto* d = get_if<double>()) return *d;
  if (auto* e = get_if<Expr>(); e && e->is_constant()) return static_cast<double>(*e->constant());
  if (auto* b = get_if<Bool>(); b && b->condition.is_constant()) return static_cast<double>(*b->condition.constant());
  wrong("a constant number", *this);
}

const std::string& Value::as_string() const {
  if (auto* s = get_if<std::string>()) return *s;
  wrong("a string", *this);
}

DType Value::as_dtype() const {
  if (auto* d = get_if<DType>()) return *d;
  wrong("a dtype", *this);
}

const TensorMeta& Value::as_tensor() const {
  if (auto* t = get_if<TensorMeta>()) return *t;
  wrong("a tensor", *this);
}

fx::Node* Value::as_node() const {
  if (auto* n = get_if<fx::Node*>()) return *n;
  wrong("a node", *this);
}

const Values& Value::as_list() const {
  if (auto* list = get_if<Values>()) return *list;
  wrong("a list", *this);
}

Exprs Value::as_ints() const {
  auto* list = get_if<Values>();
  if (!list) return {as_int()};
  Exprs ints;
  ints.reserve(list->size());
  for (const Value& v : *list) ints.push_back(v.as_int());
  return ints;
}

std::string_view name_of(MemoryFormat format) {
  switch (format) {
    case MemoryFormat::Contiguous: return "contiguous_format";
    case MemoryFormat::Preserve: return "preserve_format";
    case MemoryFormat::ChannelsLast: return "channels_last";
    case MemoryFormat::ChannelsLast3d: return "channels_last_3d";
  }
  fail("no such memory format: {}", static_cast<int>(format));
}

std::string_view name_of(TensorLayout layout) { return layout == TensorLayout::Strided ? "strided" : "sparse_coo"; }

std::string to_string(double d) {
  if (std::isnan(d)) return "nan";
  std::string s = fmt::format("{}", d);
  if (s.find_first_of(".en") == s.npos) s += ".0";  // "n" of "inf"
  return s;
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + '"';
}

std::string to_string(const Value& value) {
  using Base = Value::variant;
  return std::visit(Overloaded{
                        [](const None&) -> std::string { return "None"; },
                        [](const Bool& b) -> std::string {
                          if (b.condition.is_constant()) return *b.condition.constant() ? "True" : "False";
                          return "Bool(" + sym::to_string(b.condition) + ")";
                        },
                        [](const Expr& e) {
                          const std::string text = sym::to_string(e);
                          return dtype_from_short_name(text) ? "(" + text + ")"
                                                             : text;  // u8 is also torch's name of a size
                        },
                        [](double d) { return to_string(d); },
                        [](const std::string& s) { return quote(s); },
                        [](DType d) { return std::string(short_name(d)); },
                        [](Device d) { return coil::to_string(d); },
                        [](MemoryFormat f) { return std::string(name_of(f)); },
                        [](TensorLayout l) { return std::string(name_of(l)); },
                        [](const SymFloat& f) {
                          return "SymFloat(" + f.name + (f.value ? ", " + sym::float_to_string(*f.value) : "") + ")";
                        },
                        [](const GraphRef& g) { return "@" + g.name; },
                        [](fx::Node* n) { return "%" + fx::name_of(*n); },
                        [](const TensorMeta& t) { return sym::to_string(t); },
                        [](const Values& list) {
                          std::string out = "[";
                          for (std::size_t i = 0; i < list.size(); ++i) out += (i ? ", " : "") + to_string(list[i]);
                          return out + "]";
                        },
                    },
                    static_cast<const Base&>(value));
}

std::optional<Expr> float_of(const Value& v) {
  if (auto* d = v.get_if<double>()) return sym::float_constant(*d);
  if (auto* f = v.get_if<SymFloat>()) return f->value;
  if (v.is<Expr>() || v.is<Bool>()) return sym::float_call(FloatFunction::FromInt, v.as_int());
  return std::nullopt;
}

void for_each_unbacked(const Value& v, const std::function<void(Expr)>& f) {
  auto visit = [&](Expr e) {
    for (Expr s : sym::free_symbols(e))
      if (s.symbol_kind() == sym::SymbolKind::Unbacked) f(s);
  };
  if (auto* e = v.get_if<Expr>()) visit(*e);
  if (auto* b = v.get_if<Bool>()) visit(b->condition);
  if (auto* x = v.get_if<SymFloat>(); x && x->value) visit(*x->value);
  if (auto* t = v.get_if<sym::TensorMeta>())
    for (const auto* list : {&t->sizes, &t->strides})
      for (Expr e : *list) visit(e);
  if (auto* list = v.get_if<Values>())
    for (const Value& item : *list) for_each_unbacked(item, f);
}

}  // namespace coil::ops
