#include "passes/wrapper/unused_constants.h"

namespace coil::wrapper {

void drop_unused_constants(Program& p) {
  std::set<BufferId> used;
  for (const Line& l : p.lines) {
    const Uses u = uses(l);
    used.insert(u.reads.begin(), u.reads.end());
    used.insert(u.writes.begin(), u.writes.end());
  }
  for (const Output& o : p.outputs)
    if (auto* v = std::get_if<View>(&o.value)) used.insert(v->buffer);
  std::vector<Constant> kept;
  for (std::size_t b = 0; b < p.buffers.size(); ++b) {
    Buffer& buffer = p.buffers[b];
    if (buffer.kind != BufferKind::Constant) continue;
    if (!used.contains(static_cast<BufferId>(b))) {
      buffer.kind = BufferKind::Temporary;  // of no lifetime: takes no memory
      continue;
    }
    kept.push_back(std::move(p.constants[buffer.index]));
    buffer.index = kept.size() - 1;
  }
  p.constants = std::move(kept);
}

}  // namespace coil::wrapper
