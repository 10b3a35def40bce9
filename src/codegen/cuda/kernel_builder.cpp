#include "codegen/cuda/kernel_builder.h"

#include <algorithm>

#include "codegen/compared.h"
#include "codegen/index_width.h"
#include "ir/comm_buffers.h"
#include "support/error.h"
#include "support/hash.h"
#include "sym/print.h"

namespace coil::codegen {

using ir::Scalar;
using ir::ScalarOp;

std::string cuda_storage_type(DType d) {
  if (d == DType::F16 || d == DType::BF16) return "u16";
  if (d == DType::Bool || d == DType::F8E4M3 || d == DType::F8E5M2) return "u8";
  return std::string(short_name(d));
}

std::string cuda_register_type(DType d) { return d == DType::Bool ? "bool" : std::string(short_name(d)); }

namespace {

/// In registers. Where the language has no f64, its values are made by a function.
std::string zero(const Dialect& dialect, DType d) {
  return d == DType::F64 && !dialect.has_f64 ? dialect.number(0, d) : fmt::format("({})0", cuda_register_type(d));
}

}  // namespace

KernelBuilder::KernelBuilder(ir::Graph& g, LoopNest n, const Dialect& d)
    : graph(g),
      dialect(d),
      nest(std::move(n)),
      vars_(nest.vars()),
      coarse_(coarse_values(g, nest)),
      compared_(compared_products(nest)) {
  if (const auto why = dialect.refusal(graph, nest)) fail("{}", *why);
  if (indices_fit_32(graph, nest)) index_type_ = "i32";
  for (const Statement& s : nest.statements)
    for (Scalar l : ir::loads(s.body)) {
      if (!ir::is_peer_sum(graph, l->buffer)) continue;
      COIL_CHECK(!sum_ || sum_ == l->buffer, "a kernel adds up two operands over ranks");
      COIL_CHECK(!l->mask && l->args.empty(), "what is added up over ranks is read where data say");
      sum_ = l->buffer;
    }
}

// ---- Lines ----

void KernelBuilder::block(const std::string& head, const std::function<void()>& inside) {
  put(head.empty() ? "{" : head + " {");
  ++indent_;
  scopes_.emplace_back();
  pack_scopes_.emplace_back();
  reciprocal_scopes_.emplace_back();
  inside();
  for (Scalar s : scopes_.back()) names_.erase(s);
  for (Scalar s : pack_scopes_.back()) packs_.erase(s);
  for (Scalar s : reciprocal_scopes_.back()) reciprocals_.erase(s);
  scopes_.pop_back();
  pack_scopes_.pop_back();
  reciprocal_scopes_.pop_back();
  --indent_;
  put("}");
}

void KernelBuilder::count_inner_by(const LoopDim& dim, Expr place) {
  const Expr from[] = {nest.inner.back().var}, to[] = {place};
  const auto changed = [&](Expr e) { return sym::substitute(e, from, to); };
  const auto changed_value = [&](Scalar n) { return graph.pool().map_indices(n, changed); };
  for (auto* values : {&coarse_, &compared_}) {
    std::unordered_set<Scalar> moved;
    for (Scalar n : *values) moved.insert(changed_value(n));
    *values = std::move(moved);
  }
  for (Statement& s : nest.statements) {
    s.body = changed_value(s.body);
    for (Scalar& n : s.indirect) n = changed_value(n);
    s.store = changed(s.store);
    s.position = changed(s.position);
  }
  nest.inner.back() = dim;
  for (sym::LoopVar& v : vars_)
    if (v.var == from[0]) v = {dim.var, dim.size};
}

// ---- Index expressions ----

std::string KernelBuilder::value_to_store(const Statement& s) {
  if (s.stored && s.body->op == ScalarOp::Round && s.body->rounded == graph.buffer(s.op->outs[0]).layout.dtype &&
      !names_.contains(s.body))
    return name(s.body->args[0]);
  return name(s.body);
}

std::string KernelBuilder::index_text(Expr e, const std::vector<std::string>& indirect) {
  if (auto c = e.constant()) return *c < 0 ? fmt::format("({})", *c) : std::to_string(*c);
  auto spell = [&](Expr s) -> std::string {
    if (s.symbol_kind() == sym::SymbolKind::Loop) {
      for (std::size_t k = 0; k < indirect.size(); ++k)
        if (s == graph.pool().indirect(k)) return "((i64)" + indirect[k] + ")";
      if (in_lanes_ && s == lanes.var) return fmt::format("({} + j)", s.name());
      return std::string(s.name());
    }
    return scalar(std::string(s.name()), s);
  };
  auto nonnegative = [&](Expr x) { return env().bounds(x, vars_).low >= 0; };
  return "(" +
         sym::to_code(dialect.language, e, spell, nonnegative, sym::IntWidth::Bits64,
                      [&](Expr x) { return arguments_.term(env(), x); }) +
         ")";
}

std::string KernelBuilder::text(Expr e) { return index_text(e, {}); }

// ---- Values ----

void KernelBuilder::set_local(BufferId b, std::string text, bool per_lane) {
  locals_[b] = {std::move(text), per_lane};
  varies_.clear();
}

bool KernelBuilder::made_here(Scalar load) const {
  if (!locals_.contains(load->buffer)) return false;
  for (const Statement& s : nest.statements)
    if (s.op->outs[0] == load->buffer && load->index[0] == s.store) return true;
  return false;
}

bool KernelBuilder::varies(Scalar n) {
  return varies_in_run(env(), n, lanes, varies_, [&](Scalar l) -> std::optional<bool> {
    if (l->op != ScalarOp::LinearLoad || !made_here(l)) return std::nullopt;
    return locals_.at(l->buffer).per_lane || (l->mask && varies(l->mask));
  });
}

bool KernelBuilder::depends(Scalar root, std::span<const Expr> variables) {
  for (Scalar n : ir::topological(std::span(&root, 1))) {
    if (n->op == ScalarOp::LinearLoad && made_here(n)) {
      // Results of reductions, which carry no inner variable; a run's elements are told apart by `varies`.
      if (locals_.at(n->buffer).per_lane && std::find(variables.begin(), variables.end(), lanes.var) != variables.end())
        return true;
      continue;
    }
    for (Expr e : n->index)
      for (Expr v : variables)
        if (sym::contains(e, v)) return true;
  }
  return false;
}

std::string KernelBuilder::name(Scalar n) {
  if (auto it = names_.find(n); it != names_.end()) return it->second;
  if (n->op == ScalarOp::Constant)
    return is_floating(n->dtype) ? dialect.number(n->number, n->dtype) : integer_literal(dialect, n->integer, n->dtype);
  for (Scalar below : needed_for(n, [&](Scalar x) { return names_.contains(x); }))
    if (below->op != ScalarOp::Constant && !names_.contains(below)) bind(below);
  return bind(n);
}

std::string KernelBuilder::bind(Scalar n) {
  if (n->op == ScalarOp::LinearLoad && made_here(n)) {
    const Local& l = locals_.at(n->buffer);
    const std::string value = l.per_lane ? l.text + lane() : l.text;
    return n->mask ? fmt::format("({} ? {} : {})", name(n->mask), value, zero(dialect, n->dtype)) : value;
  }
  const std::string value = compute(n), variable = fresh();
  line("const {} {} = {};", cuda_register_type(n->dtype), variable, value);
  names_[n] = variable;
  scopes_.back().push_back(n);
  return variable;
}

std::string KernelBuilder::compute(Scalar n) {
  const char* const coarse = coarse_.contains(n) ? "_coarse" : "";
  if (auto pair = together(n)) return fmt::format("c_{}{}({})", pair->function, coarse, name(pair->argument));
  std::vector<std::string> args;
  for (Scalar a : n->args) args.push_back(name(a));
  const std::string list = fmt::format("{}", fmt::join(args, ", "));
  switch (n->op) {
    case ScalarOp::LinearLoad: return load(n, args);
    case ScalarOp::Load: COIL_CHECK(false, "loads are linear by now");
    case ScalarOp::Index: return fmt::format("({}){}", n->dtype == DType::Bool ? "bool" : "i64", text(n->index[0]));
    case ScalarOp::Random: return random(n, list);
    case ScalarOp::Require: return args[0];
    case ScalarOp::CheckIndex: may_fail_ = true; return fmt::format("c_check({}, {}, status)", list, text(n->index[0]));
    case ScalarOp::Cast: return fmt::format("c_cast_{}({})", short_name(n->dtype), list);
    case ScalarOp::Round: return fmt::format("c_round_{}({})", short_name(n->rounded), list);
    case ScalarOp::Bitcast: return fmt::format("c_bitcast_{}({})", short_name(n->dtype), list);
    case ScalarOp::Div:
      if (auto r = reciprocals_.find(n->args[1]); r != reciprocals_.end() && n->dtype == DType::F32)
        return fmt::format("c_div_by{}({}, {})", coarse, args[0], r->second);
      break;
    case ScalarOp::Mul:
      if (compared_.contains(n)) return fmt::format("c_product_of({})", list);
      break;
    case ScalarOp::Exp:
    case ScalarOp::Sigmoid: return fmt::format("c_{}{}({})", ir::name_of(n->op), coarse, list);
    default: break;
  }
  return fmt::format("c_{}({})", ir::name_of(n->op), list);
}

std::string KernelBuilder::random(Scalar n, const std::string& seed) {
  constexpr int kBlock = 4;
  const Expr e = n->index[0];
  const std::string from = fmt::format("{}, {}", seed, scalar(fmt::format("salt {}", n->integer), n->integer));
  if (!in_lanes_ || lanes.width % kBlock != 0 || lane_stride(env(), e, lanes) != 1 || !run_aligned(env(), e, lanes))
    return fmt::format("c_random({}, (u64){})", from, text(e));
  in_lanes_ = false;
  const std::string begin = text(e);
  in_lanes_ = true;
  return fmt::format("c_random_in_run({}, (u64){}, j)", from, begin);
}

std::string KernelBuilder::load(Scalar n, const std::vector<std::string>& indirect) {
  const std::string dtype(short_name(graph.buffer(n->buffer).layout.dtype));
  if (auto pack = packs_.find(n); pack != packs_.end()) {
    if (dtype == "bf16" && lanes.width > 1) return fmt::format("c_bf16_in({}, j)", pack->second);
    return fmt::format("c_get_{}({}.e{})", dtype, pack->second, lane());
  }
  const std::string x =
      fmt::format("c_get_{}({}[{}])", dtype, pointer(n->buffer, false), index_text(n->index[0], indirect));
  return n->mask ? fmt::format("{} ? {} : {}", name(n->mask), x, zero(dialect, n->dtype)) : x;
}

// ---- Runs ----

bool KernelBuilder::packable(Scalar n) {
  return n->op == ScalarOp::LinearLoad && !made_here(n) &&
         loads_as_one(env(), n, lanes, [&](Scalar x) { return varies(x); });
}

std::string KernelBuilder::pack_place(Scalar n) {
  std::vector<std::string> args;
  for (Scalar a : n->args) args.push_back(name(a));
  return fmt::format("{} + {}", pointer(n->buffer, false), index_text(n->index[0], args));
}

std::string KernelBuilder::pack_send(Scalar n) { return fmt::format("c_send<{}>({})", lanes.width, pack_place(n)); }

std::string KernelBuilder::pack_receive(Scalar n, const std::string& sent) {
  return fmt::format("c_receive<{}>({}, {})", lanes.width, pack_place(n), sent);
}

std::string KernelBuilder::pack_load(Scalar n) {
  const std::string at = pack_place(n), mask = n->mask ? name(n->mask) : "";
  const std::string x = rest.empty() ? fmt::format("c_read<{}>({})", lanes.width, at)
                                     : fmt::format("c_read_part<{}>({}, {})", lanes.width, at, rest);
  return n->mask ? fmt::format("{} ? {} : {}{{}}", mask, x, pack_type(graph.buffer(n->buffer).layout.dtype)) : x;
}

void KernelBuilder::hoist(std::span<const Scalar> nodes, std::span<const Expr> variables) {
  for (Scalar n : nodes) {
    if (n->op == ScalarOp::Constant) continue;
    const bool moves = depends(n, variables);
    if (!moves && !varies(n)) {
      name(n);
      continue;
    }
    // Many quotients by one divisor.
    if (n->op != ScalarOp::Div || n->dtype != DType::F32 || reciprocals_.contains(n->args[1]) ||
        depends(n->args[1], variables) || varies(n->args[1]))
      continue;
    const std::string y = name(n->args[1]), r = fresh();
    line("const c_divisor {} = c_divisor_of({});", r, y);
    reciprocals_[n->args[1]] = r;
    reciprocal_scopes_.back().push_back(n->args[1]);
  }
}

void KernelBuilder::elements(std::span<const Scalar> nodes, std::span<const Statement* const> stores,
                             const std::function<void()>& each) {
  if (lanes.width == 1) {
    each();
    return;
  }
  for (Scalar n : nodes)
    if (n->op != ScalarOp::Constant && !varies(n)) name(n);
  for (Scalar n : nodes)
    if (packable(n) && !packs_.contains(n) && !names_.contains(n)) {
      const std::string value = pack_load(n), pack = fresh("v");
      line("const {} {} = {};", pack_type(graph.buffer(n->buffer).layout.dtype), pack, value);
      packs_[n] = pack;
      pack_scopes_.back().push_back(n);
    }
  out_packs_.clear();
  for (const Statement* s : stores)
    if (s->stored && lane_stride(env(), s->store, lanes) == 1 && run_aligned(env(), s->store, lanes)) {
      const DType d = graph.buffer(s->op->outs[0]).layout.dtype;
      const OutPack pack{fresh("o"), (d == DType::BF16 || d == DType::F16) && s->body->dtype == DType::F32};
      if (pack.registers)
        line("f32 {}[{}];", pack.name, lanes.width);
      else
        line("{} {};", pack_type(d), pack.name);
      out_packs_[s] = pack;
    }
  put("#pragma unroll");
  block(fmt::format("for (int j = 0; j < {}; ++j)", lanes.width), [&] {
    in_lanes_ = true;
    if (rest.empty())
      each();
    else
      block(fmt::format("if (j < {})", rest), each);
    in_lanes_ = false;
  });
  for (auto& s : stores)
    if (auto pack = out_packs_.find(s); pack != out_packs_.end()) {
      const std::string at = fmt::format("{} + {}", pointer(s->op->outs[0], true), text(s->store));
      const std::string value =
          pack->second.registers
              ? fmt::format("c_packed_{}({})", short_name(graph.buffer(s->op->outs[0]).layout.dtype), pack->second.name)
              : pack->second.name;
      if (rest.empty())
        line("{}c_write<{}>({}, {});", store_guard, lanes.width, at, value);
      else
        line("{}c_write_part<{}>({}, {}, {});", store_guard, lanes.width, at, value, rest);
    }
  out_packs_.clear();
}

void KernelBuilder::store(const Statement& s, const std::string& value) {
  const DType d = graph.buffer(s.op->outs[0]).layout.dtype;
  const std::string stored = fmt::format("c_put_{}({})", short_name(d), value);
  if (auto pack = out_packs_.find(&s); pack != out_packs_.end()) {
    if (pack->second.registers)
      line("{}{} = {};", pack->second.name, lane(), value);
    else
      line("{}.e{} = {};", pack->second.name, lane(), stored);
    return;
  }
  line("{}{}[{}] = {};", store_guard, pointer(s.op->outs[0], true), text(s.store), stored);
}

// ---- The kernel ----

void KernelBuilder::settle_peer_sum() {
  if (!sum_ || std::exchange(settled_, true)) return;
  line("turn.settle();");
}

/// How many elements the sum has: ranks compare it.
std::string KernelBuilder::sum_elements() {
  return text(env().simplify(sym::product(graph.buffer(*sum_).layout.sizes)));
}

/// What stands for the pointer to a sum's operand. Kernels of one table are one behind the other: each changes it.
std::string KernelBuilder::begin_peer_sum(KernelParts& parts) {
  const std::string sum = pointer(*sum_, false), table = pointer(ir::peer_table(graph, *sum_), true);
  const auto& buffers = arguments_.buffers();
  const auto at = static_cast<std::size_t>(std::ranges::find(buffers, *sum_) - buffers.begin());
  parts.parameters[at].name = fmt::format("q{}", at);
  const DType dtype = graph.buffer(*sum_).layout.dtype;
  std::string text = fmt::format(
      "  const c_sum_turn turn({1}, (i64){4} * {5});\n"
      "  const c_peer_sum<c_of_{2}> {0}(q{3}, turn, {4});\n",
      sum, table, short_name(dtype), at, sum_elements(), size_of(dtype));
  if (!std::exchange(settled_, true)) text += "  turn.settle();\n";
  return text;
}

Kernel KernelBuilder::finish(SymbolicLaunch launch) {
  Kernel k;
  if (sum_) pointer(*sum_, false), pointer(ir::peer_table(graph, *sum_), true), sum_elements();
  k.in_place = in_place_pairs(graph, nest, arguments_, in_place);
  // Other ranks read it until all kernels have read theirs.
  std::erase_if(k.in_place, [&](const auto& pair) { return sum_ == pair.first; });
  std::vector<DevicePointer> pointers;
  const auto& buffers = arguments_.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i)
    pointers.push_back({.type = cuda_storage_type(graph.buffer(buffers[i]).layout.dtype),
                        .written = arguments_.written()[i],
                        .shares = std::ranges::any_of(
                            k.in_place, [&](auto& p) { return p.first == buffers[i] || p.second == buffers[i]; })});
  KernelParts parts = dialect.parts(pointers, arguments_.scalars().size(), launch);
  // A run that failed writes no more. (Blocks of the kernel that fails may wait for each other, so that it goes on.)
  parts.body += !may_fail_ || stops_any_time ? "  if (c_stop(status)) return;\n" : "  c_begin();\n";
  for (std::size_t i = 0; i < arguments_.scalars().size(); ++i)
    parts.body += fmt::format("  const {0} s{1} = ({0}){2};\n", index_type_, i,
                              dialect.scalar(i, pointers.size(), arguments_.scalars().size()));
  if (sum_) parts.body += begin_peer_sum(parts);
  parts.body += head_ + body_;
  k.symbol = "coil_" + to_hex(hash(to_string(parts.parameters) + parts.qualifiers + parts.body)).substr(0, 16);
  k.text = parts.text(k.symbol, dialect.linkage);
  k.parts = std::move(parts);
  arguments_.give(k);
  k.may_fail = may_fail_;
  for (Expr& e : launch.grid) e = env().simplify(e);
  k.launch = std::move(launch);
  return k;
}

}  // namespace coil::codegen
