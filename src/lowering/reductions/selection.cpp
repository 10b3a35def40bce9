#include "lowering/reductions/selection.h"

#include "support/error.h"

namespace coil::lowering {

namespace {

using ir::ScanKind;

constexpr std::int64_t kBlockChunk = 4096;  // elements that one block scans
constexpr std::int64_t kMaxColumns = 64;    // of rows that are put in order, column by column

/// Running totals over a list of any length, in two levels: within chunks, which are rows of a matrix and so scanned
/// side by side, and over the chunks' totals.
class Running {
 public:
  /// `body` gives element i of the list, `inside` where it is one.
  Running(Context& ctx, Expr length, DType within, ScanKind kind,
          const std::function<Element(Expr i, const Exprs& sizes, Scalar inside)>& body)
      : ctx_(ctx), kind_(kind), chunks_(sym::ceil_div(length, kBlockChunk)) {
    const Exprs sizes{chunks_, kBlockChunk};
    const Expr i = ctx.graph.ivar(0) * kBlockChunk + ctx.graph.ivar(1);
    Element inside = condition(ctx, sym::lt(i, length)), x = body(i, sizes, inside).cast(within);
    within_ = running_scan(ctx, within, sizes, 1, kind, where(inside, x, x.number(0)));
    Element last = element_at(ctx, within_, {ctx.graph.ivar(0), kBlockChunk - 1}, {chunks_}).cast(DType::I64);
    before_ = running_scan(ctx, DType::I64, {chunks_}, 0, kind, last);
  }

  /// The total up to and with element i, in a nest of these sizes.
  Element at(Expr i, const Exprs& sizes) const {
    const Expr chunk = sym::floor_div(i, kBlockChunk);
    Element x = element_at(ctx_, within_, {chunk, sym::mod(i, kBlockChunk)}, sizes).cast(DType::I64);
    Element earlier = element_at(ctx_, before_, {chunk - 1}, sizes, {}, condition(ctx_, sym::ge(chunk, 1)));
    return kind_ == ScanKind::Sum ? x + earlier : maximum(x, earlier);
  }

  /// The total of the whole list, as a number; 0 where it is empty.
  TensorBox total() const {
    return pointwise(ctx_, DType::I64, {},
                     element_at(ctx_, before_, {chunks_ - 1}, {}, {}, condition(ctx_, sym::ge(chunks_, 1))));
  }

 private:
  Context& ctx_;
  ScanKind kind_;
  Expr chunks_;
  TensorBox within_, before_;
};

/// A new list of integers that all are `value`, to be written into.
TensorBox filled(Context& ctx, Expr length, Expr value) {
  const TensorBox box = pointwise(ctx, DType::I64, {length}, index_value(ctx, value));
  box.realize();
  return box;
}

/// list[at] = value for each i0 below `length`; `at` and `value` are over i0.
void store_at(Context& ctx, const TensorBox& list, Expr length, Element at, Element value) {
  scatter_into(ctx, list, {length}, value, {ctx.graph.pool().indirect(0)}, {at.scalar}, ir::StoreMode::Assign, true);
}

/// The element of a list at a place that is data.
Element element_of(Context& ctx, const TensorBox& box, Exprs index, Element place, const Exprs& sizes) {
  index[0] = ctx.graph.pool().indirect(0);
  return {&ctx.graph.pool(), box.load(index, loop_vars(ctx.graph, sizes), nullptr, {place.scalar})};
}

/// An order of the matrix's rows, stably, column by column from the last to the first; and the first column in that
/// order.
std::pair<TensorBox, TensorBox> order_of_rows(Context& ctx, const TensorBox& matrix) {
  const Expr n = matrix.sizes[0], i = ctx.graph.ivar(0);
  const auto width = matrix.sizes[1].constant();
  if (!width || *width > kMaxColumns)
    refuse(ctx,
           fmt::format("orders rows of {} numbers at most on this device; run this program on the cpu", kMaxColumns));
  TensorBox order = pointwise(ctx, DType::I64, {n}, index_value(ctx, i)), column = order;
  for (std::int64_t c = *width; c-- > 0;) {
    const bool first = c == *width - 1;
    Element key =
        first ? element_at(ctx, matrix, {i, c}, {n}) : element_of(ctx, matrix, {0, c}, element(ctx, order, {n}), {n});
    const DType t = matrix.dtype() == DType::Bool ? DType::U8 : matrix.dtype();
    const TensorBox keys = pointwise(ctx, t, {n}, key.cast(register_type(t)));
    const std::vector<TensorBox> both = ordered(
        ctx, keys, {{"dim", std::int64_t{0}}, {"descending", std::int64_t{0}}, {"stable", std::int64_t{1}}}, {n});
    const TensorBox& places = both.at(1);
    column = both[0];
    order =
        first ? places : pointwise(ctx, DType::I64, {n}, element_of(ctx, order, {0}, element(ctx, places, {n}), {n}));
    order.realize();
  }
  return {order, column};
}

}  // namespace

TensorBox positions_by_kernels(Context& ctx, const TensorBox& mask, Expr count) {
  const Expr n = sym::product(mask.sizes), i = ctx.graph.ivar(0);
  const TensorBox flat = reshape(ctx, mask, {n});
  const Running found(ctx, n, DType::I32, ScanKind::Sum, [&](Expr at, const Exprs& sizes, Scalar inside) {
    return element_at(ctx, flat, {at}, sizes, {}, inside).cast(DType::I32);
  });
  // What is not wanted is stored behind the list.
  const TensorBox list = filled(ctx, count + 1, -1);
  Element place = found.at(i, {n}), last = index_value(ctx, count);
  store_at(ctx, list, n, where(element_at(ctx, flat, {i}, {n}) & le(place, last), place - place.number(1), last),
           index_value(ctx, i));
  return list.view({count}, {i});
}

TensorBox repeats_by_kernels(Context& ctx, const TensorBox& repeats, Expr count) {
  const Expr n = repeats.sizes[0], i = ctx.graph.ivar(0);
  auto times = [&](Expr at, const Exprs& sizes, Scalar inside) {
    return element_at(ctx, repeats, {at}, sizes, {}, inside).cast(DType::I64);
  };
  const Running ends(ctx, n, DType::I64, ScanKind::Sum, times);
  // Each entry stands where its results begin; the others take the last one before them.
  const TensorBox list = filled(ctx, count + 1, 0);
  Element times_here = times(i, {n}, nullptr), last = index_value(ctx, count),
          begin = where(gt(times_here, 0.0), ends.at(i, {n}) - times_here, last);
  Element place = where(lt(times_here, 0.0), index_value(ctx, count + 1), begin);
  store_at(ctx, list, n, {&ctx.graph.pool(), ctx.graph.pool().check_index(place, count + 1)}, index_value(ctx, i));
  const Running entries(ctx, count, DType::I64, ScanKind::Max, [&](Expr at, const Exprs& sizes, Scalar inside) {
    return element_at(ctx, list, {at}, sizes, {}, inside);
  });
  return pointwise(ctx, DType::I64, {count}, entries.at(i, {count}));
}

Distinct distinct_by_kernels(Context& ctx, const TensorBox& given, bool consecutive, Expr count) {
  const Expr n = given.sizes[0], width = given.sizes[1], i = ctx.graph.ivar(0), j = ctx.graph.ivar(1),
             r = ctx.graph.rvar(0);
  given.realize();
  std::optional<TensorBox> order;
  TensorBox matrix = given;
  if (!consecutive) {
    const auto [places, column] = order_of_rows(ctx, given);
    order = places;
    if (width.is_constant(1) && column.dtype() == given.dtype()) {
      matrix = reshape(ctx, column, {n, width});
    } else {
      matrix = pointwise(ctx, given.dtype(), {n, width},
                         element_of(ctx, given, {0, j}, element_at(ctx, *order, {i}, {n, width}), {n, width}));
      matrix.realize();
    }
  }
  Element follows = condition(ctx, sym::ge(i, 1));
  TensorBox begins = reduction(
      ctx, DType::Bool, {n}, {width}, ReductionKind::Any,
      ne(element_at(ctx, matrix, {i, r}, {n}, {width}), element_at(ctx, matrix, {i - 1, r}, {n}, {width}, follows)));
  begins = pointwise(ctx, DType::Bool, {n}, element(ctx, begins, {n}) | !follows);
  begins.realize();
  const Running numbers(ctx, n, DType::I32, ScanKind::Sum, [&](Expr at, const Exprs& sizes, Scalar inside) {
    return element_at(ctx, begins, {at}, sizes, {}, inside).cast(DType::I32);
  });
  ctx.define(count, numbers.total());

  Element number = numbers.at(i, {n}) - lowering::number(ctx, DType::I64, 1);
  TensorBox inverse = pointwise(ctx, DType::I64, {n}, number);
  if (order) {
    inverse = filled(ctx, n, 0);
    store_at(ctx, inverse, n, element(ctx, *order, {n}), number);
  }
  // Where each distinct row is first, the number of rows behind the last, and a place for all others.
  const TensorBox first = filled(ctx, count + 2, n);
  store_at(ctx, first, n, where(element(ctx, begins, {n}), number, index_value(ctx, count + 1)), index_value(ctx, i));
  const Exprs sizes{count, width};
  const TensorBox rows =
      pointwise(ctx, given.dtype(), sizes, element_of(ctx, matrix, {0, j}, element_at(ctx, first, {i}, sizes), sizes));
  return {rows, inverse,
          pointwise(ctx, DType::I64, {count},
                    element_at(ctx, first, {i + 1}, {count}) - element_at(ctx, first, {i}, {count}))};
}

}  // namespace coil::lowering
