// The values of a kernel: loads, index values, what scalar operators become.
#include <cmath>
#include <limits>

#include "codegen/cpp/kernel_printer.h"
#include "support/error.h"
#include "sym/print.h"

namespace coil::codegen {

std::string storage_type(DType d) {
  if (d == DType::F16 || d == DType::BF16) return "u16";
  if (d == DType::Bool || d == DType::F8E4M3 || d == DType::F8E5M2) return "u8";
  return std::string(short_name(d));
}

std::string scalar_type(DType register_type) {
  return register_type == DType::Bool ? "bool" : std::string(short_name(register_type));
}
std::string vector_type(DType register_type) {
  return register_type == DType::Bool ? "boolv" : std::string(short_name(register_type)) + "v";
}

std::string float_literal(double x, DType d) {
  const char* suffix = d == DType::F32 ? "f" : "";
  if (std::isnan(x)) return d == DType::F32 ? "__builtin_nanf(\"\")" : "__builtin_nan(\"\")";
  if (std::isinf(x)) return std::string(x < 0 ? "-" : "") + (d == DType::F32 ? "__builtin_inff()" : "__builtin_inf()");
  return fmt::format("{:a}{}", d == DType::F32 ? static_cast<double>(static_cast<float>(x)) : x, suffix);
}

std::string int_literal(std::int64_t x, DType d) {
  if (d == DType::Bool) return x ? "true" : "false";
  if (x == std::numeric_limits<std::int64_t>::min())
    return fmt::format("({})(-9223372036854775807L - 1)", scalar_type(d));
  return fmt::format("({}){}{}", scalar_type(d), x, d == DType::U64 ? "ul" : "l");
}

std::string Printer::as_vector(const Local& value, DType d) {
  return value.varying ? value.name : fmt::format("c_splat_{}v({})", short_name(d), value.name);
}

Printer::Local Printer::name(Scalar n) {
  if (auto it = names_.find(n); it != names_.end()) return it->second;
  if (n->op == ScalarOp::Constant)
    return {is_floating(n->dtype) ? float_literal(n->number, n->dtype) : int_literal(n->integer, n->dtype), false};
  if (n->op == ScalarOp::LinearLoad)
    if (auto value = made_here(n)) return where_read(n, *value);
  // Operands first: an expression may be deep, so walk instead of recursing.
  const bool ready =
      std::all_of(n->args.begin(), n->args.end(), [&](Scalar a) { return a->args.empty() || names_.contains(a); });
  if (!ready)
    for (Scalar below : needed_for(n, [&](Scalar x) { return names_.contains(x); }))
      if (below->op != ScalarOp::Constant && !names_.contains(below)) bind(below);
  return bind(n);
}

Printer::Local Printer::bind(Scalar n) {
  if (n->op == ScalarOp::LinearLoad)
    if (auto value = made_here(n)) return where_read(n, *value);
  Local result = compute(n);
  const DType d = n->dtype;
  const std::string variable = fresh();
  line(fmt::format("const {} {} = {};", result.varying ? vector_type(d) : scalar_type(d), variable, result.name));
  result.name = variable;
  names_[n] = result;
  if (!scopes_.empty()) scopes_.back().push_back(n);
  return result;
}

std::optional<Printer::Local> Printer::made_here(Scalar load) {
  auto made = made_.find(load->buffer);
  if (made == made_.end()) return std::nullopt;
  const Statement& m = nest_.statements[made->second];
  if (!(load->index[0] == m.store) || strip_values_.contains(load->buffer)) return std::nullopt;
  if (m.role == Role::Reduce || m.role == Role::Outer || (m.level == level_ && in_loop_)) {
    auto it = locals_.find(load->buffer);
    COIL_CHECK(it != locals_.end(), "{} is used before it is computed", graph_.buffer(load->buffer).name);
    return it->second;
  }
  return std::nullopt;
}

Printer::Local Printer::compute(Scalar n) {
  switch (n->op) {
    case ScalarOp::LinearLoad: return load(n);
    case ScalarOp::Load: COIL_CHECK(false, "loads are linear by now");
    case ScalarOp::Index: return index_value(n);
    case ScalarOp::CheckIndex: return check_index(n);
    case ScalarOp::Require: return require(n);
    case ScalarOp::Random: return random(n);
    default: break;
  }
  const char* const coarse = coarse_.contains(n) ? "coarse_" : "";
  if (auto pair = coarse_.contains(n) ? together(n) : std::nullopt) {
    const Local x = name(pair->argument);
    return {fmt::format("c_coarse_{}({})", pair->function, x.name), x.varying};
  }
  std::vector<Local> args;
  bool varying = false;
  for (Scalar a : n->args) args.push_back(name(a)), varying = varying || args.back().varying;
  std::string list;
  if (n->op == ScalarOp::Where && args[0].varying && n->args[1]->mask == n->args[0] &&
      !made_.contains(n->args[1]->buffer))
    args[1] = raw_load(n->args[1]);
  if (n->op == ScalarOp::Cast && n->dtype == DType::F32 && n->args[0]->op == ScalarOp::Index &&
      n->args[0]->dtype == DType::I64 && varying)
    if (auto lanes = narrow_lanes(n->args[0]->index[0])) return {fmt::format("c_cast_f32({})", *lanes), true};
  // One condition for all lanes stays a bool: compilers take very long over choices by vectors that are all of one
  // value.
  const auto as_operand = [&](std::size_t k) {
    return varying && !(n->op == ScalarOp::Where && k == 0) ? as_vector(args[k], n->args[k]->dtype) : args[k].name;
  };
  for (std::size_t k = 0; k < args.size(); ++k) list += (k ? ", " : "") + as_operand(k);
  switch (n->op) {
    case ScalarOp::Cast: return {fmt::format("c_cast_{}({})", short_name(n->dtype), list), varying};
    case ScalarOp::Round: return {fmt::format("c_round_{}({})", short_name(n->rounded), list), varying};
    case ScalarOp::Bitcast: return {fmt::format("c_bitcast_{}({})", short_name(n->dtype), list), varying};
    case ScalarOp::Erf:
    case ScalarOp::Exp:
    case ScalarOp::Sigmoid:
    case ScalarOp::Tanh: return {fmt::format("c_{}{}({})", coarse, ir::name_of(n->op), list), varying};
    case ScalarOp::Div:
      if (n->dtype == DType::F32 && args[0].varying && !args[1].varying)
        return {fmt::format("c_{}div_by({}, {})", coarse, args[0].name, args[1].name), true};
      break;
    case ScalarOp::Mul:
      if (compared_.contains(n)) return {fmt::format("c_rounded(c_mul({}))", list), varying};
      break;
    default: break;
  }
  return {fmt::format("c_{}({})", ir::name_of(n->op), list), varying};
}

std::optional<std::string> Printer::narrow_lanes(Expr e) {
  const auto bounds = env().bounds(e, vars_);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - 16;  // lanes past a tail count on
  if (bounds.low < -kMost || bounds.high > kMost) return std::nullopt;
  return affine_lanes(e, DType::I32);
}

std::string Printer::whole_vector(const std::string& dtype, const std::string& at, Expr step) {
  const std::string n = tail_ ? "n" : "", count = tail_ ? ", n" : "";
  if (step.is_constant(1)) return fmt::format("c_load{}_{}v({}{})", n, dtype, at, count);
  if (step.is_constant(2) || step.is_constant(4))
    return fmt::format("c_loads{}{}_{}v({}{})", n, text(step), dtype, at, count);
  return fmt::format("c_loads{}_{}v({}, {}{})", n, dtype, at, text(step), count);
}

Expr Printer::span(BufferId b) {
  const ir::Layout& layout = graph_.buffer(b).layout;
  Expr last = 0;
  for (std::size_t d = 0; d < layout.sizes.size(); ++d) {
    if (env().bounds(layout.sizes[d]).low < 1) return 0;  // maybe empty
    last += (layout.sizes[d] - 1) * layout.strides[d];
  }
  return env().simplify(last + 1);
}

/// A value that this kernel made, as a load of it under a mask has it.
Printer::Local Printer::where_read(Scalar load, Local value) {
  if (!load->mask) return value;
  const Local mask = name(load->mask);
  if (!mask.varying && !value.varying)
    return {fmt::format("({} ? {} : ({})0)", mask.name, value.name, scalar_type(load->dtype)), false};
  return {fmt::format("c_where({}, {}, c_splat_{}v(({})0))", mask.name, as_vector(value, load->dtype),
                      short_name(load->dtype), scalar_type(load->dtype)),
          true};
}

Printer::Local Printer::load(Scalar n) {
  const DType reg = n->dtype;
  if (auto row = strip_values_.find(n->buffer);
      row != strip_values_.end() && nest_.statements[made_.at(n->buffer)].store == n->index[0])
    return where_read(n, {fmt::format("c_load_{}v({} + {})", short_name(reg), row->second, in_strip()), true});
  if (auto row = scratch_.find(n->buffer); row != scratch_.end() && made_.contains(n->buffer))
    return where_read(n, {fmt::format("c_load{}_{}v({} + {}{})", tail_ ? "n" : "", short_name(reg), row->second,
                                      row_position(), tail_ ? ", n" : ""),
                          true});
  const Local value = raw_load(n);
  if (!n->mask) return value;
  return name(n->mask).varying ? where_read(n, value) : value;
}

Printer::Local Printer::raw_load(Scalar n) {
  if (auto it = raw_.find(n); it != raw_.end()) return it->second;
  if (auto it = transposed_.find(n); it != transposed_.end()) return {it->second, true};
  if (auto it = gathered_.find(n); it != gathered_.end())
    return {whole_vector("f32", fmt::format("{} + {}", it->second, vector_->name()), 1), true};
  const DType reg = n->dtype;
  const std::string dtype(short_name(graph_.buffer(n->buffer).layout.dtype)), p = pointer(n->buffer, false);
  std::vector<Local> args;
  bool indirect_varies = false;
  std::vector<std::string> indirect;
  for (Scalar a : n->args)
    args.push_back(name(a)), indirect_varies = indirect_varies || args.back().varying,
                             indirect.push_back(args.back().name);
  const Expr index = n->index[0];
  const bool varying = varies(index) || indirect_varies;
  Local mask = n->mask ? name(n->mask) : Local{};
  auto zero = [&] { return fmt::format("c_splat_{}v(({})0)", short_name(reg), scalar_type(reg)); };
  if (!varying) {
    std::string x = fmt::format("c_load_{}({} + {})", dtype, p, text(index, indirect));
    if (!n->mask) return {x, false};
    if (!mask.varying) return {fmt::format("{} ? {} : ({})0", mask.name, x, scalar_type(reg)), false};
    const std::string any = tail_ ? fmt::format("c_and({}, c_firstn(n))", mask.name) : mask.name;
    return keep_raw(n, fmt::format("c_hany({}) ? c_splat_{}v({}) : {}", any, short_name(reg), x, zero()));
  }
  auto linear = indirect_varies ? std::nullopt : sym::linear_in(index, *vector_);
  if (linear && !mask.varying) {
    const std::string x = whole_vector(dtype, fmt::format("{} + {}", p, text(index, indirect)), linear->coefficient);
    if (!n->mask) return {x, true};
    return {fmt::format("{} ? {} : {}", mask.name, x, zero()), true};
  }
  std::vector<std::string> lanes;
  for (const Local& a : args) lanes.push_back(a.varying ? fmt::format("c_lane({}, l)", a.name) : a.name);
  std::string one = fmt::format("c_load_{}({} + {})", dtype, p, lane_text(index, lanes));
  if (n->mask)
    one = fmt::format("{} ? {} : ({})0", mask.varying ? fmt::format("c_lane({}, l)", mask.name) : mask.name, one,
                      scalar_type(reg));
  const auto step = linear ? linear->coefficient.constant() : std::nullopt;
  const Expr length = span(n->buffer);
  if (step && *step > 0 && !length.is_constant(0)) {
    // If all lanes are within the buffer, those outside of the mask may be read too: one load of a whole vector.
    const Expr reach = *step * ((tail_ ? env().loop_var("n") : Expr(lanes_)) - 1);
    const std::string at = text(index, indirect);
    return either(n, fmt::format("{0} >= 0 && {0} < {1}", at, text(length - reach)),
                  whole_vector(dtype, fmt::format("{} + {}", p, at), linear->coefficient), mask.name, one);
  }
  if (indirect_varies && !n->mask)
    if (auto value = window_load(n, args)) return *value;
  return keep_raw(n, lanes_of(reg, one));
}

Printer::Local Printer::keep_raw(Scalar n, const std::string& value) {
  const std::string variable = fresh();
  line(fmt::format("const {} {} = {};", vector_type(n->dtype), variable, value));
  if (!scopes_.empty()) scopes_.back().push_back(n);
  return raw_[n] = {variable, true};
}

Printer::Local Printer::either(Scalar n, const std::string& condition, const std::string& whole,
                               const std::string& mask, const std::string& lane) {
  const std::string value = fresh();
  line(fmt::format("{} {};", vector_type(n->dtype), value));
  line(fmt::format("if ({}) {} = {};", condition, value, whole));
  line(fmt::format("else if (!c_hany({})) {} = c_splat_{}v(({})0);", mask, value, short_name(n->dtype),
                   scalar_type(n->dtype)));
  line("else {");
  ++indent_;
  const std::string lanes = lanes_of(n->dtype, lane);
  line(fmt::format("{} = {};", value, lanes));
  --indent_;
  line("}");
  if (!scopes_.empty()) scopes_.back().push_back(n);
  return raw_[n] = {value, true};
}

std::optional<Printer::Local> Printer::window_load(Scalar n, const std::vector<Local>& args) {
  const Expr index = n->index[0];
  if (varies(index)) return std::nullopt;
  std::optional<std::size_t> moving;
  for (std::size_t k = 0; k < args.size(); ++k)
    if (args[k].varying) {
      if (moving) return std::nullopt;
      moving = k;
    }
  const Expr x = graph_.pool().indirect(*moving);
  auto linear = sym::linear_in(index, x);
  if (!linear) return std::nullopt;
  const DType reg = n->dtype;
  const std::string dtype(short_name(graph_.buffer(n->buffer).layout.dtype)), p = pointer(n->buffer, false),
                                                                              count = tail_ ? ", n" : "";
  std::vector<std::string> names;
  for (const Local& a : args) names.push_back(a.name);
  // Lane by lane: offsets are 64 bits wide, as buffers may be large.
  const Expr coefficient = linear->coefficient;
  names[*moving] = "0";
  std::string offsets = args[*moving].name;
  if (!coefficient.is_constant(1))
    offsets = fmt::format("c_mul({}, c_splat_i64v({}))", offsets, text(coefficient, names));
  const std::string gather = fmt::format("c_gather{}_{}v({} + {}, {}{})", tail_ ? "n" : "", dtype, p,
                                         text(linear->rest, names), offsets, count);
  const Scalar wide = n->args[*moving];
  const bool narrow = wide->op == ScalarOp::Cast && wide->args[0]->dtype == DType::I32;
  const Expr length = span(n->buffer);
  if (!narrow || !coefficient.is_constant(1) || !(reg == DType::F32 || reg == DType::I32 || reg == DType::U32) ||
      length.is_constant(0))
    return keep_raw(n, gather);
  auto window = windows_.find(wide);
  if (window == windows_.end()) {
    const std::string w = fresh(), lanes = name(wide->args[0]).name;
    line(fmt::format("const i32 {}b = c_lane({}, 0);", w, lanes));
    line(fmt::format("const i32v {0} = c_sub({1}, c_splat_i32v({0}b));", w, lanes));
    const std::string near = fmt::format("c_and(c_le(c_splat_i32v(0), {0}), c_lt({0}, c_splat_i32v(COIL_L)))", w);
    // Where the lanes lie apart, the window is far behind any buffer's end: one comparison for both.
    line(fmt::format("const i64 {}far = c_hall({}) ? 0 : (i64)1 << 62;", w,
                     tail_ ? fmt::format("c_or({}, c_not(c_firstn(n)))", near) : near));
    window = windows_.emplace(wide, w).first;
    if (!scopes_.empty()) scopes_.back().push_back(wide);
  }
  const std::string& w = window->second;
  names[*moving] = w + "b";
  const std::string at = text(index, names), value = fresh();
  line(fmt::format(
      "const {0} {1} = __builtin_expect({2} + {3}far <= {4}, 1) ? c_permute(c_load_{5}v({6} + {2}), {3}) : {7};",
      vector_type(reg), value, at, w, text(length - lanes_), dtype, p, gather));
  if (!scopes_.empty()) scopes_.back().push_back(n);
  return raw_[n] = {value, true};
}

Printer::Local Printer::index_value(Scalar n) {
  const Expr e = n->index[0];
  if (!varies(e))
    return {n->dtype == DType::Bool ? fmt::format("(bool)({})", text(e)) : fmt::format("(i64)({})", text(e)), false};
  if (n->dtype == DType::I64)
    if (auto lanes = affine_lanes(e)) return {*lanes, true};
  if (n->dtype == DType::Bool)
    if (auto vector = condition(e)) return {*vector, true};
  return {lanes_of(n->dtype, lane_text(e)), true};
}

std::optional<std::string> Printer::affine_lanes(Expr e, DType d) {
  const std::string_view t = short_name(d);
  if (!varies(e)) return fmt::format("c_splat_{0}v(({0}){1})", t, text(e));
  auto linear = sym::linear_in(e, *vector_);
  if (!linear) return std::nullopt;
  if (linear->coefficient.is_constant(1)) return fmt::format("c_iota_{0}v(({0}){1})", t, text(e));
  return fmt::format("c_add(c_splat_{0}v(({0}){1}), c_mul(c_iota_{0}v(0), c_splat_{0}v(({0}){2})))", t, text(e),
                     text(linear->coefficient));
}

std::optional<std::string> Printer::comparison(Expr e) {
  // What is compared grows (or falls) by whole steps from lane to lane: the lanes for which it holds are the first
  // ones, or all but these.
  const bool strict = e.kind() == sym::Kind::Lt;
  if (!strict && e.kind() != sym::Kind::Le) return std::nullopt;
  Expr d = e.operands()[0] - e.operands()[1] + (strict ? 1 : 0);  // d <= 0
  auto linear = sym::linear_in(d, *vector_);
  const auto step = linear ? linear->coefficient.constant() : std::nullopt;
  if (!step || *step == 0) return std::nullopt;
  if (*step > 0) return fmt::format("c_below({})", text(sym::floor_div(0 - d, *step) + 1));
  return fmt::format("c_not(c_below({}))", text(sym::ceil_div(d, -*step)));
}

std::optional<std::string> Printer::condition(Expr e) {
  if (!varies(e)) return fmt::format("c_splat_b8v((bool)({}))", text(e));
  if (auto lanes = comparison(e)) return lanes;
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

bool Printer::ends_at(Scalar n) const {
  for (const Statement& s : nest_.statements) {
    if (std::find(s.indirect.begin(), s.indirect.end(), n) == s.indirect.end()) continue;
    // Until the kernel ends, nothing may read at the index that is out of range.
    std::vector<Scalar> within;
    for (Scalar x : s.indirect) {
      if (x->op == ir::ScalarOp::CheckIndex)
        within.insert(within.end(), x->args.begin(), x->args.end());
      else
        within.push_back(x);
    }
    const auto looked_up = [](Scalar x) { return x->op == ir::ScalarOp::CheckIndex; };
    const auto places = ir::topological(within), values = ir::topological({&s.body, 1});
    return std::none_of(places.begin(), places.end(), looked_up) &&
           std::find(values.begin(), values.end(), n) == values.end();
  }
  return false;
}

Printer::Local Printer::check_index(Scalar n) {
  checks_indices_ = true;
  const Local x = name(n->args[0]);
  const std::string size = text(n->index[0]);
  if (!x.varying && ends_at(n)) return {fmt::format("coil_place({}, {})", x.name, size), false};
  if (!x.varying) return {fmt::format("coil_check({}, {}, status)", x.name, size), false};
  return {fmt::format("c_check({}, {}, {}, status)", x.name, size, tail_ ? "n" : "COIL_L"), true};
}

Printer::Local Printer::require(Scalar n) {
  may_divide_by_zero_ = true;
  const Local x = name(n->args[0]), holds = name(n->args[1]);
  if (holds.varying)
    line(fmt::format("c_require({}, {}, status);", holds.name, tail_ ? "n" : "COIL_L"));
  else
    line(fmt::format("if (__builtin_expect(!({}), 0)) *status = 1;", holds.name));
  return x;
}

Printer::Local Printer::random(Scalar n) {
  const Local seed = name(n->args[0]);
  COIL_CHECK(!seed.varying, "one seed for a vector");
  const Expr e = n->index[0];
  const std::string from = fmt::format("{}, {}", seed.name, scalar(fmt::format("salt {}", n->integer), n->integer));
  if (!varies(e)) return {fmt::format("c_random({}, {})", from, text(e)), false};
  if (auto linear = sym::linear_in(e, *vector_); linear && linear->coefficient.is_constant(1)) {
    auto [row, added] = random_rows_.emplace(n, fmt::format("q{}", random_rows_.size()));
    if (added) head_ += fmt::format("  c_random_row {};\n", row->second);
    return {fmt::format("c_random_at({}, {}, {})", row->second, from, text(e)), true};
  }
  auto lanes = affine_lanes(e);
  return {fmt::format("c_random({}, {})", from, lanes ? *lanes : lanes_of(DType::I64, lane_text(e))), true};
}

std::string Printer::lanes_of(DType reg, const std::string& lane) {
  const std::string array = fresh();
  line(fmt::format("{} {}[COIL_L] = {{}};", storage_type(reg), array));
  line(fmt::format("for (i64 l = 0; l < {}; ++l) {}[l] = {};", tail_ ? "n" : "COIL_L", array, lane));
  return fmt::format("c_load_{}v({})", short_name(reg), array);
}

std::string Printer::lane_text(Expr e, const std::vector<std::string>& indirect) {
  Expr lane = env().loop_var("l");
  return text(vector_ ? sym::substitute(e, std::span(&*vector_, 1), std::vector<Expr>{*vector_ + lane}) : e, indirect);
}

std::string Printer::text(Expr e, const std::vector<std::string>& indirect) {
  if (auto c = e.constant()) return *c < 0 ? fmt::format("({})", *c) : std::to_string(*c);
  auto spell = [&](Expr s) -> std::string {
    if (s.symbol_kind() == sym::SymbolKind::Loop) {
      for (std::size_t k = 0; k < indirect.size(); ++k)
        if (s == graph_.pool().indirect(k)) return "(" + indirect[k] + ")";
      return std::string(s.name());
    }
    return scalar(std::string(s.name()), s);
  };
  auto nonnegative = [&](Expr x) { return env().bounds(x, vars_).low >= 0; };
  return "(" +
         sym::to_code(sym::Language::Cpp, e, spell, nonnegative, sym::IntWidth::Bits64,
                      [&](Expr x) { return arguments_.term(env(), x); }) +
         ")";
}

void Printer::line(const std::string& s) {
  body_ += std::string(static_cast<std::size_t>(2 * indent_), ' ') + s + "\n";
}

}  // namespace coil::codegen
