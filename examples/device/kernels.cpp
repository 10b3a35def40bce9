// The backend: each group of operations becomes a function of C, whose loops are those of its nest. Every statement
// writes its value to memory, and those after it read it there.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <unordered_map>

#include "codegen/kernel_arguments.h"
#include "codegen/loop_nest.h"
#include "prelude_text.h"
#include "support/error.h"
#include "support/hash.h"
#include "toy.h"

namespace toy {
namespace {

using namespace coil;
using codegen::Kernel, codegen::LoopDim, codegen::LoopNest, codegen::Statement;
using ir::ReductionKind, ir::Scalar, ir::ScalarOp, scheduler::Role, sym::Expr;

constexpr std::int64_t kPointsOfBlock = 256;

/// Operators by their names in ir/scalar.h: those that C has, and those that are functions `t_…` of prelude.h.
const std::unordered_map<std::string_view, std::string_view> kInfix = {
    {"add", "+"},  {"sub", "-"}, {"mul", "*"}, {"div", "/"}, {"and", "&"}, {"or", "|"}, {"xor", "^"}, {"shl", "<<"},
    {"shr", ">>"}, {"eq", "=="}, {"ne", "!="}, {"lt", "<"},  {"le", "<="}, {"gt", ">"}, {"ge", ">="}};
constexpr std::string_view kFunctions =
    " floordiv truncdiv rem fmod pow max min atan2 hypot copysign where neg abs sign sqrt rsqrt recip floor ceil trunc "
    "round isnan isinf signbit exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh "
    "acosh atanh erf erfc lgamma sigmoid not ";

std::string type_of(DType d) {
  if (d == DType::Bool) return "bool";
  if (compute_dtype(d) != d || cpp_name(d).empty()) fail("toy has no kernels for {}", torch_name(d));
  return std::string(short_name(d));
}

std::string literal(DType d, double number, std::int64_t integer) {
  if (!is_floating(d)) return fmt::format("({}){}ul", type_of(d), static_cast<std::uint64_t>(integer));
  if (number != number) return fmt::format("({})__builtin_nan(\"\")", type_of(d));
  if (number - number != 0) return fmt::format("({}){}__builtin_inf()", type_of(d), number < 0 ? "-" : "");
  return fmt::format("({}){:a}", type_of(d), number);
}

/// `to = to combined with x`, and what combining begins with.
struct Combining {
  std::string begin, text;
};

Combining combining(std::string_view kind, DType d) {
  const std::string type = type_of(d);
  auto least = [&](bool largest) {
    if (d == DType::Bool) return std::string(largest ? "true" : "false");
    if (is_floating(d)) return literal(d, largest ? HUGE_VAL : -HUGE_VAL, 0);
    const std::string top = fmt::format("((u64)1 << {})", size_of(d) * 8 - 1);
    if (!is_signed(d)) return largest ? fmt::format("({})~0ul", type) : std::string("0");
    return fmt::format("({})({}{})", type, top, largest ? " - 1" : "");
  };
  if (kind == "sum") return {"0", "{0} + {1}"};
  if (kind == "prod") return {"1", "{0} * {1}"};
  if (kind == "max") return {least(false), "t_max({0}, {1})"};
  if (kind == "min") return {least(true), "t_min({0}, {1})"};
  if (kind == "any") return {"false", "{0} | {1}"};
  if (kind == "all") return {"true", "{0} & {1}"};
  if (kind == "xor") return {"0", "{0} ^ {1}"};
  return {literal(d, -HUGE_VAL, 0), "t_logaddexp({0}, {1})"};
}

constexpr std::string_view kReductions[] = {"sum", "prod", "max", "min", "any", "all", "xor", "argmax", "argmin"};
constexpr std::string_view kScans[] = {"sum", "prod", "max", "min", "logsumexp"};
constexpr std::string_view kModes[] = {"assign", "sum", "prod", "max", "min"};

class Writer {
 public:
  Writer(ir::Graph& graph, LoopNest nest) : graph_(graph), nest_(std::move(nest)), vars_(nest_.vars()) {}

  Kernel write() {
    Expr points = 1;
    for (const LoopDim& d : nest_.outer) points *= d.size;
    line("const i64 last = t_min<i64>({}, (block + 1) * {});", text(points), kPointsOfBlock);
    open("for (i64 w = block * {}; w < last; ++w)", kPointsOfBlock);
    line("i64 point = w;");
    for (auto d = nest_.outer.rbegin(); d != nest_.outer.rend(); ++d)
      line("const i64 {0} = point % {1}; point /= {1};", d->var.name(), text(d->size));
    for (int level = 0; level < nest_.levels; ++level) write_level(level);
    close();
    return finish(points);
  }

 private:
  void write_level(int level) {
    std::vector<const Statement*> inner;
    for (const Statement& s : nest_.statements)
      if (s.level == level && s.role != Role::Outer) inner.push_back(&s);
    for (const Statement* s : inner) declare(*s);
    if (!inner.empty()) {
      for (const LoopDim& d : nest_.inner) open("for (i64 {0} = 0; {0} < {1}; ++{0})", d.var.name(), text(d.size));
      for (const Statement* s : inner) write_inner(*s);
      for (std::size_t d = 0; d < nest_.inner.size(); ++d) close();
    }
    for (const Statement* s : inner)
      if (s->role == Role::Reduce) store(*s, is_position(*s) ? variable(*s) + "at" : variable(*s));
    for (const Statement& s : nest_.statements)
      if (s.level == level && s.role == Role::Outer) {
        open("");
        store(s, value(s.body));
        close();
      }
  }

  static bool is_position(const Statement& s) {
    const ReductionKind kind = std::get<ir::Reduction>(s.op->node).kind;
    return kind == ReductionKind::ArgMax || kind == ReductionKind::ArgMin;
  }
  std::string variable(const Statement& s) const { return fmt::format("a{}", &s - nest_.statements.data()); }
  Combining combining_of(const Statement& s) const {
    const bool scans = s.role == Role::Scan;
    return combining(scans ? kScans[static_cast<std::size_t>(std::get<ir::Scan>(s.op->node).kind)]
                           : kReductions[static_cast<std::size_t>(std::get<ir::Reduction>(s.op->node).kind)],
                     s.body->dtype);
  }

  /// What a row's values are combined in. Sums of f32 are made in f64.
  void declare(const Statement& s) {
    if (s.role == Role::Inner) return;
    const std::string a = variable(s), type = type_of(s.body->dtype);
    if (s.role == Role::Reduce && is_position(s)) return line("{0} {1} = 0; i64 {1}at = -1;", type, a);
    line("{} {} = {};", type == "f32" ? "f64" : type, a, combining_of(s).begin);
  }

  void write_inner(const Statement& s) {
    open("");
    if (std::holds_alternative<ir::Scatter>(s.op->node)) {
      scatter(s);
    } else if (s.role == Role::Inner) {
      store(s, value(s.body));
    } else if (s.role == Role::Reduce && is_position(s)) {
      const bool most = std::get<ir::Reduction>(s.op->node).kind == ReductionKind::ArgMax;
      const std::string x = value(s.body), a = variable(s), at = text(s.position);
      line("if ({1}at < 0 || {2}({0}, {1}) || (!{2}({1}, {0}) && {3} < {1}at)) {1} = {0}, {1}at = {3};", x, a,
           most ? "t_above" : "t_below", at);
    } else {
      const std::string x = value(s.body), a = variable(s);
      const std::string wide = s.body->dtype == DType::F32 ? "(f64)" + x : x;
      line("{} = {};", a, fmt::format(fmt::runtime(combining_of(s).text), a, wide));
      if (s.role == Role::Scan) store(s, a);
    }
    close();
  }

  void scatter(const Statement& s) {
    const ir::StoreMode mode = std::get<ir::Scatter>(s.op->node).mode;
    std::vector<std::string> places;
    for (Scalar i : s.indirect) {
      places.push_back(value(i));
      if (i->op == ScalarOp::CheckIndex) line("if (*failed) return;");
    }
    const DType d = graph_.buffer(s.op->outs[0]).layout.dtype;
    const std::string to = fmt::format("{}[{}]", pointer(s.op->outs[0], true), text(s.store, places)),
                      x = value(s.body);
    if (mode == ir::StoreMode::Assign) return line("{} = {};", to, x);
    const Combining c = combining(kModes[static_cast<std::size_t>(mode)], d);
    line("{} = {};", to, fmt::format(fmt::runtime(c.text), to, fmt::format("({}){}", type_of(d), x)));
  }

  void store(const Statement& s, const std::string& x) {
    const ir::BufferId out = s.op->outs[0];
    line("{}[{}] = ({}){};", pointer(out, true), text(s.store), type_of(graph_.buffer(out).layout.dtype), x);
  }

  /// Names each value below the root once, operands first. Names last as long as the block that they stand in.
  std::string value(Scalar root) {
    std::unordered_map<Scalar, std::string> names;
    for (Scalar n : ir::topological(std::span(&root, 1))) {
      std::vector<std::string> args;
      for (Scalar a : n->args) args.push_back(names.at(a));
      const std::string name = fmt::format("v{}", count_++);
      line("const {} {} = {};", type_of(n->dtype), name, compute(*n, args, n->mask ? names.at(n->mask) : ""));
      names.emplace(n, name);
    }
    return names.at(root);
  }

  std::string compute(const ir::ScalarNode& n, const std::vector<std::string>& args, const std::string& mask) {
    const std::string type = type_of(n.dtype);
    switch (n.op) {
      case ScalarOp::LinearLoad: {
        type_of(graph_.buffer(n.buffer).layout.dtype);
        const std::string x = fmt::format("{}[{}]", pointer(n.buffer, false), text(n.index[0], args));
        return mask.empty() ? x : fmt::format("{} ? {} : ({})0", mask, x, type);
      }
      case ScalarOp::Index: return fmt::format("({}){}", type, text(n.index[0]));
      case ScalarOp::Constant: return literal(n.dtype, n.number, n.integer);
      case ScalarOp::Cast: return fmt::format("({}){}", type, args[0]);
      case ScalarOp::Bitcast: return fmt::format("__builtin_bit_cast({}, {})", type, args[0]);
      case ScalarOp::CheckIndex:
        may_fail_ = true;
        return fmt::format("t_check({}, {}, failed)", args[0], text(n.index[0]));
      case ScalarOp::Random: fail("toy has no kernels with random numbers");
      case ScalarOp::Round: fail("toy has no kernels for {}", torch_name(n.rounded));
      default: break;
    }
    const std::string_view name = ir::name_of(n.op);
    if (const auto infix = kInfix.find(name); infix != kInfix.end())
      return fmt::format("({})({} {} {})", type, args[0], infix->second, args[1]);
    if (kFunctions.find(fmt::format(" {} ", name)) == kFunctions.npos) fail("toy has no kernels with {}", name);
    return fmt::format("({})t_{}({})", type, name, fmt::join(args, ", "));
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

  std::string pointer(ir::BufferId b, bool writes) {
    const std::string type = type_of(graph_.buffer(b).layout.dtype);
    return fmt::format("(({}*)buffers[{}])", type, arguments_.pointer(b, writes).substr(1));
  }

  Kernel finish(Expr points) {
    std::string scalars;
    for (std::size_t i = 0; i < arguments_.scalars().size(); ++i)
      scalars += fmt::format("  const i64 s{0} = scalars[{0}];\n", i);
    const std::string body =
        "(void* const* buffers, const i64* scalars, i64 block, i64* failed) {\n" + scalars + text_ + "}\n";
    Kernel k;
    k.symbol = "toy_" + to_hex(hash(std::string_view(body))).substr(0, 16);
    k.text = "extern \"C\" void " + k.symbol + body;
    arguments_.give(k);
    k.may_fail = may_fail_;
    k.launch = codegen::SymbolicLaunch{.grid = {graph_.env().simplify(sym::ceil_div(points, kPointsOfBlock)), 1, 1},
                                       .block = 1};
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

  ir::Graph& graph_;
  LoopNest nest_;
  std::vector<sym::LoopVar> vars_;
  codegen::KernelArguments arguments_;
  std::string text_;
  std::size_t depth_ = 1, count_ = 0;
  bool may_fail_ = false;
};

class Backend : public codegen::Backend {
 public:
  explicit Backend(codegen::BackendRequest request)
      : choices_(request.choices ? std::move(request.choices) : std::make_unique<scheduler::Choices>()),
        toolchain_(request.toolchain),
        target_{.device = request.device,
                .arch = kArchitecture,
                .type_limits = {{"linear", {DType::F32, DType::F64}}, {"matmul", {DType::F32, DType::F64}}}} {}

  const target::Target& target() const override { return target_; }
  const scheduler::Choices& choices() const override { return *choices_; }
  std::optional<LoopNest> nest(ir::Graph& graph, const scheduler::Group& group) const override {
    return codegen::make_loop_nest(graph, group, 1);
  }
  std::optional<LoopNest> nest(ir::Graph& graph, const ir::Operation& op) const override {
    return codegen::make_scatter_nest(graph, op);
  }
  Kernel kernel(ir::Graph& graph, LoopNest nest) const override { return Writer(graph, std::move(nest)).write(); }
  Kernel group(ir::Graph& graph, const scheduler::Group& group) const override {
    return kernel(graph, *nest(graph, group));
  }
  Kernel scatter(ir::Graph& graph, const ir::Operation& op) const override { return kernel(graph, *nest(graph, op)); }
  bool has_template(std::string_view) const override { return false; }
  Kernel template_kernel(ir::Graph&, const ir::Extern& call) const override { fail("toy has no kernel {}", call.op); }

  codegen::Binaries compile(std::span<const std::string> kernels,
                            const codegen::CompileKernels& options) const override {
    codegen::Binaries out;
    if (kernels.empty()) return out;
    out.source = std::string(kPrelude) + sym::code_helpers(sym::Language::Cpp);
    for (const std::string& k : kernels) out.source += k;
    out.libraries = codegen::compile_shared(toolchain_, std::span(&out.source, 1),
                                            {.jobs = options.jobs, .cache_folder = options.cache});
    return out;
  }

 private:
  std::unique_ptr<scheduler::Choices> choices_;
  codegen::Toolchain toolchain_;
  target::Target target_;
};

}  // namespace

std::unique_ptr<codegen::Backend> make_backend(codegen::BackendRequest request) {
  return std::make_unique<Backend>(std::move(request));
}

}  // namespace toy
