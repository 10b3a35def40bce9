#include "codegen/cpp/kernel.h"

#include <algorithm>
#include <utility>

#include "codegen/cpp/kernel_printer.h"
#include "codegen/in_place.h"
#include "device/pieces.h"
#include "support/error.h"
#include "support/hash.h"
#include "sym/print.h"

namespace coil::codegen {
namespace {

// Elements of a vector dimension that one parallel point takes, where it is cut.
constexpr std::int64_t kBlockElements = 1024;
constexpr std::int64_t kScratchElements = 8192;  // longest row kept on the stack
constexpr std::int64_t kWindow = 32;             // points of a window that are written out
constexpr std::size_t kWindowText = 1200;        // most scalar nodes of a window written out, or of two versions
constexpr std::size_t kSmallText = 100;          // the same if each condition is one for a whole vector
constexpr std::size_t kConditions = 32;          // most conditions that one test in front stands for
constexpr std::int64_t kStrip = 1024;            // most columns that a reduction over rows takes at once
constexpr std::int64_t kFewRows = 16;            // so few rows are not worth a strip
constexpr std::int64_t kRowsOfPart = 128;    // rows of a strip that are added up before their sum is added to a total,
constexpr std::int64_t kFewestOfPart = 16;   // and as few, where the innermost of several dimensions has no more
constexpr std::int64_t kFewPoints = 4;       // parallel points that strips should leave
constexpr std::int64_t kShortRow = 2 << 10;  // bytes of a row short enough for the processor's own prefetching
// Bytes of a row such that the first-level cache holds two rows and what is computed from them.
constexpr std::int64_t kNearRow = 8 << 10;
constexpr std::int64_t kFarRow = 512 << 10;  // bytes of a row such that the second-level cache holds two

}  // namespace

Kernel Printer::print() {
  for (std::size_t k = 0; k < nest_.statements.size(); ++k)
    if (!updates(nest_.statements[k])) made_[nest_.statements[k].op->outs[0]] = k;
  place_values();
  coarse_ = coarse_values(graph_, nest_);
  compared_ = compared_products(nest_);
  choose_strip();
  choose_tile();
  decode_point();
  if (outer_vector() && !strip_) {
    gather_rows();
    if (!nest_.tiled && !nest_.shared && !nest_.partition) name_steady_reads();
    vector_loop(nest_.outer.back(), "v0", "v1", [&] { tile_loop(); });
  } else {
    levels();
  }
  return finish();
}

void Printer::place_values() {
  Expr row = 1;
  for (const LoopDim& d : nest_.inner) row *= d.size;
  const auto elements = row.constant();
  std::set<BufferId> spilled;
  std::size_t named = 0;  // a row that is spilled after all leaves its name to nobody
  for (const Statement& s : nest_.statements)
    for (Scalar l : linear_loads(s)) {
      auto made = made_.find(l->buffer);
      if (made == made_.end()) continue;
      Statement& m = nest_.statements[made->second];
      const bool same_point = l->index[0] == m.store;
      if (same_point && (m.role == Role::Reduce || m.role == Role::Outer || m.level == s.level)) continue;
      if (m.stored) continue;
      if (same_point && inner_vector() && elements && *elements <= kScratchElements &&
          scratch_elements_ + *elements <= 4 * kScratchElements) {
        if (!scratch_.emplace(l->buffer, fmt::format("t{}", named)).second) continue;
        scratch_elements_ += *elements;
        ++named;
      } else {
        m.stored = true;
        spilled.insert(l->buffer);
        scratch_.erase(l->buffer);
      }
    }
  find_homes(spilled);
  for (auto& [b, name] : scratch_)
    head_ += fmt::format("  alignas(64) {} {}[{}];\n", storage_type(register_of(b)), name, *elements + lanes_);
}

/// Values that a later level reads again need memory. It is that of a result which is made of them element by element,
/// where there is one, so that both take no more than one.
void Printer::find_homes(const std::set<BufferId>& spilled) {
  std::set<BufferId> taken;
  for (std::size_t k = 0; k < nest_.statements.size(); ++k) {
    const BufferId value = nest_.statements[k].op->outs[0];
    for (std::size_t r = k + 1; r < nest_.statements.size() && spilled.contains(value); ++r) {
      const BufferId result = nest_.statements[r].op->outs[0];
      if (spilled.contains(result) || taken.contains(result) || !may_lie_in(k, r)) continue;
      homes_.emplace(value, result);
      taken.insert(result);
      break;
    }
  }
}

/// Whether all that is read of the value is read at the element that is computed, the result's, and no later than that
/// is stored.
bool Printer::may_lie_in(std::size_t value, std::size_t result) {
  const Statement &from = nest_.statements[value], &to = nest_.statements[result];
  const BufferId of = from.op->outs[0], in = to.op->outs[0];
  const bool is_plain = from.role == Role::Inner && to.role == Role::Inner && from.indirect.empty() &&
                        to.indirect.empty() && to.stored && made_.contains(of) && made_.contains(in) &&
                        graph_.buffer(in).kind == ir::BufferKind::Computed;
  if (!is_plain || !(from.store == to.store) || from.level > to.level ||
      graph_.buffer(of).layout.dtype != graph_.buffer(in).layout.dtype)
    return false;
  for (std::size_t k = 0; k < nest_.statements.size(); ++k)
    for (Scalar l : linear_loads(nest_.statements[k])) {
      if (l->buffer == in && k <= result) return false;
      const bool is_last = k > result || nest_.statements[k].level > to.level;
      if (l->buffer == of && (is_last || !(l->index[0] == from.store) || l->mask)) return false;
    }
  return true;
}

bool Printer::updates(const Statement& s) {
  const auto loads = linear_loads(s);
  return std::any_of(loads.begin(), loads.end(), [&](Scalar l) { return l->buffer == s.op->outs[0]; });
}

std::vector<Scalar> Printer::linear_loads(const Statement& s) {
  std::vector<Scalar> roots = s.indirect, out;
  roots.push_back(s.body);
  for (Scalar n : ir::topological(roots))
    if (n->op == ScalarOp::LinearLoad) out.push_back(n);
  return out;
}

DType Printer::register_of(BufferId b) { return ir::register_type(graph_.buffer(b).layout.dtype); }

std::string Printer::row_position() {
  Expr position = 0;
  for (const LoopDim& d : nest_.inner) position = position * d.size + d.var;
  return text(position);
}

void Printer::decode_point() {
  std::vector<LoopDim> dims = nest_.outer;
  std::string blocks;
  extent_ = 1;
  if (outer_vector()) {
    const LoopDim v = dims.back();
    dims.pop_back();
    Expr others = 1;
    for (std::size_t k = 0; k < dims.size(); ++k)
      others *= nest_.tiled == k ? sym::ceil_div(dims[k].size, tile_) : dims[k].size;
    const auto size = v.size.constant();
    if (strip_ ? size && *size <= strip_
               : env().hint_or(others, 1) >= 64 || env().hint_or(v.size, kBlockElements * 4) <= 256) {
      line(fmt::format("const i64 v0 = 0, v1 = {};", text(v.size)));
      whole_row_ = true;
      point_elements_ = env().hint_or(v.size, kBlockElements);
    } else {
      const std::int64_t block = strip_ ? strip_ : nest_.inner.empty() ? kBlockElements : 4 * lanes_;
      const Expr count = sym::ceil_div(v.size, block);
      extent_ = count;
      blocks = fmt::format(
          "const i64 v0 = (i64)((u64)t % (u64)({0})) * {1}, v1 = v0 + {1} < {2} ? v0 + {1} : {2}; t = (i64)((u64)t / "
          "(u64)({0}));",
          text(count), block, text(v.size));
      point_elements_ = block;
    }
  }
  if (nest_.shared) {
    const Expr size = nest_.inner[*nest_.shared].size;
    extent_ = size;
    blocks = fmt::format(
        "const i64 v0 = (i64)((u64)t % (u64)({0})), v1 = end - w < {0} - v0 ? v0 + (end - w) : {0}; t = (i64)((u64)t / "
        "(u64)({0})); w += v1 - v0 - 1;",
        text(size));
  }
  const bool decodes = !blocks.empty() || !dims.empty();
  if (decodes) line("i64 t = w;");
  if (!blocks.empty()) line(blocks);
  for (std::size_t k = dims.size(); k-- > 0;) {
    const bool tiled = nest_.tiled == k;
    const Expr count = tiled ? sym::ceil_div(dims[k].size, tile_) : dims[k].size;
    extent_ *= count;
    const std::string name = std::string(dims[k].var.name()) + (tiled ? "_b" : "");
    if (k == 0)
      line(fmt::format("const i64 {} = t;", name));
    else
      line(fmt::format("const i64 {0} = (i64)((u64)t % (u64)({1})); t = (i64)((u64)t / (u64)({1}));", name,
                       text(count)));
    if (!tiled) continue;
    point_elements_ *= tile_;
    line(fmt::format("const i64 {0}_0 = {0}_b * {1}, {0}_1 = {0}_0 + {1} < {2} ? {0}_0 + {1} : {2};",
                     dims[k].var.name(), tile_, text(dims[k].size)));
  }
  for (std::size_t k = 0; k < nest_.inner.size(); ++k)
    if (nest_.shared != k) point_elements_ *= std::max<std::int64_t>(1, env().hint_or(nest_.inner[k].size, 64));
  if (nest_.partition) extent_ = nest_.partition->places;
}

void Printer::name_steady_reads() {
  std::vector<Scalar> roots;
  for (const Statement& s : nest_.statements) {
    roots.push_back(s.body);
    roots.insert(roots.end(), s.indirect.begin(), s.indirect.end());
  }
  std::vector<sym::Expr> moving{nest_.outer.back().var};
  for (const LoopDim& d : nest_.inner) moving.push_back(d.var);
  // A loop that never runs reads nothing.
  if (!std::ranges::all_of(nest_.inner, [&](const LoopDim& d) { return env().statically_known_le(1, d.size); })) return;
  std::set<Scalar> steady;
  bool guarded = false;
  for (Scalar n : ir::topological(roots)) {
    const bool reads = ir::is_load(n),
               written = reads && std::ranges::any_of(nest_.statements,
                                                      [&](const Statement& s) { return s.op->outs[0] == n->buffer; });
    const bool moves = std::ranges::any_of(
        n->index, [&](Expr e) { return std::ranges::any_of(moving, [&](Expr v) { return sym::contains(e, v); }); });
    if (written || moves || n->mask || n->op == ScalarOp::Random ||
        !std::ranges::all_of(n->args, [&](Scalar a) { return steady.contains(a); }))
      continue;
    steady.insert(n);
    if (!reads && n->op != ScalarOp::CheckIndex) continue;
    if (!std::exchange(guarded, true) && !env().statically_known_le(1, nest_.outer.back().size))
      line("if (v0 >= v1) continue;");
    name(n);
  }
}

void Printer::levels() {
  fetched_ = false;
  for (level_ = 0; level_ < nest_.levels; ++level_) {
    if (strip_) {
      strip_level();
      continue;
    }
    inner_level();
    in_loop_ = false;
    for (Statement& s : nest_.statements)
      if (s.level == level_ && s.role == Role::Outer)
        with_bodies({&s}, [&](Statement& t) { t.body = assume(t.body); }, [&] { outer_statement(s); });
  }
}

void Printer::inner_level() {
  std::vector<Statement*> statements;
  for (Statement& s : nest_.statements)
    if (s.level == level_ && s.role != Role::Outer) statements.push_back(&s);
  if (statements.empty()) return;
  in_loop_ = true;
  next_rows_.clear();
  if (level_ > 0 && !std::exchange(fetched_, true)) find_next_rows();
  copies_ = accumulators_for(statements);
  for (const Statement* s : statements)
    if (s->role != Role::Inner)
      for (copy_ = copies_; copy_-- > 0;) declare_accumulator(*s);
  copy_ = 0;
  with_bodies(
      statements, [&](Statement& s) { s.body = assume(s.body); },
      [&] {
        line(where_inner_loops_run() + "{");
        if (flat(statements)) {
          in_scope([&] { flat_points(statements); });
        } else {
          // What does not change with the inner loops is computed before them, at the depth of the last loop it depends
          // on.
          depth_.clear();
          std::vector<Scalar> roots;
          for (const Statement* s : statements) {
            roots.push_back(s->body);
            roots.insert(roots.end(), s->indirect.begin(), s->indirect.end());
          }
          in_scope([&] { inner_loops(0, ir::topological(roots), statements); });
        }
        line("}");
      });
  for (const Statement* s : statements)
    if (s->role == Role::Reduce) finish_reduction(*s);
}

/// In front of what stands before the inner loops, which a loop that never runs may not read.
std::string Printer::where_inner_loops_run() {
  std::string conditions;
  for (const LoopDim& d : nest_.inner)
    if (!env().statically_known_le(1, d.size)) conditions += (conditions.empty() ? "" : " && ") + text(d.size) + " > 0";
  return conditions.empty() ? "" : "if (" + conditions + ") ";
}

void Printer::inner_loops(std::size_t d, const std::vector<Scalar>& nodes, const std::vector<Statement*>& statements) {
  if (d == nest_.inner.size()) return point(statements);
  if (!strip_)
    for (Scalar n : nodes)
      if (depth(n) == d && n->op != ScalarOp::Constant) name(n);
  const LoopDim& dim = nest_.inner[d];
  if (d + 1 == nest_.inner.size() && (inner_vector() || strip_)) return last_loop(dim, statements);
  if (nest_.shared == d)
    line(fmt::format("for (i64 {0} = v0; {0} < v1; ++{0}) {{", dim.var.name()));
  else
    line(fmt::format("for (i64 {0} = 0; {0} < {1}; ++{0}) {{", dim.var.name(), text(dim.size)));
  in_scope([&] { inner_loops(d + 1, nodes, statements); });
  line("}");
}

void Printer::last_loop(const LoopDim& dim, const std::vector<Statement*>& statements) {
  if (strip_) return rows_of_strip(dim, statements);
  const std::string r(dim.var.name()), size = text(dim.size);
  const auto constant = dim.size.constant();
  auto one = [&] { point(statements); };
  if (copies_ == 1 || (constant && *constant < copies_ * lanes_)) return vector_loop(dim, "0", size, one);
  line(fmt::format("i64 {}_0 = 0;", r));
  line(fmt::format("for (; {0}_0 + {1} * COIL_L <= {2}; {0}_0 += {1} * COIL_L) {{", r, copies_, size));
  in_scope([&] { points_together(r, " * COIL_L", statements); });
  line("}");
  if (constant && *constant % (copies_ * lanes_) == 0) return;
  vector_loop(dim, r + "_0", size, one);
}

void Printer::points_together(const std::string& r, const std::string& step,
                              const std::vector<Statement*>& statements) {
  for (int k = 0; k < copies_; ++k) {
    copy_ = strip_ ? 0 : k;
    line("{");
    ++indent_;
    line(fmt::format("const i64 {0} = {0}_0 + {1};", r, k ? fmt::format("{}{}", k, step) : "0"));
    --indent_;
    in_scope([&] { point(statements); });
    line("}");
  }
  copy_ = 0;
}

void Printer::rows_of_strip(const LoopDim& dim, const std::vector<Statement*>& statements) {
  const std::string r(dim.var.name()), size = text(dim.size);
  const auto constant = dim.size.constant();
  const LoopDim& v = nest_.outer.back();
  auto strip = [&](auto body) {
    vector_loop(v, "v0", "v1", [&] {
      for (const Statement* s : statements)
        if (s->role != Role::Inner) load_accumulator(*s, 'A');
      body();
      for (const Statement* s : statements)
        if (s->role != Role::Inner) save_accumulator(*s, 'A');
    });
  };
  auto rows = [&](const std::string& from, const std::string& to) {
    if (copies_ > 1) {
      line(fmt::format("i64 {}_0 = {};", r, from));
      line(fmt::format("for (; {0}_0 + {1} <= {2}; {0}_0 += {1}) {{", r, copies_, to));
      in_scope([&] { strip([&] { points_together(r, "", statements); }); });
      line("}");
      if (constant && *constant % copies_ == 0) return;
      line(fmt::format("for (i64 {0} = {0}_0; {0} < {1}; ++{0}) {{", r, to));
    } else {
      line(fmt::format("for (i64 {0} = {1}; {0} < {2}; ++{0}) {{", r, from, to));
    }
    in_scope([&] { strip([&] { point(statements); }); });
    line("}");
  };
  if (!totals_) return rows("0", size);
  if (constant && *constant <= kRowsOfPart) {
    rows("0", size);
    return add_to_totals(statements);
  }
  line(fmt::format("for (i64 {0}_b = 0; {0}_b < {1}; {0}_b += {2}) {{", r, size, kRowsOfPart));
  in_scope([&] {
    line(fmt::format("const i64 {0}_e = {0}_b + {1} < {2} ? {0}_b + {1} : {2};", r, kRowsOfPart, size));
    rows(r + "_b", r + "_e");
    add_to_totals(statements);
  });
  line("}");
}

void Printer::find_next_rows() {
  if (!inner_vector() || strip_ || nest_.outer.empty() || nest_.shared || nest_.partition) return;
  Expr elements = 1;
  for (const LoopDim& d : nest_.inner) elements *= d.size;
  for (const Statement& s : nest_.statements) {
    if (s.level != 0 || s.role == Role::Outer) continue;
    for (Scalar l : linear_loads(s)) {
      if (l->mask || made_.contains(l->buffer) ||
          std::ranges::any_of(next_rows_, [&](const NextRow& r) { return r.load == l; }))
        continue;
      const std::int64_t size = static_cast<std::int64_t>(size_of(graph_.buffer(l->buffer).layout.dtype)),
                         bytes = env().hint_or(elements, 0) * size;
      const auto along = sym::linear_in(l->index[0], *vector_),
                 ahead = sym::linear_in(l->index[0], nest_.outer.back().var);
      if (bytes > kFarRow || !along || !along->coefficient.is_constant(1) || !ahead) continue;
      if (l->args.empty() && (bytes < kShortRow || ahead->coefficient.is_constant(0))) continue;
      if (auto places = next_places(l))
        next_rows_.push_back({l, l->index[0] + ahead->coefficient, std::move(*places), size, bytes <= kNearRow});
    }
  }
}

std::optional<std::vector<std::string>> Printer::next_places(Scalar load) {
  std::vector<std::string> out;
  for (Scalar a : load->args) {
    if (a->op == ScalarOp::CheckIndex) a = a->args[0];
    // An index that may count from the end is fetched for as if it did not.
    if (a->op == ScalarOp::Where) a = a->args[2];
    if (a->op != ScalarOp::LinearLoad || a->dtype != DType::I64 || !a->args.empty() || a->mask ||
        made_.contains(a->buffer) || depth(a) > 0)
      return std::nullopt;
    const auto ahead = sym::linear_in(a->index[0], nest_.outer.back().var);
    const Expr length = span(a->buffer);
    if (!ahead || ahead->coefficient.is_constant(0) || length.is_constant(0)) return std::nullopt;
    // After the last point there is no next row: any valid address will do.
    const std::string at = text(a->index[0] + ahead->coefficient);
    out.push_back(fresh());
    line(fmt::format("const i64 {0} = {1} >= 0 && {1} < {2} ? c_load_i64({3} + {1}) : 0;", out.back(), at, text(length),
                     pointer(a->buffer, false)));
  }
  return out;
}

void Printer::point(const std::vector<Statement*>& statements) {
  for (const NextRow& row : next_rows_)
    if (copy_ * lanes_ * row.element_bytes % kLine == 0 && !tail_)
      line(fmt::format("c_fetch{}({} + {});", row.near ? "" : "_far", pointer(row.load->buffer, false),
                       text(row.at, row.places)));
  for (const Statement* s : statements) inner_statement(*s);
}

// ---- Small windows, and conditions that mostly hold ----

bool Printer::flat(const std::vector<Statement*>& statements) const {
  if (inner_vector() || strip_ || nest_.inner.empty() || scatters()) return false;
  std::int64_t points = 1;
  for (const LoopDim& d : nest_.inner) {
    const auto size = d.size.constant();
    if (!size || *size > kWindow) return false;
    points *= *size;
  }
  for (const Statement* s : statements)
    if (s->role == Role::Scan) return false;
  return points >= 1 && points <= kWindow && static_cast<std::size_t>(points) * text_size(statements) <= kWindowText;
}

void Printer::flat_points(const std::vector<Statement*>& statements) {
  Exprs vars, at;
  for (const LoopDim& d : nest_.inner) vars.push_back(d.var), at.push_back(0);
  auto simplify = [&](Expr e) { return env().simplify(e, vars_); };
  while (true) {
    with_bodies(
        statements,
        [&](Statement& s) {
          s.body = assume(graph_.pool().substitute(s.body, vars, at, simplify));
          s.store = simplify(sym::substitute(s.store, vars, at));
          s.position = simplify(sym::substitute(s.position, vars, at));
        },
        [&] { point(statements); });
    std::size_t d = vars.size();
    while (d > 0 && *at[d - 1].constant() + 1 == *nest_.inner[d - 1].size.constant()) at[--d] = 0;
    if (d == 0) return;
    at[d - 1] += 1;
  }
}

Scalar Printer::assume(Scalar body) {
  if (assumed_.empty()) return body;
  return graph_.pool().map_indices(body, [&](Expr e) { return assumed_.contains(e) ? Expr(1) : e; });
}

std::optional<Expr> Printer::at_worst(Expr condition) {
  if (condition.kind() == sym::Kind::And) {
    Expr all = 1;
    for (Expr e : condition.operands()) {
      auto worst = at_worst(e);
      if (!worst) return std::nullopt;
      all = sym::logical_and(all, *worst);
    }
    return all;
  }
  if (condition.kind() != sym::Kind::Lt && condition.kind() != sym::Kind::Le) return std::nullopt;
  Expr d = condition.operands()[0] - condition.operands()[1];
  std::vector<std::pair<Expr, Expr>> vars;  // each variable and how far it goes from its present value
  if (auto c = sym::linear_in(d, *vector_); c && sym::contains(d, *vector_)) {
    const auto k = c->coefficient.constant();
    if (!k) return std::nullopt;
    if (*k > 0)
      d = sym::substitute(d, std::span(&*vector_, 1),
                          std::vector<Expr>{*vector_ + (tail_ ? env().loop_var("n") : Expr(lanes_)) - 1});
  } else if (!c) {
    return std::nullopt;
  }
  for (const LoopDim& dim : nest_.inner) {
    if (!sym::contains(d, dim.var)) continue;
    auto c = sym::linear_in(d, dim.var);
    const auto k = c ? c->coefficient.constant() : std::nullopt;
    if (!k) return std::nullopt;
    d = sym::substitute(d, std::span(&dim.var, 1), std::vector<Expr>{*k > 0 ? dim.size - 1 : Expr(0)});
  }
  return condition.kind() == sym::Kind::Lt ? sym::lt(d, 0) : sym::le(d, 0);
}

std::vector<std::pair<Expr, Expr>> Printer::common_conditions() {
  std::vector<std::pair<Expr, Expr>> out;
  if (!vector_ || !outer_vector() || scatters()) return out;
  std::vector<Statement*> all;
  for (Statement& s : nest_.statements) all.push_back(&s);
  std::unordered_set<Expr> seen;
  bool masks = false, by_lane = false;
  auto take = [&](Scalar body) {
    for (Scalar n : ir::topological(std::span(&body, 1))) {
      masks |= n->mask != nullptr;
      if (n->op != ScalarOp::Index || n->dtype != DType::Bool || !seen.insert(n->index[0]).second) continue;
      if (auto worst = at_worst(n->index[0])) out.emplace_back(n->index[0], *worst), by_lane |= varies(n->index[0]);
    }
  };
  std::size_t points = 1;
  for (int level = 0; level < nest_.levels; ++level) {
    std::vector<Statement*> inner;
    for (Statement* s : all)
      if (s->level == level && s->role != Role::Outer) inner.push_back(s);
    if (inner.empty() || !flat(inner)) continue;
    std::size_t here = 1;
    for (const LoopDim& d : nest_.inner) here *= static_cast<std::size_t>(*d.size.constant());
    points = std::max(points, here);
    // The window's points are written out: each has its own conditions.
    Exprs vars, at;
    for (const LoopDim& d : nest_.inner) vars.push_back(d.var), at.push_back(0);
    for (bool more = true; more;) {
      for (Statement* s : inner)
        take(graph_.pool().substitute(s->body, vars, at, [&](Expr e) { return env().simplify(e, vars_); }));
      std::size_t d = vars.size();
      while (d > 0 && *at[d - 1].constant() + 1 == *nest_.inner[d - 1].size.constant()) at[--d] = 0;
      more = d > 0;
      if (more) at[d - 1] += 1;
    }
  }
  for (Statement* s : all) {
    std::vector<Statement*> inner;
    for (Statement* t : all)
      if (t->level == s->level && t->role != Role::Outer) inner.push_back(t);
    if (s->role == Role::Outer || !flat(inner)) take(s->body);
  }
  if (!masks || out.size() > kConditions || points * text_size(all) > (by_lane ? kWindowText : kSmallText)) return {};
  return out;
}

// ---- Strips ----

void Printer::choose_strip() {
  if (!outer_vector() || nest_.tiled || scatters() || nest_.inner.empty()) return;
  bool reduces = false;
  for (const Statement& s : nest_.statements) reduces |= s.role == Role::Reduce || s.role == Role::Scan;
  Expr rows = 1, others = 1;
  for (const LoopDim& d : nest_.inner) rows *= d.size;
  for (std::size_t k = 0; k + 1 < nest_.outer.size(); ++k) others *= nest_.outer[k].size;
  if (!reduces || env().hint_or(rows, 64) < kFewRows) return;
  strip_ = kStrip;
  const std::int64_t size = env().hint_or(nest_.outer.back().size, kStrip);
  while (strip_ > 4 * lanes_ &&
         (strip_ >= 2 * size || env().hint_or(others, 1) * ((size + strip_ - 1) / strip_) < kFewPoints))
    strip_ /= 2;
}

void Printer::strip_row(const std::string& name, DType register_type) {
  head_ += fmt::format("  alignas(64) {} {}[{}];\n", storage_type(register_type), name, strip_ + lanes_);
}

bool Printer::is_sum(const Statement& s) {
  return s.role == Role::Reduce && kind_of(s) == ReductionKind::Sum && is_floating(s.body->dtype);
}

bool Printer::has_long_sums(const std::vector<Statement*>& statements) {
  Expr all = 1;
  for (const LoopDim& d : nest_.inner) all *= d.size;
  const auto known = [](Expr size) { return size.constant().value_or(2 * kRowsOfPart); };
  return known(all) >= 2 * kRowsOfPart && known(nest_.inner.back().size) >= kFewestOfPart &&
         std::ranges::any_of(statements, [](const Statement* s) { return is_sum(*s); });
}

void Printer::add_to_totals(const std::vector<Statement*>& statements) {
  line(fmt::format("for (i64 {0} = v0; {0} < v1; {0} += COIL_L) {{", nest_.outer.back().var.name()));
  in_scope([&] {
    for (const Statement* s : statements) {
      if (!is_sum(*s)) continue;
      const std::string t(short_name(s->body->dtype)), total = fmt::format("T{} + {}", accumulator(*s), in_strip()),
                                                       part = fmt::format("A{} + {}", accumulator(*s), in_strip());
      line(fmt::format("c_store_{0}({1}, c_add(c_load_{0}v({1}), c_load_{0}v({2})));", t, total, part));
      line(fmt::format("c_store_{0}({1}, c_splat_{0}v({2}));", t, part, start_of(*s)));
    }
  });
  line("}");
}

void Printer::start_strip(const std::vector<Statement*>& statements) {
  totals_ = has_long_sums(statements);
  std::vector<const Statement*> accumulate;
  for (const Statement* s : statements)
    if (s->role != Role::Inner) accumulate.push_back(s);
  for (const Statement* s : accumulate) {
    strip_row("A" + accumulator(*s), carried_type(*s));
    if (totals_ && is_sum(*s)) strip_row("T" + accumulator(*s), s->body->dtype);
    if (s->role == Role::Reduce && is_arg(kind_of(*s))) strip_row("A" + accumulator(*s) + "p", position_type(*s));
  }
  if (accumulate.empty()) return;
  // Rows have room for a last whole vector.
  line(fmt::format("for (i64 {0} = v0; {0} < v1; {0} += COIL_L) {{", nest_.outer.back().var.name()));
  in_scope([&] {
    for (const Statement* s : accumulate) {
      declare_accumulator(*s);
      save_accumulator(*s, 'A');
      if (totals_ && is_sum(*s)) save_accumulator(*s, 'T');
    }
  });
  line("}");
}

void Printer::strip_level() {
  const LoopDim& v = nest_.outer.back();
  std::vector<Statement*> statements;
  for (Statement& s : nest_.statements)
    if (s.level == level_ && s.role != Role::Outer) statements.push_back(&s);
  copies_ = accumulators_for(statements);
  in_loop_ = true;
  start_strip(statements);
  if (!statements.empty()) {
    line("{");
    in_scope([&] { inner_loops(0, {}, statements); });
    line("}");
  }
  in_loop_ = false;
  // One pass over the strip: results, what follows from them, and rows for what later levels read.
  std::set<BufferId> later;
  for (const Statement& s : nest_.statements)
    if (s.level > level_)
      for (Scalar l : linear_loads(s)) later.insert(l->buffer);
  std::map<BufferId, std::string> kept;  // within the pass their values are in registers, after it in rows
  for (const Statement& s : nest_.statements) {
    const BufferId b = s.op->outs[0];
    if (s.level != level_ || s.role == Role::Inner || s.role == Role::Scan || !later.contains(b) || !made_.contains(b))
      continue;
    strip_row(kept[b] = fmt::format("S{}", made_.at(b)), register_of(b));
  }
  line("{");
  ++indent_;
  vector_loop(v, "v0", "v1", [&] {
    for (const Statement* s : statements)
      if (s->role == Role::Reduce) load_accumulator(*s, totals_ && is_sum(*s) ? 'T' : 'A'), finish_reduction(*s);
    for (const Statement& s : nest_.statements)
      if (s.level == level_ && s.role == Role::Outer) outer_statement(s);
    for (const auto& [b, row] : kept)
      line(fmt::format("c_store_{}({} + {}, {});", short_name(register_of(b)), row, in_strip(),
                       as_vector(locals_.at(b), register_of(b))));
  });
  --indent_;
  line("}");
  strip_values_.merge(kept);
}

std::size_t Printer::work(const std::vector<Statement*>& statements) const {
  std::size_t ops = 0;
  for (const Statement* s : statements) ops += s->body->ops;
  return ops;
}

std::size_t Printer::text_size(const std::vector<Statement*>& statements) {
  std::vector<Scalar> roots;
  for (const Statement* s : statements) roots.push_back(s->body);
  return scheduler::distinct_ops(roots);
}

int Printer::accumulators_for(const std::vector<Statement*>& statements) const {
  if (!inner_vector() && !strip_) return 1;
  bool reduces = false;
  for (const Statement* s : statements) {
    reduces |= s->role == Role::Reduce;
    if (s->role == Role::Scan) return 1;
  }
  const std::size_t ops = work(statements);
  int copies = !reduces || ops > 48 ? 1 : ops > 20 ? 2 : 4;
  const auto size = nest_.inner.empty() ? std::nullopt : nest_.inner.back().size.constant();
  while (copies > 1 && size && *size < copies * (inner_vector() ? lanes_ : 1)) copies /= 2;
  return copies;
}

std::size_t Printer::depth(Scalar n) {
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

std::size_t Printer::made_depth(Scalar load) {
  const Statement& m = nest_.statements[made_.at(load->buffer)];
  return m.role == Role::Inner && (m.level == level_ || scratch_.contains(load->buffer)) ? nest_.inner.size() : 0;
}

Kernel Printer::finish() {
  if (!streamed_.empty()) {
    Expr bytes = 0;
    for (BufferId b : streamed_)
      bytes += sym::product(graph_.buffer(b).layout.sizes) *
               static_cast<std::int64_t>(size_of(graph_.buffer(b).layout.dtype));
    head_ += fmt::format("  const u64 past = c_past_cache({});\n", text(bytes));
  }
  Kernel k;
  std::string text;
  const auto& buffers = arguments_.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::string type = storage_type(graph_.buffer(buffers[i]).layout.dtype);
    text += fmt::format("  {0}{1}* const p{2} = ({0}{1}*)buffers[{2}];\n", arguments_.written()[i] ? "" : "const ",
                        type, i);
  }
  for (std::size_t i = 0; i < arguments_.scalars().size(); ++i)
    text += fmt::format("  const i64 s{0} = scalars[{0}];\n", i);
  if (may_fail()) text += fmt::format("  i64* const status = (i64*)buffers[{}];\n", buffers.size());
  text += head_;
  text += (nest_.partition ? "  {\n" : "  for (i64 w = begin; w < end; ++w) {\n") + body_ + "  }\n";
  if (!streamed_.empty()) text += "  c_stream_end(past);\n";
  k.symbol = "coil_" + to_hex(hash(text + std::to_string(lanes_))).substr(0, 16);
  k.text = fmt::format("extern \"C\" void {}(void* const* buffers, const i64* scalars, i64 begin, i64 end) {{\n{}}}\n",
                       k.symbol, text);
  arguments_.give(k);
  k.extent = env().simplify(extent_);
  std::size_t ops = 0;
  for (const Statement& s : nest_.statements) ops += s.body->ops;
  const double work = static_cast<double>(point_elements_) * (1.0 + static_cast<double>(ops) / 8.0);
  // Each thread of a partition does its share of all iterations.
  const double point =
      nest_.partition ? work / static_cast<double>(std::max<std::int64_t>(1, env().hint_or(extent_, 1))) : work;
  k.grain = std::max<std::int64_t>(1, static_cast<std::int64_t>(32768.0 / std::max(point, 1.0)));
  k.may_fail = may_fail();
  if (may_divide_by_zero_)
    k.failure = checks_indices_ ? "an index read from a tensor is out of range, or an integer is divided by zero"
                                : "ZeroDivisionError: an integer is divided by zero";
  if (!scatters()) k.in_place = pairs_in_place();
  return k;
}

InPlacePairs Printer::pairs_in_place() {
  InPlacePairs pairs = in_place_pairs(
      graph_, nest_, [](const Statement&) { return true; }, [&](BufferId b) { return !made_.contains(b); });
  // A result whose memory holds another value before is written to from where that is made.
  const auto is_read_behind = [&](BufferId b, std::size_t made) {
    for (std::size_t k = 0; k < nest_.statements.size(); ++k) {
      if (k <= made && nest_.statements[k].level <= nest_.statements[made].level) continue;
      for (Scalar l : linear_loads(nest_.statements[k]))
        if (l->buffer == b) return true;
    }
    return false;
  };
  std::erase_if(pairs, [&](const auto& pair) {
    return homes_.contains(pair.second) || std::ranges::any_of(homes_, [&](const auto& home) {
             return home.second == pair.second && is_read_behind(pair.first, made_.at(home.first));
           });
  });
  return pairs;
}

std::string kernel_support() { return sym::cpp_helpers() + device::whole("cpp/checks.h"); }

Kernel print_kernel(ir::Graph& graph, const scheduler::Group& group, const KernelOptions& options) {
  return print_nest(graph, make_loop_nest(graph, group, options.lanes), options);
}

Kernel print_scatter(ir::Graph& graph, const ir::Operation& op, const KernelOptions& options) {
  return print_nest(graph, make_threaded_scatter_nest(graph, op, options.lanes), options);
}

Kernel print_nest(ir::Graph& graph, LoopNest nest, const KernelOptions& options) {
  return Printer(graph, std::move(nest), options).print();
}

}  // namespace coil::codegen
