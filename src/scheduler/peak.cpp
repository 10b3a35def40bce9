#include "scheduler/peak.h"

#include <algorithm>

namespace coil::scheduler {
namespace {

using HandOvers = std::vector<std::pair<StorageId, StorageId>>;

/// The operands that die with the step at this place, and the results that take over their memory.
void add_hand_overs(const MemoryProgram& program, const MemoryStep& step, std::size_t at, const std::vector<Life>& life,
                    HandOvers& all) {
  if (step.in_place.empty()) return;
  const auto mine = static_cast<std::ptrdiff_t>(all.size());
  for (StorageId to : step.touches) {
    if (life[to].first != at) continue;
    for (auto [from, result] : step.in_place) {
      const bool was_there = life[from].first < at || !program.is_made(from);
      if (result != to || life[from].last != at || !was_there) continue;
      if (std::any_of(all.begin() + mine, all.end(), [&](const auto& taken) { return taken.first == from; })) continue;
      all.emplace_back(from, to);
      break;
    }
  }
}

/// Calls `at(place, temporaries, outputs)` with the bytes that are live there.
template <class F>
void walk(const MemoryProgram& program, std::span<const StepId> order, F&& at) {
  const std::vector<Life> life = lives_in(program, order);
  std::uint64_t live = program.given_bytes(), outputs = 0;
  HandOvers handed;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const MemoryStep& step = program.steps[order[k]];
    std::uint64_t freed = 0;
    for (StorageId s : step.touches) {
      const Storage& storage = program.storages[s];
      if (storage.of == StorageClass::Output && !program.counts_callers && life[s].first == k) outputs += storage.bytes;
      if (program.is_made(s) && life[s].first == k) live += storage.bytes;
      if (program.is_freed(s) && life[s].last == k) freed += storage.bytes;
    }
    handed.clear();
    add_hand_overs(program, step, k, life, handed);
    std::uint64_t shared = 0;
    for (auto [from, to] : handed) shared += program.storages[to].bytes;
    at(k, live - shared, outputs);
    live -= freed;
  }
}

void merge_sorted(std::vector<StepId>& ids) {
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

}  // namespace

std::uint64_t MemoryProgram::given_bytes() const {
  std::uint64_t bytes = 0;
  for (StorageId s = 0; s < storages.size(); ++s)
    if (counts(s) && !is_made(s)) bytes += storages[s].bytes;
  return bytes;
}

StepOrder::StepOrder(MemoryProgram& program) : program_(program), uses_(program.storages.size()) {}

StepId StepOrder::add(std::span<const StorageId> reads, std::span<const StorageId> writes) {
  const auto id = static_cast<StepId>(program_.steps.size());
  MemoryStep step;
  for (StorageId s : reads) {
    if (uses_[s].written) step.after.push_back(uses_[s].writer);
    step.touches.push_back(s);
  }
  for (StorageId s : writes) {
    if (uses_[s].written) step.after.push_back(uses_[s].writer);
    step.after.insert(step.after.end(), uses_[s].readers.begin(), uses_[s].readers.end());
    step.touches.push_back(s);
  }
  for (StorageId s : reads) uses_[s].readers.push_back(id);
  for (StorageId s : writes) uses_[s] = {{}, id, true};
  merge_sorted(step.after);
  merge_sorted(step.touches);
  program_.steps.push_back(std::move(step));
  return id;
}

std::vector<Life> lives_in(const MemoryProgram& program, std::span<const StepId> order) {
  std::vector<Life> life(program.storages.size());
  for (std::size_t at = 0; at < order.size(); ++at)
    for (StorageId s : program.steps[order[at]].touches) {
      life[s].first = std::min(life[s].first, at);
      life[s].last = at;
    }
  return life;
}

std::vector<std::pair<StorageId, StorageId>> hand_overs(const MemoryProgram& program, std::span<const StepId> order) {
  const std::vector<Life> life = lives_in(program, order);
  HandOvers all;
  for (std::size_t at = 0; at < order.size(); ++at) add_hand_overs(program, program.steps[order[at]], at, life, all);
  return all;
}

Peak peak_of(const MemoryProgram& program, std::span<const StepId> order) {
  Peak peak;
  walk(program, order, [&](std::size_t at, std::uint64_t live, std::uint64_t outputs) {
    if (live > peak.temporaries) peak.temporaries = live, peak.at = at;
    peak.with_outputs = std::max(peak.with_outputs, live + outputs);
  });
  return peak;
}

std::vector<std::uint64_t> live_bytes(const MemoryProgram& program, std::span<const StepId> order) {
  std::vector<std::uint64_t> bytes;
  walk(program, order, [&](std::size_t, std::uint64_t live, std::uint64_t) { bytes.push_back(live); });
  return bytes;
}

std::uint64_t least_peak(const MemoryProgram& program) {
  std::uint64_t most = program.given_bytes();
  for (const MemoryStep& step : program.steps) {
    std::uint64_t bytes = 0, handed = 0;
    for (StorageId s : step.touches)
      if (program.counts(s)) bytes += program.storages[s].bytes;
    for (auto [from, to] : step.in_place) handed += program.storages[to].bytes;
    most = std::max(most, bytes - std::min(bytes, handed));
  }
  return most;
}

std::vector<std::vector<StepId>> followers_of(const MemoryProgram& program) {
  std::vector<std::vector<StepId>> followers(program.steps.size());
  for (StepId s = 0; s < program.steps.size(); ++s)
    for (StepId before : program.steps[s].after) followers[before].push_back(s);
  return followers;
}

bool respects(const MemoryProgram& program, std::span<const StepId> order) {
  if (order.size() != program.steps.size()) return false;
  std::vector<bool> done(program.steps.size(), false);
  for (StepId s : order) {
    if (s >= done.size() || done[s]) return false;
    for (StepId before : program.steps[s].after)
      if (!done[before]) return false;
    done[s] = true;
  }
  return true;
}

}  // namespace coil::scheduler
