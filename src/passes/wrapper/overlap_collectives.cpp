#include "passes/wrapper/overlap_collectives.h"

#include <algorithm>
#include <map>

#include "library_ops/collectives.h"
#include "library_ops/table.h"
#include "passes/wrapper/line_costs.h"
#include "passes/wrapper/memory_order.h"
#include "scheduler/exchange_overlap.h"
#include "sym/print.h"

namespace coil::wrapper {
namespace {

namespace names = library_ops::collectives;
using library_ops::Trait;
using scheduler::StepId;
using scheduler::TimedProgram;
using scheduler::TimedStep;

const CallExtern* call_with(const Line& l, std::initializer_list<Trait> traits) {
  const auto* call = std::get_if<CallExtern>(&l);
  const bool found = call && std::ranges::any_of(traits, [&](Trait t) { return library_ops::has(call->op, t); });
  return found ? call : nullptr;
}

bool has_collectives(const Program& p) {
  return std::ranges::any_of(p.lines, [](const Line& l) { return call_with(l, {Trait::Collective}); });
}

/// What an exchange gives, and a wait waits for, begins here.
using Place = std::pair<BufferId, std::string>;
Place place_of(const View& v) { return {v.buffer, sym::to_string(v.offset)}; }

/// What exchanges that may start together have in common; empty where none may. Chunks are there to start one by one.
std::string kind_of(const Program& p, const CallExtern& c) {
  const View& y = c.outputs[0];
  const bool is_chunk = !p.env->statically_known_equal(sym::product(y.sizes), sym::product(p.buffers[y.buffer].sizes));
  if (!library_ops::get(c.op).operands[0].repeated || is_chunk) return {};
  const bool may_be_in_place = c.inputs[0].sizes == c.outputs[0].sizes;
  if (may_be_in_place && c.inputs[0].buffer != c.outputs[0].buffer) return {};
  std::string text = fmt::format("{} {}", c.op, torch_name(c.inputs[0].dtype));
  for (const auto& [name, value] : c.attributes) text += fmt::format(" {}={}", name, library_ops::to_string(value));
  return text;
}

/// The lines as steps with the times of the model.
class Timer {
 public:
  Timer(const Program& p, const target::Costs& costs) : p_(p), costs_(costs), lines_(steps_of(p, Exchanges::Move)) {
    program_.memory = std::move(lines_.program);
    for (StepId s = 0; s < lines_.line_of.size(); ++s) program_.steps.push_back(timed(s, p.lines[lines_.line_of[s]]));
  }

  const TimedProgram& program() const { return program_; }
  std::size_t line_of(StepId s) const { return lines_.line_of[s]; }
  std::string group(std::size_t number) const {
    for (const auto& [name, known] : groups_)
      if (known == number) return name;
    return {};
  }
  LineSteps steps() const { return {program_.memory, lines_.line_of}; }

 private:
  template <class Key>
  static std::size_t number_of(std::map<Key, std::size_t>& all, const Key& key) {
    return all.try_emplace(key, all.size()).first->second;
  }

  TimedStep timed(StepId s, const Line& l) {
    TimedStep out{.seconds = seconds_of_line(p_, l, costs_), .group = {}, .waits_for = {}};
    if (const CallExtern* wait = call_with(l, {Trait::Wait})) {
      const auto found = started_.find(place_of(wait->outputs.at(0)));
      if (found != started_.end()) out.waits_for = found->second;
      return out;
    }
    const CallExtern* call = call_with(l, {Trait::Collective, Trait::Exchange});
    if (!call) return out;
    const ExchangeCost cost = exchange_cost(p_, *call, costs_);
    out.group = number_of(groups_, read(call->attributes, names::kGroup));
    out.exchange_seconds = cost.seconds;
    out.bytes = cost.bytes;
    out.is_done_at_once = library_ops::has(call->op, Trait::Exchange);
    if (out.is_done_at_once) return out;
    for (const View& v : call->outputs) started_[place_of(v)] = s;
    if (const std::string kind = kind_of(p_, *call); !kind.empty()) {
      out.kind = number_of(kinds_, kind) + 1;
      // What goes together may be copied there and back.
      const double copies = 2 * static_cast<double>(cost.bytes) / costs_.memory_bytes_per_second;
      out.saved_seconds = std::max(0.0, costs_.seconds_of_exchange - copies);
    }
    return out;
  }

  const Program& p_;
  const target::Costs& costs_;
  LineSteps lines_;
  TimedProgram program_;
  std::map<std::string, std::size_t> groups_, kinds_;
  std::map<Place, StepId> started_;  ///< by the result
};

/// The first line starts what all of them do.
void merge_starts(Program& p, const Timer& timer, const std::vector<StepId>& bucket) {
  auto& first = std::get<CallExtern>(p.lines[timer.line_of(bucket[0])]);
  for (std::size_t k = 1; k < bucket.size(); ++k) {
    const auto& other = std::get<CallExtern>(p.lines[timer.line_of(bucket[k])]);
    first.inputs.insert(first.inputs.end(), other.inputs.begin(), other.inputs.end());
    first.outputs.insert(first.outputs.end(), other.outputs.begin(), other.outputs.end());
    first.nodes.insert(other.nodes.begin(), other.nodes.end());
    first.origins.insert(other.origins.begin(), other.origins.end());
  }
}

/// Whether the arena holds the order too, where a step is the first of those that start together.
bool is_packed_within(const LineSteps& steps, const std::vector<StepId>& order, std::int64_t extra) {
  const std::uint64_t before = packed_bytes(steps.program, scheduler::written_order(steps.program));
  return packed_bytes(steps.program, order) <= before + static_cast<std::uint64_t>(extra);
}

}  // namespace

void overlap_collectives(Program& p, const target::Costs& costs, const OverlapOptions& options) {
  if (!has_collectives(p)) return;
  const Timer timer(p, costs);
  const scheduler::MemoryProgram& memory = timer.program().memory;
  const std::uint64_t peak = scheduler::peak_of(memory, scheduler::written_order(memory)).temporaries;
  const scheduler::OverlapOrder found = scheduler::overlap_exchanges(
      timer.program(),
      {static_cast<std::uint64_t>(options.bucket_bytes), peak + static_cast<std::uint64_t>(options.extra_bytes)});
  p.exchange_order = {found.written_seconds, found.written_seconds, peak, peak};
  if (found.seconds >= found.written_seconds) return;
  std::vector<StepId> order, lines;
  for (const auto& step : found.steps) {
    order.insert(order.end(), step.begin(), step.end());
    lines.push_back(step[0]);
  }
  const LineSteps steps = timer.steps();
  if (!is_packed_within(steps, order, options.extra_bytes)) return;
  p.exchange_order->seconds = found.seconds;
  p.exchange_order->peak = found.found.temporaries;
  for (const auto& step : found.steps) {
    if (step.size() == 1) continue;
    ++p.exchange_order->buckets;
    merge_starts(p, timer, step);
  }
  reorder(p, steps, lines);
}

std::vector<StreamEntry> exchange_streams(const Program& p, const target::Costs& costs) {
  if (!has_collectives(p) || costs.link_bytes_per_second == 0) return {};
  const Timer timer(p, costs);
  const TimedProgram& program = timer.program();
  const scheduler::Timeline times = scheduler::timeline(program, scheduler::written_order(program.memory));
  std::vector<StreamEntry> all;
  for (StepId s = 0; s < program.steps.size(); ++s) {
    const TimedStep& step = program.steps[s];
    if (times.steps[s].end > times.steps[s].begin)
      all.push_back({times.steps[s].begin, times.steps[s].end, timer.line_of(s), {}});
    if (step.group)
      all.push_back({times.exchanges[s].begin, times.exchanges[s].end, timer.line_of(s), timer.group(*step.group)});
  }
  std::ranges::stable_sort(all, {}, &StreamEntry::begin);
  return all;
}

}  // namespace coil::wrapper
