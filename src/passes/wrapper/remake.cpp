#include "passes/wrapper/remake.h"

#include <algorithm>

#include "library_ops/table.h"
#include "passes/wrapper/memory_order.h"

namespace coil::wrapper {
namespace {

using scheduler::StepId;
using scheduler::StorageClass;

constexpr std::uint64_t kGain = 64, kCost = 16;

void replace(Line& line, BufferId from, BufferId to) {
  auto view = [&](View& v) {
    if (v.buffer == from) v.buffer = to;
  };
  if (auto* call = std::get_if<CallKernel>(&line)) {
    std::ranges::replace(call->buffers, from, to);
    for (auto& pair : call->in_place)
      for (BufferId* b : {&pair.first, &pair.second})
        if (*b == from) *b = to;
    if (call->copies && call->copies->first == from) call->copies->first = to;
  } else if (auto* library = std::get_if<CallExtern>(&line)) {
    std::ranges::for_each(library->inputs, view);
  } else if (auto* host = std::get_if<CallFallback>(&line)) {
    std::ranges::for_each(host->inputs, view);
  } else if (auto* user = std::get_if<CallUserKernel>(&line)) {
    std::ranges::for_each(user->tensors, view);
  } else if (auto* read = std::get_if<ReadSymbol>(&line)) {
    if (read->source == from) read->source = to;
  }
}

/// The places in the order between two that touch a value, where it could be gone.
struct Gap {
  BufferId buffer = 0;
  std::size_t maker = 0;           ///< the line that makes it
  std::size_t first = 0, end = 0;  ///< steps without it; `end` reads it
};

class Remaker {
 public:
  explicit Remaker(Program& p)
      : p_(p), steps_(steps_of(p)), order_(scheduler::written_order(steps_.program)), touched_(p.buffers.size()) {
    for (std::size_t s = 0; s < order_.size(); ++s)
      for (BufferId b : steps_.program.steps[s].touches) touched_[b].push_back(s);
    written_.assign(p.buffers.size(), 0);
    for (const Line& l : p.lines)
      for (BufferId b : uses(l).writes) ++written_[b];
  }

  void run() {
    const std::uint64_t peak = scheduler::peak_of(steps_.program, order_).temporaries;
    find_gaps();
    if (gaps_.empty()) return;
    live_ = scheduler::live_bytes(steps_.program, order_);
    for (const Gap& g : gaps_) add(g, false);
    const std::uint64_t least = *std::ranges::max_element(live_);
    if (least + peak / kGain >= peak) return;
    std::erase_if(gaps_, [&](const Gap& g) { return stays(g, least + least / kGain); });
    if (costs_much()) return;
    Program remade = with_gaps();
    const LineSteps now = steps_of(remade);
    const std::uint64_t lower = scheduler::peak_of(now.program, scheduler::written_order(now.program)).temporaries;
    if (lower >= peak) return;
    if (remade.memory_order) remade.memory_order->now = lower;
    p_ = std::move(remade);
  }

 private:
  std::uint64_t bytes(BufferId b) const { return steps_.program.storages[b].bytes; }

  /// Whether the line makes a temporary, and that alone, of little that nothing changes.
  std::optional<BufferId> makes_cheaply(const Line& line) const {
    const auto* call = std::get_if<CallKernel>(&line);
    if (!call || !call->failure.empty() || std::ranges::count(call->written, true) != 1) return std::nullopt;
    std::optional<BufferId> made;
    std::uint64_t read = 0;
    for (std::size_t k = 0; k < call->buffers.size(); ++k) {
      const BufferId b = call->buffers[k];
      if (call->written[k]) {
        made = b;
      } else {
        const Buffer& from = p_.buffers[b];
        const bool is_seed = from.kind == BufferKind::Constant && p_.constants[from.index].seed;
        const StorageClass of = steps_.program.storages[b].of;
        const bool is_callers = of == StorageClass::Caller || of == StorageClass::Given;
        if (!is_callers || written_[b] != 0 || is_seed) return std::nullopt;
        read += bytes(b);
      }
    }
    const bool is_cheap =
        p_.buffers[*made].kind == BufferKind::Temporary && written_[*made] == 1 && read <= bytes(*made);
    return is_cheap ? made : std::nullopt;
  }

  /// Operators of the host may have copies made of what they were given, which a later call of theirs ends.
  bool is_host_call(std::size_t line) const { return std::holds_alternative<CallFallback>(p_.lines[line]); }

  bool is_wait(std::size_t line) const {
    const auto* call = std::get_if<CallExtern>(&p_.lines[line]);
    return call && library_ops::has(call->op, library_ops::Trait::Wait);
  }

  void find_gaps() {
    if (std::ranges::any_of(p_.lines, [](const Line& l) { return std::holds_alternative<Control>(l); })) return;
    for (std::size_t s = 0; s < order_.size(); ++s) {
      const std::size_t line = steps_.line_of[s];
      const std::optional<BufferId> made = makes_cheaply(p_.lines[line]);
      if (!made) continue;
      const std::vector<std::size_t>& places = touched_[*made];
      // An exchange reads the value where it lies until it is waited for.
      const auto must_stay = [&](std::size_t place) {
        return is_wait(steps_.line_of[place]) || is_host_call(steps_.line_of[place]);
      };
      if (std::ranges::any_of(places, must_stay)) continue;
      for (std::size_t k = 1; k + 1 < places.size(); ++k)
        if (places[k] + 1 < places[k + 1]) gaps_.push_back({*made, line, places[k] + 1, places[k + 1]});
    }
  }

  void add(const Gap& g, bool there) {
    for (std::size_t s = g.first; s < g.end; ++s)
      live_[s] = there ? live_[s] + bytes(g.buffer) : live_[s] - bytes(g.buffer);
  }

  /// Whether the value may as well be kept through the gap; then it counts as live there.
  bool stays(const Gap& g, std::uint64_t bound) {
    for (std::size_t s = g.first; s < g.end; ++s)
      if (live_[s] + bytes(g.buffer) > bound) return false;
    add(g, true);
    return true;
  }

  bool costs_much() const {
    std::uint64_t made = 0, touched = 0;
    for (const Gap& g : gaps_) made += bytes(g.buffer);
    for (const scheduler::MemoryStep& step : steps_.program.steps)
      for (BufferId b : step.touches) touched += bytes(b);
    return made * kCost > touched;
  }

  Program with_gaps() const {
    Program out = p_;
    std::map<std::size_t, std::vector<const Gap*>> made_before;  // by line
    for (const Gap& g : gaps_) made_before[steps_.line_of[g.end]].push_back(&g);
    std::map<BufferId, BufferId> now;  // what a value that was made again is called
    std::vector<Line> lines;
    for (std::size_t k = 0; k < p_.lines.size(); ++k) {
      if (auto found = made_before.find(k); found != made_before.end())
        for (const Gap* g : found->second) {
          const auto again = static_cast<BufferId>(out.buffers.size());
          out.buffers.push_back(out.buffers[g->buffer]);
          out.buffers.back().name = free_name(out, p_.buffers[g->buffer].name);
          now[g->buffer] = again;
          lines.push_back(p_.lines[g->maker]);
          replace(lines.back(), g->buffer, again);
        }
      lines.push_back(p_.lines[k]);
      for (auto [from, to] : now) replace(lines.back(), from, to);
    }
    out.lines = std::move(lines);
    return out;
  }

  static std::string free_name(const Program& p, std::string name) {
    name += "_again";
    while (std::ranges::any_of(p.buffers, [&](const Buffer& b) { return b.name == name; })) name += "_";
    return name;
  }

  Program& p_;
  const LineSteps steps_;
  const std::vector<StepId> order_;
  std::vector<std::vector<std::size_t>> touched_;  ///< steps, of each buffer
  std::vector<int> written_;                       ///< lines that write each buffer
  std::vector<std::uint64_t> live_;
  std::vector<Gap> gaps_;
};

}  // namespace

void remake_for_memory(Program& p) { Remaker(p).run(); }

}  // namespace coil::wrapper
