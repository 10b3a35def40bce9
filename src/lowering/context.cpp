// Reading arguments of the node being lowered.
#include "lowering/lowering.h"
#include "support/error.h"
#include "sym/floats.h"
#include "sym/print.h"

namespace coil::lowering {

std::optional<TensorBox> Context::optional_tensor(const ops::Value& arg) const {
  auto* node = arg.get_if<fx::Node*>();
  if (!node) return std::nullopt;
  auto found = values.find(*node);
  if (found == values.end()) return std::nullopt;
  if (auto* box = std::get_if<TensorBox>(&found->second)) return *box;
  return std::nullopt;
}

TensorBox Context::tensor(const ops::Value& arg) const {
  if (auto box = optional_tensor(arg)) return *box;
  throw Error(fmt::format("{} ({}): a tensor is wanted where {} is", node->target, node->name, ops::to_string(arg)),
              node->target, node->where());
}

std::vector<TensorBox> Context::tensors(const ops::Value& arg) const {
  std::vector<TensorBox> result;
  for (auto& item : arg.as_list()) result.push_back(tensor(item));
  return result;
}

Expr Context::integer(const ops::Value& arg) const {
  if (auto* n = arg.get_if<fx::Node*>()) return graph.env().simplify((*n)->meta.value.as_int());
  return arg.as_int();
}

Exprs Context::integers(const ops::Value& arg) const {
  Exprs result;
  if (auto* list = arg.get_if<ops::Values>()) {
    for (auto& item : *list) result.push_back(integer(item));
  } else {
    result.push_back(integer(arg));
  }
  return result;
}

Scalar Context::number(const ops::Value& arg, DType register_type) const {
  auto& pool = graph.pool();
  const ops::Value* value = &arg;
  if (auto* n = arg.get_if<fx::Node*>()) value = &(*n)->meta.value;
  if (auto* e = value->get_if<Expr>()) return pool.cast(pool.index(*e), register_type);
  if (auto* b = value->get_if<ops::Bool>()) return pool.cast(pool.condition(b->condition), register_type);
  if (auto* d = value->get_if<double>()) return pool.constant(register_type, *d);
  // A float that is known as the program runs lies in memory.
  if (auto box = optional_tensor(arg)) return pool.cast(box->load(Exprs(box->rank(), 0), {}), register_type);
  throw Error(fmt::format("{} ({}): a number is wanted where {} is", node->target, node->name, ops::to_string(arg)),
              node->target, node->where());
}

bool Context::is_known(Expr e) const {
  for (Expr s : sym::free_symbols(e)) {
    const std::string name(s.name());
    if (s.symbol_kind() == sym::SymbolKind::Unbacked && !graph.defined_symbols.contains(name) &&
        !input_symbols.contains(name))
      return false;
  }
  return true;
}

void Context::define(Expr recorded, const TensorBox& count) {
  const bool own = recorded.is_symbol() && recorded.symbol_kind() == sym::SymbolKind::Unbacked && !is_known(recorded);
  const Expr symbol = own ? recorded : graph.env().fresh_unbacked({});
  auto& pool = graph.pool();
  Scalar value = pool.cast(count.load(Exprs(count.rank(), 0), {}), DType::I64);
  TensorBox number = ir::make_pointwise(graph, DType::I64, count.device(), {}, value);
  ir::BufferId source = number.realize();
  graph.buffer(source).layout.fixed = true;
  graph.add_operation(
      {.node = ir::ReadSymbol{symbol, source}, .origins = graph.provenance.origins, .where = graph.provenance.where});
  assert_what_is_known();
  if (!own)
    return require(sym::eq(symbol, recorded),
                   fmt::format("{} gives a size other than {}", node->target, sym::to_string(recorded)));
  check_range(symbol);
}

void Context::check_range(Expr symbol) {
  const sym::Range range = graph.env().range(symbol);
  if (range.low != sym::Range::kMin)
    require(sym::ge(symbol, range.low),
            fmt::format("{} ({}) must be at least {}", symbol.name(), node->target, range.low));
  if (range.high != sym::Range::kMax)
    require(sym::le(symbol, range.high),
            fmt::format("{} ({}) must be at most {}", symbol.name(), node->target, range.high));
}

void Context::set(const std::vector<std::pair<Expr, Expr>>& values) {
  for (const auto& [symbol, value] : values)
    graph.add_operation(
        {.node = ir::SetSymbol{symbol, value}, .origins = graph.provenance.origins, .where = graph.provenance.where});
  assert_what_is_known();
  for (const auto& [symbol, value] : values) check_range(symbol);
}

void Context::go_back_to(Asserted before) {
  required_ = std::move(before.conditions);
  pending = std::move(before.pending);
}

void Context::intersect_asserted(const Asserted& other_side) {
  std::erase_if(required_, [&](Expr condition) { return !other_side.conditions.contains(condition); });
}

void Context::define(const ops::SymFloat& recorded, const TensorBox& number) {
  if (!recorded.value || recorded.value->kind() != sym::Kind::Float ||
      sym::float_function(*recorded.value) != FloatFunction::OfBits)
    return;
  const Expr bits = sym::float_operands(*recorded.value)[0];
  if (!bits.is_symbol() || is_known(bits)) return;
  TensorBox word = ir::make_pointwise(graph, DType::F64, number.device(), {},
                                      graph.pool().cast(number.load(Exprs(number.rank(), 0), {}), DType::F64));
  const ir::BufferId source = word.realize();
  graph.buffer(source).layout.fixed = true;
  graph.add_operation(
      {.node = ir::ReadSymbol{bits, source}, .origins = graph.provenance.origins, .where = graph.provenance.where});
  assert_what_is_known();
}

void Context::forget_shared_values() {
  host_operands.clear();
  grown_storages.clear();
  sorted_places.clear();
}

Expr Context::read(const TensorBox& number, sym::Range range) {
  const Expr symbol = graph.env().fresh_unbacked(range);
  define(symbol, number);
  return symbol;
}

void Context::require(Expr condition, const std::string& message) {
  if (condition.is_constant() && !condition.is_constant(0)) return;
  if (!required_.insert(condition).second) return;
  graph.add_operation({.node = ir::Assertion{condition, message},
                       .origins = graph.provenance.origins,
                       .where = graph.provenance.where});
}

void Context::assert_what_is_known() {
  std::vector<PendingAssert> rest;
  for (PendingAssert& p : pending) {
    if (!is_known(p.condition)) {
      rest.push_back(std::move(p));
      continue;
    }
    if (p.condition.is_constant() && !p.condition.is_constant(0)) continue;
    if (required_.insert(p.condition).second)
      graph.add_operation({.node = ir::Assertion{p.condition, p.message},
                           .origins = p.origins,
                           .where = p.where.empty() ? graph.provenance.where : p.where});
  }
  pending = std::move(rest);
}

const sym::TensorMeta& Context::result(std::size_t i) const { return node->meta.value.as_list().at(i).as_tensor(); }

}  // namespace coil::lowering
