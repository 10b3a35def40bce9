#include "passes/wrapper/split_alternatives.h"

namespace coil::wrapper {
namespace {

/// Where none of the alternatives is taken.
Expr otherwise(const sym::ShapeEnv& env, const CallKernel& call) {
  Expr none = 1;
  for (const KernelAlternative& a : call.alternatives) none = sym::logical_and(none, sym::logical_not(a.when));
  return env.simplify(none);
}

CallKernel call_of(const CallKernel& call, const KernelAlternative& a) {
  CallKernel out = call;
  out.alternatives.clear();
  out.kernel = a.kernel;
  out.scalars = a.scalars;
  out.extent = a.extent;
  out.grain = a.grain;
  out.launch = a.launch;
  out.when = a.when;
  return out;
}

}  // namespace

void split_alternatives(Program& p) {
  std::vector<Line> lines;
  for (Line& line : p.lines) {
    auto* call = std::get_if<CallKernel>(&line);
    if (call && !call->alternatives.empty()) {
      for (const KernelAlternative& a : call->alternatives) lines.emplace_back(call_of(*call, a));
      call->when = otherwise(*p.env, *call);
      call->alternatives.clear();
    }
    lines.push_back(std::move(line));
  }
  p.lines = std::move(lines);
}

}  // namespace coil::wrapper
