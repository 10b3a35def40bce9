#include "codegen/cpp/kernel.h"

#include <cmath>

#include "codegen/loop_nest.h"
#include "support/error.h"
#include "support/hash.h"
#include "sym/print.h"

namespace coil::codegen {
namespace {

using ir::BufferId;
using ir::Reduction;
using ir::ReductionKind;
using ir::Scalar;
using ir::ScalarOp;
using scheduler::Role;

constexpr std::int64_t kBlock = 1024;            // elements of a vector dimension that one parallel point takes, where it is cut
constexpr std::int64_t kTile = 16;               // run of a tiled dimension inside the vector loop: a cache line of f32
constexpr std::int64_t kScratchElements = 8192;  // longest row kept on the stack

/// The C type of a storage element; narrow floats and bool are their bits.
std::string storage_type(DType d) {
  if (d == DType::F16 || d == DType::BF16) return "u16";
  if (d == DType::Bool) return "u8";
  return std::string(short_name(d));
}

std::string scalar_type(DType register_type) { return register_type == DType::Bool ? "bool" : std::string(short_name(register_type)); }
std::string vector_type(DType register_type) { return register_type == DType::Bool ? "boolv" : std::string(short_name(register_type)) + "v"; }

std::string float_literal(double x, DType d) {
  const char* suffix = d == DType::F32 ? "f" : "";
  if (std::isnan(x)) return d == DType::F32 ? "__builtin_nanf(\"\")" : "__builtin_nan(\"\")";
  if (std::isinf(x)) return std::string(x < 0 ? "-" : "") + (d == DType::F32 ? "__builtin_inff()" : "__builtin_inf()");
  return fmt::format("{:a}{}", d == DType::F32 ? static_cast<double>(static_cast<float>(x)) : x, suffix);
}

std::string int_literal(std::int64_t x, DType d) {
  if (d == DType::Bool) return x ? "true" : "false";
  if (x == std::numeric_limits<std::int64_t>::min()) return "(i64)(-9223372036854775807L - 1)";
  return fmt::format("({}){}{}", scalar_type(d), x, d == DType::U64 ? "ul" : "l");
}

/// The value that leaves a reduction unchanged.
std::string identity(ReductionKind kind, DType d) {
  const bool floating = is_floating(d);
  switch (kind) {
    case ReductionKind::Sum: case ReductionKind::Xor: return floating ? float_literal(0, d) : int_literal(0, d);
    case ReductionKind::Prod: return floating ? float_literal(1, d) : int_literal(1, d);
    case ReductionKind::Any: return "false";
    case ReductionKind::All: return "true";
    case ReductionKind::Max: case ReductionKind::ArgMax: case ReductionKind::Min: case ReductionKind::ArgMin: break;
  }
  const bool low = kind == ReductionKind::Max || kind == ReductionKind::ArgMax;
  if (floating) return float_literal(low ? -INFINITY : INFINITY, d);
  if (d == DType::Bool) return low ? "false" : "true";
  const int bits = static_cast<int>(size_of(d)) * 8;
  if (!is_signed(d)) return low ? int_literal(0, d) : fmt::format("({})~0ul", scalar_type(d));
  const std::int64_t most = bits == 64 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << (bits - 1)) - 1;
  return int_literal(low ? -most - 1 : most, d);
}

std::string_view combine(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::Sum: return "c_add";
    case ReductionKind::Prod: return "c_mul";
    case ReductionKind::Max: return "c_max";
    case ReductionKind::Min: return "c_min";
    case ReductionKind::Any: return "c_or";
    case ReductionKind::All: return "c_and";
    case ReductionKind::Xor: return "c_xor";
    default: return "";
  }
}

std::string_view across_lanes(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::Sum: return "c_hsum";
    case ReductionKind::Prod: return "c_hprod";
    case ReductionKind::Max: return "c_hmax";
    case ReductionKind::Min: return "c_hmin";
    case ReductionKind::Any: return "c_hany";
    case ReductionKind::All: return "c_hall";
    case ReductionKind::Xor: return "c_hxor";
    default: return "";
  }
}

class Printer {
 public:
  Printer(ir::Graph& graph, LoopNest nest, const KernelOptions& options)
      : graph_(graph), nest_(std::move(nest)), vars_(nest_.vars()), lanes_(options.lanes) {
    if (nest_.vector == LoopNest::Vector::Outer) vector_ = nest_.outer.back().var;
    if (nest_.vector == LoopNest::Vector::Inner) vector_ = nest_.inner.back().var;
  }

  Kernel print() {
    for (std::size_t k = 0; k < nest_.statements.size(); ++k)
      if (!updates(nest_.statements[k])) made_[nest_.statements[k].op->outs[0]] = k;
    place_values();
    decode_point();
    if (outer_vector()) {
      vector_loop(nest_.outer.back(), "v0", "v1", [&] { tile_loop(); });
    } else {
      levels();
    }
    return finish();
  }

 private:
  struct Local {
    std::string name;
    bool varying = false;
  };

  bool outer_vector() const { return nest_.vector == LoopNest::Vector::Outer; }
  bool inner_vector() const { return nest_.vector == LoopNest::Vector::Inner; }
  sym::ShapeEnv& env() { return graph_.env(); }

  // ---- Where values of the group live -------------------------------------------------------------------------------------

  /// Decides for each unstored Inner value that a later level reads whether a row on the stack can hold it, or memory must.
  void place_values() {
    Expr row = 1;
    for (const LoopDim& d : nest_.inner) row *= d.size;
    const auto elements = row.constant();
    for (const Statement& s : nest_.statements)
      for (Scalar l : linear_loads(s)) {
        auto made = made_.find(l->buffer);
        if (made == made_.end()) continue;
        Statement& m = nest_.statements[made->second];
        const bool same_point = l->index[0] == m.store;
        if (same_point && (m.role == Role::Reduce || m.role == Role::Outer || m.level == s.level)) continue;
        if (m.stored) continue;
        if (same_point && inner_vector() && elements && *elements <= kScratchElements && scratch_elements_ + *elements <= 4 * kScratchElements) {
          if (scratch_.emplace(l->buffer, fmt::format("t{}", scratch_.size())).second) scratch_elements_ += *elements;
        } else {
          m.stored = true;
          scratch_.erase(l->buffer);
        }
      }
    for (auto& [b, name] : scratch_) head_ += fmt::format("  alignas(64) {} {}[{}];\n", storage_type(register_of(b)), name, *elements + lanes_);
  }

  /// Whether a statement reads what was in its buffer before: such loads go to memory.
  static bool updates(const Statement& s) {
    const auto loads = linear_loads(s);
    return std::any_of(loads.begin(), loads.end(), [&](Scalar l) { return l->buffer == s.op->outs[0]; });
  }

  static std::vector<Scalar> linear_loads(const Statement& s) {
    std::vector<Scalar> roots = s.indirect, out;
    roots.push_back(s.body);
    for (Scalar n : ir::topological(roots))
      if (n->op == ScalarOp::LinearLoad) out.push_back(n);
    return out;
  }

  DType register_of(BufferId b) { return ir::register_type(graph_.buffer(b).layout.dtype); }

  /// Place of the current inner point in a row kept on the stack.
  std::string row_position() {
    Expr position = 0;
    for (const LoopDim& d : nest_.inner) position = position * d.size + d.var;
    return text(position);
  }

  // ---- Loops --------------------------------------------------------------------------------------------------------------

  void decode_point() {
    std::vector<LoopDim> dims = nest_.outer;
    std::string blocks;
    extent_ = 1;
    if (outer_vector()) {
      const LoopDim v = dims.back();
      dims.pop_back();
      Expr others = 1;
      for (std::size_t k = 0; k < dims.size(); ++k) others *= nest_.tiled == k ? sym::ceil_div(dims[k].size, kTile) : dims[k].size;
      if (env().hint_or(others, 1) >= 64 || env().hint_or(v.size, kBlock * 4) <= 256) {
        line(fmt::format("const i64 v0 = 0, v1 = {};", text(v.size)));
        point_elements_ = env().hint_or(v.size, kBlock);
      } else {
        const std::int64_t block = nest_.inner.empty() ? kBlock : 4 * lanes_;
        const Expr count = sym::ceil_div(v.size, block);
        extent_ = count;
        blocks = fmt::format("const i64 v0 = (i64)((u64)t % (u64)({0})) * {1}, v1 = v0 + {1} < {2} ? v0 + {1} : {2}; t = (i64)((u64)t / (u64)({0}));", text(count), block, text(v.size));
        point_elements_ = block;
      }
    }
    const bool decodes = !blocks.empty() || !dims.empty();
    if (decodes) line("i64 t = w;");
    if (!blocks.empty()) line(blocks);
    for (std::size_t k = dims.size(); k-- > 0;) {
      const bool tiled = nest_.tiled == k;
      const Expr count = tiled ? sym::ceil_div(dims[k].size, kTile) : dims[k].size;
      extent_ *= count;
      const std::string name = std::string(dims[k].var.name()) + (tiled ? "_b" : "");
      if (k == 0) line(fmt::format("const i64 {} = t;", name));
      else line(fmt::format("const i64 {0} = (i64)((u64)t % (u64)({1})); t = (i64)((u64)t / (u64)({1}));", name, text(count)));
      if (!tiled) continue;
      point_elements_ *= kTile;
      line(fmt::format("const i64 {0}_0 = {0}_b * {1}, {0}_1 = {0}_0 + {1} < {2} ? {0}_0 + {1} : {2};", dims[k].var.name(), kTile, text(dims[k].size)));
    }
    for (const LoopDim& d : nest_.inner) point_elements_ *= std::max<std::int64_t>(1, env().hint_or(d.size, 64));
    if (nest_.partition) extent_ = nest_.partition->places;
  }

  /// A loop over full vectors of [from, to), and what is left as a vector of n lanes.
  template <class F>
  void vector_loop(const LoopDim& dim, const std::string& from, const std::string& to, F body) {
    const std::string v(dim.var.name());
    const bool whole = env().statically_known_multiple_of(dim.size, lanes_);
    line(fmt::format("i64 {} = {};", v, from));
    line(fmt::format("for (; {0} + COIL_L <= {1}; {0} += COIL_L) {{", v, to));
    in_scope(body);
    line("}");
    if (whole) return;
    line(fmt::format("if ({} < {}) {{", v, to));
    tail_ = true;
    ++indent_;
    line(fmt::format("const i64 n = {} - {};", to, v));
    --indent_;
    in_scope(body);
    tail_ = false;
    line("}");
  }

  void tile_loop() {
    if (!nest_.tiled) return levels();
    const std::string i(nest_.outer[*nest_.tiled].var.name());
    line(fmt::format("for (i64 {0} = {0}_0; {0} < {0}_1; ++{0}) {{", i));
    in_scope([&] { levels(); });
    line("}");
  }

  template <class F>
  void in_scope(F body) {
    ++indent_;
    scopes_.emplace_back();
    body();
    for (Scalar s : scopes_.back()) names_.erase(s);
    scopes_.pop_back();
    --indent_;
  }

  void levels() {
    for (level_ = 0; level_ < nest_.levels; ++level_) {
      inner_level();
      in_loop_ = false;
      for (const Statement& s : nest_.statements)
        if (s.level == level_ && s.role == Role::Outer) outer_statement(s);
    }
  }

  void inner_level() {
    std::vector<const Statement*> statements;
    for (const Statement& s : nest_.statements)
      if (s.level == level_ && s.role != Role::Outer) statements.push_back(&s);
    if (statements.empty()) return;
    in_loop_ = true;
    for (const Statement* s : statements)
      if (s->role != Role::Inner) declare_accumulator(*s);
    // What does not change with the inner loops is computed before them, at the depth of the last loop it depends on.
    depth_.clear();
    std::vector<Scalar> roots;
    for (const Statement* s : statements) {
      roots.push_back(s->body);
      roots.insert(roots.end(), s->indirect.begin(), s->indirect.end());
    }
    line("{");
    in_scope([&] { inner_loops(0, ir::topological(roots), statements); });
    line("}");
    for (const Statement* s : statements)
      if (s->role == Role::Reduce) finish_reduction(*s);
  }

  void inner_loops(std::size_t d, const std::vector<Scalar>& nodes, const std::vector<const Statement*>& statements) {
    if (d == nest_.inner.size()) {
      for (const Statement* s : statements) inner_statement(*s);
      return;
    }
    for (Scalar n : nodes)
      if (depth(n) == d && n->op != ScalarOp::Constant) name(n);
    const LoopDim& dim = nest_.inner[d];
    auto body = [&, d] { inner_loops(d + 1, nodes, statements); };
    if (inner_vector() && d + 1 == nest_.inner.size()) {
      vector_loop(dim, "0", text(dim.size), body);
    } else {
      line(fmt::format("for (i64 {0} = 0; {0} < {1}; ++{0}) {{", dim.var.name(), text(dim.size)));
      in_scope(body);
      line("}");
    }
  }

  /// How many inner loops a value depends on, counted from the outside.
  std::size_t depth(Scalar n) {
    if (auto it = depth_.find(n); it != depth_.end()) return it->second;
    std::size_t d = 0;
    if (n->op == ScalarOp::LinearLoad && made_.contains(n->buffer)) d = made_depth(n);
    for (Expr e : n->index)
      for (std::size_t k = 0; k < nest_.inner.size(); ++k)
        if (sym::contains(e, nest_.inner[k].var)) d = std::max(d, k + 1);
    for (Scalar a : n->args) d = std::max(d, depth(a));
    if (n->mask) d = std::max(d, depth(n->mask));
    return depth_[n] = d;
  }

  std::size_t made_depth(Scalar load) {
    const Statement& m = nest_.statements[made_.at(load->buffer)];
    return m.role == Role::Inner && m.level == level_ ? nest_.inner.size() : 0;
  }

  // ---- Statements ---------------------------------------------------------------------------------------------------------

  void outer_statement(const Statement& s) {
    const Local value = name(s.body);
    if (s.stored) store(s, value);
    locals_[s.op->outs[0]] = value;
  }

  void inner_statement(const Statement& s) {
    if (s.role == Role::Reduce) {
      accumulate(s, name(s.body));
      return;
    }
    if (std::holds_alternative<ir::Scatter>(s.op->node)) {
      scatter(s);
      return;
    }
    Local value = name(s.body);
    if (s.role == Role::Scan) value = scan(s, value);
    const BufferId out = s.op->outs[0];
    if (s.stored) store(s, value);
    if (auto row = scratch_.find(out); row != scratch_.end())
      line(fmt::format("c_store{}_{}({} + {}, {}{});", tail_ ? "n" : "", short_name(register_of(out)), row->second, row_position(), as_vector(value, register_of(out)), tail_ ? ", n" : ""));
    locals_[out] = value;
  }

  std::string accumulator(const Statement& s) const { return fmt::format("a{}", &s - nest_.statements.data()); }
  bool vector_accumulator() const { return nest_.vector != LoopNest::Vector::None; }

  static ReductionKind kind_of(const Statement& s) { return std::get<Reduction>(s.op->node).kind; }
  static bool is_arg(ReductionKind k) { return k == ReductionKind::ArgMax || k == ReductionKind::ArgMin; }

  void declare_accumulator(const Statement& s) {
    const DType d = s.body->dtype;
    std::string start;
    if (s.role == Role::Scan) start = scan_identity(std::get<ir::Scan>(s.op->node).kind, d);
    else start = identity(kind_of(s), d);
    declare(d, accumulator(s), start);
    if (s.role == Role::Reduce && is_arg(kind_of(s))) declare(DType::I64, accumulator(s) + "p", "(i64)0x7fffffffffffffffl");
  }

  void declare(DType d, const std::string& variable, const std::string& start) {
    if (vector_accumulator()) line(fmt::format("{} {} = c_splat_{}v({});", vector_type(d), variable, short_name(d), start));
    else line(fmt::format("{} {} = {};", scalar_type(d), variable, start));
  }

  void accumulate(const Statement& s, const Local& value) {
    const ReductionKind kind = kind_of(s);
    const DType d = s.body->dtype;
    const std::string a = accumulator(s);
    std::string x = vector_accumulator() ? as_vector(value, d) : value.name;
    const bool partial = tail_ && inner_vector();
    if (!is_arg(kind)) {
      if (partial) x = fmt::format("c_where(c_firstn(n), {}, c_splat_{}v({}))", x, short_name(d), identity(kind, d));
      line(fmt::format("{0} = {1}({0}, {2});", a, combine(kind), x));
      return;
    }
    const Local position = name(graph_.pool().index(s.position));
    const std::string p = vector_accumulator() ? as_vector(position, DType::I64) : position.name;
    const char* better = kind == ReductionKind::ArgMax ? "c_gt" : "c_lt";
    const std::string xn = fresh();
    line(fmt::format("const auto {} = {};", xn, x));
    std::string take = fmt::format("c_or({0}({1}, {2}), c_and(c_eq({1}, {2}), c_lt({3}, {2}p)))", better, xn, a, p);
    if (is_floating(d)) take = fmt::format("c_or(c_and({}, c_not(c_isnan({}))), c_and(c_isnan({}), c_or(c_not(c_isnan({})), c_lt({}, {}p))))", take, a, xn, a, p, a);
    if (partial) take = fmt::format("c_and(c_firstn(n), {})", take);
    const std::string m = fresh();
    line(fmt::format("const auto {} = {};", m, take));
    line(fmt::format("{0} = c_where({1}, {2}, {0}); {0}p = c_where({1}, {3}, {0}p);", a, m, xn, p));
  }

  void finish_reduction(const Statement& s) {
    const ReductionKind kind = kind_of(s);
    const DType d = s.body->dtype;
    const std::string a = accumulator(s);
    Local result{a, vector_accumulator()};
    if (is_arg(kind)) {
      result.name = a + "p";
      if (inner_vector()) {
        result = {fresh(), false};
        const char* better = kind == ReductionKind::ArgMax ? ">" : "<";
        line(fmt::format("{} {}m = {}; i64 {} = 0x7fffffffffffffffl;", scalar_type(d), result.name, identity(kind, d), result.name));
        line("for (int l = 0; l < COIL_L; ++l) {");
        line(fmt::format("  const {} x = c_lane({}, l); const i64 p = c_lane({}p, l);", scalar_type(d), a, a));
        std::string take = fmt::format("x {0} {1}m || (x == {1}m && p < {1})", better, result.name);
        if (is_floating(d)) take = fmt::format("x != x ? ({0}m == {0}m || p < {0}) : ({0}m == {0}m && ({1}))", result.name, take);
        line(fmt::format("  if ({}) {{ {}m = x; {} = p; }}", take, result.name, result.name));
        line("}");
      }
    } else if (inner_vector()) {
      result = {fresh(), false};
      line(fmt::format("const {} {} = {}({});", scalar_type(d), result.name, across_lanes(kind), a));
    }
    if (s.stored) store(s, result);
    locals_[s.op->outs[0]] = result;
  }

  static std::string scan_identity(ir::ScanKind kind, DType d) {
    switch (kind) {
      case ir::ScanKind::Sum: return identity(ReductionKind::Sum, d);
      case ir::ScanKind::Prod: return identity(ReductionKind::Prod, d);
      case ir::ScanKind::Max: case ir::ScanKind::LogSumExp: return identity(ReductionKind::Max, d);
      case ir::ScanKind::Min: return identity(ReductionKind::Min, d);
    }
    return {};
  }

  Local scan(const Statement& s, const Local& value) {
    const auto kind = std::get<ir::Scan>(s.op->node).kind;
    const DType d = s.body->dtype;
    const std::string a = accumulator(s), x = vector_accumulator() ? as_vector(value, d) : value.name;
    if (kind == ir::ScanKind::LogSumExp) {
      const std::string m = fresh(), e = fresh();
      line(fmt::format("const auto {} = c_max({}, {});", m, a, x));
      line(fmt::format("const auto {} = c_add({}, c_log1p(c_exp(c_sub(c_min({}, {}), {}))));", e, m, a, x, m));
      line(fmt::format("{} = c_where(c_isinf({}), {}, {});", a, m, m, e));
    } else {
      const char* f = kind == ir::ScanKind::Sum ? "c_add" : kind == ir::ScanKind::Prod ? "c_mul" : kind == ir::ScanKind::Max ? "c_max" : "c_min";
      line(fmt::format("{0} = {1}({0}, {2});", a, f, x));
    }
    const std::string now = fresh();
    line(fmt::format("const auto {} = {};", now, a));
    return {now, vector_accumulator()};
  }

  void store(const Statement& s, const Local& value) {
    const BufferId b = s.op->outs[0];
    const DType d = graph_.buffer(b).layout.dtype, reg = ir::register_type(d);
    const std::string p = pointer(b, true);
    if (!varies(s.store)) {
      COIL_CHECK(!value.varying, "lanes of one vector are stored to one place of {}", graph_.buffer(b).name);
      line(fmt::format("c_store_{}({} + {}, {});", short_name(d), p, text(s.store), value.name));
      return;
    }
    const std::string x = as_vector(value, reg), n = tail_ ? "n" : "", count = tail_ ? ", n" : "";
    auto linear = sym::linear_in(s.store, *vector_);
    if (linear && linear->coefficient.is_constant(1)) {
      line(fmt::format("c_store{}_{}({} + {}, {}{});", n, short_name(d), p, text(s.store), x, count));
    } else if (linear) {
      line(fmt::format("c_stores{}_{}({} + {}, {}, {}{});", n, short_name(d), p, text(s.store), text(linear->coefficient), x, count));
    } else {
      line(fmt::format("c_scatter{}_{}({}, {}, {}{});", n, short_name(d), p, lanes_of(DType::I64, lane_text(s.store)), x, count));
    }
  }

  /// One iteration of a scatter, or a vector of them that write side by side.
  void scatter(const Statement& s) {
    std::vector<std::string> indirect;
    for (Scalar x : s.indirect) indirect.push_back(name(x).name);
    if (!nest_.partition) {
      combine_at(s, indirect);
      return;
    }
    line(fmt::format("if ({0} >= begin && {0} < end) {{", indirect[nest_.partition->indirect]));
    in_scope([&] { combine_at(s, indirect); });
    line("}");
  }

  void combine_at(const Statement& s, const std::vector<std::string>& indirect) {
    const auto& node = std::get<ir::Scatter>(s.op->node);
    const BufferId b = s.op->outs[0];
    const DType d = graph_.buffer(b).layout.dtype;
    const Local value = name(s.body);
    const std::string p = pointer(b, true), at = fresh();
    line(fmt::format("const i64 {} = {};", at, text(s.store, indirect)));
    const std::string n = inner_vector() && tail_ ? "n" : "", count = inner_vector() && tail_ ? ", n" : "";
    std::string x = inner_vector() ? as_vector(value, ir::register_type(d)) : value.name;
    const std::string old = fmt::format("c_load{}_{}{}({} + {}{})", n, short_name(d), inner_vector() ? "v" : "", p, at, count);
    if (node.mode == ir::StoreMode::Add) x = d == DType::Bool ? fmt::format("c_or({}, {})", old, x) : fmt::format("c_add({}, {})", old, x);
    if (node.mode == ir::StoreMode::Prod) x = d == DType::Bool ? fmt::format("c_and({}, {})", old, x) : fmt::format("c_mul({}, {})", old, x);
    if (node.mode == ir::StoreMode::Max) x = fmt::format("c_max({}, {})", old, x);
    if (node.mode == ir::StoreMode::Min) x = fmt::format("c_min({}, {})", old, x);
    line(fmt::format("c_store{}_{}({} + {}, {}{});", n, short_name(d), p, at, x, count));
  }

  // ---- Values -------------------------------------------------------------------------------------------------------------

  bool varies(Expr e) const { return vector_ && sym::contains(e, *vector_); }

  std::string as_vector(const Local& value, DType d) { return value.varying ? value.name : fmt::format("c_splat_{}v({})", short_name(d), value.name); }

  std::string fresh() { return fmt::format("x{}", next_++); }

  Local name(Scalar n) {
    if (auto it = names_.find(n); it != names_.end()) return it->second;
    if (n->op == ScalarOp::Constant) return {is_floating(n->dtype) ? float_literal(n->number, n->dtype) : int_literal(n->integer, n->dtype), false};
    if (n->op == ScalarOp::LinearLoad)
      if (auto value = made_here(n)) return *value;
    // Operands first: an expression may be deep, so walk instead of recursing.
    const bool ready = std::all_of(n->args.begin(), n->args.end(), [&](Scalar a) { return a->args.empty() || names_.contains(a); });
    if (!ready)
      for (Scalar below : ir::topological(std::span(&n, 1)))
        if (below != n && below->op != ScalarOp::Constant && !names_.contains(below)) bind(below);
    return bind(n);
  }

  Local bind(Scalar n) {
    if (n->op == ScalarOp::LinearLoad)
      if (auto value = made_here(n)) return *value;
    Local result = compute(n);
    const DType d = n->dtype;
    const std::string variable = fresh();
    line(fmt::format("const {} {} = {};", result.varying ? vector_type(d) : scalar_type(d), variable, result.name));
    result.name = variable;
    names_[n] = result;
    if (!scopes_.empty()) scopes_.back().push_back(n);
    return result;
  }

  /// The variable that holds a value computed in this kernel, where it is in scope; its row on the stack otherwise.
  std::optional<Local> made_here(Scalar load) {
    auto made = made_.find(load->buffer);
    if (made == made_.end()) return std::nullopt;
    const Statement& m = nest_.statements[made->second];
    if (!(load->index[0] == m.store)) return std::nullopt;
    if (m.role == Role::Reduce || m.role == Role::Outer || (m.level == level_ && in_loop_)) {
      auto it = locals_.find(load->buffer);
      COIL_CHECK(it != locals_.end(), "{} is used before it is computed", graph_.buffer(load->buffer).name);
      return it->second;
    }
    return std::nullopt;
  }

  /// The C++ expression for a node whose operands are bound.
  Local compute(Scalar n) {
    switch (n->op) {
      case ScalarOp::LinearLoad: return load(n);
      case ScalarOp::Load: COIL_CHECK(false, "loads are linear by now");
      case ScalarOp::Index: return index_value(n);
      case ScalarOp::CheckIndex: return check_index(n);
      default: break;
    }
    std::vector<Local> args;
    bool varying = false;
    for (Scalar a : n->args) args.push_back(name(a)), varying = varying || args.back().varying;
    std::string list;
    for (std::size_t k = 0; k < args.size(); ++k) list += (k ? ", " : "") + (varying ? as_vector(args[k], n->args[k]->dtype) : args[k].name);
    switch (n->op) {
      case ScalarOp::Cast: return {fmt::format("c_cast_{}({})", short_name(n->dtype), list), varying};
      case ScalarOp::Round: return {fmt::format("c_round_{}({})", short_name(n->rounded), list), varying};
      case ScalarOp::Bitcast: return {fmt::format("c_bitcast_{}({})", short_name(n->dtype), list), varying};
      default: return {fmt::format("c_{}({})", ir::name_of(n->op), list), varying};
    }
  }

  /// Neighbouring lanes `step` elements apart, of a whole vector or of a tail's n.
  std::string whole_vector(const std::string& dtype, const std::string& at, Expr step) {
    const std::string n = tail_ ? "n" : "", count = tail_ ? ", n" : "";
    if (step.is_constant(1)) return fmt::format("c_load{}_{}v({}{})", n, dtype, at, count);
    return fmt::format("c_loads{}_{}v({}, {}{})", n, dtype, at, text(step), count);
  }

  Local load(Scalar n) {
    const DType d = graph_.buffer(n->buffer).layout.dtype, reg = n->dtype;
    const std::string dtype(short_name(d));
    if (auto row = scratch_.find(n->buffer); row != scratch_.end() && made_.contains(n->buffer))
      return {fmt::format("c_load{}_{}v({} + {}{})", tail_ ? "n" : "", short_name(reg), row->second, row_position(), tail_ ? ", n" : ""), true};
    const std::string p = pointer(n->buffer, false);
    std::vector<Local> args;
    bool indirect_varies = false;
    std::vector<std::string> indirect;
    for (Scalar a : n->args) args.push_back(name(a)), indirect_varies = indirect_varies || args.back().varying, indirect.push_back(args.back().name);
    const Expr index = n->index[0];
    const bool varying = varies(index) || indirect_varies;
    Local mask = n->mask ? name(n->mask) : Local{};
    if (!varying && !mask.varying) {
      std::string x = fmt::format("c_load_{}({} + {})", dtype, p, text(index, indirect));
      return {n->mask ? fmt::format("{} ? {} : ({})0", mask.name, x, scalar_type(reg)) : x, false};
    }
    auto linear = indirect_varies ? std::nullopt : varies(index) ? sym::linear_in(index, *vector_) : std::nullopt;
    if (linear && !mask.varying) {
      const std::string x = whole_vector(dtype, fmt::format("{} + {}", p, text(index, indirect)), linear->coefficient);
      return {n->mask ? fmt::format("{} ? {} : c_splat_{}v(({})0)", mask.name, x, short_name(reg), scalar_type(reg)) : x, true};
    }
    // Lane by lane.
    std::vector<std::string> lanes;
    for (const Local& a : args) lanes.push_back(a.varying ? fmt::format("c_lane({}, l)", a.name) : a.name);
    std::string x = fmt::format("c_load_{}({} + {})", dtype, p, lane_text(index, lanes));
    if (n->mask) x = fmt::format("{} ? {} : ({})0", mask.varying ? fmt::format("c_lane({}, l)", mask.name) : mask.name, x, scalar_type(reg));
    if (!linear || !mask.varying) return {lanes_of(reg, x), true};
    // Most vectors lie inside the mask: those load whole.
    const std::string value = fresh(), whole = whole_vector(dtype, fmt::format("{} + {}", p, text(index, indirect)), linear->coefficient);
    const std::string all = tail_ ? fmt::format("c_or({}, c_not(c_firstn(n)))", mask.name) : mask.name;
    line(fmt::format("{} {};", vector_type(reg), value));
    line(fmt::format("if (c_hall({})) {} = {};", all, value, whole));
    line("else {");
    ++indent_;
    const std::string lanes_text = lanes_of(reg, x);
    line(fmt::format("{} = {};", value, lanes_text));
    --indent_;
    line("}");
    return {value, true};
  }

  Local index_value(Scalar n) {
    const Expr e = n->index[0];
    if (!varies(e)) return {n->dtype == DType::Bool ? fmt::format("(bool)({})", text(e)) : fmt::format("(i64)({})", text(e)), false};
    if (n->dtype == DType::I64)
      if (auto lanes = affine_lanes(e)) return {*lanes, true};
    if (n->dtype == DType::Bool)
      if (auto vector = condition(e)) return {*vector, true};
    return {lanes_of(n->dtype, lane_text(e)), true};
  }

  /// An affine index in the vector dimension as I64 lanes; a uniform one in every lane.
  std::optional<std::string> affine_lanes(Expr e) {
    if (!varies(e)) return fmt::format("c_splat_i64v({})", text(e));
    auto linear = sym::linear_in(e, *vector_);
    if (!linear) return std::nullopt;
    if (linear->coefficient.is_constant(1)) return fmt::format("c_iota_i64v({})", text(e));
    return fmt::format("c_add(c_splat_i64v({}), c_mul(c_iota_i64v(0), c_splat_i64v({})))", text(e), text(linear->coefficient));
  }

  /// A condition made of comparisons of affine indices, as a mask; nothing for others.
  std::optional<std::string> condition(Expr e) {
    if (!varies(e)) return fmt::format("c_splat_b8v((bool)({}))", text(e));
    const char* f = nullptr;
    const bool connective = e.kind() == sym::Kind::And || e.kind() == sym::Kind::Or;
    switch (e.kind()) {
      case sym::Kind::And: f = "c_and"; break;
      case sym::Kind::Or: f = "c_or"; break;
      case sym::Kind::Eq: f = "c_eq"; break;
      case sym::Kind::Ne: f = "c_ne"; break;
      case sym::Kind::Lt: f = "c_lt"; break;
      case sym::Kind::Le: f = "c_le"; break;
      default: return std::nullopt;
    }
    std::string out;
    for (Expr x : e.operands()) {
      auto side = connective ? condition(x) : affine_lanes(x);
      if (!side) return std::nullopt;
      out = out.empty() ? *side : fmt::format("{}({}, {})", f, out, *side);
    }
    return out;
  }

  Local check_index(Scalar n) {
    may_fail_ = true;
    const Local x = name(n->args[0]);
    const std::string size = text(n->index[0]);
    if (!x.varying) return {fmt::format("coil_check({}, {}, status)", x.name, size), false};
    return {lanes_of(DType::I64, fmt::format("coil_check(c_lane({}, l), {}, status)", x.name, size)), true};
  }

  /// A vector whose lane l is this scalar expression; lanes past a tail's n are 0.
  std::string lanes_of(DType reg, const std::string& lane) {
    const std::string array = fresh();
    line(fmt::format("{} {}[COIL_L] = {{}};", storage_type(reg), array));
    line(fmt::format("for (i64 l = 0; l < {}; ++l) {}[l] = {};", tail_ ? "n" : "COIL_L", array, lane));
    return fmt::format("c_load_{}v({})", short_name(reg), array);
  }

  std::string lane_text(Expr e, const std::vector<std::string>& indirect = {}) {
    Expr lane = env().loop_var("l");
    return text(vector_ ? sym::substitute(e, std::span(&*vector_, 1), std::vector<Expr>{*vector_ + lane}) : e, indirect);
  }

  // ---- Text ---------------------------------------------------------------------------------------------------------------

  /// An index expression in C++. `indirect` spells the values that x0, x1, … stand for.
  std::string text(Expr e, const std::vector<std::string>& indirect = {}) {
    if (auto c = e.constant()) return *c < 0 ? fmt::format("({})", *c) : std::to_string(*c);
    auto spell = [&](Expr s) -> std::string {
      if (s.symbol_kind() == sym::SymbolKind::Loop) {
        for (std::size_t k = 0; k < indirect.size(); ++k)
          if (s == graph_.pool().indirect(k)) return "(" + indirect[k] + ")";
        return std::string(s.name());
      }
      auto [it, added] = symbols_.emplace(std::string(s.name()), scalars_.size());
      if (added) scalars_.push_back(s);
      return fmt::format("s{}", it->second);
    };
    auto nonnegative = [&](Expr x) { return env().bounds(x, vars_).low >= 0; };
    return "(" + sym::to_cpp(e, spell, nonnegative) + ")";
  }

  std::string pointer(BufferId b, bool writes) {
    auto [it, added] = pointers_.emplace(b, buffers_.size());
    if (added) buffers_.push_back(b), written_.push_back(false);
    if (writes) written_[it->second] = true;
    return fmt::format("p{}", it->second);
  }

  void line(const std::string& s) { body_ += std::string(static_cast<std::size_t>(2 * indent_), ' ') + s + "\n"; }

  Kernel finish() {
    Kernel k;
    std::string text;
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const std::string type = storage_type(graph_.buffer(buffers_[i]).layout.dtype);
      text += fmt::format("  {0}{1}* const p{2} = ({0}{1}*)buffers[{2}];\n", written_[i] ? "" : "const ", type, i);
    }
    for (std::size_t i = 0; i < scalars_.size(); ++i) text += fmt::format("  const i64 s{0} = scalars[{0}];\n", i);
    if (may_fail_) text += fmt::format("  i64* const status = (i64*)buffers[{}];\n", buffers_.size());
    text += head_;
    text += (nest_.partition ? "  {\n" : "  for (i64 w = begin; w < end; ++w) {\n") + body_ + "  }\n";
    k.symbol = "coil_" + to_hex(hash(text + std::to_string(lanes_))).substr(0, 16);
    k.text = fmt::format("extern \"C\" void {}(void* const* buffers, const i64* scalars, i64 begin, i64 end) {{\n{}}}\n", k.symbol, text);
    k.buffers = buffers_;
    k.written = written_;
    k.scalars = scalars_;
    k.extent = env().simplify(extent_);
    std::size_t ops = 0;
    for (const Statement& s : nest_.statements) ops += s.body->ops;
    const double work = static_cast<double>(point_elements_) * (1.0 + static_cast<double>(ops) / 8.0);
    // Each thread of a partition does its share of all iterations.
    const double point = nest_.partition ? work / static_cast<double>(std::max<std::int64_t>(1, env().hint_or(extent_, 1))) : work;
    k.grain = std::max<std::int64_t>(1, static_cast<std::int64_t>(32768.0 / point));
    k.may_fail = may_fail_;
    k.in_place = in_place();
    return k;
  }

  std::vector<std::pair<BufferId, BufferId>> in_place() {
    std::vector<std::pair<BufferId, BufferId>> pairs;
    for (std::size_t k = 0; k < nest_.statements.size(); ++k) {
      const Statement& out = nest_.statements[k];
      if (!out.stored || out.role == Role::Reduce || !out.indirect.empty()) continue;
      const std::size_t width = size_of(graph_.buffer(out.op->outs[0]).layout.dtype);
      std::map<BufferId, bool> fits;
      for (std::size_t j = 0; j < nest_.statements.size(); ++j)
        for (Scalar l : linear_loads(nest_.statements[j])) {
          const bool ok = j <= k && l->index[0] == out.store && l->args.empty() && !l->mask && nest_.statements[j].level <= out.level && size_of(graph_.buffer(l->buffer).layout.dtype) == width;
          auto [it, added] = fits.emplace(l->buffer, ok);
          it->second = it->second && ok;
        }
      for (auto [b, ok] : fits)
        if (ok && !made_.contains(b)) pairs.emplace_back(b, out.op->outs[0]);
    }
    return pairs;
  }

  ir::Graph& graph_;
  LoopNest nest_;
  std::vector<sym::LoopVar> vars_;
  int lanes_;
  std::optional<Expr> vector_;

  std::unordered_map<BufferId, std::size_t> made_;  // statement that computes a buffer
  std::map<BufferId, std::string> scratch_;
  std::int64_t scratch_elements_ = 0;
  std::unordered_map<BufferId, Local> locals_;
  std::unordered_map<Scalar, Local> names_;
  std::vector<std::vector<Scalar>> scopes_{{}};
  std::unordered_map<Scalar, std::size_t> depth_;
  int level_ = 0;
  bool in_loop_ = false, tail_ = false, may_fail_ = false;

  std::unordered_map<BufferId, std::size_t> pointers_;
  std::vector<BufferId> buffers_;
  std::vector<bool> written_;
  std::map<std::string, std::size_t> symbols_;
  Exprs scalars_;
  Expr extent_ = 1;
  std::int64_t point_elements_ = 1;
  std::size_t next_ = 0;
  int indent_ = 2;
  std::string head_, body_;
};

}  // namespace

std::string kernel_support() {
  return std::string(sym::cpp_helpers()) + R"(
static inline i64 coil_check(i64 index, i64 size, i64* status) {
  if (index < 0) index += size;
  if ((u64)index >= (u64)size) { *status = 1; return 0; }
  return index;
}
)";
}

Kernel print_kernel(ir::Graph& graph, const scheduler::Group& group, const KernelOptions& options) {
  return Printer(graph, make_loop_nest(graph, group, options.lanes), options).print();
}

Kernel print_scatter(ir::Graph& graph, const ir::Operation& op, const KernelOptions& options) {
  return Printer(graph, make_threaded_scatter_nest(graph, op, options.lanes), options).print();
}

}  // namespace coil::codegen
