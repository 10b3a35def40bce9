#include "wrapper/failures.h"

#include <algorithm>

namespace coil::wrapper {

const std::string& failure_of(const Line& line) {
  static const std::string none;
  if (const auto* kernel = std::get_if<CallKernel>(&line)) return kernel->failure;
  if (const auto* user = std::get_if<CallUserKernel>(&line)) return user->failure;
  return none;
}

FailureSites failure_sites(const Program& p) {
  FailureSites found;
  for (std::size_t i = 0; i < p.lines.size(); ++i) {
    const auto* kernel = std::get_if<CallKernel>(&p.lines[i]);
    const bool launched = kernel ? kernel->launch.has_value() : !p.device.is_host();
    if (launched && !failure_of(p.lines[i]).empty()) found.sites.emplace(i, found.sites.size());
  }
  if (found.sites.empty()) return found;
  // In a loop a line comes again behind those after it.
  bool may_have_failed =
      std::any_of(p.lines.begin(), p.lines.end(), [](const Line& l) { return std::holds_alternative<Control>(l); });
  for (std::size_t i = 0; i < p.lines.size(); ++i) {
    if (may_have_failed) {
      found.behind.insert(i);
      const std::vector<BufferId> writes = uses(p.lines[i]).writes;
      const bool kept = std::any_of(writes.begin(), writes.end(), [&](BufferId b) {
        const BufferKind kind = p.buffers[b].kind;  // (an input's memory that a value took over is not the caller's)
        return kind == BufferKind::Input || kind == BufferKind::Constant;
      });
      if (kept) found.guarded.insert(i);
    }
    may_have_failed = may_have_failed || found.sites.contains(i);
  }
  return found;
}

}  // namespace coil::wrapper
