#include "passes/wrapper/line_costs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "library_ops/table.h"

namespace coil::wrapper {
namespace {

using library_ops::Trait;

constexpr std::int64_t kUnknown = 1024;  // of a size that nothing hints at

double hint(const Program& p, Expr e) {
  return static_cast<double>(std::max<std::int64_t>(0, p.env->hint_or(e, kUnknown)));
}

double elements(const Program& p, const View& v) {
  double count = 1;
  for (Expr e : v.sizes) count *= hint(p, e);
  return count;
}

double bytes(const Program& p, const View& v) { return elements(p, v) * static_cast<double>(size_of(v.dtype)); }

/// Bytes of the buffers that a line touches, each counted once.
double touched_bytes(const Program& p, const Line& l) {
  const Uses u = uses(l);
  std::set<BufferId> all(u.reads.begin(), u.reads.end());
  all.insert(u.writes.begin(), u.writes.end());
  double sum = 0;
  for (BufferId b : all) sum += hint(p, p.buffers[b].bytes);
  return sum;
}

/// Additions and multiplications of library calls that do many for what they read.
double operations(const Program& p, const CallExtern& c) {
  if (library_ops::has(c.op, Trait::Product) && !c.inputs[0].sizes.empty())
    return 2 * elements(p, c.outputs[0]) * hint(p, c.inputs[0].sizes.back());
  if (library_ops::has(c.op, Trait::Convolution) && !c.inputs[1].sizes.empty())
    return 2 * elements(p, c.outputs[0]) * elements(p, c.inputs[1]) / std::max(1.0, hint(p, c.inputs[1].sizes[0]));
  return 0;
}

}  // namespace

double seconds_of_product(const Program& p, const CallExtern& c, const target::Costs& costs) {
  constexpr double kTile = 128;  // rows and columns that a multiprocessor computes at once
  const View& y = c.outputs[0];
  const double columns = hint(p, y.sizes.back()), rows = elements(p, y) / std::max(1.0, columns);
  double moved = 0;
  for (const auto* side : {&c.inputs, &c.outputs})
    for (const View& v : *side) moved += hint(p, span_bytes(*p.env, v.dtype, v.sizes, v.strides));
  double computed = operations(p, c);
  if (costs.multiprocessors > 0 && computed > 0) {
    const auto all = static_cast<double>(costs.multiprocessors);
    const double tiles = std::ceil(rows / kTile) * std::ceil(columns / kTile);
    computed *= std::ceil(tiles / all) * all * kTile * kTile / (rows * columns);
  }
  const double rate = size_of(c.inputs[0].dtype) <= 2 ? costs.half_operations_per_second : costs.operations_per_second;
  return costs.seconds_of_call + std::max(moved / costs.memory_bytes_per_second, computed / rate);
}

double seconds_of_line(const Program& p, const Line& l, const target::Costs& costs) {
  const auto* call = std::get_if<CallExtern>(&l);
  const bool calls = call || std::holds_alternative<CallKernel>(l) || std::holds_alternative<CallFallback>(l) ||
                     std::holds_alternative<CallUserKernel>(l);
  if (!calls) return 0;
  if (call && (library_ops::has(call->op, Trait::Collective) || library_ops::has(call->op, Trait::Wait) ||
               library_ops::has(call->op, Trait::Exchange)))
    return costs.seconds_of_call;
  double seconds = touched_bytes(p, l) / costs.memory_bytes_per_second;
  if (call) {
    const bool is_half = !call->inputs.empty() && size_of(call->inputs[0].dtype) <= 2;
    const double rate = is_half ? costs.half_operations_per_second : costs.operations_per_second;
    seconds = std::max(seconds, operations(p, *call) / rate);
  }
  return seconds + costs.seconds_of_call;
}

ExchangeCost exchange_cost(const Program& p, const CallExtern& c, const target::Costs& costs) {
  double in = 0, out = 0;
  for (const View& v : c.inputs) in += bytes(p, v);
  for (const View& v : c.outputs) out += bytes(p, v);
  // What is gathered or scattered is there already but for the others' part; sums over two ranks move all of it once.
  const double moved = in == out ? out : std::abs(in - out);
  return {costs.seconds_of_exchange + moved / costs.link_bytes_per_second, static_cast<std::uint64_t>(out)};
}

}  // namespace coil::wrapper
