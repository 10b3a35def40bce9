#include "codegen/cuda/sort.h"

#include <algorithm>

#include "codegen/cuda/radix.h"
#include "codegen/cuda/row_kernel.h"
#include "codegen/heuristics/sorts.h"
#include "ir/radix_state.h"
#include "support/error.h"
#include "sym/print.h"

namespace coil::codegen {

namespace {

namespace sorting = library_ops::sorting;

/// The least power of two, 64 to 4096, that a row surely has no more elements than; 0: none is known.
int longest_row(const sym::ShapeEnv& env, Expr length) {
  int longest = 0;
  for (int n = 4096; n >= 64 && env.statically_known_le(length, n); n /= 2) longest = n;
  return longest;
}

/// Pieces of `tile` elements, each put in order, with their places in the row; the whole row or its first elements
/// where there is no tile.
Kernel sorted_rows(const Dialect& dialect, ir::Graph& graph, const ir::Extern& call, bool descending, std::int64_t tile,
                   const target::Target& target) {
  const ir::BufferView& x = call.inputs[0];
  const Expr whole = row_length(call, x), taken = row_length(call, call.outputs[0]);
  const SortPlan plan = plan_sort({.element_bytes = size_of(x.dtype),
                                   .shared_bytes = target.costs.declared_shared_bytes,
                                   .longest = longest_row(graph.env(), whole),
                                   .in_pieces = tile != 0,
                                   .has_digits = dialect.has_digits && ir::has_digits(x.dtype),
                                   .first_only = call.op == sorting::kTopk});
  const int capacity = plan.config.tile, threads = plan.config.threads;
  // Lowering makes no such call, but loops may be given as text.
  if (call.op == sorting::kTopk && taken != whole && !plan.fits &&
      !graph.env().statically_known_le(taken, capacity / 2))
    fail(
        "topk: a kernel finds at most {} elements of a row that is longer than {}, not {} of {}; sort the row and take "
        "its first elements",
        capacity / 2, capacity, sym::to_string(taken), sym::to_string(whole));
  RowKernel k(dialect, graph, call, {&x, &call.outputs[0], &call.outputs[1]}, 1,
              tile ? sym::ceil_div(whole, tile) : Expr(1));
  std::string n = k.scalar(whole), count = k.scalar(taken), from = "0", body;
  if (tile) {
    body += fmt::format("  const i64 from = part * {0}, n = {1} - from < {0} ? {1} - from : {0};\n", tile, n);
    n = count = "n", from = "from";
  }
  const std::string views = fmt::format("p0 + o0 + {0} * {1}, {1}, p1 + o1 + {0} * {2}, {2}, p2 + o2 + {0} * {3}, {3}",
                                        from, k.steps[0], k.steps[1], k.steps[2]);
  std::string shared =
      fmt::format("  {0} {1} keys[{2}];\n  {0} i32 places[{2}];\n", dialect.shared, k.element, capacity);
  if (plan.by_digits) {
    shared += "  __shared__ u32 counts[8 * 256];\n  __shared__ u64 sums[16];\n";
    body += fmt::format(
        "  {}c_digit_sort<{}, Get, {}>({}, (i32){}, (i32){}, {}, keys, places, counts, sums, threadIdx.x);\n",
        plan.fits ? "" : fmt::format("if ({} <= {}) return ", n, capacity), capacity / threads, descending, views, n,
        count, from);
  }
  if (!plan.by_digits || !plan.fits) {
    shared += fmt::format("  {} c_counter held;\n", dialect.shared);
    body += fmt::format("  c_sort<{}, Get, {}>({}, {}, {}, {}, keys, places, &held, {}, {});\n", capacity, descending,
                        views, n, count, from, dialect.thread, threads);
  }
  return k.finish({k.element, k.element, "i64"}, shared, body, threads);
}

Kernel merged_runs(const Dialect& dialect, ir::Graph& graph, const ir::Extern& call, bool descending,
                   const target::Target& target) {
  const ir::BufferView& x = call.inputs[0];
  const LaunchConfig config = merge_config(size_of(x.dtype), target.costs.declared_shared_bytes);
  const int tile = config.tile;
  const Expr length = row_length(call, x);
  RowKernel k(dialect, graph, call, {&x, &call.inputs[1], &call.outputs[0], &call.outputs[1]}, 2,
              sym::ceil_div(length, tile));
  const std::string n = k.scalar(length);
  const std::string body = fmt::format(
      "  c_merge<{}, Get, {}>(p0 + o0, {}, p1 + o1, {}, p2 + o2, {}, p3 + o3, {}, {}, {}, part * {}, keys, places, "
      "cuts, {}, {});\n",
      tile, descending, k.steps[0], k.steps[1], k.steps[2], k.steps[3], n,
      k.scalar(read(call.attributes, sorting::kWidth)), tile, dialect.thread, config.threads);
  return k.finish({k.element, "i64", k.element, "i64"},
                  fmt::format("  {0} {1} keys[{2}];\n  {0} i32 places[{2}];\n  {0} i64 cuts[2];\n", dialect.shared,
                              k.element, tile),
                  body, config.threads);
}

}  // namespace

Kernel sort_kernel(const Dialect& dialect, ir::Graph& graph, const ir::Extern& call, const target::Target& target) {
  if (is_radix(call.op)) return radix_kernel(dialect, graph, call);
  const bool descending = read(call.attributes, call.op == sorting::kTopk ? sorting::kLargest : sorting::kDescending);
  if (call.op == sorting::kMerge) return merged_runs(dialect, graph, call, descending, target);
  const std::int64_t tile = call.op == sorting::kTiles ? read(call.attributes, sorting::kTile) : 0;
  return sorted_rows(dialect, graph, call, descending, tile, target);
}

}  // namespace coil::codegen
