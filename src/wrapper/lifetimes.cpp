// Allocate, Reuse and Free lines around calls.
#include "support/error.h"
#include "wrapper/build.h"

namespace coil::wrapper {
namespace {

struct Lifetime {
  std::size_t first = SIZE_MAX, last = 0;
};

/// A dead operand of a call whose memory the output may take over.
std::optional<BufferId> dying_operand(const Program& p, const CallKernel& call, BufferId out, std::size_t at, const std::vector<Lifetime>& life, const std::set<BufferId>& taken) {
  for (auto [in, to] : call.in_place)
    if (to == out && p.buffers[in].kind == BufferKind::Temporary && life[in].last == at && !taken.contains(in) && p.env->statically_known_equal(p.buffers[in].bytes, p.buffers[out].bytes)) return in;
  return std::nullopt;
}

}  // namespace

void plan_lifetimes(Program& p) {
  std::erase_if(p.lines, [](const Line& l) { return std::holds_alternative<Allocate>(l) || std::holds_alternative<Reuse>(l) || std::holds_alternative<Free>(l); });
  std::vector<Lifetime> life(p.buffers.size());
  for (std::size_t k = 0; k < p.lines.size(); ++k) {
    const Uses u = uses(p.lines[k]);
    for (const auto* side : {&u.reads, &u.writes})
      for (BufferId b : *side) life[b].first = std::min(life[b].first, k), life[b].last = std::max(life[b].last, k);
  }
  for (const Output& o : p.outputs)
    if (auto* v = std::get_if<View>(&o.value)) life[v->buffer].last = p.lines.size();

  std::vector<Line> lines;
  for (std::size_t k = 0; k < p.lines.size(); ++k) {
    const Uses u = uses(p.lines[k]);
    std::set<BufferId> taken, touched(u.reads.begin(), u.reads.end());
    touched.insert(u.writes.begin(), u.writes.end());
    for (BufferId b : touched) {
      const BufferKind kind = p.buffers[b].kind;
      if (life[b].first != k || (kind != BufferKind::Temporary && kind != BufferKind::Output)) continue;
      std::optional<BufferId> from;
      if (auto* call = std::get_if<CallKernel>(&p.lines[k]); call && kind == BufferKind::Temporary) from = dying_operand(p, *call, b, k, life, taken);
      if (from) taken.insert(*from), lines.push_back(Reuse{*from, b});
      else lines.push_back(Allocate{b});
    }
    lines.push_back(std::move(p.lines[k]));
    for (BufferId b : touched)
      if (life[b].last == k && p.buffers[b].kind == BufferKind::Temporary) lines.push_back(Free{b});
  }
  p.lines = std::move(lines);
}

}  // namespace coil::wrapper
