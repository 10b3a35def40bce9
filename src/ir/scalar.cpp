#include "ir/scalar.h"

#include <bit>
#include <cmath>
#include <deque>
#include <limits>
#include <unordered_set>

#include "support/error.h"
#include "support/pointer_set.h"

namespace coil::ir {

namespace {

struct OpInfo {
  std::string_view name;
  int operands;
};

constexpr OpInfo kOps[] = {{"load", -1},      {"linear_load", -1}, {"index", 0},       {"constant", 0}, {"cast", 1},
                           {"round", 1},      {"bitcast", 1},      {"check_index", 1}, {"require", 2},  {"random", 1},
#define X(e, n, count) {n, count},
                           COIL_SCALAR_OPS(X)
#undef X
};

const OpInfo& info(ScalarOp op) { return kOps[static_cast<std::size_t>(op)]; }

std::uint64_t mix(std::uint64_t seed, std::uint64_t value) {
  seed ^= value + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2);
  return seed * 0xff51afd7ed558ccdull;
}

std::uint64_t hash_of(const ScalarNode& n) {
  std::uint64_t h = mix(static_cast<std::uint64_t>(n.op), static_cast<std::uint64_t>(n.dtype));
  for (auto* a : n.args) h = mix(h, a->hash);
  for (const Expr& e : n.index) h = mix(h, e.hash());
  h = mix(h, n.buffer);
  h = mix(h, n.mask ? n.mask->hash : 0);
  h = mix(h, static_cast<std::uint64_t>(n.rounded));
  h = mix(h, std::bit_cast<std::uint64_t>(n.number));
  return mix(h, static_cast<std::uint64_t>(n.integer));
}

struct Hash {
  std::size_t operator()(Scalar s) const { return s->hash; }
};
struct Same {
  bool operator()(Scalar a, Scalar b) const {
    return a->hash == b->hash && a->op == b->op && a->dtype == b->dtype && a->args == b->args && a->index == b->index &&
           a->buffer == b->buffer && a->mask == b->mask && a->rounded == b->rounded &&
           std::bit_cast<std::uint64_t>(a->number) == std::bit_cast<std::uint64_t>(b->number) &&
           a->integer == b->integer;
  }
};

std::int64_t wrap(DType t, std::int64_t v) {
  switch (t) {
    case DType::Bool: return v != 0;
    case DType::U8: return static_cast<std::uint8_t>(v);
    case DType::I8: return static_cast<std::int8_t>(v);
    case DType::U16: return static_cast<std::uint16_t>(v);
    case DType::I16: return static_cast<std::int16_t>(v);
    case DType::U32: return static_cast<std::uint32_t>(v);
    case DType::I32: return static_cast<std::int32_t>(v);
    default: return v;
  }
}

bool is_constant(Scalar s) { return s->op == ScalarOp::Constant; }
bool is_int(DType t) { return !is_floating(t); }
/// Whether a float is a number of the integers once its fraction is gone: what others become, processors decide.
bool fits(double v, DType integers) {
  if (!(std::fabs(v) < 9.2e18)) return false;
  const auto whole = static_cast<std::int64_t>(v);
  return wrap(integers, whole) == whole && (integers != DType::U64 || whole >= 0);
}
bool is_number(Scalar s, double v) {
  if (!is_constant(s)) return false;
  return is_int(s->dtype) ? s->integer == static_cast<std::int64_t>(v)
                          : s->number == v && std::signbit(s->number) == std::signbit(v);
}
bool is_true(Scalar s) { return is_constant(s) && s->dtype == DType::Bool && s->integer == 1; }
bool is_false(Scalar s) { return is_constant(s) && s->dtype == DType::Bool && s->integer == 0; }

/// Floats as the kernel would compute them, in the register's own precision; nothing for what is left to the kernel.
std::optional<double> fold_float(ScalarOp op, DType t, double x, double y) {
  auto narrow = [t](double v) { return t == DType::F32 ? static_cast<double>(static_cast<float>(v)) : v; };
  switch (op) {
    // A double holds the exact product, and the double rounding of +, - and / of two floats is innocuous (double has
    // more than 2p + 2 bits).
    case ScalarOp::Add: return narrow(x + y);
    case ScalarOp::Sub: return narrow(x - y);
    case ScalarOp::Mul: return narrow(x * y);
    case ScalarOp::Div: return narrow(x / y);
    case ScalarOp::Neg: return -x;
    case ScalarOp::Abs: return std::fabs(x);
    case ScalarOp::Sqrt: return narrow(std::sqrt(x));
    case ScalarOp::Floor: return std::floor(x);
    case ScalarOp::Ceil: return std::ceil(x);
    case ScalarOp::Trunc: return std::trunc(x);
    default: return std::nullopt;
  }
}

std::optional<std::int64_t> fold_int(ScalarOp op, std::int64_t x, std::int64_t y) {
  auto ux = static_cast<std::uint64_t>(x), uy = static_cast<std::uint64_t>(y);
  switch (op) {
    case ScalarOp::Add: return static_cast<std::int64_t>(ux + uy);
    case ScalarOp::Sub: return static_cast<std::int64_t>(ux - uy);
    case ScalarOp::Mul: return static_cast<std::int64_t>(ux * uy);
    case ScalarOp::And: return x & y;
    case ScalarOp::Or: return x | y;
    case ScalarOp::Xor: return x ^ y;
    case ScalarOp::Neg: return static_cast<std::int64_t>(-ux);
    default: return std::nullopt;
  }
}

template <class T>
std::optional<bool> compare(ScalarOp op, T x, T y) {
  switch (op) {
    case ScalarOp::Eq: return x == y;
    case ScalarOp::Ne: return x != y;
    case ScalarOp::Lt: return x < y;
    case ScalarOp::Le: return x <= y;
    case ScalarOp::Gt: return x > y;
    case ScalarOp::Ge: return x >= y;
    default: return std::nullopt;
  }
}

/// The outcome of comparing two index expressions that holds for every index (loop variables are never negative).
std::optional<bool> known_comparison(const sym::ShapeEnv& env, ScalarOp op, Scalar a, Scalar b) {
  auto is_expression = [](Scalar s) { return s->dtype == DType::I64 && (s->op == ScalarOp::Index || is_constant(s)); };
  if (!is_expression(a) || !is_expression(b) || (is_constant(a) && is_constant(b))) return std::nullopt;
  auto expression = [](Scalar s) { return is_constant(s) ? Expr(s->integer) : s->index[0]; };
  const Expr x = expression(a), y = expression(b);
  auto decided = [&](Expr yes, Expr no) -> std::optional<bool> {
    if (env.statically_known_true(yes)) return true;
    if (env.statically_known_true(no)) return false;
    return std::nullopt;
  };
  switch (op) {
    case ScalarOp::Eq: return decided(sym::eq(x, y), sym::ne(x, y));
    case ScalarOp::Ne: return decided(sym::ne(x, y), sym::eq(x, y));
    case ScalarOp::Lt: return decided(sym::lt(x, y), sym::ge(x, y));
    case ScalarOp::Le: return decided(sym::le(x, y), sym::gt(x, y));
    case ScalarOp::Gt: return decided(sym::gt(x, y), sym::le(x, y));
    case ScalarOp::Ge: return decided(sym::ge(x, y), sym::lt(x, y));
    default: return std::nullopt;
  }
}

}  // namespace

std::string_view name_of(ScalarOp op) { return info(op).name; }
int operands_of(ScalarOp op) { return info(op).operands; }
std::optional<ScalarOp> scalar_op(std::string_view name) {
  for (std::size_t k = static_cast<std::size_t>(ScalarOp::Random) + 1; k < std::size(kOps); ++k)
    if (kOps[k].name == name) return static_cast<ScalarOp>(k);
  return std::nullopt;
}
DType result_type(ScalarOp op, DType operand) {
  return is_comparison(op) || op == ScalarOp::IsNan || op == ScalarOp::IsInf || op == ScalarOp::Signbit ? DType::Bool
                                                                                                        : operand;
}
bool is_comparison(ScalarOp op) { return op >= ScalarOp::Eq && op <= ScalarOp::Ge; }

struct ScalarPool::Impl {
  std::deque<ScalarNode> nodes;
  std::unordered_set<Scalar, Hash, Same> distinct;
};

ScalarPool::ScalarPool(sym::ShapeEnv& env) : env_(env), impl_(std::make_unique<Impl>()) {}
ScalarPool::~ScalarPool() = default;

Scalar ScalarPool::intern(ScalarNode n) {
  n.hash = hash_of(n);
  if (auto found = impl_->distinct.find(&n); found != impl_->distinct.end()) return *found;
  constexpr std::uint64_t kRandomOps = 24;
  std::uint64_t ops = n.op == ScalarOp::Random ? kRandomOps : 1;
  n.has_loads = n.op == ScalarOp::Load || n.op == ScalarOp::LinearLoad;
  auto include = [&](Scalar s) {
    ops += s->ops;
    n.has_loads |= s->has_loads;
  };
  for (auto* a : n.args) include(a);
  if (n.mask) include(n.mask);
  n.ops = static_cast<std::uint32_t>(std::min<std::uint64_t>(ops, std::numeric_limits<std::uint32_t>::max()));
  impl_->nodes.push_back(std::move(n));
  return *impl_->distinct.insert(&impl_->nodes.back()).first;
}

Scalar ScalarPool::load(BufferId buffer, DType storage, Exprs index, std::vector<Scalar> indirect, Scalar mask) {
  if (mask && is_true(mask)) mask = nullptr;
  if (mask && is_false(mask)) return constant(register_type(storage), 0);
  return intern({.op = ScalarOp::Load,
                 .dtype = register_type(storage),
                 .args = std::move(indirect),
                 .index = std::move(index),
                 .buffer = buffer,
                 .mask = mask,
                 .rounded = storage});
}

Scalar ScalarPool::linear_load(BufferId buffer, DType storage, Expr index, std::vector<Scalar> indirect, Scalar mask) {
  if (mask && is_true(mask)) mask = nullptr;
  if (mask && is_false(mask)) return constant(register_type(storage), 0);
  return intern({.op = ScalarOp::LinearLoad,
                 .dtype = register_type(storage),
                 .args = std::move(indirect),
                 .index = {index},
                 .buffer = buffer,
                 .mask = mask,
                 .rounded = storage});
}

Scalar ScalarPool::index(Expr e) {
  if (auto c = e.constant()) return constant_int(DType::I64, *c);
  return intern({.op = ScalarOp::Index, .dtype = DType::I64, .index = {e}});
}

Scalar ScalarPool::condition(Expr e) {
  if (auto c = e.constant()) return constant_int(DType::Bool, *c);
  return intern({.op = ScalarOp::Index, .dtype = DType::Bool, .index = {e}});
}

Scalar ScalarPool::constant(DType t, double value) {
  if (is_int(t)) return constant_int(t, t == DType::Bool ? value != 0 : static_cast<std::int64_t>(value));
  if (t == DType::F32) value = static_cast<double>(static_cast<float>(value));
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  return intern({.op = ScalarOp::Constant, .dtype = t, .number = value});
}

Scalar ScalarPool::constant_int(DType t, std::int64_t value) {
  if (!is_int(t)) return constant(t, static_cast<double>(value));
  return intern({.op = ScalarOp::Constant, .dtype = t, .integer = wrap(t, value)});
}

Scalar ScalarPool::cast(Scalar s, DType to) {
  DType reg = register_type(to);
  if (s->dtype != reg) {
    if (is_constant(s) && is_int(s->dtype)) {
      s = s->dtype == DType::U64 && !is_int(reg)
              ? constant(reg, static_cast<double>(static_cast<std::uint64_t>(s->integer)))
              : constant_int(reg, s->integer);
    } else if (is_constant(s) && !is_int(reg)) {
      s = constant(reg, s->number);
    } else if (is_constant(s) && (reg == DType::Bool || fits(s->number, reg))) {
      s = reg == DType::Bool ? constant_int(reg, s->number != 0)
                             : constant_int(reg, static_cast<std::int64_t>(s->number));
    } else if (s->op == ScalarOp::Index && s->dtype == DType::Bool && reg == DType::I64) {
      s = index(s->index[0]);
    } else {
      s = intern({.op = ScalarOp::Cast, .dtype = reg, .args = {s}});
    }
  }
  if (reg == to) return s;
  // A narrow float read from memory, or rounded already, has its precision; integers of 8 bits have less.
  const bool narrow = (is_load(s) || s->op == ScalarOp::Round) && s->rounded == to;
  const bool small = s->op == ScalarOp::Cast && is_load(s->args[0]) && size_of(s->args[0]->rounded) == 1;
  if (narrow || small || (is_constant(s) && (s->number == 0 || std::isinf(s->number)))) return s;
  return intern({.op = ScalarOp::Round, .dtype = reg, .args = {s}, .rounded = to});
}

Scalar ScalarPool::bitcast(Scalar s, DType to) {
  COIL_CHECK(size_of(s->dtype) == size_of(to), "bitcast between widths");
  if (s->dtype == to) return s;
  // Registers have no bytes of bools: they are true or not.
  if (s->dtype == DType::Bool) return bitcast(cast(s, DType::U8), to);
  if (to == DType::Bool) return op(ScalarOp::Ne, bitcast(s, DType::U8), constant_int(DType::U8, 0));
  return intern({.op = ScalarOp::Bitcast, .dtype = to, .args = {s}});
}

Scalar ScalarPool::check_index(Scalar s, Expr size) {
  COIL_CHECK(s->dtype == DType::I64, "indices are I64");
  if (is_constant(s))
    if (auto n = size.constant(); n && s->integer >= 0 && s->integer < *n) return s;
  return intern({.op = ScalarOp::CheckIndex, .dtype = DType::I64, .args = {s}, .index = {size}});
}

Scalar ScalarPool::require(Scalar value, Scalar condition) {
  COIL_CHECK(condition->dtype == DType::Bool, "conditions are Bool");
  if (is_true(condition)) return value;
  return intern({.op = ScalarOp::Require, .dtype = value->dtype, .args = {value, condition}});
}

Scalar ScalarPool::random(Scalar seed, std::int64_t salt, Expr element) {
  COIL_CHECK(seed->dtype == DType::I64, "seeds are I64");
  return intern({.op = ScalarOp::Random, .dtype = DType::U32, .args = {seed}, .index = {element}, .integer = salt});
}

namespace {

/// The value of an operation on constants, where it has one; else null.
Scalar folded_constant(ScalarPool& pool, ScalarOp o, Scalar a, Scalar b) {
  const DType t = a->dtype, result = result_type(o, t);
  const bool integral = is_int(t);
  if (is_comparison(o)) {
    auto known = !integral ? compare(o, a->number, b->number)
                 : t == DType::U64
                     ? compare(o, static_cast<std::uint64_t>(a->integer), static_cast<std::uint64_t>(b->integer))
                     : compare(o, a->integer, b->integer);
    if (known) return pool.constant_int(DType::Bool, *known);
  } else if (o == ScalarOp::Not && t == DType::Bool) {
    return pool.constant_int(t, !a->integer);
  } else if (result == t && t != DType::Bool && !integral) {
    if (auto v = fold_float(o, t, a->number, b ? b->number : 0)) return pool.constant(t, *v);
  } else if (result == t && (t != DType::Bool || o == ScalarOp::And || o == ScalarOp::Or)) {
    if (auto v = fold_int(o, a->integer, b ? b->integer : 0)) return pool.constant_int(t, *v);
  }
  return nullptr;
}

/// The operand, or the constant, that an operation on other things than constants comes to; else null.
Scalar simplified(ScalarPool& pool, ScalarOp o, Scalar a, Scalar b) {
  const DType t = a->dtype;
  const bool integral = is_int(t);
  switch (o) {
    case ScalarOp::Add:
      if (is_number(b, integral ? 0.0 : -0.0)) return a;
      if (is_number(a, integral ? 0.0 : -0.0)) return b;
      break;
    case ScalarOp::Sub:
      if (is_number(b, 0.0)) return a;
      break;
    case ScalarOp::Mul:
      if (is_number(b, 1)) return a;
      if (is_number(a, 1)) return b;
      if (integral && is_number(b, 0)) return b;
      if (integral && is_number(a, 0)) return a;
      break;
    case ScalarOp::Div:
      if (is_number(b, 1)) return a;
      break;
    case ScalarOp::FloorDiv:
    case ScalarOp::TruncDiv:
      if (integral && is_number(b, 1)) return a;
      break;
    case ScalarOp::And:
      if (a == b || is_false(a) || is_true(b)) return a;
      if (is_true(a) || is_false(b)) return b;
      break;
    case ScalarOp::Or:
      if (a == b || is_true(a) || is_false(b)) return a;
      if (is_false(a) || is_true(b)) return b;
      break;
    case ScalarOp::Not:
      if (a->op == ScalarOp::Not) return a->args[0];
      break;
    case ScalarOp::Max:
    case ScalarOp::Min:
      if (a == b) return a;
      break;
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::Trunc:
    case ScalarOp::RoundEven:
      if (integral) return a;
      break;
    case ScalarOp::Abs:
      if (a->op == ScalarOp::Abs || t == DType::Bool) return a;
      break;
    case ScalarOp::IsNan:
    case ScalarOp::IsInf:
      if (integral) return pool.constant_int(DType::Bool, 0);
      break;
    default: break;
  }
  return nullptr;
}

}  // namespace

Scalar ScalarPool::op(ScalarOp o, Scalar a, Scalar b, Scalar c) {
  const int operands = info(o).operands;
  COIL_CHECK(o > ScalarOp::Random && a && (operands < 2) == !b && (operands < 3) == !c, "operands of {}", name_of(o));
  if (o == ScalarOp::Where) {
    COIL_CHECK(a->dtype == DType::Bool && b->dtype == c->dtype, "operands of where: {}, {}, {}", short_name(a->dtype),
               short_name(b->dtype), short_name(c->dtype));
    // What a choice by the same condition would not take is never seen.
    while (b->op == ScalarOp::Where && b->args[0] == a) b = b->args[1];
    while (c->op == ScalarOp::Where && c->args[0] == a) c = c->args[2];
    if (b == c || is_true(a)) return b;
    if (is_false(a)) return c;
    return intern({.op = o, .dtype = b->dtype, .args = {a, b, c}});
  }
  const DType t = a->dtype;
  COIL_CHECK(!b || b->dtype == t, "{} of {} and {}", name_of(o), short_name(t), short_name(b->dtype));
  // A machine's own division of integers traps, and vectors have lanes beyond the last element that divide as well.
  if (o == ScalarOp::Div && is_int(t)) o = ScalarOp::TruncDiv;
  if (c) {
    COIL_CHECK(c->dtype == t, "{} of {} and {}", name_of(o), short_name(t), short_name(c->dtype));
    return intern({.op = o, .dtype = t, .args = {a, b, c}});
  }
  if (is_constant(a) && (!b || is_constant(b)))
    if (Scalar known = folded_constant(*this, o, a, b)) return known;
  if (is_comparison(o))
    if (auto known = known_comparison(env_, o, a, b)) return constant_int(DType::Bool, *known);
  if (Scalar same = simplified(*this, o, a, b)) return same;
  ScalarNode n{.op = o, .dtype = result_type(o, t), .args = {a}};
  if (b) n.args.push_back(b);
  return intern(std::move(n));
}

Expr ScalarPool::indirect(std::size_t k) { return env_.context().symbol(fmt::format("x{}", k), sym::SymbolKind::Loop); }

bool may_fail(Scalar root) {
  return std::ranges::any_of(topological({&root, 1}),
                             [](Scalar s) { return s->op == ScalarOp::CheckIndex || s->op == ScalarOp::Require; });
}

namespace {

/// Every node below (and with) the roots for which `wanted` holds, operands before users, each once; nothing below a
/// node that is not wanted is looked at.
template <class Wanted>
std::vector<Scalar> walk(std::span<const Scalar> roots, Wanted wanted) {
  std::vector<Scalar> order;
  PointerSet<ScalarNode> done;
  std::vector<std::pair<Scalar, std::size_t>> stack;  // a node and how many of its children were looked at
  const auto children = [](Scalar node) { return node->args.size() + (node->mask ? 1 : 0); };
  const auto visit = [&](Scalar node) {
    if (!wanted(node)) return;
    if (children(node) > 0) {
      if (!done.contains(node)) stack.push_back({node, 0});
    } else if (done.insert(node)) {
      order.push_back(node);
    }
  };
  for (Scalar root : roots) {
    if (root) visit(root);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < children(node)) {
        const std::size_t k = next++;
        visit(k < node->args.size() ? node->args[k] : node->mask);
        continue;
      }
      if (done.insert(node)) order.push_back(node);
      stack.pop_back();
    }
  }
  return order;
}

}  // namespace

std::vector<Scalar> topological(std::span<const Scalar> roots) {
  return walk(roots, [](Scalar) { return true; });
}

std::vector<Scalar> loads(Scalar root) { return loads(std::span(&root, 1)); }

std::vector<Scalar> loads(std::span<const Scalar> roots) {
  std::vector<Scalar> result = walk(roots, [](Scalar s) { return s->has_loads; });
  std::erase_if(result, [](Scalar s) { return s->op != ScalarOp::Load && s->op != ScalarOp::LinearLoad; });
  return result;
}

namespace {

/// The node over new operands, folded again by the pool's own constructors.
Scalar rebuild(ScalarPool& pool, Scalar s, const std::vector<Scalar>& args, Exprs index, Scalar mask) {
  switch (s->op) {
    case ScalarOp::Load: return pool.load(s->buffer, s->rounded, std::move(index), args, mask);
    case ScalarOp::LinearLoad: return pool.linear_load(s->buffer, s->rounded, index[0], args, mask);
    case ScalarOp::Index: return s->dtype == DType::Bool ? pool.condition(index[0]) : pool.index(index[0]);
    case ScalarOp::Constant: return s;
    case ScalarOp::Cast: return pool.cast(args[0], s->dtype);
    case ScalarOp::Round:
      // Rounding changes a value that a kernel keeps: it has more precision than it has in memory.
      if (is_load(s->args[0]))
        return pool.exactly({.op = ScalarOp::Round, .dtype = s->dtype, .args = {args[0]}, .rounded = s->rounded});
      return pool.cast(args[0], s->rounded);
    case ScalarOp::Bitcast: return pool.bitcast(args[0], s->dtype);
    case ScalarOp::CheckIndex: return pool.check_index(args[0], index[0]);
    case ScalarOp::Require: return pool.require(args[0], args[1]);
    case ScalarOp::Random: return pool.random(args[0], s->integer, index[0]);
    default: return pool.op(s->op, args[0], args.size() > 1 ? args[1] : nullptr, args.size() > 2 ? args[2] : nullptr);
  }
}

/// Walks operands before users. `change` sees each node with its operands changed already and gives the new node.
Scalar transform(
    Scalar root,
    const std::function<Scalar(Scalar node, const std::vector<Scalar>& args, Scalar mask, bool same)>& change) {
  std::unordered_map<Scalar, Scalar> made;
  std::vector<Scalar> args;
  for (Scalar s : topological({&root, 1})) {
    args.clear();
    bool same = true;
    for (auto* a : s->args) {
      args.push_back(made.at(a));
      same &= args.back() == a;
    }
    Scalar mask = s->mask ? made.at(s->mask) : nullptr;
    same &= mask == s->mask;
    made.emplace(s, change(s, args, mask, same));
  }
  return made.at(root);
}

}  // namespace

Scalar ScalarPool::substitute(Scalar root, std::span<const Expr> from, std::span<const Expr> to,
                              const std::function<Expr(Expr)>& simplify) {
  if (std::equal(from.begin(), from.end(), to.begin(), to.end())) return root;
  std::unordered_map<Expr, Expr> memo;
  auto replaced = [&](Expr e) {
    auto [at, fresh] = memo.try_emplace(e, e);
    if (fresh) {
      Expr changed = sym::substitute(e, from, to);
      at->second = changed == e || !simplify ? changed : simplify(changed);
    }
    return at->second;
  };
  return map_indices(root, replaced);
}

Scalar ScalarPool::map_indices(Scalar root, const std::function<Expr(Expr)>& f) {
  return transform(root, [&](Scalar s, const std::vector<Scalar>& args, Scalar mask, bool same) {
    Exprs index;
    for (const Expr& e : s->index) {
      index.push_back(f(e));
      same &= index.back() == e;
    }
    return same ? s : rebuild(*this, s, args, std::move(index), mask);
  });
}

Scalar ScalarPool::replace_loads(Scalar root, const std::function<Scalar(Scalar load)>& f) {
  if (!root->has_loads) return root;
  return transform(root, [&](Scalar s, const std::vector<Scalar>& args, Scalar mask, bool same) {
    if (!same) s = rebuild(*this, s, args, s->index, mask);
    if (!is_load(s)) return s;
    Scalar by = f(s);
    return by ? by : s;
  });
}

Scalar ScalarPool::masked(Scalar value, Scalar mask, Scalar otherwise) {
  if (is_true(mask)) return value;
  if (is_false(mask)) return otherwise;
  Scalar guarded = transform(value, [&](Scalar s, const std::vector<Scalar>& args, Scalar inner, bool same) {
    if (s->op == ScalarOp::Random) return s;  // the seed may always be read
    if (!same) s = rebuild(*this, s, args, s->index, inner);
    // What is not read is 0, of which nothing is asked.
    if (s->op == ScalarOp::Require) return require(s->args[0], op(ScalarOp::Or, op(ScalarOp::Not, mask), s->args[1]));
    if (!is_load(s)) return s;
    Scalar m = s->mask ? op(ScalarOp::And, mask, s->mask) : mask;
    return s->op == ScalarOp::Load ? load(s->buffer, s->rounded, s->index, s->args, m)
                                   : linear_load(s->buffer, s->rounded, s->index[0], s->args, m);
  });
  if (is_load(guarded) && is_number(otherwise, 0.0)) return guarded;
  return op(ScalarOp::Where, mask, guarded, otherwise);
}

}  // namespace coil::ir
