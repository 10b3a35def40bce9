#include "runtime/executor/lifetime_checker.h"

#include <algorithm>
#include <cstring>

#include "runtime/plan/plan_check.h"
#include "support/error.h"
#include "support/overloaded.h"

namespace coil::runtime {
namespace {

constexpr std::byte kPoison{0xff};

bool is_poison(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == kPoison; });
}

}  // namespace

LifetimeChecker::LifetimeChecker(const Plan& plan)
    : plan_(plan),
      late_(plan.buffers.size(), false),
      ends_(plan.steps.size()),
      memory_(plan.buffers.size()),
      has_value_(plan.buffers.size()),
      was_written_(plan.buffers.size()) {
  for (BufferId b = 0; b < plan.buffers.size(); ++b) owner_.push_back(memory_of(plan, b));
  for (const Step& step : plan.steps)
    if (const auto* a = std::get_if<AllocateBuffer>(&step)) late_[owner_[a->buffer]] = true;
  for (BufferId b = 0; b < plan.buffers.size(); ++b)
    if (owner_[b] == b && is_timed(b) && plan.buffers[b].last < ends_.size()) ends_[plan.buffers[b].last].push_back(b);
}

void LifetimeChecker::check_placement(std::span<const BufferId> temporaries, std::span<const Interval> intervals,
                                      std::span<const std::uint64_t> offsets) const {
  for (std::size_t i = 0; i < temporaries.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) {
      const BufferId a = temporaries[i], b = temporaries[k];
      const bool at_once = intervals[a].first <= intervals[b].last && intervals[b].first <= intervals[a].last;
      const bool over = offsets[a] < offsets[b] + intervals[b].bytes && offsets[b] < offsets[a] + intervals[a].bytes;
      if (at_once && over && intervals[a].bytes > 0 && intervals[b].bytes > 0)
        fail("lifetimes: {} and {} lie over each other in the arena, and both live at step {}", plan_.buffers[b].name,
             plan_.buffers[a].name, std::max(intervals[a].first, intervals[b].first));
    }
}

ArenaPlan LifetimeChecker::apart(std::span<const BufferId> temporaries, std::span<const Interval> intervals) {
  ArenaPlan plan{std::vector<std::uint64_t>(intervals.size(), 0), 0};
  for (BufferId b : temporaries) {
    plan.offsets[b] = plan.peak + kGuard;
    plan.peak = plan.offsets[b] + (intervals[b].bytes + 63) / 64 * 64 + kGuard;
  }
  return plan;
}

void LifetimeChecker::begin() {
  std::fill(memory_.begin(), memory_.end(), Memory{});
  std::fill(has_value_.begin(), has_value_.end(), false);
  std::fill(was_written_.begin(), was_written_.end(), false);
}

void LifetimeChecker::allocated(BufferId owner, std::byte* data, std::uint64_t bytes, bool guarded) {
  Memory& m = memory_[owner];
  m = {data, bytes, guarded ? kGuard : 0, {}, owner, true};
  if (!m.alive()) return;
  if (is_given(owner)) {
    has_value_[owner] = true;
    m.seen = hash(m.all());
  } else {
    clear(owner);
  }
}

/// Whatever lay there has no value any more.
void LifetimeChecker::clear(BufferId owner) {
  Memory& m = memory_[owner];
  std::memset(m.data - m.guard, static_cast<int>(kPoison), m.bytes + 2 * m.guard);
  m.seen = hash(m.all());
  m.holder = owner;
  for (BufferId b = 0; b < owner_.size(); ++b)
    if (owner_[b] == owner) has_value_[b] = false;
}

void LifetimeChecker::freed(BufferId owner) {
  if (!memory_[owner].there) fail("lifetimes: {} is freed, but it is not allocated", plan_.buffers[owner].name);
  if (memory_[owner].alive()) clear(owner);
  memory_[owner] = {};
}

std::vector<LifetimeChecker::Use> LifetimeChecker::uses(const Step& step) const {
  std::vector<Use> out;
  std::visit(Overloaded{[&](const KernelCall& c) {
                          std::vector<bool> writes(c.buffers.size(), false);
                          for (std::uint32_t k : c.written) writes.at(k) = true;
                          for (std::size_t k = 0; k < c.buffers.size(); ++k) out.push_back({c.buffers[k], writes[k]});
                        },
                        [&](const ExternCall& c) {
                          for (const View& v : c.inputs) out.push_back({v.buffer, false});
                          for (const View& v : c.outputs) out.push_back({v.buffer, true});
                        },
                        [&](const HostCall& c) {
                          for (const View& v : c.inputs) out.push_back({v.buffer, false});
                          for (const auto& v : c.outputs)
                            if (v) out.push_back({v->buffer, true});
                        },
                        [&](const ReadSymbol& r) { out.push_back({r.source, false}); }, [](const auto&) {}},
             step);
  return out;
}

std::string LifetimeChecker::describe(std::size_t step) const {
  std::string what;
  if (const auto* k = std::get_if<KernelCall>(&plan_.steps[step])) {
    const PlanKernel& kernel = plan_.kernels[k->kernel];
    what = kernel.symbol + (kernel.description.empty() ? "" : ": " + kernel.description);
  } else if (const auto* e = std::get_if<ExternCall>(&plan_.steps[step])) {
    what = e->op;
  } else if (const auto* h = std::get_if<HostCall>(&plan_.steps[step])) {
    what = h->op;
  } else {
    what = "a size is read";
  }
  return fmt::format("step {} ({})", step, what);
}

void LifetimeChecker::before(std::size_t step) {
  for (const Use& u : uses(plan_.steps[step])) {
    const BufferId owner = owner_[u.buffer];
    const Buffer& b = plan_.buffers[u.buffer];
    const Memory& m = memory_[owner];
    if (is_timed(owner) && step < b.first)
      fail("lifetimes: {} uses {}, which is allocated at step {} only", describe(step), b.name, b.first);
    if (is_timed(owner) && step > b.last)
      fail("lifetimes: {} uses {}, which was freed after step {}", describe(step), b.name, b.last);
    if (!m.there && late_[owner]) fail("lifetimes: {} uses {}, which is not allocated", describe(step), b.name);
    if (!m.alive() || u.write) continue;
    if (!is_given(owner) && !has_value_[u.buffer])
      fail("lifetimes: {} reads {} before anything was written to it", describe(step), b.name);
    if (!is_given(owner) && m.holder != u.buffer)
      fail("lifetimes: {} reads {}, whose memory {} has taken over", describe(step), b.name,
           plan_.buffers[m.holder].name);
  }
}

void LifetimeChecker::check_guards(std::size_t step, BufferId owner) const {
  const Memory& m = memory_[owner];
  const std::span<const std::byte> all = m.all();
  const bool begins = is_poison(all.first(m.guard)), ends = is_poison(all.last(m.guard));
  if (!begins || !ends)
    fail("lifetimes: {} wrote {} {}", describe(step), begins ? "behind the end of" : "before the start of",
         plan_.buffers[owner].name);
}

void LifetimeChecker::after(std::size_t step, std::size_t next) {
  std::vector<bool> written(memory_.size(), false);
  const std::vector<Use> used = uses(plan_.steps[step]);
  for (const Use& u : used) {
    if (!u.write) continue;
    const BufferId owner = owner_[u.buffer];
    written[owner] = was_written_[owner] = true;
    has_value_[u.buffer] = true;
    memory_[owner].holder = u.buffer;
  }
  for (BufferId owner = 0; owner < memory_.size() && !used.empty(); ++owner) {
    Memory& m = memory_[owner];
    if (!m.alive() || is_given(owner)) continue;
    check_guards(step, owner);
    const Hash128 now = hash(m.all());
    if (!written[owner] && now != m.seen)
      fail("lifetimes: {} wrote to the memory of {}, which it was not given to write to", describe(step),
           plan_.buffers[owner].name);
    m.seen = now;
  }
  // What lives to a step that was jumped over lives no longer; a loop that turns once more keeps what lives to its end.
  for (std::size_t s = step; s < next; ++s)
    for (BufferId owner : ends_[s])
      if (memory_[owner].alive()) clear(owner);
}

void LifetimeChecker::end() {
  for (BufferId owner = 0; owner < memory_.size(); ++owner)
    if (const Memory& m = memory_[owner];
        m.alive() && is_given(owner) && !was_written_[owner] && hash(m.all()) != m.seen)
      fail("lifetimes: something wrote to {}, which no step was given to write to", plan_.buffers[owner].name);
}

}  // namespace coil::runtime
