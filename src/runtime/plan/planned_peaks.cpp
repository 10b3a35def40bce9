#include "runtime/plan/planned_peaks.h"

#include <algorithm>

#include "runtime/plan/arena_pieces.h"
#include "runtime/plan/parts.h"
#include "runtime/plan/plan_check.h"

namespace coil::runtime {
namespace {

std::uint64_t constant(const Plan& plan, Slot s) {
  const ShapeInstruction& i = plan.shape_program[s];
  return i.op == ShapeOp::Constant ? static_cast<std::uint64_t>(std::max<std::int64_t>(0, i.a)) : 0;
}

/// For each buffer that owns memory, its bytes and the steps that use it.
std::vector<Interval> lives_in(const Plan& plan) {
  std::vector<Interval> lives(plan.buffers.size(), Interval{0, UINT32_MAX, 0});
  for (std::uint32_t s = 0; s < plan.steps.size(); ++s)
    for_each_buffer(plan.steps[s], [&](BufferId b) {
      Interval& life = lives[memory_of(plan, b)];
      life.first = std::min(life.first, s);
      life.last = s;
    });
  for (BufferId b = 0; b < plan.buffers.size(); ++b) {
    Interval& life = lives[memory_of(plan, b)];
    life.bytes = std::max(life.bytes, constant(plan, plan.buffers[b].bytes));
  }
  return lives;
}

}  // namespace

PlannedPeaks planned_peaks(const Plan& plan, const std::map<std::uint32_t, GoingMemory>& going) {
  PlannedPeaks out;
  if (plan.steps.empty()) return out;
  const auto end = static_cast<std::uint32_t>(plan.steps.size());
  std::vector<Interval> temporaries;
  std::vector<std::uint64_t> beside(end, 0);
  const auto add = [&](std::uint32_t first, std::uint32_t stop, std::uint64_t bytes) {
    for (std::uint32_t s = first; s < stop; ++s) beside[s] += bytes;
  };
  const std::vector<Interval> lives = lives_in(plan);
  std::map<std::uint32_t, Interval> shared;  // by number: the last use of each memory
  for (BufferId b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    const Interval& life = lives[b];
    if (memory_of(plan, b) != b || life.first > life.last || life.bytes == 0) continue;
    if (buffer.kind == BufferKind::Temporary) temporaries.push_back(life);
    if (buffer.kind == BufferKind::Output) add(life.first, end, life.bytes), out.outputs += life.bytes;
    const auto goes = buffer.kind == BufferKind::Input ? going.find(buffer.index) : going.end();
    if (goes == going.end()) continue;
    Interval& memory = shared[goes->second.number];
    memory.last = std::max(memory.last, life.last);
    memory.bytes = std::max(memory.bytes, goes->second.bytes ? goes->second.bytes : life.bytes);
  }
  for (const auto& [number, memory] : shared) add(0, memory.last + 1, memory.bytes), out.kept += memory.bytes;
  const ArenaPieces pieces = plan_pieces(temporaries, std::vector<std::uint64_t>(end, 0), beside);
  out.arena = plan.static_arena_bytes;
  out.least = pieces.least;
  out.pieces = pieces.peak;
  out.whole = pieces.whole;
  out.count = pieces.pieces.size();
  return out;
}

}  // namespace coil::runtime
