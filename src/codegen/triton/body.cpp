#include "codegen/triton/body.h"

#include <algorithm>

#include "codegen/in_place.h"
#include "codegen/index_width.h"
#include "codegen/triton/operations.h"
#include "codegen/triton/program.h"
#include "support/error.h"
#include "support/hash.h"
#include "sym/print.h"

namespace coil::codegen {

using ir::Scalar;
using ir::ScalarOp;

// ---- What there is ----

namespace {

std::string describe(ScalarOp op, DType d) { return fmt::format("{} of {}", ir::name_of(op), short_name(d)); }

std::optional<std::string> not_in_triton(const ir::Graph& graph, Scalar n) {
  switch (n->op) {
    case ScalarOp::LinearLoad:
    case ScalarOp::Load: {
      const DType d = graph.buffer(n->buffer).layout.dtype;
      if (triton_signature(d).empty()) return fmt::format("elements of {}", short_name(d));
      if (compute_dtype(d) != n->dtype) return fmt::format("a load of {} as {}", short_name(d), short_name(n->dtype));
      return std::nullopt;
    }
    case ScalarOp::Round:
      if (n->rounded != DType::F16 && n->rounded != DType::BF16 && !is_float8(n->rounded))
        return describe(n->op, n->rounded);
      return std::nullopt;
    case ScalarOp::Constant:
    case ScalarOp::Cast:
    case ScalarOp::Bitcast:
      if (is_float8(n->dtype)) return describe(n->op, n->dtype);
      return std::nullopt;
    case ScalarOp::Index:
    case ScalarOp::CheckIndex:
    case ScalarOp::Require:
    case ScalarOp::Random:
    case ScalarOp::Where: return std::nullopt;
    default:
      if (!triton_spelling(n->op, n->args[0]->dtype)) return describe(n->op, n->args[0]->dtype);
      return std::nullopt;
  }
}

}  // namespace

std::optional<std::string> not_in_triton(const ir::Graph& graph, const LoopNest& nest) {
  for (const Statement& s : nest.statements) {
    std::vector<Scalar> roots = s.indirect;
    roots.push_back(s.body);
    for (Scalar n : ir::topological(roots))
      if (auto why = not_in_triton(graph, n)) return why;
    const DType d = graph.buffer(s.op->outs[0]).layout.dtype;
    if (triton_signature(d).empty()) return fmt::format("elements of {}", short_name(d));
  }
  return std::nullopt;
}

TritonBody::TritonBody(ir::Graph& g, const LoopNest& n, bool two)
    : graph(g), nest(n), two_(two), wide_(!indices_fit_32(g, n)), vars_(n.vars()), coarse_(coarse_values(g, n)) {
  for (const LoopDim& d : n.outer) axes_[d.var] = kAlongX;
  for (const LoopDim& d : n.inner) axes_[d.var] = two ? kAlongR : kAlongX;
}

// ---- Lines ----

void TritonBody::block(const std::string& head, const std::function<void()>& inside) {
  put(head + ":");
  ++indent_;
  scopes_.emplace_back();
  inside();
  for (Scalar s : scopes_.back()) names_.erase(s);
  scopes_.pop_back();
  --indent_;
}

void TritonBody::among(const std::string& there, const std::function<void()>& inside) {
  const std::string x = std::exchange(masks_[kAlongX], there), both = std::exchange(masks_[kBothDims], there);
  scopes_.emplace_back();
  inside();
  for (Scalar s : scopes_.back()) names_.erase(s);
  scopes_.pop_back();
  masks_[kAlongX] = x;
  masks_[kBothDims] = both;
}

// ---- Points ----

std::string TritonBody::program() const { return wide_ ? "tl.cast(tl.program_id(0), tl.int64)" : "tl.program_id(0)"; }

void TritonBody::begin_x(Expr count, int block, const std::string& start) {
  line("xindex = {} * XBLOCK + tl.arange(0, XBLOCK){}", start.empty() ? program() : start, two_ ? "[:, None]" : "");
  if (env().statically_known_multiple_of(count, block)) return;
  line("xmask = xindex < {}", text(count));
  masks_[kAlongX] = masks_[kBothDims] = "xmask";
}

void TritonBody::begin_r(Expr count, int block, const std::string& start) {
  const char r = static_cast<char>(std::tolower(second));
  line("{}index = {}tl.arange(0, {})[None, :]", r, start.empty() ? "" : start + " + ", second_block());
  masks_[kAlongR].clear();
  if (!env().statically_known_multiple_of(count, block)) {
    line("{0}mask = {0}index < {1}", r, text(count));
    masks_[kAlongR] = fmt::format("{}mask", r);
  }
  const std::string &along_x = masks_[kAlongX], &along_r = masks_[kAlongR];
  masks_[kBothDims] = along_x.empty() ? along_r : along_r.empty() ? along_x : along_x + " & " + along_r;
}

void TritonBody::decode(std::span<const LoopDim> dims, const std::string& place) {
  Expr step = 1;
  for (std::size_t k = dims.size(); k-- > 0;) {
    std::string index = step.is_constant(1) ? place : fmt::format("{} // {}", place, divisor(step));
    step = env().simplify(step * dims[k].size);
    if (k > 0)
      index = fmt::format("{}{} % {}", index.find(' ') == std::string::npos ? index : "(" + index + ")", "",
                          divisor(dims[k].size));
    line("{} = {}", dims[k].var.name(), index);
  }
}

const std::string& TritonBody::mask(BlockDims dims) const { return masks_[dims]; }

std::string TritonBody::shape(BlockDims dims) const {
  if (!two_) return dims ? "[XBLOCK]" : "[1]";
  return fmt::format("[{}, {}]", dims & kAlongX ? "XBLOCK" : "1", dims & kAlongR ? second_block() : "1");
}

// ---- Index expressions ----

std::string TritonBody::index_text(Expr e, const std::vector<std::string>& indirect) {
  if (auto c = e.constant()) return *c < 0 ? fmt::format("({})", *c) : std::to_string(*c);
  auto spell = [&](Expr s) -> std::string {
    if (s.symbol_kind() != sym::SymbolKind::Loop) return arguments_.scalar(std::string(s.name()), s);
    for (std::size_t k = 0; k < indirect.size(); ++k)
      if (s == graph.pool().indirect(k)) return indirect[k];
    return std::string(s.name());
  };
  auto nonnegative = [&](Expr x) { return env().bounds(x, vars_).low >= 0; };
  const std::string text =
      sym::to_code(sym::Language::Triton, e, spell, nonnegative, wide_ ? sym::IntWidth::Bits64 : sym::IntWidth::Bits32,
                   [&](Expr x) { return arguments_.term(env(), x); });
  return text.find(' ') == std::string::npos ? text : "(" + text + ")";
}

// ---- Values ----

BlockDims TritonBody::dims(Expr e) const {
  BlockDims out = kNoDims;
  for (Expr s : sym::free_symbols(e))
    if (auto it = axes_.find(s); it != axes_.end()) out |= it->second;
  return out;
}

BlockDims TritonBody::dims(Scalar root) {
  for (Scalar n : ir::topological(std::span(&root, 1))) {
    if (dims_.contains(n)) continue;
    BlockDims d = kNoDims;
    if (n->op == ScalarOp::LinearLoad && made_here(n))
      d = locals_.at(n->buffer).dims;
    else
      for (Expr e : n->index) d |= dims(e);
    for (Scalar a : n->args) d |= dims_.at(a);
    if (n->mask) d |= dims_.at(n->mask);
    dims_[n] = d;
  }
  return dims_.at(root);
}

bool TritonBody::made_here(Scalar load) const {
  if (!locals_.contains(load->buffer)) return false;
  return std::ranges::any_of(
      nest.statements, [&](const Statement& s) { return s.op->outs[0] == load->buffer && load->index[0] == s.store; });
}

std::string TritonBody::name(Scalar root) {
  for (Scalar n : ir::topological(std::span(&root, 1)))
    if (n->op != ScalarOp::Constant && !names_.contains(n)) bind(n);
  return root->op == ScalarOp::Constant ? triton_literal(root) : names_.at(root);
}

std::string TritonBody::value(Scalar n) {
  if (n->op != ScalarOp::Constant) return name(n);
  return fmt::format("tl.full({}, {}, {})", shape(kNoDims), triton_literal(n), triton_type(n->dtype));
}

std::string TritonBody::block_value(Scalar n, BlockDims d) {
  const std::string text = value(n);
  return dims(n) == d ? text : fmt::format("tl.broadcast_to({}, {})", text, shape(d));
}

void TritonBody::bind(Scalar n) {
  if (n->op == ScalarOp::LinearLoad && made_here(n) && !n->mask) {
    names_[n] = locals_.at(n->buffer).text;
    scopes_.back().push_back(n);
    return;
  }
  const std::string value = compute(n), variable = fmt::format("t{}", next_++);
  if (n->op == ScalarOp::CheckIndex)
    line("{0}, {0}_inside = {1}", variable, value);
  else
    line("{} = {}", variable, value);
  names_[n] = variable;
  scopes_.back().push_back(n);
}

std::string TritonBody::check(Scalar n) {
  may_fail_ = true;
  const std::string& there = mask(dims(n));
  std::string index = value(n->args[0]);
  if (!dims(n)) index = fmt::format("tl.broadcast_to({}, {})", index, shape(kNoDims));
  return fmt::format("c_check({}, {}, {}, status)", index, text(n->index[0]), there.empty() ? "True" : there);
}

std::vector<std::string> TritonBody::checked(std::span<const Scalar> indirect) const {
  std::vector<std::string> out;
  std::vector<Scalar> left(indirect.begin(), indirect.end());
  std::unordered_set<Scalar> seen;
  while (!left.empty()) {
    const Scalar n = left.back();
    left.pop_back();
    if (!seen.insert(n).second || n->op == ScalarOp::LinearLoad) continue;
    if (n->op == ScalarOp::CheckIndex) out.push_back(names_.at(n) + "_inside");
    left.insert(left.end(), n->args.begin(), n->args.end());
  }
  return out;
}

std::string TritonBody::compute(Scalar n) {
  switch (n->op) {
    case ScalarOp::LinearLoad: return load(n);
    case ScalarOp::Index: return fmt::format("tl.cast({}, {})", text(n->index[0]), triton_type(n->dtype));
    case ScalarOp::Random:
      return fmt::format("c_random({}, {}, {})", value(n->args[0]),
                         arguments_.scalar(fmt::format("salt {}", n->integer), n->integer), text(n->index[0]));
    case ScalarOp::CheckIndex: return check(n);
    case ScalarOp::Require: return value(n->args[0]);
    case ScalarOp::Cast: return cast(n);
    case ScalarOp::Round: return fmt::format("c_round_{}({})", short_name(n->rounded), value(n->args[0]));
    case ScalarOp::Bitcast:
      return fmt::format("tl.cast({}, {}, bitcast=True)", value(n->args[0]), triton_type(n->dtype));
    case ScalarOp::Where:
      return fmt::format("tl.where({}, {}, {})", value(n->args[0]), value(n->args[1]), value(n->args[2]));
    default: return operation(n);
  }
}

std::string TritonBody::operation(Scalar n) {
  const auto spelling = triton_spelling(n->op, n->args[0]->dtype, coarse_.contains(n));
  COIL_CHECK(spelling, "{} is not written in Triton", ir::name_of(n->op));
  const bool literals = spelling->plain && n->args[0]->dtype != DType::Bool &&
                        std::ranges::any_of(n->args, [](Scalar a) { return a->op != ScalarOp::Constant; });
  std::string args[3];
  for (std::size_t k = 0; k < n->args.size(); ++k) {
    if (spelling->blocks)
      args[k] = fmt::format("tl.broadcast_to({}, {})", value(n->args[k]), shape(dims(n)));
    else
      args[k] = literals ? name(n->args[k]) : value(n->args[k]);
  }
  return fmt::format(fmt::runtime(spelling->text), args[0], args[1], args[2]);
}

/// Floats to small integers go the way of torch's scalar conversions: to u8 and u32 through i64, to others through i32.
std::string TritonBody::cast(Scalar n) {
  const DType from = n->args[0]->dtype, to = n->dtype;
  const std::string x = value(n->args[0]);
  if (to == DType::Bool) return from == DType::Bool ? x : x + " != 0";
  const bool narrow = is_floating(from) && is_integral(to) && size_of(to) < 8 && to != DType::I32;
  if (!narrow) return fmt::format("tl.cast({}, {})", x, triton_type(to));
  const char* const through = to == DType::U8 || to == DType::U32 ? "tl.int64" : "tl.int32";
  return fmt::format("tl.cast(tl.cast({}, {}), {})", x, through, triton_type(to));
}

TritonBody::Place TritonBody::place(ir::BufferId b, bool writes, Expr index, const std::vector<Scalar>& indirect,
                                    BlockDims at_least, Scalar given) {
  std::vector<std::string> names;
  BlockDims d = dims(index), wanted = at_least | (given ? dims(given) : kNoDims);
  for (std::size_t k = 0; k < indirect.size(); ++k) {
    names.push_back(value(indirect[k]));
    wanted |= dims(indirect[k]);
    if (sym::contains(index, graph.pool().indirect(k))) d |= dims(indirect[k]);
  }
  wanted |= d;
  Place out{fmt::format("{} + {}", arguments_.pointer(b, writes), index_text(index, names)), ""};
  std::vector<std::string> masks = checked(indirect);
  if (given) masks.insert(masks.begin(), value(given));
  if (wanted != d || (!masks.empty() && !wanted))
    out.pointers = fmt::format("tl.broadcast_to({}, {})", out.pointers, shape(wanted));
  if (!mask(wanted).empty()) masks.push_back(mask(wanted));
  if (!masks.empty()) out.mask = fmt::format(", {}", fmt::join(masks, " & "));
  return out;
}

std::string TritonBody::load(Scalar n) {
  const DType d = graph.buffer(n->buffer).layout.dtype;
  if (made_here(n)) {
    const std::string& local = locals_.at(n->buffer).text;
    if (!n->mask) return local;
    return fmt::format("tl.where({}, {}, tl.full({}, 0, {}))", value(n->mask), local, shape(kNoDims),
                       triton_type(n->dtype));
  }
  const Place at = place(n->buffer, false, n->index[0], n->args, kNoDims, n->mask);
  const std::string x = fmt::format("tl.load({}{})", at.pointers, at.mask.empty() ? "" : at.mask + ", other=0");
  return triton_loaded(x, d);
}

Scalar TritonBody::value_to_store(const Statement& s) const {
  const bool rounds = s.stored && s.body->op == ScalarOp::Round &&
                      s.body->rounded == graph.buffer(s.op->outs[0]).layout.dtype && !names_.contains(s.body);
  return rounds ? s.body->args[0] : s.body;
}

void TritonBody::store(const Statement& s, const std::string& value, BlockDims dims) {
  const DType d = graph.buffer(s.op->outs[0]).layout.dtype;
  const Place at = place(s.op->outs[0], true, s.store, {}, dims);
  line("tl.store({}, {}{})", at.pointers, triton_stored(value, d), at.mask);
}

// ---- The kernel ----

Kernel TritonBody::finish(Exprs grid, int warps, std::vector<std::pair<std::string, int>> constants,
                          bool outer_in_place) {
  Kernel k;
  TritonParts parts{.status = may_fail_, .wide = wide_, .warps = warps, .constants = std::move(constants)};
  for (std::size_t i = 0; i < arguments_.buffers().size(); ++i) {
    const DType d = graph.buffer(arguments_.buffers()[i]).layout.dtype;
    parts.tensors.push_back({fmt::format("p{}", i), std::string(triton_signature(d))});
    // As they come from a program in Python, where tensors have their own types.
    if (is_float8(d)) parts.body += fmt::format("    p{0} = p{0}.to(tl.pointer_type(tl.uint8), bitcast=True)\n", i);
  }
  parts.body += body_;
  for (std::size_t i = 0; i < arguments_.scalars().size(); ++i) parts.numbers.push_back(fmt::format("s{}", i));
  k.symbol = "coil_" + to_hex(hash(parts.text(""))).substr(0, 16);
  k.text = parts.text(k.symbol);
  k.may_fail = may_fail_;
  k.triton = std::move(parts);
  arguments_.give(k);
  k.in_place = in_place_pairs(graph, nest, arguments_, {.outer = outer_in_place});
  for (Expr& e : grid) e = env().simplify(e);
  k.launch = SymbolicLaunch{.grid = std::move(grid), .block = 32 * warps};
  return k;
}

}  // namespace coil::codegen
