#include "ops/schema.h"

#include <cctype>
#include <charconv>
#include <limits>

#include "support/error.h"
#include "support/text_cursor.h"

namespace coil::ops {

namespace {

struct TypeName {
  std::string_view name;
  TypeKind kind;
};
// The first name of a kind is the one that prints.
constexpr TypeName kTypeNames[] = {
    {"Tensor", TypeKind::Tensor},
    {"SymInt", TypeKind::Int},
    {"int", TypeKind::Int},
    {"float", TypeKind::Float},
    {"SymFloat", TypeKind::Float},
    {"bool", TypeKind::Bool},
    {"SymBool", TypeKind::Bool},
    {"Scalar", TypeKind::Scalar},
    {"str", TypeKind::String},
    {"ScalarType", TypeKind::DType},
    {"Layout", TypeKind::Layout},
    {"Device", TypeKind::Device},
    {"MemoryFormat", TypeKind::MemoryFormat},
    {"Generator", TypeKind::Generator},
};

class Parser final : TextCursor {
 public:
  explicit Parser(std::string_view text) : TextCursor(text, " \t\n\v\f\r") {}

  Schema schema() {
    Schema s;
    s.target = target();
    expect('(');
    bool keyword_only = false;
    if (!accept(')')) {
      do {
        if (accept('*'))
          keyword_only = true;
        else
          s.parameters.push_back(parameter(keyword_only));
      } while (accept(','));
      expect(')');
    }
    expect('-'), expect('>');
    if (accept('(')) {
      if (!accept(')')) {
        do s.returns.push_back(result());
        while (accept(','));
        expect(')');
      }
    } else {
      s.returns.push_back(result());
    }
    if (!done()) expected("the end");
    return s;
  }

 private:
  [[noreturn]] void expected(std::string_view wanted) const override {
    fail("schema `{}`: expected {} at position {}", text_, wanted, at_);
  }
  std::string_view word(std::string_view also = "") {
    const std::string_view found = look(also);
    if (found.empty()) expected("a name");
    at_ += found.size();
    return found;
  }

  std::string target() {
    std::string space_name(word());
    expect(':'), expect(':');
    std::string name(word("."));
    if (name.find('.') == name.npos) name += ".default";
    return space_name + "." + name;
  }

  /// `(a)`, `(a!)`, `(a -> *)`, `(a|b)`, right after a type's name.
  std::optional<Alias> alias() {
    if (at_ >= text_.size() || text_[at_] != '(') return {};
    ++at_;
    Alias a;
    while (peek() != ')') {
      if (peek() == '\0') expected("`)`");
      if (accept('!'))
        a.write = true;
      else if (accept('-'))
        expect('>'), skip_result_set();
      else
        a.set += text_[at_++];
    }
    expect(')');
    return a;
  }
  void skip_result_set() {
    while (peek() != ')' && peek() != '\0') ++at_;
  }

  Type type(std::optional<Alias>& aliased) {
    std::string_view name = word(".");
    Type t;
    t.kind = TypeKind::Other;
    for (const TypeName& known : kTypeNames)
      if (known.name == name) t.kind = known.kind;
    aliased = alias();
    if (accept('?')) t.optional = true;
    if (accept('[')) {
      t.list = true;
      t.optional_items = std::exchange(t.optional, false);
      if (peek() != ']') {
        // A default is spread over the whole list: what comes from a file must not say how much memory that takes.
        constexpr std::int64_t kLongest = 1024;
        const std::int64_t size = *integer().constant();
        if (size < 0 || size > kLongest) expected("a length of at most 1024");
        t.list_size = static_cast<int>(size);
      }
      expect(']');
      if (auto a = alias()) aliased = a;
      if (accept('?')) t.optional = true;
    }
    return t;
  }

  Parameter parameter(bool keyword_only) {
    Parameter p;
    p.keyword_only = keyword_only;
    p.type = type(p.alias);
    p.name = word();
    if (accept('=')) p.fallback = fallback(p.type);
    return p;
  }

  Parameter result() {
    Parameter p;
    p.type = type(p.alias);
    if (std::isalpha(static_cast<unsigned char>(peek())) || peek() == '_') p.name = word();
    return p;
  }

  Expr integer() {
    skip_blanks();
    std::int64_t v = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (error != std::errc{}) expected("an integer");
    at_ = static_cast<std::size_t>(end - text_.data());
    return v;
  }

  Value fallback(const Type& t) {
    if (t.list && accept('[')) {
      Values items;
      if (!accept(']')) {
        do items.push_back(scalar(t.kind));
        while (accept(','));
        expect(']');
      }
      return items;
    }
    Value v = scalar(t.kind);
    if (t.list && t.list_size > 0 && !v.is_none()) return Values(static_cast<std::size_t>(t.list_size), v);
    return v;
  }

  Value scalar(TypeKind kind) {
    char c = peek();
    if (c == '"' || c == '\'') return quoted(c);
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '-' || c == '.') return number(kind);
    std::string_view name = word();
    if (name == "None") return None{};
    if (name == "True") return true;
    if (name == "False") return false;
    if (name == "inf") return std::numeric_limits<double>::infinity();
    if (name == "Mean") return 1;  // at::Reduction
    if (name == "Sum") return 2;
    if (name == "strided") return TensorLayout::Strided;
    for (auto f :
         {MemoryFormat::Contiguous, MemoryFormat::Preserve, MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d})
      if (name_of(f) == name) return f;
    if (kind == TypeKind::Device) return parse_device(std::string(name));
    if (kind == TypeKind::DType) {
      if (name == "long") return DType::I64;
      if (name == "int") return DType::I32;
      if (name == "float") return DType::F32;
      if (name == "double") return DType::F64;
      if (auto d = dtype_from_torch_name(name)) return *d;
      if (auto d = dtype_from_short_name(name)) return *d;
    }
    at_ -= name.size();
    expected("a default value");
  }

  /// With the escapes that quote() writes.
  std::string quoted(char quote) {
    std::string out;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] != '\\' || at_ + 1 == text_.size()) {
        out += text_[at_];
        continue;
      }
      const char c = text_[++at_];
      unsigned code = 0;
      if (c == 'x' && at_ + 2 < text_.size() &&
          std::from_chars(text_.data() + at_ + 1, text_.data() + at_ + 3, code, 16).ptr == text_.data() + at_ + 3)
        out += static_cast<char>(code), at_ += 2;
      else
        out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
    }
    if (at_ == text_.size()) expected("a closing quote");
    ++at_;
    return out;
  }

  Value number(TypeKind kind) {
    double d = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), d);
    if (error != std::errc{}) expected("a number");
    std::string_view spelled = text_.substr(at_, static_cast<std::size_t>(end - text_.data()) - at_);
    if (kind != TypeKind::Float && spelled.find_first_of(".en") == spelled.npos) return integer();
    at_ += spelled.size();
    return d;
  }
};

std::string to_string(const Parameter& p) {
  std::string out = "Other";
  for (const TypeName& known : kTypeNames)
    if (known.kind == p.type.kind) {
      out = known.name;
      break;
    }
  if (p.alias) out += fmt::format("({}{})", p.alias->set, p.alias->write ? "!" : "");
  if (p.type.list) {
    out += p.type.optional_items ? "?[" : "[";
    if (p.type.list_size) out += std::to_string(p.type.list_size);
    out += "]";
  }
  if (p.type.optional) out += "?";
  if (!p.name.empty()) out += " " + p.name;
  if (p.fallback) out += fmt::format("={}", ops::to_string(*p.fallback));
  return out;
}

}  // namespace

std::size_t Schema::index(std::string_view name) const {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name == name) return i;
  fail("{} has no argument named {}", target, name);
}

bool Schema::is_mutating() const {
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const Parameter& p) { return p.alias && p.alias->write; });
}

bool Schema::is_view() const {
  bool some = false;
  for (const Parameter& r : returns) {
    if (!r.alias) continue;
    if (r.alias->write) return false;
    some = true;
  }
  return some;
}

Schema parse_schema(std::string_view text) { return Parser(text).schema(); }

std::string to_string(const Schema& s) {
  std::size_t dot = s.target.find('.');
  std::string_view name = std::string_view(s.target).substr(dot + 1);
  if (name.ends_with(".default")) name.remove_suffix(8);
  std::string out = s.target.substr(0, dot) + "::" + std::string(name) + "(";
  bool keyword_only = false;
  for (std::size_t i = 0; i < s.parameters.size(); ++i) {
    const Parameter& p = s.parameters[i];
    if (i) out += ", ";
    if (p.keyword_only && !keyword_only) out += "*, ", keyword_only = true;
    out += to_string(p);
  }
  out += ") -> ";
  if (s.returns.size() == 1) return out + to_string(s.returns[0]);
  out += "(";
  for (std::size_t i = 0; i < s.returns.size(); ++i) out += (i ? ", " : "") + to_string(s.returns[i]);
  return out + ")";
}

}  // namespace coil::ops
