#include "ir/scalar_text.h"

#include <cmath>
#include <unordered_map>

#include "support/error.h"
#include "sym/print.h"

namespace coil::ir {

namespace {

constexpr int kNested = 100;  // calls inside of calls, as printed

std::string print_number(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", v);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string print_constant(Scalar s) {
  if (s->dtype == DType::Bool) return s->integer ? "true" : "false";
  const std::string text = is_floating(s->dtype) ? print_number(s->number) : std::to_string(s->integer);
  const bool plain = s->dtype == DType::F32 || s->dtype == DType::I64;
  return plain ? text : fmt::format("{}({})", short_name(s->dtype), text);
}

std::string print_node(Scalar s, const StoredType& stored, const std::function<std::string(Scalar)>& operand) {
  auto list = [&](const std::vector<Scalar>& items) {
    std::string text;
    for (auto* a : items) text += (text.empty() ? "" : ", ") + operand(a);
    return text;
  };
  switch (s->op) {
    case ScalarOp::Load:
    case ScalarOp::LinearLoad: {
      std::string text = fmt::format("{}(buf{}", name_of(s->op), s->buffer);
      if (stored && stored(s->buffer) != s->rounded) text += fmt::format(" as {}", short_name(s->rounded));
      text += ", [";
      for (std::size_t d = 0; d < s->index.size(); ++d) text += (d ? ", " : "") + sym::to_string(s->index[d]);
      text += "]";
      for (std::size_t k = 0; k < s->args.size(); ++k) text += fmt::format(", x{} = {}", k, operand(s->args[k]));
      if (s->mask) text += ", mask = " + operand(s->mask);
      return text + ")";
    }
    case ScalarOp::Index:
      return fmt::format("{}({})", s->dtype == DType::Bool ? "condition" : "index", sym::to_string(s->index[0]));
    case ScalarOp::Constant: return print_constant(s);
    case ScalarOp::Cast:
    case ScalarOp::Bitcast: return fmt::format("{}({}, {})", name_of(s->op), operand(s->args[0]), short_name(s->dtype));
    case ScalarOp::Round: return fmt::format("round({}, {})", operand(s->args[0]), short_name(s->rounded));
    case ScalarOp::CheckIndex:
      return fmt::format("check_index({}, {})", operand(s->args[0]), sym::to_string(s->index[0]));
    case ScalarOp::Random:
      return fmt::format("random({}, {}, {})", operand(s->args[0]), s->integer, sym::to_string(s->index[0]));
    default: return fmt::format("{}({})", name_of(s->op), list(s->args));
  }
}

}  // namespace

std::string to_string(Scalar root, const StoredType& stored) {
  // A small body prints as one expression; in a large one, what is used several times gets a name, and what would nest
  // too deep to be read.
  const auto order = topological({&root, 1});
  std::unordered_map<Scalar, int> uses, depth;
  std::unordered_map<Scalar, std::string> text;
  for (Scalar s : order) {
    for (auto* a : s->args) ++uses[a];
    if (s->mask) ++uses[s->mask];
  }
  std::string definitions;
  std::size_t names = 0;
  for (Scalar s : order) {
    std::string t = print_node(s, stored, [&](Scalar a) { return text.at(a); });
    for (auto* a : s->args) depth[s] = std::max(depth[s], depth[a] + 1);
    if (s->mask) depth[s] = std::max(depth[s], depth[s->mask] + 1);
    const bool shared = root->ops > 64 && uses[s] > 1 && !s->args.empty();
    if (s != root && (shared || depth[s] >= kNested)) {
      depth[s] = 0;
      std::string name = fmt::format("t{}", names++);
      definitions += fmt::format("{} = {}; ", name, t);
      t = name;
    }
    text[s] = std::move(t);
  }
  return definitions + text.at(root);
}

std::string to_string(Scalar root) { return to_string(root, {}); }

namespace {

constexpr int kDeepest = 4 * kNested;  // what a person may write

class Reader {
 public:
  Reader(LineCursor& c, const PartReader& parts, ScalarPool& pool, const StoredType& stored)
      : c_(c), parts_(parts), pool_(pool), stored_(stored) {}

  Scalar body() {
    for (;;) {
      LineCursor ahead = c_;
      const std::string_view name = ahead.look();
      if (!is_local(name)) break;
      const std::string local(ahead.identifier());
      if (!ahead.accept("=")) break;
      c_ = ahead;
      Scalar value = expression();
      c_.expect(";");
      if (!named_.emplace(local, value).second) c_.fault(fmt::format("{} is defined twice", local));
    }
    return expression();
  }

 private:
  /// `t0`: a name that a body gives a value of its own.
  static bool is_local(std::string_view name) {
    return name.size() > 1 && name[0] == 't' &&
           std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
  }

  Scalar expression() {
    struct Depth {
      int& depth;
      ~Depth() { --depth; }
    } nested{depth_};
    if (++depth_ > kDeepest) c_.fault("this nests too deep");
    if (c_.accept("true")) return pool_.constant_int(DType::Bool, 1);
    if (c_.accept("false")) return pool_.constant_int(DType::Bool, 0);
    const char first = c_.peek();
    if (first == '-' || (first >= '0' && first <= '9')) return number({});
    const std::string_view word = c_.look();
    if (word == "nan" || word == "inf") return number({});
    if (is_local(word)) return local();
    const std::string name = c_.identifier();
    c_.expect("(");
    Scalar value = call(name);
    c_.expect(")");
    return value;
  }

  Scalar local() {
    const std::string name = c_.identifier();
    auto found = named_.find(name);
    if (found == named_.end()) c_.fault(fmt::format("{} is not defined", name));
    return found->second;
  }

  Scalar number(std::optional<DType> type) {
    const std::string text(c_.until({",", ";", " ", "]"}));
    const bool real = text.find_first_of(".enf") != text.npos;
    const DType t = type.value_or(real ? DType::F32 : DType::I64);
    if (is_floating(t) != real) c_.fault(fmt::format("'{}' is no {}", text, short_name(t)));
    if (real) return pool_.constant(t, parts_.real(c_, text));
    std::int64_t v = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (status != std::errc() || end != text.data() + text.size()) c_.fault(fmt::format("'{}' is no integer", text));
    return pool_.constant_int(t, v);
  }

  Scalar call(const std::string& name) {
    if (name == "load" || name == "linear_load") return load(name == "load" ? ScalarOp::Load : ScalarOp::LinearLoad);
    if (name == "index" || name == "condition")
      return pool_.exactly(
          {.op = ScalarOp::Index, .dtype = name == "index" ? DType::I64 : DType::Bool, .index = {parts_.expr(c_, {})}});
    if (auto type = dtype_from_short_name(name)) {
      if (register_type(*type) != *type) c_.fault(fmt::format("no value is computed as {}", name));
      return number(*type);
    }
    Scalar a = expression();
    if (name == "cast" || name == "bitcast" || (name == "round" && c_.peek() == ',')) return conversion(name, a);
    if (name == "check_index") {
      c_.expect(",");
      want(a, DType::I64, name);
      return pool_.exactly(
          {.op = ScalarOp::CheckIndex, .dtype = DType::I64, .args = {a}, .index = {parts_.expr(c_, {})}});
    }
    if (name == "require") {
      c_.expect(",");
      Scalar condition = expression();
      want(condition, DType::Bool, name);
      return pool_.exactly({.op = ScalarOp::Require, .dtype = a->dtype, .args = {a, condition}});
    }
    if (name == "random") {
      want(a, DType::I64, name);
      c_.expect(",");
      const std::int64_t salt = c_.integer();
      c_.expect(",");
      return pool_.exactly(
          {.op = ScalarOp::Random, .dtype = DType::U32, .args = {a}, .index = {parts_.expr(c_, {})}, .integer = salt});
    }
    return operation(name, a);
  }

  Scalar load(ScalarOp op) {
    ScalarNode n{.op = op, .dtype = DType::F32};
    n.buffer = buffer();
    n.rounded = c_.accept("as") ? parts_.dtype(c_) : stored_(n.buffer);
    n.dtype = register_type(n.rounded);
    c_.expect(",");
    n.index = parts_.exprs(c_);
    while (c_.accept(",")) {
      if (c_.accept("mask")) {
        c_.expect("=");
        n.mask = expression();
        want(n.mask, DType::Bool, "mask");
        break;
      }
      c_.expect(fmt::format("x{}", n.args.size()));
      c_.expect("=");
      n.args.push_back(expression());
      want(n.args.back(), DType::I64, "load");
    }
    if (op == ScalarOp::LinearLoad && n.index.size() != 1) c_.fault("a linear load has one index");
    return pool_.exactly(std::move(n));
  }

  BufferId buffer() {
    const std::string name = c_.identifier();
    std::uint32_t id = 0;
    if (!name.starts_with("buf") ||
        std::from_chars(name.data() + 3, name.data() + name.size(), id).ptr != name.data() + name.size())
      c_.fault(fmt::format("'{}' is no buffer", name));
    try {
      stored_(id);
    } catch (const Error& e) {
      c_.fault(e.what());
    }
    return id;
  }

  Scalar conversion(const std::string& name, Scalar a) {
    c_.expect(",");
    const DType to = parts_.dtype(c_);
    const bool narrow = register_type(to) != to;
    if (narrow != (name == "round")) c_.fault(fmt::format("{} is not to {}", name, short_name(to)));
    if (name == "round")
      return pool_.exactly({.op = ScalarOp::Round, .dtype = register_type(to), .args = {a}, .rounded = to});
    if (name == "bitcast" && size_of(a->dtype) != size_of(to)) c_.fault("a bitcast keeps the number of bits");
    return pool_.exactly({.op = name == "cast" ? ScalarOp::Cast : ScalarOp::Bitcast, .dtype = to, .args = {a}});
  }

  Scalar operation(const std::string& name, Scalar first) {
    const auto op = scalar_op(name);
    if (!op) c_.fault(fmt::format("there is no operation {}", name));
    std::vector<Scalar> args{first};
    while (c_.accept(",")) args.push_back(expression());
    if (static_cast<int>(args.size()) != operands_of(*op))
      c_.fault(fmt::format("{} has {} operands, not {}", name, operands_of(*op), args.size()));
    const bool where = *op == ScalarOp::Where;
    if (where) want(first, DType::Bool, name);
    const DType type = args[where]->dtype;
    for (std::size_t k = where; k < args.size(); ++k) want(args[k], type, name);
    return pool_.exactly({.op = *op, .dtype = result_type(*op, type), .args = std::move(args)});
  }

  void want(Scalar s, DType type, std::string_view by) const {
    if (s->dtype != type) c_.fault(fmt::format("{} takes {} here, not {}", by, short_name(type), short_name(s->dtype)));
  }

  LineCursor& c_;
  const PartReader& parts_;
  ScalarPool& pool_;
  const StoredType& stored_;
  std::unordered_map<std::string, Scalar> named_;
  int depth_ = 0;
};

}  // namespace

Scalar read_scalar(LineCursor& c, const PartReader& parts, ScalarPool& pool, const StoredType& stored) {
  return Reader(c, parts, pool, stored).body();
}

}  // namespace coil::ir
