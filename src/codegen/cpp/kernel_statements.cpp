// What the statements of a kernel do with their values: stores, accumulators of reductions and scans, scatters.
#include <algorithm>
#include <cmath>
#include <limits>

#include "codegen/cpp/kernel_printer.h"
#include "ir/combining.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

constexpr std::int64_t kStreamedBytes = 4 << 20;  // of a result that may be worth storing past the cache

/// The value that leaves a reduction unchanged.
std::string identity(ReductionKind kind, DType d) {
  const ir::NeutralValue v = ir::neutral_value(kind, d);
  return is_floating(d) ? float_literal(v.real, d) : int_literal(v.integer, d);
}

std::string combine(ReductionKind kind) { return fmt::format("c_{}", ir::name_of(ir::combining_op(kind))); }

std::string_view across_lanes(ReductionKind kind, DType d) {
  if (d == DType::Bool)
    return kind == ReductionKind::Min || kind == ReductionKind::Prod || kind == ReductionKind::All ? "c_hall"
                                                                                                   : "c_hany";
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

}  // namespace

void Printer::outer_statement(const Statement& s) {
  const Local value = name(s.body);
  if (s.stored) store(s, value);
  locals_[s.op->outs[0]] = value;
}

void Printer::inner_statement(const Statement& s) {
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
    line(fmt::format("c_store{}_{}({} + {}, {}{});", tail_ ? "n" : "", short_name(register_of(out)), row->second,
                     row_position(), as_vector(value, register_of(out)), tail_ ? ", n" : ""));
  locals_[out] = value;
}

std::string Printer::start_of(const Statement& s) const {
  return s.role == Role::Scan ? scan_identity(std::get<ir::Scan>(s.op->node).kind, carried_type(s))
                              : identity(kind_of(s), s.body->dtype);
}

bool Printer::carries_f64(const Statement& s) {
  if (s.role != Role::Scan || s.body->dtype != DType::F32) return false;
  const ir::ScanKind kind = std::get<ir::Scan>(s.op->node).kind;
  return kind != ir::ScanKind::Max && kind != ir::ScanKind::Min;
}

DType Printer::carried_type(const Statement& s) { return carries_f64(s) ? DType::F64 : s.body->dtype; }

void Printer::declare_accumulator(const Statement& s) {
  if (inner_vector() && carries_f64(s)) {
    line(fmt::format("f64 {} = {};", accumulator(s), start_of(s)));
    return;
  }
  declare(carried_type(s), accumulator(s), start_of(s));
  if (s.role == Role::Reduce && is_arg(kind_of(s))) declare(position_type(s), accumulator(s) + "p", start_position(s));
}

void Printer::declare(DType d, const std::string& variable, const std::string& start) {
  if (vector_accumulator())
    line(fmt::format("{} {} = c_splat_{}v({});", vector_type(d), variable, short_name(d), start));
  else
    line(fmt::format("{} {} = {};", scalar_type(d), variable, start));
}

void Printer::load_accumulator(const Statement& s, char row) {
  auto from = [&](DType d, const std::string& a) {
    line(fmt::format("{} {} = c_load_{}v({}{} + {});", vector_type(d), a, short_name(d), row, a, in_strip()));
  };
  from(carried_type(s), accumulator(s));
  if (s.role == Role::Reduce && is_arg(kind_of(s))) from(position_type(s), accumulator(s) + "p");
}

void Printer::save_accumulator(const Statement& s, char row) {
  auto to = [&](DType d, const std::string& a) {
    line(fmt::format("c_store_{}({}{} + {}, {});", short_name(d), row, a, in_strip(), a));
  };
  to(carried_type(s), accumulator(s));
  if (s.role == Role::Reduce && is_arg(kind_of(s))) to(position_type(s), accumulator(s) + "p");
}

DType Printer::position_type(const Statement& s) {
  Expr count = 1;
  for (Expr e : s.op->reduced()) count *= e;
  return env().bounds(count).high <= std::numeric_limits<std::int32_t>::max() ? DType::I32 : DType::I64;
}

bool Printer::in_order(const Statement& s) const {
  // Each loop must step over all that the loops inside it reach.
  Expr reach = 1;
  for (std::size_t k = nest_.inner.size(); k-- > 0;) {
    const LoopDim& d = nest_.inner[k];
    auto linear = sym::linear_in(s.position, d.var);
    if (!linear || !(linear->coefficient == reach)) return false;
    reach *= d.size;
  }
  return true;
}

// The first position serves where positions ascend: it stays only if every value is the identity, and then it is the
// answer.
std::string Printer::start_position(const Statement& s) {
  if (in_order(s)) return int_literal(0, position_type(s));
  return position_type(s) == DType::I32 ? "(i32)0x7fffffff" : "(i64)0x7fffffffffffffffl";
}

std::string Printer::better(const Statement& s, const std::string& x, const std::string& xp, const std::string& a) {
  const char* beats = kind_of(s) == ReductionKind::ArgMax ? "c_gt" : "c_lt";
  std::string take = fmt::format("c_or({0}({1}, {2}), c_and(c_eq({1}, {2}), c_lt({3}, {2}p)))", beats, x, a, xp);
  if (is_floating(s.body->dtype))
    take = fmt::format(
        "c_or(c_and({0}, c_not(c_isnan({2}))), c_and(c_isnan({1}), c_or(c_not(c_isnan({2})), c_lt({3}, {2}p))))", take,
        x, a, xp);
  return take;
}

void Printer::accumulate(const Statement& s, const Local& value) {
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
  const DType pt = position_type(s);
  const std::string xn = fresh(), p = fresh(), m = fresh();
  if (auto lanes = varies(s.position) ? affine_lanes(s.position, pt) : std::nullopt) {
    line(fmt::format("const auto {} = {};", p, *lanes));
  } else {
    const Local position = name(graph_.pool().cast(graph_.pool().index(s.position), pt));
    line(fmt::format("const auto {} = {};", p, vector_accumulator() ? as_vector(position, pt) : position.name));
  }
  line(fmt::format("const auto {} = {};", xn, x));
  std::string take = better(s, xn, p, a);
  if (in_order(s)) {
    take = fmt::format("{}({}, {})", kind == ReductionKind::ArgMax ? "c_gt" : "c_lt", xn, a);
    if (is_floating(d))
      take = fmt::format("c_and(c_not({}({}, {})), c_not(c_isnan({})))",
                         kind == ReductionKind::ArgMax ? "c_le" : "c_ge", xn, a, a);
  }
  if (partial) take = fmt::format("c_and(c_firstn(n), {})", take);
  line(fmt::format("const auto {} = {};", m, take));
  line(fmt::format("{0} = c_where({1}, {2}, {0}); {0}p = c_where({1}, {3}, {0}p);", a, m, xn, p));
}

void Printer::finish_reduction(const Statement& s) {
  const ReductionKind kind = kind_of(s);
  const DType d = s.body->dtype;
  const std::string a = accumulator(s);
  if (!strip_)
    for (int step = copies_ / 2; step > 0; step /= 2)
      for (int k = 0; k < step; ++k) {
        const std::string to = accumulator(s, k), from = accumulator(s, k + step);
        if (!is_arg(kind)) {
          line(fmt::format("{0} = {1}({0}, {2});", to, combine(kind), from));
          continue;
        }
        const std::string m = fresh();
        line(fmt::format("const auto {} = {};", m, better(s, from, from + "p", to)));
        line(fmt::format("{0} = c_where({1}, {2}, {0}); {0}p = c_where({1}, {2}p, {0}p);", to, m, from));
      }
  Local result{a, vector_accumulator()};
  if (is_arg(kind)) {
    result.name = fmt::format("c_cast_i64({}p)", a);
    if (inner_vector()) {
      result = {fresh(), false};
      const char* beats = kind == ReductionKind::ArgMax ? ">" : "<";
      line(fmt::format("{0} {1}m = c_lane({2}, 0); i64 {1} = c_lane({2}p, 0);", scalar_type(d), result.name, a));
      line("for (int l = 1; l < COIL_L; ++l) {");
      line(fmt::format("  const {} x = c_lane({}, l); const i64 p = c_lane({}p, l);", scalar_type(d), a, a));
      std::string take = fmt::format("x {0} {1}m || (x == {1}m && p < {1})", beats, result.name);
      if (is_floating(d))
        take = fmt::format("x != x ? ({0}m == {0}m || p < {0}) : ({0}m == {0}m && ({1}))", result.name, take);
      line(fmt::format("  if ({}) {{ {}m = x; {} = p; }}", take, result.name, result.name));
      line("}");
    } else {
      const std::string position = fresh();
      line(fmt::format("const auto {} = {};", position, result.name));
      result.name = position;
    }
  } else if (inner_vector()) {
    result = {fresh(), false};
    line(fmt::format("const {} {} = {}({});", scalar_type(d), result.name, across_lanes(kind, d), a));
  }
  if (s.stored) store(s, result);
  locals_[s.op->outs[0]] = result;
}

std::string Printer::scan_identity(ir::ScanKind kind, DType d) {
  switch (kind) {
    case ir::ScanKind::Sum: return identity(ReductionKind::Sum, d);
    case ir::ScanKind::Prod: return identity(ReductionKind::Prod, d);
    case ir::ScanKind::Max:
    case ir::ScanKind::LogSumExp: return identity(ReductionKind::Max, d);
    case ir::ScanKind::Min: return identity(ReductionKind::Min, d);
  }
  return {};
}

Printer::Local Printer::scan(const Statement& s, const Local& value) {
  const auto kind = std::get<ir::Scan>(s.op->node).kind;
  const std::string a = accumulator(s), given = vector_accumulator() ? as_vector(value, s.body->dtype) : value.name;
  const char* f = kind == ir::ScanKind::Sum    ? "add"
                  : kind == ir::ScanKind::Prod ? "mul"
                  : kind == ir::ScanKind::Max  ? "max"
                                               : "min";
  if (inner_vector()) return scan_within_vectors(s, f, given);
  const bool wide = carries_f64(s);
  const std::string x = wide ? fmt::format("c_cast_f64({})", given) : given;
  if (kind == ir::ScanKind::LogSumExp) {
    const std::string y = fresh(), m = fresh(), e = fresh();
    line(fmt::format("const auto {} = {};", y, x));
    line(fmt::format("const auto {} = c_max({}, {});", m, a, y));
    line(fmt::format("const auto {} = c_add({}, c_log1p(c_exp(c_sub(c_min({}, {}), {}))));", e, m, a, y, m));
    line(fmt::format("{} = c_where(c_isinf({}), {}, {});", a, m, m, e));
  } else {
    line(fmt::format("{0} = c_{1}({0}, {2});", a, f, x));
  }
  const std::string now = fresh();
  line(fmt::format("const auto {} = {};", now, wide ? fmt::format("c_cast_f32({})", a) : a));
  return {now, vector_accumulator()};
}

/// Scans within each vector first, so that only one operation a vector depends on the vector before.
Printer::Local Printer::scan_within_vectors(const Statement& s, const char* f, const std::string& x) {
  const std::string a = accumulator(s), lanes = fresh(), now = fresh();
  const bool wide = carries_f64(s), product = std::get<ir::Scan>(s.op->node).kind == ir::ScanKind::Prod;
  // The sum of a vector's few lanes is as good in f32; a product's error is part of all products behind it.
  line(fmt::format("const auto {} = c_prefix_{}({});", lanes, f,
                   wide && product ? fmt::format("c_cast_f64({})", x) : x));
  if (!wide) {
    line(fmt::format("const auto {} = c_{}({}, {});", now, f, a, lanes));
    if (!tail_) line(fmt::format("{0} = c_{1}({0}, c_last({2}));", a, f, lanes));
  } else if (product) {
    line(fmt::format("const auto {} = c_cast_f32(c_mul(c_splat_f64v({}), {}));", now, a, lanes));
    if (!tail_) line(fmt::format("{} *= c_lane({}, COIL_L - 1);", a, lanes));
  } else {
    line(fmt::format("const auto {} = c_add(c_splat_f32v((f32){}), {});", now, a, lanes));
    if (!tail_) line(fmt::format("{} += c_lane({}, COIL_L - 1);", a, lanes));
  }
  return {now, true};
}

bool Printer::streams(const Statement& s) {
  const BufferId b = s.op->outs[0];
  const ir::Layout& layout = graph_.buffer(b).layout;
  const auto element = static_cast<std::int64_t>(size_of(layout.dtype));
  if (element < 2 || lanes_ < 8 || env().hint_or(sym::product(layout.sizes), 0) * element < kStreamedBytes)
    return false;
  const auto holds = [b](const auto& home) { return home.second == b; };
  if (std::ranges::any_of(homes_, holds)) return false;  // its lines are in the cache, written to before
  // If a vector is shorter than a cache line, the vectors of a line must be stored one after the other.
  const bool in_a_row =
      (inner_vector() && s.role == Role::Inner) || (outer_vector() && nest_.inner.empty() && !nest_.tiled);
  if (!in_a_row && lanes_ * element % kLine != 0) return false;
  return std::ranges::none_of(nest_.statements, [&](const Statement& t) {
    const auto loads = linear_loads(t);
    return std::ranges::any_of(loads, [&](Scalar l) { return l->buffer == b; });
  });
}

void Printer::store(const Statement& s, const Local& value) {
  const BufferId b = s.op->outs[0];
  const DType d = graph_.buffer(b).layout.dtype, reg = ir::register_type(d);
  const std::string p = pointer(b, true);
  const Exprs& sizes = graph_.buffer(b).layout.sizes;
  if (std::any_of(sizes.begin(), sizes.end(), [](Expr s) { return s.is_constant(0); }))
    return;  // no iteration, whatever its strides say
  if (!varies(s.store)) {
    COIL_CHECK(!value.varying, "lanes of one vector are stored to one place of {}", graph_.buffer(b).name);
    line(fmt::format("c_store_{}({} + {}, {});", short_name(d), p, text(s.store), value.name));
    return;
  }
  const std::string x = as_vector(value, reg), n = tail_ ? "n" : "", count = tail_ ? ", n" : "";
  auto linear = sym::linear_in(s.store, *vector_);
  if (linear && linear->coefficient.is_constant(1) && !tail_ && streams(s)) {
    streamed_.insert(b);
    line(fmt::format("c_stream_{}({} + {}, {}, past);", short_name(d), p, text(s.store), x));
  } else if (linear && linear->coefficient.is_constant(1)) {
    line(fmt::format("c_store{}_{}({} + {}, {}{});", n, short_name(d), p, text(s.store), x, count));
  } else if (linear) {
    line(fmt::format("c_stores{}_{}({} + {}, {}, {}{});", n, short_name(d), p, text(s.store), text(linear->coefficient),
                     x, count));
  } else {
    line(fmt::format("c_scatter{}_{}({}, {}, {}{});", n, short_name(d), p, lanes_of(DType::I64, lane_text(s.store)), x,
                     count));
  }
}

void Printer::scatter(const Statement& s) {
  std::vector<std::string> indirect;
  bool by_status = false;
  for (Scalar x : s.indirect) {
    const Local place = name(x);
    indirect.push_back(place.name);
    if (x->op == ir::ScalarOp::CheckIndex && (place.varying || !ends_at(x))) by_status = true;
  }
  // As in eager, what comes before a wrong index is written, and nothing else: least of all the place that stands in
  // for it. Where it can be helped the status is not read again at each element: it would come from memory behind every
  // store.
  if (!by_status)
    for (std::size_t i = 0; i < indirect.size(); ++i)
      if (s.indirect[i]->op == ir::ScalarOp::CheckIndex)
        line(fmt::format("if (__builtin_expect({} < 0, 0)) {{ *status = 1; return; }}", indirect[i]));
  if (by_status)
    line("if (__builtin_expect(*status != 0, 0)) return;");
  else if (may_fail())
    head_ += "  if (*status != 0) return;\n";
  if (!nest_.partition) {
    combine_at(s, indirect);
    return;
  }
  line(fmt::format("if ({0} >= begin && {0} < end) {{", indirect[nest_.partition->indirect]));
  in_scope([&] { combine_at(s, indirect); });
  line("}");
}

void Printer::combine_at(const Statement& s, const std::vector<std::string>& indirect) {
  const auto& node = std::get<ir::Scatter>(s.op->node);
  const BufferId b = s.op->outs[0];
  const DType d = graph_.buffer(b).layout.dtype;
  const Local value = name(s.body);
  const std::string p = pointer(b, true), at = fresh();
  line(fmt::format("const i64 {} = {};", at, text(s.store, indirect)));
  const std::string n = inner_vector() && tail_ ? "n" : "", count = inner_vector() && tail_ ? ", n" : "";
  std::string x = inner_vector() ? as_vector(value, ir::register_type(d)) : value.name;
  const std::string old =
      fmt::format("c_load{}_{}{}({} + {}{})", n, short_name(d), inner_vector() ? "v" : "", p, at, count);
  if (node.mode == ir::StoreMode::Add)
    x = d == DType::Bool ? fmt::format("c_or({}, {})", old, x) : fmt::format("c_add({}, {})", old, x);
  if (node.mode == ir::StoreMode::Prod)
    x = d == DType::Bool ? fmt::format("c_and({}, {})", old, x) : fmt::format("c_mul({}, {})", old, x);
  if (node.mode == ir::StoreMode::Max) x = fmt::format("c_max({}, {})", old, x);
  if (node.mode == ir::StoreMode::Min) x = fmt::format("c_min({}, {})", old, x);
  line(fmt::format("c_store{}_{}({} + {}, {}{});", n, short_name(d), p, at, x, count));
}

}  // namespace coil::codegen
