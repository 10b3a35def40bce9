#include "lowering/common.h"

#include <algorithm>

#include "library_ops/selection.h"
#include "support/error.h"
#include "sym/floats.h"
#include "sym/needs_value.h"
#include "sym/print.h"

namespace coil::lowering {

void require_equal(Context& ctx, Expr size, Expr other) {
  if (size == other) return;
  if (size.constant() && other.constant())
    throw Error(fmt::format("{}: a size of {} does not go with one of {}", ctx.node->target, sym::to_string(size),
                            sym::to_string(other)),
                ctx.node->target, ctx.node->where());
  auto may_differ = [](Expr e) { return sym::has_symbol_of(e, sym::SymbolKind::Unbacked) || sym::has_float(e); };
  if (!may_differ(size) && !may_differ(other)) return;
  if (ctx.graph.env().statically_known_equal(size, other)) return;
  ctx.require(sym::eq(size, other), fmt::format("{}: a size of {} does not go with one of {} (a size that depends on "
                                                "data, or is made of floats, is not broadcast)",
                                                ctx.node->target, sym::to_string(size), sym::to_string(other)));
}

Element element(Context& ctx, const TensorBox& box, const Exprs& sizes) {
  if (box.rank() > sizes.size()) fail("{} dimensions do not broadcast to {}", box.rank(), sizes.size());
  const std::size_t lead = sizes.size() - box.rank();
  Exprs index;
  for (std::size_t d = 0; d < box.rank(); ++d) {
    // A free size may be known to be 1 by a guard, so a comparison with the constant is not enough.
    const bool repeated = box.sizes[d] != sizes[lead + d] && is_one(ctx, box.sizes[d]);
    index.push_back(repeated ? Expr(0) : ctx.graph.ivar(lead + d));
    if (!repeated) require_equal(ctx, box.sizes[d], sizes[lead + d]);
  }
  return {&ctx.graph.pool(), box.load(index, loop_vars(ctx.graph, sizes))};
}

Element element_at(Context& ctx, const TensorBox& box, const Exprs& index, const Exprs& sizes, const Exprs& reduced,
                   Scalar mask) {
  return {&ctx.graph.pool(), box.load(index, loop_vars(ctx.graph, sizes, reduced), mask)};
}

Element operand(Context& ctx, const ops::Value& arg, const Exprs& sizes, DType register_type) {
  if (auto box = ctx.optional_tensor(arg)) {
    Element v = element(ctx, *box, sizes).cast(register_type);
    // Eager converts integers to f16 before it computes, and large ones become infinite on the way.
    const bool overflows = register_type == DType::F32 && !is_floating(box->dtype()) && size_of(box->dtype()) > 2 &&
                           ctx.node->is_tensor() && ctx.result().dtype == DType::F16;
    if (overflows) v = where(ge(abs(v), 65520.0), copysign(v.number(INFINITY), v), v);
    return v;
  }
  return {&ctx.graph.pool(), ctx.number(arg, register_type)};
}

bool is_number(const ops::Value& v, double n) {
  if (auto* d = v.get_if<double>()) return *d == n;
  auto* e = v.get_if<Expr>();
  return e && e->is_constant(static_cast<std::int64_t>(n));
}

Element number(Context& ctx, DType register_type, double v) {
  return {&ctx.graph.pool(), ctx.graph.pool().constant(register_type, v)};
}
Element index_value(Context& ctx, Expr e) { return {&ctx.graph.pool(), ctx.graph.pool().index(e)}; }
Element condition(Context& ctx, Expr e) { return {&ctx.graph.pool(), ctx.graph.pool().condition(e)}; }

DType promoted(Context&, std::span<const ops::Value* const> args) {
  using Maybe = std::optional<DType>;
  Maybe dimensioned, scalar, number;
  auto merge = [](Maybe& into, DType t) { into = into ? promote_types(*into, t) : t; };
  for (auto* arg : args) {
    if (auto* list = arg->get_if<ops::Values>(); list || arg->is_none()) continue;
    if (auto* node = arg->get_if<fx::Node*>()) {
      const ops::Value& meta = (*node)->meta.value;
      if (auto* t = meta.get_if<sym::TensorMeta>())
        merge(t->rank() ? dimensioned : scalar, t->dtype);
      else
        merge(number, meta.is<ops::Bool>() ? DType::Bool : meta.is<Expr>() ? DType::I64 : DType::F32);
    } else {
      merge(number, arg->is<ops::Bool>() ? DType::Bool : arg->is<Expr>() ? DType::I64 : DType::F32);
    }
  }
  auto category = [](DType t) { return t == DType::Bool ? 0 : is_complex(t) ? 3 : is_floating(t) ? 2 : 1; };
  auto combine = [&](Maybe high, Maybe low) -> Maybe {
    if (!high) return low;
    if (!low || category(*low) <= category(*high)) return high;
    return promote_types(*high, *low);
  };
  return combine(dimensioned, combine(scalar, number)).value_or(DType::F32);
}

TensorBox result(Context& ctx, Element body) { return result(ctx, body, ctx.result()); }

TensorBox result(Context& ctx, Element body, const sym::TensorMeta& meta) {
  return ir::make_pointwise(ctx.graph, meta.dtype, meta.device, meta.sizes, body.cast(register_type(meta.dtype)),
                            meta.strides);
}

sym::TensorMeta unrounded(sym::TensorMeta meta) {
  if (is_floating(meta.dtype)) meta.dtype = register_type(meta.dtype);
  return meta;
}

TensorBox in_result_dtype(Context& ctx, const TensorBox& box) {
  return box.dtype() == ctx.result().dtype ? box : result(ctx, element(ctx, box, box.sizes));
}

Device device_of(const Context& ctx) {
  const ops::Value* meta = &ctx.node->meta.value;
  if (auto* list = meta->get_if<ops::Values>(); list && !list->empty()) meta = &list->front();
  auto* tensor = meta->get_if<sym::TensorMeta>();
  if (tensor || !ctx.graph.on_several_devices) return tensor ? tensor->device : Device{};
  // An operator whose results are numbers has no device of its own: it runs on its operand's.
  for (const ops::Value& arg : ctx.node->args)
    if (const auto box = ctx.optional_tensor(arg); box && box->storage) return box->device();
  return ctx.graph.target().device;
}

const target::Target& Context::target() const {
  return graph.on_several_devices && node ? graph.target(device_of(*this)) : graph.target();
}

TensorBox pointwise(Context& ctx, DType dtype, const Exprs& sizes, Element body, const Exprs& strides) {
  return ir::make_pointwise(ctx.graph, dtype, device_of(ctx), sizes, body.cast(register_type(dtype)), strides);
}

TensorBox reduction(Context& ctx, DType dtype, const Exprs& sizes, const Exprs& reduced, ReductionKind kind,
                    Element body, const Exprs& strides, ir::ReadAgain again) {
  return ir::make_reduction(ctx.graph, dtype, device_of(ctx), sizes, reduced, kind, body, strides, again);
}

TensorBox expand(Context& ctx, const TensorBox& box, const Exprs& sizes) {
  if (box.rank() > sizes.size()) fail("{} dimensions do not broadcast to {}", box.rank(), sizes.size());
  const std::size_t lead = sizes.size() - box.rank();
  Exprs index;
  bool repeats = false;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (d < lead) {
      repeats |= !sizes[d].is_constant(1);
      continue;
    }
    const bool repeated = box.sizes[d - lead] != sizes[d] && is_one(ctx, box.sizes[d - lead]);
    if (!repeated) require_equal(ctx, box.sizes[d - lead], sizes[d]);
    repeats |= repeated;
    index.push_back(repeated ? Expr(0) : ctx.graph.ivar(d));
  }
  if (repeats && !box.storage->realized() && ir::is_costly(box.storage->body)) box.realize();
  return box.view(sizes, index);
}

TensorBox permute(Context& ctx, const TensorBox& box, const std::vector<std::size_t>& order) {
  Exprs sizes, index(box.rank());
  for (std::size_t d = 0; d < order.size(); ++d) {
    sizes.push_back(box.sizes[order[d]]);
    index[order[d]] = ctx.graph.ivar(d);
  }
  return box.view(sizes, index);
}

TensorBox unsqueeze(Context& ctx, const TensorBox& box, std::size_t dim) {
  Exprs sizes = box.sizes, index;
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(dim), 1);
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (d != dim) index.push_back(ctx.graph.ivar(d));
  return box.view(sizes, index);
}

TensorBox reshape(Context& ctx, const TensorBox& box, const Exprs& sizes) {
  auto& env = ctx.graph.env();
  auto is_zero = [](const Expr& e) { return e.is_constant(0); };
  if (std::any_of(sizes.begin(), sizes.end(), is_zero)) return box.view(sizes, Exprs(box.rank(), 0));
  // Runs of dimensions whose products agree are matched from the left, so that indices of one run never mix with those
  // of another.
  Exprs index(box.rank(), 0);
  std::size_t from = 0, to = 0;
  while (from < box.rank() || to < sizes.size()) {
    std::size_t from_end = from, to_end = to;
    Expr from_size = 1, to_size = 1;
    auto take_from = [&] { from_size *= box.sizes[from_end++]; };
    auto take_to = [&] { to_size *= sizes[to_end++]; };
    if (from_end < box.rank()) take_from();
    if (to_end < sizes.size()) take_to();
    while (!env.statically_known_equal(from_size, to_size)) {
      const bool more_from = from_end < box.rank(), more_to = to_end < sizes.size();
      if (!more_from && !more_to) break;
      const auto a = env.hint(from_size), b = env.hint(to_size);
      const bool grow_from = more_from && (!more_to || (a && b ? *a < *b : from_size.is_constant()));
      grow_from ? take_from() : take_to();
    }
    Expr flat = 0;
    for (std::size_t d = to; d < to_end; ++d) flat = flat * sizes[d] + ctx.graph.ivar(d);
    Expr below = 1;
    for (std::size_t d = from_end; d-- > from;) {
      Expr e = below.is_constant(1) ? flat : sym::floor_div(flat, below);
      below *= box.sizes[d];
      index[d] = d == from ? e : sym::mod(e, box.sizes[d]);
      if (box.sizes[d].is_constant(1)) index[d] = 0;
    }
    from = from_end;
    to = to_end;
  }
  return box.view(sizes, index);
}

BufferView library_operand(const TensorBox& box) {
  box.realize();
  if (auto view = box.strided()) return *view;
  auto view = ir::contiguous(box).strided();
  COIL_CHECK(view, "a dense copy is strided");
  return *view;
}

bool lies_in_vectors(const BufferView& v, std::int64_t bytes) {
  const std::int64_t vector = bytes / static_cast<std::int64_t>(size_of(v.dtype));
  const auto fits = [&](const Expr& e) { return e.constant() && *e.constant() >= 0 && *e.constant() % vector == 0; };
  for (std::size_t d = 0; d + 1 < v.sizes.size(); ++d)
    if (!v.sizes[d].is_constant(1) && !fits(v.strides[d])) return false;
  return v.strides.back().is_constant(1) && fits(v.offset);
}

BufferView open_operand(Context& ctx, const TensorBox& box) {
  const ir::BufferId whole = box.realize();
  const bool fixed = ctx.graph.buffer(whole).layout.fixed;
  BufferView view = library_operand(box);
  const std::size_t rank = ctx.graph.buffer(whole).layout.sizes.size();
  bool is_range = view.buffer == whole && !box.linear && box.rank() == rank;
  for (std::size_t d = 0; is_range && d < rank; ++d) is_range = (box.map[d] - ctx.graph.ivar(d)).constant().has_value();
  if (is_range) ctx.graph.buffer(whole).layout.fixed = fixed;
  return view;
}

namespace {

/// The index expression that an I64 element is, where it is one.
std::optional<Expr> as_expression(Element at) {
  if (at.scalar->op == ScalarOp::Index) return at.scalar->index[0];
  if (at.scalar->op == ScalarOp::Constant) return Expr(at.scalar->integer);
  return std::nullopt;
}

}  // namespace

Element as_stored(Element x, DType stored) { return is_floating(stored) ? x.cast(stored) : x; }

Element from_either_end(Context& ctx, Element index, Expr size, const std::vector<sym::LoopVar>& loops) {
  const Element at = index.cast(DType::I64);
  if (const auto e = as_expression(at)) {
    auto& env = ctx.graph.env();
    if (env.statically_known_true(sym::ge(*e, 0), loops)) return at;
    if (env.statically_known_true(sym::lt(*e, 0), loops)) return index_value(ctx, *e + size);
  }
  return where(lt(at, 0.0), at + index_value(ctx, size), at);
}

Expr indirect_index(Context& ctx, Element index, Expr size, const std::vector<sym::LoopVar>& loops,
                    std::vector<Scalar>& indirect) {
  auto& env = ctx.graph.env();
  Element at = index.cast(DType::I64);
  const auto e = as_expression(at);
  const bool is_inside =
      e && env.statically_known_true(sym::ge(*e, 0), loops) && env.statically_known_true(sym::lt(*e, size), loops);
  if (is_inside) return *e;
  indirect.push_back(ctx.graph.pool().check_index(at, size));
  return ctx.graph.pool().indirect(indirect.size() - 1);
}

std::pair<TensorBox, BufferView> library_result(Context& ctx, DType dtype, const Exprs& sizes, const Exprs& strides) {
  ir::Layout layout{dtype, device_of(ctx), sizes, ir::dense_strides(ctx.graph.env(), sizes, strides), false};
  BufferView view{0, dtype, sizes, layout.strides, 0};
  view.buffer = ctx.graph.add_buffer("", ir::BufferKind::Computed, std::move(layout)).id;
  return {ir::whole(ctx.graph, view.buffer), view};
}

ir::Extern library_move(const BufferView& from, const BufferView& into) {
  return {std::string(library_ops::selection::kComplexParts), {}, {from}, {into}};
}

TensorBox library_copy(Context& ctx, const TensorBox& box, const Exprs& strides) {
  ir::Layout layout{box.dtype(), box.device(), box.sizes, ir::dense_strides(ctx.graph.env(), box.sizes, strides), true};
  BufferView into{0, layout.dtype, layout.sizes, layout.strides, 0};
  into.buffer = ctx.graph.add_buffer("", ir::BufferKind::Computed, std::move(layout)).id;
  ctx.graph.add_operation({.node = library_move(library_operand(box), into),
                           .outs = {into.buffer},
                           .origins = ctx.graph.provenance.origins,
                           .where = ctx.graph.provenance.where});
  return ir::whole(ctx.graph, into.buffer);
}

void store_part(Context& ctx, ir::BufferId buffer, const Exprs& sizes, Exprs at, Element body) {
  ctx.graph.add_operation({.node = ir::Pointwise{sizes, body},
                           .outs = {buffer},
                           .store_index = std::move(at),
                           .origins = ctx.graph.provenance.of(body),
                           .where = ctx.graph.provenance.where});
}

void add_library_call(Context& ctx, std::string op, library_ops::Attributes attributes, std::vector<BufferView> inputs,
                      std::vector<BufferView> outputs) {
  ir::Operation operation;
  for (auto& view : outputs) operation.outs.push_back(view.buffer);
  operation.node = ir::Extern{std::move(op), std::move(attributes), std::move(inputs), std::move(outputs)};
  operation.origins = ctx.graph.provenance.origins;
  operation.where = ctx.graph.provenance.where;
  ctx.graph.add_operation(std::move(operation));
}

std::size_t dimension(std::int64_t dim, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  if (dim < -n || dim >= n) fail("dimension {} of a tensor of {} dimensions", dim, rank);
  return static_cast<std::size_t>(dim < 0 ? dim + n : dim);
}

std::size_t dimension(Context& ctx, const ops::Value& arg, std::size_t rank) {
  return dimension(constant(ctx, arg), rank);
}

std::vector<std::int64_t> constants(Context& ctx, const ops::Value& arg) {
  std::vector<std::int64_t> result;
  for (const Expr& e : ctx.integers(arg)) {
    auto c = e.constant();
    if (!c) refuse_free(ctx, fmt::format("wants constant arguments, {} is symbolic", sym::to_string(e)), e);
    result.push_back(*c);
  }
  return result;
}

std::int64_t constant(Context& ctx, const ops::Value& arg) {
  Expr e = ctx.integer(arg);
  auto c = e.constant();
  if (!c) refuse_free(ctx, fmt::format("wants a constant argument, {} is symbolic", sym::to_string(e)), e);
  return *c;
}

bool is_one(Context& ctx, const Expr& e) { return e.is_constant(1) || ctx.graph.env().statically_known_equal(e, 1); }

namespace {

Error refusal(const Context& ctx, const std::string& why) {
  return {fmt::format("{} ({}): {}", ctx.node->target, ctx.node->name, why), ctx.node->target, ctx.node->where()};
}

}  // namespace

void refuse(const Context& ctx, const std::string& why) { throw refusal(ctx, why); }

void refuse_free(const Context& ctx, const std::string& why, const Expr& e) { sym::refuse_free(refusal(ctx, why), e); }

}  // namespace coil::lowering
