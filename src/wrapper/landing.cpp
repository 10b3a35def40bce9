#include "wrapper/landing.h"

#include <algorithm>

#include "library_ops/copies.h"
#include "library_ops/table.h"

namespace coil::wrapper {

LandingMemory landing_memory(const Program& p) {
  LandingMemory out;
  out.memory.resize(p.buffers.size());
  for (std::size_t b = 0; b < out.memory.size(); ++b) out.memory[b] = static_cast<BufferId>(b);
  if (p.others.empty()) return out;
  for (const Line& l : p.lines) {
    if (const auto* r = std::get_if<Reuse>(&l)) out.memory[r->to] = out.memory[r->from];
    const auto* c = std::get_if<CallExtern>(&l);
    if (!c || !library_ops::has(c->op, library_ops::Trait::DeviceCopy)) continue;
    const BufferId to = c->outputs.front().buffer;
    if (p.buffers[to].device.is_host() && read(c->attributes, library_ops::copies::kNonBlocking))
      out.ever.insert(out.memory[to]);
  }
  const bool blocks = std::ranges::any_of(p.lines, [](const Line& l) { return std::holds_alternative<Control>(l); });
  // What a loop's line comes behind, and whose memory the sides of a branch take over, is not told by their order.
  for (std::size_t b = 0; blocks && !out.ever.empty() && b < out.memory.size(); ++b)
    if (p.buffers[b].device.is_host()) out.ever.insert(out.memory[b]);
  return out;
}

}  // namespace coil::wrapper
