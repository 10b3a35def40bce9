#include "ir/tensor_box.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/combining.h"
#include "ir/reduction_split.h"
#include "support/error.h"

namespace coil::ir {

namespace {

bool is_identity(Graph& graph, const Exprs& map, std::size_t rank) {
  if (map.size() != rank) return false;
  for (std::size_t d = 0; d < rank; ++d)
    if (!(map[d] == graph.ivar(d))) return false;
  return true;
}

/// An index expression over new variables. Plain variables and constants are as simple as can be.
Expr mapped(const sym::ShapeEnv& env, Expr e, const Exprs& from, std::span<const Expr> to,
            std::span<const sym::LoopVar> loops) {
  Expr changed = sym::substitute(e, from, to);
  return changed.is_constant() || changed.is_symbol() ? changed : env.simplify(changed, loops);
}

}  // namespace

std::vector<sym::LoopVar> loop_vars(Graph& graph, const Exprs& sizes, const Exprs& reduced) {
  std::vector<sym::LoopVar> loops;
  for (std::size_t d = 0; d < sizes.size(); ++d) loops.push_back({graph.ivar(d), sizes[d]});
  for (std::size_t d = 0; d < reduced.size(); ++d) loops.push_back({graph.rvar(d), reduced[d]});
  return loops;
}

namespace {

bool names_indirect(ScalarPool& pool, Expr e, std::size_t count) {
  for (std::size_t k = 0; k < count; ++k)
    if (sym::contains(e, pool.indirect(k))) return true;
  return false;
}

}  // namespace

bool TensorBox::computes_at(std::span<const sym::LoopVar> loops) const {
  if (storage->realized()) return true;
  if (linear) return false;
  auto& env = storage->graph->env();
  Expr points = 1;
  for (const sym::LoopVar& v : loops) points *= v.size;
  if (env.hint_or(points, 1) > env.hint_or(sym::product(storage->sizes), 0)) return false;
  for (Scalar n : topological({&storage->body, 1})) {
    if (n->op == ScalarOp::Load && n->args.empty() && !n->mask) continue;
    if (n->op == ScalarOp::Load || n->op == ScalarOp::LinearLoad || !n->index.empty()) return false;
  }
  return true;
}

Scalar TensorBox::load(std::span<const Expr> index, std::span<const sym::LoopVar> loops, Scalar mask,
                       std::vector<Scalar> indirect) const {
  COIL_CHECK(index.size() == rank(), "{} indices into a tensor of {} dimensions", index.size(), rank());
  Graph& graph = *storage->graph;
  ScalarPool& pool = graph.pool();
  auto& env = graph.env();
  if (!indirect.empty() && !computes_at(loops)) realize();
  ++storage->uses;
  const Exprs vars = graph.ivars(rank());
  Exprs at;
  for (const Expr& e : map) at.push_back(mapped(env, e, vars, index, loops));
  if (linear) return pool.linear_load(*storage->buffer, dtype(), at[0], std::move(indirect), mask);
  if (storage->realized()) return pool.load(*storage->buffer, dtype(), std::move(at), std::move(indirect), mask);

  const Exprs own = graph.ivars(storage->sizes.size());
  Scalar value = pool.substitute(storage->body, own, at, [&](Expr e) { return env.simplify(e, loops); });
  // The indirect variables of an index mean something in one load: each load that names them gets their values.
  if (!indirect.empty())
    value = pool.replace_loads(value, [&](Scalar l) -> Scalar {
      const bool named = std::any_of(l->index.begin(), l->index.end(),
                                     [&](Expr e) { return names_indirect(pool, e, indirect.size()); });
      return named ? pool.load(l->buffer, graph.buffer(l->buffer).layout.dtype, l->index, indirect) : nullptr;
    });
  // What is read from memory is as it was stored.
  if (storage->as_stored && !(is_load(value) && value->rounded == dtype()))
    value = pool.exactly({.op = ScalarOp::Round, .dtype = value->dtype, .args = {value}, .rounded = dtype()});
  if (mask) value = pool.masked(value, mask, pool.constant(value->dtype, 0));
  graph.provenance.absorbed.emplace_back(value, storage->origins);
  return value;
}

TensorBox TensorBox::view(Exprs new_sizes, Exprs index) const {
  COIL_CHECK(index.size() == rank(), "{} indices into a tensor of {} dimensions", index.size(), rank());
  Graph& graph = *storage->graph;
  const auto loops = loop_vars(graph, new_sizes);
  const Exprs vars = graph.ivars(rank());
  TensorBox result = *this;
  for (Expr& e : result.map) e = mapped(graph.env(), e, vars, index, loops);
  result.sizes = std::move(new_sizes);
  return result;
}

BufferId TensorBox::realize() const {
  StorageBox& s = *storage;
  if (s.buffer) return *s.buffer;
  Buffer& buffer = s.graph->add_buffer("", BufferKind::Computed, {s.dtype, s.device, s.sizes, s.strides, false});
  s.graph->add_operation(
      {.node = Pointwise{s.sizes, s.body}, .outs = {buffer.id}, .origins = s.origins, .where = s.where});
  s.buffer = buffer.id;
  s.body = nullptr;
  return buffer.id;
}

std::optional<BufferView> TensorBox::window(BufferId buffer, Expr at) const {
  Graph& graph = *storage->graph;
  BufferView view{buffer, dtype(), sizes, {}, 0};
  Expr rest = at;
  for (std::size_t d = 0; d < rank(); ++d) {
    auto parts = sym::linear_in(rest, graph.ivar(d));
    if (!parts || sym::has_symbol_of(parts->coefficient, sym::SymbolKind::Loop)) return std::nullopt;
    view.strides.push_back(parts->coefficient);
    rest = parts->rest;
  }
  if (sym::has_symbol_of(rest, sym::SymbolKind::Loop)) return std::nullopt;
  view.offset = rest;
  // A dimension of size 1 may have any stride; libraries know the dense one best.
  for (std::size_t d = rank(); d-- > 0;)
    if (sizes[d].is_constant(1)) view.strides[d] = d + 1 < rank() ? view.strides[d + 1] * sizes[d + 1] : Expr(1);
  return view;
}

bool TensorBox::is_whole() const {
  return !linear && sizes == storage->sizes && is_identity(*storage->graph, map, rank());
}

std::optional<BufferView> TensorBox::strided() const {
  if (!storage->realized()) return std::nullopt;
  Graph& graph = *storage->graph;
  Layout& layout = graph.buffer(*storage->buffer).layout;
  if (!linear && sizes == layout.sizes && is_identity(graph, map, rank()))
    return BufferView{*storage->buffer, dtype(), sizes, layout.strides, 0};
  const auto view = window(*storage->buffer,
                           graph.env().simplify(linear ? map[0] : linear_index(layout, map), loop_vars(graph, sizes)));
  if (view) layout.fixed = true;  // a part of the buffer was described by its strides
  return view;
}

std::optional<BufferView> TensorBox::copied(const std::function<bool(const BufferView&)>& suits) const {
  const Scalar body = storage->body;
  if (storage->realized() || linear || !body->args.empty() || body->mask ||
      (body->op != ScalarOp::Load && body->op != ScalarOp::LinearLoad))
    return std::nullopt;
  Graph& graph = *storage->graph;
  Layout& layout = graph.buffer(body->buffer).layout;
  if (layout.dtype != dtype()) return std::nullopt;
  const Expr at = body->op == ScalarOp::Load ? linear_index(layout, body->index) : body->index[0];
  const auto view =
      window(body->buffer, mapped(graph.env(), at, graph.ivars(storage->sizes.size()), map, loop_vars(graph, sizes)));
  if (!view || !suits(*view)) return std::nullopt;
  layout.fixed = true;
  return view;
}

TensorBox made_once(const TensorBox& box) {
  const StorageBox& s = *box.storage;
  Graph& graph = *s.graph;
  if (!graph.target(s.device).has(target::Feature::ThreadGrids) || s.realized() || !s.body->has_loads ||
      box.rank() < 3 || box.sizes != s.sizes || !is_identity(graph, box.map, box.rank()))
    return box;
  const std::vector<Scalar> nodes = topological({&s.body, 1});
  Exprs sizes = s.sizes, index = box.map;
  for (std::size_t d = 0; d + 2 < box.rank(); ++d) {
    const Expr var = graph.ivar(d);
    const bool moves = std::ranges::any_of(
        nodes, [&](Scalar n) { return std::ranges::any_of(n->index, [&](Expr e) { return sym::contains(e, var); }); });
    if (!moves && graph.env().statically_known_le(1, sizes[d])) sizes[d] = 1, index[d] = 0;
  }
  if (sizes == s.sizes) return box;
  TensorBox small = make_pointwise(graph, s.dtype, s.device, std::move(sizes), s.body, s.strides);
  small.storage->origins = s.origins;
  small.storage->where = s.where;
  return small.view(s.sizes, index);
}

TensorBox make_pointwise(Graph& graph, DType dtype, Device device, Exprs sizes, Scalar body, Exprs strides) {
  COIL_CHECK(body->dtype == register_type(dtype), "body of {} for {}", short_name(body->dtype), short_name(dtype));
  auto storage = std::make_shared<StorageBox>();
  storage->graph = &graph;
  storage->dtype = dtype;
  storage->device = device;
  storage->sizes = sizes;
  storage->strides = dense_strides(graph.env(), sizes, strides);
  storage->body = body;
  storage->origins = graph.provenance.of(body);
  storage->where = graph.provenance.where;
  Exprs map = graph.ivars(sizes.size());
  return {std::move(storage), std::move(sizes), std::move(map), false};
}

TensorBox whole(Graph& graph, BufferId id) {
  const Buffer& buffer = graph.buffer(id);
  auto storage = std::make_shared<StorageBox>();
  storage->graph = &graph;
  storage->dtype = buffer.layout.dtype;
  storage->device = buffer.layout.device;
  storage->sizes = buffer.layout.sizes;
  storage->strides = buffer.layout.strides;
  storage->buffer = id;
  return {std::move(storage), buffer.layout.sizes, graph.ivars(buffer.layout.sizes.size()), false};
}

TensorBox contiguous(const TensorBox& box) {
  Graph& graph = *box.storage->graph;
  auto& env = graph.env();
  const Exprs dense = sym::contiguous_strides(box.sizes);
  auto is_dense = [&](const Exprs& strides) {
    for (std::size_t d = 0; d < dense.size(); ++d)
      if (!box.sizes[d].is_constant(1) && !env.statically_known_equal(dense[d], strides[d])) return false;
    return true;
  };
  if (!box.storage->realized() && is_identity(graph, box.map, box.storage->sizes.size()) &&
      is_dense(box.storage->strides))
    box.realize();
  if (box.storage->realized()) {
    if (auto view = box.strided(); view && is_dense(view->strides)) {
      graph.buffer(view->buffer).layout.fixed = true;
      return box;
    }
  }
  TensorBox copy = make_pointwise(graph, box.dtype(), box.device(), box.sizes,
                                  box.load(graph.ivars(box.rank()), loop_vars(graph, box.sizes)));
  graph.buffer(copy.realize()).layout.fixed = true;
  return copy;
}

Exprs dense_strides(const sym::ShapeEnv& env, const Exprs& sizes, const Exprs& strides) {
  if (strides.size() != sizes.size()) return sym::contiguous_strides(sizes);
  // Dimensions from the innermost out; those that may have any stride (size 1) or have none (broadcast) stay where
  // row-major order has them.
  std::vector<std::size_t> order;
  for (std::size_t d = sizes.size(); d-- > 0;) order.push_back(d);
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (strides[d].is_constant(0) && !sizes[d].is_constant(1)) return sym::contiguous_strides(sizes);
  auto stride_hint = [&](std::size_t d) { return env.hint_or(strides[d], std::numeric_limits<std::int64_t>::max()); };
  std::vector<std::size_t> large;
  for (std::size_t d : order)
    if (!sizes[d].is_constant(1)) large.push_back(d);
  std::stable_sort(large.begin(), large.end(),
                   [&](std::size_t a, std::size_t b) { return stride_hint(a) < stride_hint(b); });
  Exprs dense = strides;
  Expr next = 1;
  bool settled = true;
  for (std::size_t d : large) {
    settled &= env.statically_known_equal(strides[d], next);
    dense[d] = next;
    next *= sizes[d];
  }
  if (settled) return strides;
  for (std::size_t d = sizes.size(); d-- > 0;)
    if (sizes[d].is_constant(1)) dense[d] = d + 1 < sizes.size() ? dense[d + 1] * sizes[d + 1] : Expr(1);
  return dense;
}

Scalar neutral(ScalarPool& pool, ReductionKind kind, DType t) {
  const NeutralValue v = neutral_value(kind, t);
  return is_floating(t) ? pool.constant(t, v.real) : pool.constant_int(t, v.integer);
}

namespace {

TensorBox reduce(Graph& graph, DType dtype, Device device, Exprs sizes, Exprs reduced, ReductionKind kind, Scalar body,
                 Exprs strides, std::set<std::string> origins) {
  Layout layout{dtype, device, sizes, dense_strides(graph.env(), sizes, strides), false};
  const BufferId out = graph.add_buffer("", BufferKind::Computed, std::move(layout)).id;
  graph.add_operation({.node = Reduction{std::move(sizes), std::move(reduced), kind, body},
                       .outs = {out},
                       .origins = std::move(origins),
                       .where = graph.provenance.where});
  return whole(graph, out);
}

/// A reduction over dimensions of one element each: that element.
TensorBox reduce_nothing(Graph& graph, DType dtype, Device device, const Exprs& sizes, std::size_t reduced,
                         ReductionKind kind, Scalar body, const Exprs& strides) {
  auto& pool = graph.pool();
  if (is_position(kind)) return make_pointwise(graph, dtype, device, sizes, pool.constant_int(DType::I64, 0), strides);
  const auto loops = loop_vars(graph, sizes);
  const Scalar element = pool.substitute(body, graph.rvars(reduced), Exprs(reduced, 0),
                                         [&](Expr e) { return graph.env().simplify(e, loops); });
  return make_pointwise(graph, dtype, device, sizes, pool.cast(element, register_type(dtype)), strides);
}

/// A reduction in two: first over the elements of each chunk, then over chunks.
class SplitReduction {
 public:
  SplitReduction(Graph& graph, Device device, const Exprs& sizes, const Exprs& reduced, ReductionKind kind, Scalar body,
                 const ReductionSplit& split)
      : graph_(graph), device_(device), sizes_(sizes), reduced_(reduced), kind_(kind), split_(split) {
    origins_ = graph.provenance.of(body);
    part_ = chunks_of(graph, sizes, reduced, kind, body, split);
    chunks_ = loop_vars(graph, sizes);
    chunks_.push_back({graph.rvar(0), split.chunks});
    chunk_ = graph.ivars(sizes.size());
    chunk_.push_back(graph.rvar(0));
  }

  TensorBox value(DType dtype, const Exprs& strides) {
    return reduce(graph_, dtype, device_, sizes_, {split_.chunks}, kind_, of_chunks(kind_).load(chunk_, chunks_),
                  strides, origins_);
  }

  /// The first chunk that has the extreme, and the place in it.
  TensorBox position(DType dtype, const Exprs& strides) {
    auto& pool = graph_.pool();
    const TensorBox extremes = of_chunks(kind_ == ReductionKind::ArgMax ? ReductionKind::Max : ReductionKind::Min);
    const TensorBox places =
        reduce(graph_, DType::I64, device_, part_.sizes, part_.reduced, kind_, part_.body, {}, origins_);
    const TensorBox best = reduce(graph_, DType::I64, device_, sizes_, {split_.chunks}, kind_,
                                  extremes.load(chunk_, chunks_), {}, origins_);
    const auto results = loop_vars(graph_, sizes_);
    const Scalar which = best.load(graph_.ivars(sizes_.size()), results);
    Exprs index = chunk_;
    index.back() = pool.indirect(0);
    Expr chunk_size = part_.length;
    for (std::size_t d = split_.dim + 1; d < reduced_.size(); ++d) chunk_size *= reduced_[d];
    const Scalar before = pool.op(ScalarOp::Mul, which, pool.index(graph_.env().simplify(chunk_size)));
    TensorBox box =
        make_pointwise(graph_, dtype, device_, sizes_,
                       pool.op(ScalarOp::Add, before, places.load(index, results, nullptr, {which})), strides);
    box.storage->origins = origins_;
    box.realize();
    return box;
  }

 private:
  TensorBox of_chunks(ReductionKind kind) {
    return reduce(graph_, part_.body->dtype, device_, part_.sizes, part_.reduced, kind, part_.body, part_.strides,
                  origins_);
  }

  Graph& graph_;
  const Device device_;
  const Exprs &sizes_, &reduced_;
  const ReductionKind kind_;
  const ReductionSplit& split_;
  ChunkReduction part_;
  Exprs chunk_;
  std::vector<sym::LoopVar> chunks_;
  std::set<std::string> origins_;
};

}  // namespace

TensorBox make_reduction(Graph& graph, DType dtype, Device device, Exprs sizes, Exprs reduced, ReductionKind kind,
                         Scalar body, Exprs strides, ReadAgain again) {
  auto origins = graph.provenance.of(body);
  // What would be read may be memory of no elements.
  if (sym::product(reduced).is_constant(0)) body = graph.pool().constant(body->dtype, 0);
  if (std::all_of(reduced.begin(), reduced.end(), [](const Expr& e) { return e.is_constant(1); })) {
    TensorBox box = reduce_nothing(graph, dtype, device, sizes, reduced.size(), kind, body, strides);
    if (!is_position(kind)) box.storage->origins = std::move(origins);
    return box;
  }
  const bool whole = again == ReadAgain::Yes && stays_whole(graph, device, sizes, reduced, body);
  const auto split = whole ? std::nullopt : choose_split(graph, device, sizes, reduced, kind, body);
  if (!split)
    return reduce(graph, dtype, device, std::move(sizes), std::move(reduced), kind, body, std::move(strides),
                  std::move(origins));
  SplitReduction parts(graph, device, sizes, reduced, kind, body, *split);
  return is_position(kind) ? parts.position(dtype, strides) : parts.value(dtype, strides);
}

namespace {

constexpr std::uint32_t kFewOps = 6, kSomeOps = 24;

/// Whether a body, beside what it reads, evaluates a transcendental function or more than a few operations.
bool computes_much(Scalar body, std::uint32_t few = kFewOps) {
  if (body->ops > few) return true;
  for (Scalar s : topological({&body, 1}))
    if (s->op == ScalarOp::Pow || s->op == ScalarOp::Gcd || s->op == ScalarOp::Fmod || s->op == ScalarOp::Rem ||
        s->op == ScalarOp::Atan2 || s->op == ScalarOp::Hypot || s->op >= ScalarOp::Exp)
      return true;
  return false;
}

constexpr std::int64_t kUnlimited = std::int64_t{1} << 50;  // elements that no tensor has

std::int64_t bytes_or(Graph& graph, const Exprs& sizes, DType dtype, std::int64_t fallback) {
  const std::int64_t count = graph.env().hint_or(sym::product(sizes), -1);
  return count < 0 ? fallback : count * static_cast<std::int64_t>(size_of(dtype));
}

/// Bytes of a tensor: by the sizes' hints; without hints by the largest number of elements that their ranges allow, or
/// by the smallest if there is no largest.
std::int64_t likely_bytes(Graph& graph, const Exprs& sizes, DType dtype) {
  const Expr count = sym::product(sizes);
  const sym::Range range = graph.env().bounds(count);
  const std::int64_t known = graph.env().hint_or(count, range.high < kUnlimited ? range.high : range.low);
  return std::min(std::max<std::int64_t>(known, 0), kUnlimited) * static_cast<std::int64_t>(size_of(dtype));
}

/// Bytes that a load reads at places that data decide, where these are whole rows: one row for each of the value's.
/// Nothing where elements are gathered one by one, or where what is gathered from would live longer for being larger.
std::optional<std::int64_t> bytes_gathered(const StorageBox& s, Scalar load) {
  constexpr std::int64_t kRow = 32;  // bytes that memory gives at once
  const Buffer& from = s.graph->buffer(load->buffer);
  if (load->op != ScalarOp::Load || load->index.empty() || s.sizes.empty()) return std::nullopt;
  const Expr along = s.graph->ivar(s.sizes.size() - 1);
  const auto moves = [&](Expr e) { return sym::contains(e, along); };
  const auto is_moved = [&](Scalar n) { return std::ranges::any_of(n->index, moves); };
  const auto last = sym::linear_in(load->index.back(), along);
  if (!last || !last->coefficient.is_constant(1) ||
      std::ranges::any_of(std::span(load->index).first(load->index.size() - 1), moves) ||
      std::ranges::any_of(topological(load->args), is_moved))
    return std::nullopt;
  const std::int64_t bytes = bytes_or(*s.graph, s.sizes, from.layout.dtype, -1);
  const std::int64_t row = bytes_or(*s.graph, {s.sizes.back()}, from.layout.dtype, -1);
  if (bytes < 0 || row < kRow) return std::nullopt;
  if (!is_callers(from) && bytes_or(*s.graph, from.layout.sizes, from.layout.dtype, bytes + 1) > bytes)
    return std::nullopt;
  return bytes;
}

/// Bytes that the loads read, if each reads its tensor once; nothing if sizes are unknown or data decide what is read,
/// but for whole rows.
std::optional<std::int64_t> bytes_read(const StorageBox& s, std::span<const Scalar> loads) {
  std::int64_t read = 0;
  for (Scalar load : loads) {
    const Layout& layout = s.graph->buffer(load->buffer).layout;
    if (!load->args.empty()) {
      const std::optional<std::int64_t> gathered = bytes_gathered(s, load);
      if (!gathered) return std::nullopt;
      read += *gathered;
      continue;
    }
    const std::int64_t bytes = bytes_or(*s.graph, layout.sizes, layout.dtype, -1);
    if (bytes < 0) return std::nullopt;
    read += bytes;
  }
  return read;
}

/// Whether several loads move more bytes than the stored value would have: `x - max` of narrow rows in f32 does not.
bool reads_much(const StorageBox& s, std::span<const Scalar> loads) {
  if (loads.size() < 2) return false;
  if (s.graph->batch_invariant) return true;
  const std::optional<std::int64_t> read = bytes_read(s, loads);
  const std::int64_t stored = bytes_or(*s.graph, s.sizes, s.dtype, 0);
  return !read || *read > stored + stored / 8;  // a number for each row counts little
}

/// Whether the value is so much larger than all that it is made of (a mask, the place of a label in each row) that to
/// compute it again takes less than to store it and read it back.
bool grows_much(const StorageBox& s, std::span<const Scalar> loads) {
  constexpr std::int64_t kTimes = 16;
  if (s.graph->batch_invariant) return false;
  const std::optional<std::int64_t> read = bytes_read(s, loads);
  if (!read || kTimes * *read > bytes_or(*s.graph, s.sizes, s.dtype, 0)) return false;
  return std::ranges::none_of(topological({&s.body, 1}), [](Scalar n) { return n->op == ScalarOp::Random; });
}

/// Buffers of at least as many bytes that the value reads, or is.
struct LargeReads {
  std::set<BufferId> all;
  std::set<BufferId> called;  ///< of these, what no loop makes: the results of library calls, say
};

LargeReads large_reads(const StorageBox& s, std::int64_t bytes) {
  LargeReads reads;
  auto add = [&](const Buffer& from) {
    if (bytes_or(*s.graph, from.layout.sizes, from.layout.dtype, 0) < bytes) return;
    reads.all.insert(from.id);
    for (OperationId w : from.writers) {
      const auto& node = s.graph->operations()[w].node;
      if (!std::holds_alternative<Pointwise>(node) && !std::holds_alternative<Reduction>(node))
        reads.called.insert(from.id);
    }
  };
  if (s.realized())
    add(s.graph->buffer(*s.buffer));
  else
    for (Scalar load : loads(s.body)) add(s.graph->buffer(load->buffer));
  return reads;
}

}  // namespace

bool is_costly(Scalar body) { return computes_much(body) || loads(body).size() >= 2; }

void realize_by_policy(const TensorBox& box, std::size_t users, const RealizeLimits& limits, JoinsCall joins) {
  StorageBox& s = *box.storage;
  if (s.realized() || users == 0) return;
  const auto all = loads(s.body);
  bool realize =
      static_cast<int>(all.size()) > limits.reads || s.body->ops > static_cast<std::uint32_t>(limits.operations);
  if (!realize && users > 1)
    realize =
        computes_much(s.body, s.body->ops > kFewOps && grows_much(s, all) ? kSomeOps : kFewOps) || reads_much(s, all);
  // A library call can do a little arithmetic on its way out, in the type of its result; only an operation of its own
  // can be given to it.
  if (!realize && users > 1 && joins == JoinsCall::Yes)
    for (Scalar load : all)
      if (const Buffer& from = s.graph->buffer(load->buffer); s.body != load && from.layout.dtype == s.dtype)
        for (OperationId w : from.writers) realize |= std::holds_alternative<Extern>(s.graph->operations()[w].node);
  if (!realize && all.size() > 1) {
    std::int64_t bytes = 0;
    for (Scalar load : all) {
      const Layout& layout = s.graph->buffer(load->buffer).layout;
      bytes += likely_bytes(*s.graph, layout.sizes, layout.dtype);
    }
    realize = bytes > limits.read_bytes;
  }
  if (realize) box.realize();
}

void realize_before_more(const TensorBox& box, std::span<const TensorBox> others) {
  constexpr std::int64_t kSmall = 1 << 16;
  const StorageBox& s = *box.storage;
  const std::int64_t own = bytes_or(*s.graph, s.sizes, s.dtype, 0);
  if (s.realized() || own < kSmall) return;
  const LargeReads mine = large_reads(s, own);
  if (mine.all.size() < 2 || mine.called.empty()) return;
  const bool more = std::ranges::any_of(others, [&](const TensorBox& other) {
    const LargeReads theirs = large_reads(*other.storage, own);
    return std::ranges::any_of(theirs.called, [&](BufferId b) { return !mine.all.contains(b); });
  });
  if (more) box.realize();
}

}  // namespace coil::ir
