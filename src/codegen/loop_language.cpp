#include "codegen/loop_language.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_map>

#include "codegen/kernel_arguments.h"
#include "ir/combining.h"
#include "support/error.h"
#include "support/hash.h"

namespace coil::codegen {
namespace {

using ir::ReductionKind;
using ir::Scalar;
using ir::ScalarOp;
using scheduler::Role;

/// What C has for an operation of scalars: `{0}`, `{1}`, … are its operands. Empty: nothing.
std::string_view c_form(ScalarOp op, DType type) {
  switch (op) {
    case ScalarOp::Add: return "{0} + {1}";
    case ScalarOp::Sub: return "{0} - {1}";
    case ScalarOp::Mul: return "{0} * {1}";
    case ScalarOp::Div: return "{0} / {1}";
    case ScalarOp::And: return "{0} & {1}";
    case ScalarOp::Or: return "{0} | {1}";
    case ScalarOp::Xor: return "{0} ^ {1}";
    case ScalarOp::Shl: return "{0} << {1}";
    case ScalarOp::Shr: return "{0} >> {1}";
    case ScalarOp::Eq: return "{0} == {1}";
    case ScalarOp::Ne: return "{0} != {1}";
    case ScalarOp::Lt: return "{0} < {1}";
    case ScalarOp::Le: return "{0} <= {1}";
    case ScalarOp::Gt: return "{0} > {1}";
    case ScalarOp::Ge: return "{0} >= {1}";
    case ScalarOp::Where: return "{0} ? {1} : {2}";
    case ScalarOp::Not: return type == DType::Bool ? "!{0}" : "~{0}";
    case ScalarOp::Neg: return "-{0}";
    case ScalarOp::Recip: return "1 / {0}";
    case ScalarOp::IsNan: return "{0} != {0}";
    default: return "";
  }
}

/// One kernel's text while it is written.
class Writer {
 public:
  Writer(const LoopLanguage& language, ir::Graph& graph, LoopNest nest)
      : language_(language), graph_(graph), nest_(std::move(nest)), vars_(nest_.vars()) {}

  Kernel write() {
    Expr points = 1;
    for (const LoopDim& d : nest_.outer) points *= d.size;
    const std::int64_t of_block = language_.points_of_block();
    const std::string index = language_.type(DType::I64);
    line("const {} all = {}, end = (block + 1) * {};", index, text(points), of_block);
    open("for ({} w = block * {}; w < all && w < end; ++w)", index, of_block);
    line("{} point = w;", index);
    for (auto d = nest_.outer.rbegin(); d != nest_.outer.rend(); ++d) {
      line("const {} {} = point % {};", index, d->var.name(), text(d->size));
      line("point /= {};", text(d->size));
    }
    for (int level = 0; level < nest_.levels; ++level) write_level(level);
    close();
    return finish(graph_.env().simplify(sym::ceil_div(points, of_block)));
  }

 private:
  // ---- Loops ----

  void write_level(int level) {
    std::vector<const Statement*> inner;
    for (const Statement& s : nest_.statements)
      if (s.level == level && s.role != Role::Outer) inner.push_back(&s);
    for (const Statement* s : inner) declare(*s);
    if (!inner.empty()) {
      for (const LoopDim& d : nest_.inner)
        open("for ({0} {1} = 0; {1} < {2}; ++{1})", language_.type(DType::I64), d.var.name(), text(d.size));
      for (const Statement* s : inner) in_block([&] { write_inner(*s); });
      for (std::size_t d = 0; d < nest_.inner.size(); ++d) close();
    }
    for (const Statement* s : inner)
      if (s->role == Role::Reduce) store(*s, variable(*s) + (finds_place(*s) ? "at" : ""));
    for (const Statement& s : nest_.statements)
      if (s.level == level && s.role == Role::Outer) in_block([&] { store(s, value(s.body)); });
  }

  void write_inner(const Statement& s) {
    if (std::holds_alternative<ir::Scatter>(s.op->node)) return scatter(s);
    const std::string x = value(s.body);
    if (s.role == Role::Inner) return store(s, x);
    if (s.role == Role::Reduce && finds_place(s)) return take_place(s, x);
    const DType type = language_.accumulator(s.body->dtype);
    line("{} = {};", variable(s), combined(s, type, variable(s), fmt::format("({}){}", language_.type(type), x)));
    if (s.role == Role::Scan) store(s, variable(s));
  }

  // ---- Statements ----

  static bool finds_place(const Statement& s) {
    const ReductionKind kind = std::get<ir::Reduction>(s.op->node).kind;
    return kind == ReductionKind::ArgMax || kind == ReductionKind::ArgMin;
  }
  static bool adds_exponentials(const Statement& s) {
    return s.role == Role::Scan && std::get<ir::Scan>(s.op->node).kind == ir::ScanKind::LogSumExp;
  }
  static ReductionKind kind_of(const Statement& s) {
    if (s.role == Role::Reduce) return std::get<ir::Reduction>(s.op->node).kind;
    switch (std::get<ir::Scan>(s.op->node).kind) {
      case ir::ScanKind::Sum: return ReductionKind::Sum;
      case ir::ScanKind::Prod: return ReductionKind::Prod;
      case ir::ScanKind::Min: return ReductionKind::Min;
      default: return ReductionKind::Max;  // of sums of exponentials: with the same beginning
    }
  }
  std::string variable(const Statement& s) const { return fmt::format("a{}", &s - nest_.statements.data()); }

  /// What the values of a row are combined in, before the first of them.
  void declare(const Statement& s) {
    if (s.role == Role::Inner) return;
    const bool place = s.role == Role::Reduce && finds_place(s);
    const DType type = place ? s.body->dtype : language_.accumulator(s.body->dtype);
    const ir::NeutralValue none = ir::neutral_value(kind_of(s), type);
    line("{} {} = {};", language_.type(type), variable(s), language_.constant(type, none.real, none.integer));
    if (place) line("{} {}at = -1;", language_.type(DType::I64), variable(s));
  }

  std::string combined(const Statement& s, DType type, const std::string& a, const std::string& x) {
    if (!adds_exponentials(s)) return operation(ir::combining_op(kind_of(s)), type, {a, x});
    const std::string most = named(type, operation(ScalarOp::Max, type, {a, x})),
                      least = named(type, operation(ScalarOp::Min, type, {a, x})),
                      ratio = named(type, operation(ScalarOp::Exp, type, {fmt::format("({} - {})", least, most)}));
    // The larger one is the sum where it is infinite or NaN.
    return fmt::format("{0} - {0} != 0 ? {0} : {0} + {1}", most, operation(ScalarOp::Log1p, type, {ratio}));
  }

  /// The place of the first of the most extreme values; a NaN is more extreme than any number.
  void take_place(const Statement& s, const std::string& x) {
    const bool most = kind_of(s) == ReductionKind::ArgMax;
    const std::string a = variable(s), at = text(s.position);
    auto beats = [&](const std::string& p, const std::string& q) {
      return fmt::format("({0} {2} {1} || ({0} != {0} && {1} == {1}))", p, q, most ? ">" : "<");
    };
    open("if ({1}at < 0 || {2} || (!{3} && {4} < {1}at))", x, a, beats(x, a), beats(a, x), at);
    line("{} = {};", a, x);
    line("{}at = {};", a, at);
    close();
  }

  void scatter(const Statement& s) {
    std::vector<std::string> places;
    for (Scalar i : s.indirect) {
      places.push_back(value(i));
      if (i->op == ScalarOp::CheckIndex) line("if (*failed) return;");
    }
    const DType type = graph_.buffer(s.op->outs[0]).layout.dtype;
    const std::string to = fmt::format("{}[{}]", arguments_.pointer(s.op->outs[0], true), text(s.store, places)),
                      x = fmt::format("({}){}", language_.type(type), value(s.body));
    switch (std::get<ir::Scatter>(s.op->node).mode) {
      case ir::StoreMode::Assign: return line("{} = {};", to, x);
      case ir::StoreMode::Add: return line("{} = {};", to, operation(ScalarOp::Add, type, {to, x}));
      case ir::StoreMode::Prod: return line("{} = {};", to, operation(ScalarOp::Mul, type, {to, x}));
      case ir::StoreMode::Max: return line("{} = {};", to, operation(ScalarOp::Max, type, {to, x}));
      case ir::StoreMode::Min: return line("{} = {};", to, operation(ScalarOp::Min, type, {to, x}));
    }
  }

  void store(const Statement& s, const std::string& x) {
    const ir::BufferId out = s.op->outs[0];
    line("{}[{}] = ({}){};", arguments_.pointer(out, true), text(s.store),
         language_.type(graph_.buffer(out).layout.dtype), x);
  }

  // ---- Values ----

  /// Names each value below the root once, operands first. Names last as long as the block that they stand in.
  std::string value(Scalar root) {
    std::unordered_map<Scalar, std::string> names;
    for (Scalar n : ir::topological(std::span(&root, 1))) {
      std::vector<std::string> args;
      for (Scalar a : n->args) args.push_back(names.at(a));
      names.emplace(n, named(n->dtype, compute(*n, args, n->mask ? names.at(n->mask) : "")));
    }
    return names.at(root);
  }

  std::string named(DType type, const std::string& x) {
    const std::string name = fmt::format("v{}", values_++);
    line("const {} {} = {};", language_.type(type), name, x);
    return name;
  }

  std::string compute(const ir::ScalarNode& n, const std::vector<std::string>& args, const std::string& mask) {
    const std::string type = language_.type(n.dtype);
    switch (n.op) {
      case ScalarOp::LinearLoad: {
        language_.type(graph_.buffer(n.buffer).layout.dtype);
        const std::string x = fmt::format("{}[{}]", arguments_.pointer(n.buffer, false), text(n.index[0], args));
        return mask.empty() ? x : fmt::format("{} ? {} : ({})0", mask, x, type);
      }
      case ScalarOp::Index: return fmt::format("({}){}", type, text(n.index[0]));
      case ScalarOp::Constant: return language_.constant(n.dtype, n.number, n.integer);
      case ScalarOp::Cast: return fmt::format("({}){}", type, args[0]);
      case ScalarOp::Bitcast: return language_.bit_cast(n.dtype, args[0]);
      case ScalarOp::CheckIndex: return checked(args[0], text(n.index[0]));
      case ScalarOp::Require: return args[0];
      case ScalarOp::Random: fail("{} has no kernels with random numbers", language_.name());
      case ScalarOp::Round: fail("{} has no kernels for {}", language_.name(), torch_name(n.rounded));
      default: return operation(n.op, n.dtype, args);
    }
  }

  std::string operation(ScalarOp op, DType type, const std::vector<std::string>& args) {
    const std::string_view form = c_form(op, type);
    if (form.empty()) return fmt::format("({}){}", language_.type(type), language_.call(ir::name_of(op), type, args));
    std::vector<std::string> operands = args;
    operands.resize(3);
    const std::string x = fmt::format(fmt::runtime(form), operands[0], operands[1], operands[2]);
    return fmt::format("({})({})", language_.type(type), x);
  }

  /// This index into a dimension; 0 where it is out of range, which fails the run.
  std::string checked(const std::string& index, const std::string& size) {
    may_fail_ = true;
    const std::string inside = named(DType::Bool, fmt::format("{0} >= 0 && {0} < {1}", index, size));
    line("if (!{}) *failed = 1;", inside);
    return fmt::format("{} ? {} : 0", inside, index);
  }

  /// The value of an index expression; `indirect` are the values that its variables x0, x1, … stand for.
  std::string text(Expr e, const std::vector<std::string>& indirect = {}) {
    auto name = [&](Expr s) {
      if (s.symbol_kind() != sym::SymbolKind::Loop) return arguments_.scalar(std::string(s.name()), s);
      for (std::size_t k = 0; k < indirect.size(); ++k)
        if (s == graph_.pool().indirect(k)) return indirect[k];
      return std::string(s.name());
    };
    auto nonnegative = [&](Expr x) { return graph_.env().bounds(x, vars_).low >= 0; };
    return fmt::format("({})", sym::to_code(sym::Language::Cpp, e, name, nonnegative));
  }

  // ---- Text ----

  Kernel finish(Expr blocks) {
    LoopParameters parameters{.scalars = arguments_.scalars().size()};
    for (ir::BufferId b : arguments_.buffers())
      parameters.pointers.push_back(language_.type(graph_.buffer(b).layout.dtype));
    Kernel k;
    k.symbol = fmt::format("{}_{:.16}", language_.name(), to_hex(hash(language_.head("", parameters) + text_)));
    k.text = language_.head(k.symbol, parameters) + text_ + "}\n";
    arguments_.give(k);
    k.may_fail = may_fail_;
    k.launch = SymbolicLaunch{.grid = {blocks, 1, 1}, .block = 1};
    return k;
  }

  template <class... A>
  void line(fmt::format_string<A...> format, A&&... args) {
    text_ += std::string(2 * depth_, ' ') + fmt::format(format, std::forward<A>(args)...) + "\n";
  }
  template <class... A>
  void open(fmt::format_string<A...> format, A&&... args) {
    line("{} {{", fmt::format(format, std::forward<A>(args)...));
    ++depth_;
  }
  void close() {
    --depth_;
    line("}}");
  }
  /// Lines whose names end with them.
  template <class F>
  void in_block(F lines) {
    line("{{");
    ++depth_;
    lines();
    close();
  }

  const LoopLanguage& language_;
  ir::Graph& graph_;
  LoopNest nest_;
  std::vector<sym::LoopVar> vars_;
  KernelArguments arguments_;
  std::string text_;
  std::size_t depth_ = 1, values_ = 0;
  bool may_fail_ = false;
};

}  // namespace

std::string LoopLanguage::type(DType d) const {
  if (d == DType::Bool) return "bool";
  if (compute_dtype(d) != d || cpp_name(d).empty()) fail("{} has no kernels for {}", name(), torch_name(d));
  return std::string(short_name(d));
}

std::string LoopLanguage::constant(DType d, double number, std::int64_t integer) const {
  if (!is_floating(d)) return fmt::format("({}){}ul", type(d), static_cast<std::uint64_t>(integer));
  if (number != number) return fmt::format("({})__builtin_nan(\"\")", type(d));
  if (number - number != 0) return fmt::format("({}){}__builtin_inf()", type(d), number < 0 ? "-" : "");
  return fmt::format("({}){:a}", type(d), number);
}

std::string LoopLanguage::bit_cast(DType to, const std::string& value) const {
  return fmt::format("__builtin_bit_cast({}, {})", type(to), value);
}

Kernel write_loops(const LoopLanguage& language, ir::Graph& graph, LoopNest nest) {
  return Writer(language, graph, std::move(nest)).write();
}

LoopBackend::LoopBackend(std::unique_ptr<LoopLanguage> language, target::Target target,
                         std::unique_ptr<scheduler::Choices> choices)
    : language_(std::move(language)),
      target_(std::move(target)),
      choices_(choices ? std::move(choices) : std::make_unique<scheduler::Choices>()) {}

std::optional<LoopNest> LoopBackend::nest(ir::Graph& graph, const scheduler::Group& group) const {
  return make_loop_nest(graph, group, 1);
}

std::optional<LoopNest> LoopBackend::nest(ir::Graph& graph, const ir::Operation& op) const {
  return make_scatter_nest(graph, op);
}

Kernel LoopBackend::kernel(ir::Graph& graph, LoopNest nest) const {
  return write_loops(*language_, graph, std::move(nest));
}

Kernel LoopBackend::group(ir::Graph& graph, const scheduler::Group& group) const {
  return kernel(graph, make_loop_nest(graph, group, 1));
}

Kernel LoopBackend::scatter(ir::Graph& graph, const ir::Operation& op) const {
  return kernel(graph, make_scatter_nest(graph, op));
}

Kernel LoopBackend::template_kernel(ir::Graph&, const ir::Extern& call) const {
  fail("{} has no kernel of its own for {}", language_->name(), call.op);
}

}  // namespace coil::codegen
