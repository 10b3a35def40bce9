// Running sums, products and extremes; sorting.
#include <limits>

#include "ir/radix_state.h"
#include "ir/scan_state.h"
#include "library_ops/sorting.h"
#include "lowering/common.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;
using ir::ScanKind;

// Elements of a long row that are scanned by themselves where they lie apart in memory.
constexpr std::int64_t kChunk = 4096;
constexpr std::int64_t kLongRow = 1 << 15;  // where it has so many and there are
constexpr std::int64_t kFewRows = 1 << 7;   // so few of them, several blocks share a row

/// Whether there are too few rows for a block each, on machines that need many to work on at once.
bool few_long_rows(Context& ctx, const Exprs& sizes, std::size_t dim) {
  const auto& env = ctx.graph.env();
  const std::int64_t length = env.hint_or(sizes[dim], 0), all = env.hint_or(sym::product(sizes), 0);
  return ctx.target().has(target::Feature::OrderedBlocks) && length >= kLongRow && all < length * kFewRows;
}

/// Whether a row is so long, and so few are with it, that all blocks together sort them sooner than a block each walks
/// over them.
bool hardly_any_rows(Context& ctx, const Exprs& sizes, std::size_t dim) {
  constexpr std::int64_t kHardlyAny = 8;
  const auto& env = ctx.graph.env();
  const std::int64_t length = env.hint_or(sizes[dim], 0);
  return length >= kLongRow && env.hint_or(sym::product(sizes), 0) < length * kHardlyAny;
}

bool lies_last(const Exprs& sizes, std::size_t dim) {
  return std::all_of(sizes.begin() + static_cast<std::ptrdiff_t>(dim) + 1, sizes.end(),
                     [](const Expr& s) { return s.is_constant(1); });
}

}  // namespace

TensorBox running_scan(Context& ctx, DType dtype, const Exprs& sizes, std::size_t dim, ScanKind kind, Element body,
                       const Exprs& strides) {
  auto [box, window] = library_result(ctx, dtype, sizes, strides);
  std::vector<ir::BufferId> outs{window.buffer};
  if (few_long_rows(ctx, sizes, dim) && lies_last(sizes, dim)) {
    Exprs others = sizes;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(dim));
    TensorBox state =
        pointwise(ctx, DType::I64, {ir::ScanState(sizes[dim]).words(sym::product(others))}, number(ctx, DType::I64, 0));
    state.realize();
    outs.push_back(*state.storage->buffer);
  }
  ctx.graph.add_operation({.node = ir::Scan{sizes, dim, kind, body},
                           .outs = std::move(outs),
                           .origins = ctx.graph.provenance.of(body),
                           .where = ctx.graph.provenance.where});
  return box;
}

namespace {

/// Rows longer than a block sorts at a time: pieces in order first, then runs put together two by two, each step a
/// kernel over all of the row.
std::vector<TensorBox> ordered_by_merging(Context& ctx, const TensorBox& box, library_ops::Attributes attributes,
                                          const Exprs& sizes, std::int64_t length, std::int64_t tile) {
  const auto step = [&](const char* op, std::vector<BufferView> inputs) {
    auto [values, values_window] = library_result(ctx, box.dtype(), sizes);
    auto [positions, positions_window] = library_result(ctx, DType::I64, sizes);
    add_library_call(ctx, op, attributes, std::move(inputs), {values_window, positions_window});
    return std::vector<TensorBox>{values, positions};
  };
  attributes["tile"] = tile;
  std::vector<TensorBox> both = step("sort_tiles", {library_operand(box)});
  for (std::int64_t width = tile; width < length; width *= 2) {
    attributes["width"] = width;
    both = step("merge_runs", {library_operand(both[0]), library_operand(both[1])});
  }
  return both;
}

/// Bytes of an element that may differ: the lowest `bits` of a number that is not negative, or all.
std::int64_t digits_of(DType dtype, const library_ops::Attributes& attributes) {
  const auto bits = attributes.find("bits");
  return bits == attributes.end() ? static_cast<std::int64_t>(size_of(dtype))
                                  : (std::get<std::int64_t>(bits->second) + 7) / 8;
}

/// Rows of any length, digit by digit from the lowest (codegen/cuda/radix.h): a kernel that counts the values of all
/// digits, and one for each digit.
std::vector<TensorBox> ordered_by_digits(Context& ctx, const TensorBox& box, library_ops::Attributes attributes,
                                         const Exprs& sizes, std::size_t dim) {
  const std::int64_t digits = digits_of(box.dtype(), attributes);
  const bool wide = !ctx.graph.env().statically_known_le(sizes[dim], ir::RadixState::kMostNarrow);
  const DType word = wide ? DType::I64 : DType::I32;
  Exprs others = sizes;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(dim));
  TensorBox state = pointwise(ctx, word, {ir::RadixState(sizes[dim]).words(sym::product(others), digits)},
                              number(ctx, register_type(word), 0));
  const BufferView words = library_operand(state), x = library_operand(box);
  attributes["digits"] = digits;
  add_library_call(ctx, "radix_count", attributes, {x}, {words});
  std::vector<TensorBox> both;
  for (std::int64_t digit = 0; digit < digits; ++digit) {
    attributes["digit"] = digit;
    auto [values, values_window] = library_result(ctx, box.dtype(), sizes);
    auto [places, places_window] = library_result(ctx, digit == digits - 1 ? DType::I64 : word, sizes);
    std::vector<BufferView> inputs =
        both.empty() ? std::vector{x} : std::vector{library_operand(both[0]), library_operand(both[1])};
    inputs.push_back(words);
    add_library_call(ctx, "radix_pass", attributes, std::move(inputs), {values_window, places_window, words});
    both = {values, places};
  }
  return both;
}

/// Elements that a block of a device's own kernels sorts at a time.
std::int64_t sorted_at_once(Context& ctx, DType dtype) {
  return library_ops::sorting::sorted_at_once(size_of(dtype), ctx.target().costs.declared_shared_bytes);
}

/// Whether digits are less work than pieces merged two by two, each of which moves the row once more, and takes about
/// twice as long over it. A block that orders by digits waits for those before it.
bool digits_are_less(Context& ctx, DType dtype, std::int64_t digits, Expr length) {
  const std::int64_t tile = sorted_at_once(ctx, dtype), usual = ctx.graph.env().hint_or(length, 0);
  std::int64_t merges = 0;
  for (std::int64_t width = tile; width < usual; width *= 2) ++merges;
  return ctx.target().has(target::Feature::OrderedBlocks) && ir::has_digits(dtype) && merges > 0 &&
         (!length.constant() || 2 * merges > digits);
}

/// One call for all of it.
std::vector<TensorBox> ordered_by_one_call(Context& ctx, const TensorBox& box, std::string_view op,
                                           library_ops::Attributes attributes, const Exprs& sizes) {
  auto [values, values_window] = library_result(ctx, box.dtype(), sizes);
  auto [positions, positions_window] = library_result(ctx, DType::I64, sizes);
  add_library_call(ctx, std::string(op), std::move(attributes), {library_operand(box)},
                   {values_window, positions_window});
  return {values, positions};
}

}  // namespace

std::vector<TensorBox> ordered(Context& ctx, const TensorBox& box, library_ops::Attributes attributes,
                               const Exprs& sizes) {
  if (ctx.target().has(target::Feature::SortingKernels) && !sizes.empty()) {
    const auto dim = static_cast<std::size_t>(std::get<std::int64_t>(attributes.at("dim")));
    if (digits_are_less(ctx, box.dtype(), digits_of(box.dtype(), attributes), sizes[dim]))
      return ordered_by_digits(ctx, box, std::move(attributes), sizes, dim);
    const auto length = sizes[dim].constant();
    const std::int64_t tile = sorted_at_once(ctx, box.dtype());
    if (length && *length > tile && *length < std::numeric_limits<std::int32_t>::max())
      return ordered_by_merging(ctx, box, std::move(attributes), sizes, *length, tile);
  }
  return ordered_by_one_call(ctx, box, library_ops::sorting::kSort, std::move(attributes), sizes);
}

namespace {

/// Running sums or products of few long rows whose elements lie apart: within chunks, over the chunks' results, and
/// both together.
TensorBox running_in_chunks(Context& ctx, const TensorBox& box, std::size_t dim, ScanKind kind,
                            const sym::TensorMeta& meta) {
  const DType t = register_type(meta.dtype);
  const Expr n = meta.sizes[dim], chunks = sym::ceil_div(n, kChunk);
  // `index` with the place along the row, which comes as a chunk and a place in it, or goes there.
  auto around = [&](std::size_t rank, std::size_t skip, std::initializer_list<Expr> middle) {
    Exprs out;
    for (std::size_t k = 0; k < dim; ++k) out.push_back(ctx.graph.ivar(k));
    out.insert(out.end(), middle);
    for (std::size_t k = dim + skip; k < rank; ++k) out.push_back(ctx.graph.ivar(k));
    return out;
  };
  Exprs totals_sizes = meta.sizes;
  totals_sizes[dim] = chunks;
  Exprs sizes = totals_sizes;
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(dim) + 1, kChunk);
  const std::size_t rank = meta.rank();
  const Expr i = ctx.graph.ivar(dim), at = i * kChunk + ctx.graph.ivar(dim + 1), chunk = sym::floor_div(i, kChunk);
  Element inside = condition(ctx, sym::lt(at, n));
  Element x = element_at(ctx, box, around(rank + 1, 2, {at}), sizes, {}, inside).cast(t);
  // What stands behind the row's end reaches nothing in it.
  const TensorBox within = running_scan(ctx, t, sizes, dim + 1, kind, x);
  const TensorBox before = running_scan(ctx, t, totals_sizes, dim, kind,
                                        element_at(ctx, within, around(rank, 1, {i, kChunk - 1}), totals_sizes));
  Element here = element_at(ctx, within, around(rank, 1, {chunk, sym::mod(i, kChunk)}), meta.sizes);
  Element follows = condition(ctx, sym::ge(chunk, 1)),
          earlier = element_at(ctx, before, around(rank, 1, {chunk - 1}), meta.sizes, {}, follows);
  return result(ctx, where(follows, kind == ScanKind::Sum ? earlier + here : earlier * here, here), meta);
}

LoweringFunction running(ScanKind kind) {
  return [kind](Context& ctx, const Values& args) -> Lowered {
    const sym::TensorMeta& meta = ctx.result();
    Element x = operand(ctx, args[0], meta.sizes, register_type(meta.dtype));
    if (meta.rank() == 0) return result(ctx, x);
    const std::size_t dim = dimension(ctx, args[1], meta.rank());
    if ((kind == ScanKind::Sum || kind == ScanKind::Prod) && few_long_rows(ctx, meta.sizes, dim) &&
        !lies_last(meta.sizes, dim))
      return running_in_chunks(ctx, ctx.tensor(args[0]), dim, kind, meta);
    return running_scan(ctx, meta.dtype, meta.sizes, dim, kind, x, meta.strides);
  };
}

/// Running extreme, and where it was last reached: the running maximum of the positions that reach it (a later equal
/// value wins, as in eager).
LoweringFunction running_extreme(ScanKind kind) {
  return [kind](Context& ctx, const Values& args) -> Lowered {
    const sym::TensorMeta &meta = ctx.result(0), &positions = ctx.result(1);
    const TensorBox box = ctx.tensor(args[0]);
    ir::realize_by_policy(box, 2, ctx.options.realize);
    if (meta.rank() == 0)
      return std::vector<TensorBox>{result(ctx, element(ctx, box, {}), meta),
                                    result(ctx, number(ctx, DType::I64, 0), positions)};
    const std::size_t dim = dimension(ctx, args[1], meta.rank());
    Element x = element(ctx, box, meta.sizes).cast(meta.dtype);  // the values are rounded, and compared with it
    const TensorBox values = running_scan(ctx, meta.dtype, meta.sizes, dim, kind, x, meta.strides);
    Element reached = eq(x, element(ctx, values, meta.sizes));
    if (is_floating(x.dtype())) reached = reached | isnan(x);
    Element at = where(reached, index_value(ctx, ctx.graph.ivar(dim)), number(ctx, DType::I64, 0));
    return std::vector<TensorBox>{
        values, running_scan(ctx, DType::I64, positions.sizes, dim, ScanKind::Max, at, positions.strides)};
  };
}

std::int64_t flag(const ops::Value& v) { return !v.is_none() && v.as_bool(); }

Lowered sort(Context& ctx, const Values&) {
  const TensorBox box = ctx.tensor(ctx.node->args[0]);
  const auto dim = static_cast<std::int64_t>(dimension(ctx, ctx.node->arg("dim"), box.rank()));
  // Stable always: eager is at liberty to order equal values as it likes, and does it stably.
  auto both =
      ordered(ctx, box, {{"dim", dim}, {"descending", flag(ctx.node->arg("descending"))}, {"stable", std::int64_t{1}}},
              box.sizes);
  if (ctx.node->is_tensor()) return both[1];
  return both;
}

/// kthvalue(self, k, dim, keepdim): one rank of each row is picked. Whole rows are sorted where the rank is known at
/// run time alone, unless it is the middle, and where a kernel would leave few long rows to few blocks.
Lowered kth_value(Context& ctx, const Values&) {
  const TensorBox box = ctx.tensor(ctx.node->args[0]);
  const std::size_t dim = dimension(ctx, ctx.node->arg("dim"), box.rank());
  auto& env = ctx.graph.env();
  const Expr rank = env.simplify(ctx.integer(ctx.node->arg("k")) - 1), length = box.sizes[dim];
  library_ops::Attributes attributes{
      {"dim", static_cast<std::int64_t>(dim)}, {"descending", std::int64_t{0}}, {"stable", std::int64_t{1}}};
  const bool middle = rank == env.simplify(sym::floor_div(length - 1, 2));
  const bool selects = !ctx.target().has(target::Feature::SortingKernels) ||
                       (ir::has_digits(box.dtype()) && !hardly_any_rows(ctx, box.sizes, dim));
  const bool whole = !selects || (!rank.constant() && !middle);
  Exprs sizes = box.sizes;
  if (!whole) {
    sizes[dim] = 1;
    if (rank.constant())
      attributes["first"] = *rank.constant();
    else
      attributes["middle"] = std::int64_t{1};
  }
  std::vector<TensorBox> results;
  const bool by_kernel = !whole && ctx.target().has(target::Feature::SortingKernels);
  for (const TensorBox& sorted :
       by_kernel ? ordered_by_one_call(ctx, box, library_ops::sorting::kSelect, std::move(attributes), sizes)
                 : ordered(ctx, box, std::move(attributes), sizes)) {
    const sym::TensorMeta& meta = ctx.result(results.size());
    Exprs index;
    for (std::size_t d = 0, next = 0; d < box.rank(); ++d) {
      const bool kept = d != dim || meta.sizes.size() == box.rank();
      const Expr at = kept ? ctx.graph.ivar(next++) : Expr(0);
      index.push_back(d != dim ? at : whole ? rank : Expr(0));
    }
    results.push_back(result(ctx, element_at(ctx, sorted, index, meta.sizes), meta));
  }
  return results;
}

Lowered topk(Context& ctx, const Values&) {
  const TensorBox box = ctx.tensor(ctx.node->args[0]);
  const auto dim = static_cast<std::int64_t>(dimension(ctx, ctx.node->arg("dim"), box.rank()));
  const std::int64_t largest = flag(ctx.node->arg("largest"));
  const Exprs& sizes = ctx.result(0).sizes;
  if (ctx.target().has(target::Feature::SortingKernels) && box.rank() > 0) {
    // A kernel of the device's own keeps half of what it sorts at a time beside the pieces of a longer row. More are
    // the first of the whole row in order.
    const auto at = static_cast<std::size_t>(dim);
    const std::int64_t most = sorted_at_once(ctx, box.dtype());
    if (!ctx.graph.env().statically_known_le(box.sizes[at], most) &&
        !ctx.graph.env().statically_known_le(sizes[at], most / 2)) {
      std::vector<TensorBox> whole =
                                 ordered(ctx, box, {{"dim", dim}, {"descending", largest}, {"stable", std::int64_t{1}}},
                                         box.sizes),
                             first;
      for (std::size_t k = 0; k < whole.size(); ++k)
        first.push_back(
            result(ctx, element(ctx, whole[k].view(sizes, ctx.graph.ivars(box.rank())), sizes), ctx.result(k)));
      return first;
    }
  }
  return ordered_by_one_call(ctx, box, library_ops::sorting::kTopk,
                             {{"dim", dim}, {"largest", largest}, {"sorted", flag(ctx.node->arg("sorted"))}}, sizes);
}

}  // namespace

void add_scans(Table& t) {
  t["aten.cumsum.default"] = running(ScanKind::Sum);
  t["aten.cumprod.default"] = running(ScanKind::Prod);
  t["aten.logcumsumexp.default"] = t["aten._logcumsumexp.default"] = running(ScanKind::LogSumExp);
  t["aten.cummax.default"] = running_extreme(ScanKind::Max);
  t["aten.cummin.default"] = running_extreme(ScanKind::Min);
  for (const char* name : {"aten.sort.default", "aten.sort.stable", "aten.argsort.default", "aten.argsort.stable"})
    t[name] = sort;
  t["aten.kthvalue.default"] = kth_value;
  t["aten.topk.default"] = topk;
}

}  // namespace coil::lowering
