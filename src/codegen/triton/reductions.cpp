// Reductions along rows, down columns and over windows, which are one form in Triton: a program has a block of rows,
// and either all of what is reduced at once, so that levels find each other's values, or walks it block by block.
#include <algorithm>
#include <cmath>

#include "codegen/heuristics/nest_facts.h"
#include "codegen/triton/forms.h"
#include "codegen/triton/operations.h"
#include "ir/combining.h"

namespace coil::codegen {

using ir::ReductionKind;
using ir::Scalar;
using ir::ScalarOp;
using scheduler::Role;

std::string triton_identity(ReductionKind kind, DType d) {
  const ir::NeutralValue v = ir::neutral_value(kind, d);
  if (d == DType::U64) return std::to_string(static_cast<std::uint64_t>(v.integer));
  if (!is_floating(d)) return std::to_string(v.integer);
  return std::isinf(v.real) ? fmt::format("float(\"{}inf\")", v.real < 0 ? "-" : "") : fmt::format("{:.1f}", v.real);
}

TritonCombine triton_combine(ReductionKind kind, DType d) {
  const std::string_view op = ir::name_of(ir::combining_op(kind));
  if (d == DType::Bool) {
    // Truth values are 0 and 1.
    const std::string_view of = op == "mul" || op == "min" ? "and" : op == "add" || op == "max" ? "or" : op;
    return {fmt::format("c_combine_{}", of), triton_identity(kind, d), "tl.int32", true};
  }
  const bool arg = kind == ReductionKind::ArgMax || kind == ReductionKind::ArgMin, extreme = op == "max" || op == "min";
  const std::string_view name = op == "add" ? "sum" : op == "mul" ? "prod" : op;
  return {arg ? fmt::format("c_arg{}", op) : fmt::format("{}{}", extreme ? "c_" : "c_combine_", name),
          triton_identity(kind, d), triton_type(d)};
}

namespace {

class Reductions {
 public:
  Reductions(TritonBody& b, const std::vector<LoopDim>& outer, const BlockShape& block,
             std::span<const OnlinePair> pairs)
      : b_(b), outer_(outer), block_(block), length_(b.env().simplify(product_of(b.nest.inner))) {
    if (block.looped) pairs_ = pairs;
  }

  Kernel print() {
    const Expr rows = b_.env().simplify(product_of(outer_));
    b_.begin_x(rows, block_.x);
    b_.decode(outer_, "xindex");
    if (!block_.looped) begin_inner("");
    for (level_ = 0; level_ < b_.nest.levels; ++level_) {
      inner_level();
      outer_level();
    }
    return b_.finish({sym::ceil_div(rows, block_.x), 1, 1}, block_.warps, {{"XBLOCK", block_.x}, {"RBLOCK", block_.r}},
                     false);
  }

 private:
  /// What a statement that reduces accumulates.
  struct Accumulator {
    const Statement* statement = nullptr;
    TritonCombine combine;
    std::string name, place;  ///< `place` of an extreme that is looked for
    std::string place_type;
    const OnlinePair* pair = nullptr;  ///< of which `statement` is the first
    std::vector<std::string> parts;    ///< of a pair: what is combined, variable by variable
  };

  void begin_inner(const std::string& start) {
    b_.begin_r(length_, block_.r, start);
    b_.decode(b_.nest.inner, "rindex");
  }

  void inner_level() {
    std::vector<const Statement*> statements;
    for (const Statement& s : b_.nest.statements)
      if (s.level == level_ && s.role != Role::Outer) statements.push_back(&s);
    // What is not stored stands in the bodies that read it.
    std::erase_if(statements, [&](const Statement* s) {
      if (s->role == Role::Inner && !s->stored) return true;
      return std::ranges::any_of(pairs_, [&](const OnlinePair& p) { return p.second == s; });
    });
    if (statements.empty()) return;
    std::vector<Accumulator> all;
    for (const Statement* s : statements)
      if (s->role == Role::Reduce) all.push_back(accumulator(*s));
    if (block_.looped) {
      for (Scalar n : roots_of(statements))
        if (n->op != ScalarOp::Constant && !(b_.dims(n) & kAlongR)) b_.name(n);
      for (const Accumulator& a : all) begin(a);
      b_.block(fmt::format("for start in range(0, {}, RBLOCK)", b_.text(length_)), [&] {
        begin_inner("start");
        points(statements, all);
      });
    } else {
      points(statements, all);
    }
    for (const Accumulator& a : all) end(a);
    if (std::ranges::any_of(statements,
                            [&](const Statement* s) { return s->role == Role::Inner && s->stored && read_later(*s); }))
      b_.put("tl.debug_barrier()");
  }

  Accumulator accumulator(const Statement& s) {
    const ReductionKind kind = std::get<ir::Reduction>(s.op->node).kind;
    Accumulator a{&s, triton_combine(kind, s.body->dtype), fmt::format("a{}", next_), "", ""};
    if (kind == ReductionKind::ArgMax || kind == ReductionKind::ArgMin) {
      a.place = a.name + "_at";
      const auto vars = b_.nest.vars();
      a.place_type =
          b_.env().bounds(s.position, vars).high < std::numeric_limits<std::int32_t>::max() ? "tl.int32" : "tl.int64";
    }
    for (const OnlinePair& p : pairs_)
      if (p.first == &s) {
        a.pair = &p;
        a.parts = p.kind == OnlinePair::Kind::Softmax
                      ? std::vector{a.name, a.name + "_sum"}
                      : std::vector{a.name + "_mean", a.name + "_squares", a.name + "_count"};
        a.combine.function = p.kind == OnlinePair::Kind::Softmax ? "c_soft" : "c_moments";
      }
    ++next_;
    return a;
  }

  /// A block of one number.
  std::string filled(const Accumulator& a, std::string_view number) const {
    return fmt::format("tl.full({}, {}, {})", b_.shape(kBothDims), number, a.combine.type);
  }

  void begin_pair(const Accumulator& a) {
    for (const std::string& part : a.parts) b_.line("{} = {}", part, part == a.name ? identity(a) : filled(a, "0.0"));
  }

  void take_pair(const Accumulator& a, const std::string& x, const std::string& mask) {
    std::vector<std::string> made;
    for (const std::string& part : a.parts) made.push_back(part + "_new");
    const bool soft = a.pair->kind == OnlinePair::Kind::Softmax;
    const std::string one = filled(a, "1.0");
    b_.line("{} = {}({}, {}, {})", fmt::join(made, ", "), a.combine.function, fmt::join(a.parts, ", "), x,
            soft ? one : filled(a, "0.0") + ", " + one);
    for (std::size_t k = 0; k < made.size(); ++k)
      b_.line("{} = {}", a.parts[k],
              mask.empty() ? made[k] : fmt::format("tl.where({}, {}, {})", mask, made[k], a.parts[k]));
  }

  /// The results of both. Where the maximum is infinite, the sum is what exponentials about it, or about 0, come to.
  void end_pair(const Accumulator& a) {
    const std::string parts = fmt::format("{}", fmt::join(a.parts, ", ")),
                      first = fmt::format("r{}_{}", next_++, a.name), second = fmt::format("r{}_{}", next_++, a.name);
    b_.line("{0} = tl.reduce(({0}), 1, {1})", parts, a.combine.function);
    if (a.pair->kind == OnlinePair::Kind::Moments) {
      b_.line("{} = ({} * {})[:, None]", first, a.parts[0], a.parts[2]);
      b_.line("{} = {}[:, None]", second, a.parts[1]);
    } else {
      const bool about_zero = a.pair->second->body->args[0]->args[1]->op == ScalarOp::Where;
      b_.line("{} = {}[:, None]", first, a.parts[0]);
      b_.line("{} = {}[:, None]", second, a.parts[1]);
      const std::string infinite =
          about_zero ? fmt::format("tl.where({} > 0, {}, 0.0)", first, first) : "float(\"nan\")";
      b_.line("{0} = tl.where(tl.abs({1}) == float(\"inf\"), {2}, {0})", second, first, infinite);
    }
    made(*a.statement, first);
    made(*a.pair->second, second);
  }

  std::string identity(const Accumulator& a) const {
    return fmt::format("tl.full({}, {}, {})", b_.shape(kBothDims), a.combine.identity, a.combine.type);
  }
  std::string no_place(const Accumulator& a) const {
    return fmt::format("tl.full({}, {}, {})", b_.shape(kBothDims),
                       triton_identity(ReductionKind::Min, a.place_type == "tl.int32" ? DType::I32 : DType::I64),
                       a.place_type);
  }

  void begin(const Accumulator& a) {
    if (a.pair) return begin_pair(a);
    b_.line("{} = {}", a.name, identity(a));
    if (!a.place.empty()) b_.line("{} = {}", a.place, no_place(a));
  }

  void points(const std::vector<const Statement*>& statements, const std::vector<Accumulator>& all) {
    std::size_t next = 0;
    for (const Statement* s : statements) {
      if (s->role == Role::Reduce) {
        take(all[next++]);
        continue;
      }
      const Scalar x = b_.value_to_store(*s);
      const std::string value = b_.value(x);
      if (s->stored) b_.store(*s, value, kBothDims);
    }
  }

  /// The values of a block of points go into the accumulator; those outside leave it as it is.
  void take(const Accumulator& a) {
    std::string x = b_.block_value(a.statement->body, kBothDims), mask = b_.mask(kAlongR);
    if (a.combine.truth) x = fmt::format("tl.cast({}, {})", x, a.combine.type);
    if (a.pair) return take_pair(a, x, mask);
    if (!a.place.empty()) return take_place(a, x, mask);
    if (block_.looped) x = fmt::format("{}({}, {})", a.combine.function, a.name, x);
    if (!mask.empty()) x = fmt::format("tl.where({}, {}, {})", mask, x, block_.looped ? a.name : identity(a));
    b_.line("{} = {}", a.name, x);
  }

  void take_place(const Accumulator& a, const std::string& x, const std::string& mask) {
    std::string at = fmt::format("tl.cast({}, {})", b_.text(a.statement->position), a.place_type);
    if (b_.dims(a.statement->position) != kBothDims)
      at = fmt::format("tl.broadcast_to({}, {})", at, b_.shape(kBothDims));
    if (!block_.looped) {
      b_.line("{} = {}", a.name, mask.empty() ? x : fmt::format("tl.where({}, {}, {})", mask, x, identity(a)));
      b_.line("{} = {}", a.place, mask.empty() ? at : fmt::format("tl.where({}, {}, {})", mask, at, no_place(a)));
      return;
    }
    const std::string v = a.name + "_new", p = a.place + "_new";
    b_.line("{}, {} = {}({}, {}, {}, {})", v, p, a.combine.function, a.name, a.place, x, at);
    b_.line("{0} = {1}", a.name, mask.empty() ? v : fmt::format("tl.where({}, {}, {})", mask, v, a.name));
    b_.line("{0} = {1}", a.place, mask.empty() ? p : fmt::format("tl.where({}, {}, {})", mask, p, a.place));
  }

  /// What the accumulator comes to, for each row.
  void end(const Accumulator& a) {
    if (a.pair) return end_pair(a);
    const std::string result = fmt::format("r{}", next_++) + "_" + a.name;
    if (a.place.empty()) {
      b_.line("{} = tl.reduce({}, 1, {})[:, None]{}", result, a.name, a.combine.function,
              a.combine.truth ? " != 0" : "");
    } else {
      b_.line("{0}, {1} = tl.reduce(({0}, {1}), 1, {2})", a.name, a.place, a.combine.function);
      b_.line("{} = tl.cast({}, tl.int64)[:, None]", result, a.place);
    }
    made(*a.statement, result);
  }

  void made(const Statement& s, const std::string& value) {
    if (s.stored) b_.store(s, value, kAlongX);
    b_.set_local(s.op->outs[0], value, kAlongX);
  }

  bool read_later(const Statement& made) const {
    for (const Statement& s : b_.nest.statements)
      if (s.level > made.level && reads(s, made.op->outs[0])) return true;
    return false;
  }

  static bool reads(const Statement& s, ir::BufferId b) {
    for (Scalar n : ir::topological(std::span(&s.body, 1)))
      if (n->op == ScalarOp::LinearLoad && n->buffer == b) return true;
    return false;
  }

  void outer_level() {
    // All are computed before any is stored: a thread must not read what another has just written.
    for (const Statement& s : b_.nest.statements) {
      if (s.level != level_ || s.role != Role::Outer) continue;
      const std::string value = b_.block_value(s.body, kAlongX);
      const bool waits = std::ranges::any_of(
          b_.nest.statements, [&](const Statement& w) { return w.stored && &w != &s && reads(s, w.op->outs[0]); });
      if (waits) b_.put("tl.debug_barrier()");
      made(s, value);
    }
  }

  TritonBody& b_;
  const std::vector<LoopDim>& outer_;
  const BlockShape& block_;
  Expr length_;
  std::span<const OnlinePair> pairs_;
  int level_ = 0;
  std::size_t next_ = 0;
};

}  // namespace

Kernel triton_reductions(TritonBody& b, const std::vector<LoopDim>& outer, const BlockShape& block,
                         std::span<const OnlinePair> pairs) {
  return Reductions(b, outer, block, pairs).print();
}

}  // namespace coil::codegen
