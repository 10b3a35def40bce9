// Temporaries and scratch memory in pieces that come and go with the steps of a run.
#include <algorithm>
#include <numeric>

#include "runtime/executor/binding.h"
#include "runtime/plan/arena_pieces.h"
#include "support/error.h"

namespace coil::runtime {

void Binding::bind_pieces() {
  now_.pieces.clear();
  now_.pieces_by_last.clear();
  now_.piece_bytes = 0;
  if (!has_pieces() || now_.steps.empty() || !takes_memory_for_each_run()) return;
  std::vector<std::uint64_t> beside(now_.steps.size(), 0), outputs = beside;
  add_beside(beside, true);
  add_beside(outputs, false);
  const ArenaPieces plan = plan_pieces(lives_of_temporaries(), scratch_of_steps(), beside, blocks_);
  if (plan.pieces.empty()) return;
  std::vector<std::uint64_t> all = outputs;
  for (const ArenaPiece& p : plan.pieces) {
    now_.pieces.push_back({static_cast<std::size_t>(p.bytes), p.first, p.last});
    for (std::size_t s = p.first; s <= p.last; ++s) all[s] += p.bytes;
  }
  now_.pieces_by_last.resize(now_.pieces.size());
  std::iota(now_.pieces_by_last.begin(), now_.pieces_by_last.end(), 0u);
  std::ranges::stable_sort(now_.pieces_by_last, {}, [&](std::uint32_t p) { return now_.pieces[p].last; });
  now_.piece_bytes = static_cast<std::size_t>(std::ranges::max(all) - outputs.back());
  point_at_pieces(plan.piece_of, plan.offsets, plan.scratch_of);
}

/// Lifetimes of temporaries in bound steps, by memory owner.
std::vector<Interval> Binding::lives_of_temporaries() const {
  if (walks()) return lives_in_plan();
  std::vector<Interval> lives(plan_.buffers.size(), Interval{0, UINT32_MAX, 0});
  for (const TemporaryUse& use : temporary_uses_) {
    Interval& life = lives[use.owner];
    life = {now_.buffer_bytes[use.owner], std::min(life.first, use.step), std::max(life.last, use.step)};
  }
  for (Interval& life : lives)
    if (life.bytes == 0) life = {};
  return lives;
}

std::vector<std::uint64_t> Binding::scratch_of_steps() const {
  std::vector<std::uint64_t> bytes;
  for (const BoundStep& step : now_.steps) {
    const auto* call = std::get_if<ExternStep>(&step);
    bytes.push_back(call && call->place == 0 ? call->op->workspace_bytes() : 0);
  }
  return bytes;
}

/// What the caller's allocator has given for outputs, or gets back of inputs, at each step.
void Binding::add_beside(std::vector<std::uint64_t>& beside, bool with_inputs) const {
  const auto add = [&](std::size_t from, std::size_t end, std::uint64_t bytes) {
    for (std::size_t s = from; s < end; ++s) beside[s] += bytes;
  };
  for (const BoundOutputBuffer& out : now_.outputs) add(out.first, beside.size(), out.bytes);
  for (std::uint32_t i = 0; with_inputs && may_go_ && i < now_.inputs.size(); ++i) {
    const BoundInput& in = now_.inputs[i];
    if (in.last == kNoStep || plan_.inputs[i].mutated || !may_go_(i)) continue;
    add(0, in.last + std::size_t{1}, static_cast<std::uint64_t>(in.span) * size_of(plan_.inputs[i].dtype));
  }
}

void Binding::point_at_pieces(const std::vector<std::uint32_t>& piece_of, const std::vector<std::uint64_t>& offsets,
                              const std::vector<std::uint32_t>& scratch_of) {
  for (const TemporaryUse& use : temporary_uses_)
    now_.pieces[piece_of[use.owner]].patches.push_back({use.at.word, offsets[use.owner] + use.at.offset});
  for (std::size_t s = 0; s < now_.steps.size(); ++s) {
    auto* call = std::get_if<ExternStep>(&now_.steps[s]);
    if (!call || call->place != 0 || call->op->workspace_bytes() == 0) continue;
    call->scratch = static_cast<std::int32_t>(now_.words.size());
    now_.pieces[scratch_of[s]].patches.push_back({static_cast<std::uint32_t>(now_.words.size()), 0});
    now_.words.push_back(nullptr);
  }
  temporary_uses_.clear();
  now_.arena_patches.clear();
  now_.arena_bytes = now_.workspace_bytes = 0;
}

void Binding::take_piece(std::uint32_t piece) {
  piece_memory_.resize(std::max<std::size_t>(piece_memory_.size(), now_.pieces.size()));
  piece_memory_[piece] = queue_.allocate(now_.pieces[piece].bytes);
  place(now_.pieces[piece], piece_memory_[piece].data.get());
}

}  // namespace coil::runtime
