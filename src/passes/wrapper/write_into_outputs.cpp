#include "passes/wrapper/write_into_outputs.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

namespace coil::wrapper {
namespace {

class Uniter {
 public:
  explicit Uniter(Program& p) : p_(p), name_(p.buffers.size()), first_(p.buffers.size(), SIZE_MAX), last_(first_) {
    std::iota(name_.begin(), name_.end(), BufferId{0});
    for (std::size_t k = 0; k < p.lines.size(); ++k) {
      const Uses u = uses(p.lines[k]);
      for (const auto* side : {&u.reads, &u.writes})
        for (BufferId b : *side) {
          first_[b] = std::min(first_[b], k);
          last_[b] = k;
        }
    }
    const Exprs late = runtime_symbols(p);
    late_.insert(late.begin(), late.end());
  }

  void run() {
    // The last call first: what becomes a result's memory there is a result for the calls before.
    bool united = false;
    for (std::size_t k = p_.lines.size(); k-- > 0;)
      if (const auto* call = std::get_if<CallKernel>(&p_.lines[k]))
        for (auto [from, to] : call->in_place) united = unite(from, name_[to], k) || united;
    if (!united) return;
    for (Line& l : p_.lines) rename_buffers(l, name_);
  }

 private:
  bool unite(BufferId from, BufferId to, std::size_t line) {
    const Buffer &value = p_.buffers[from], &result = p_.buffers[to];
    const bool may = name_[from] == from && value.kind == BufferKind::Temporary && !value.comm &&
                     result.kind == BufferKind::Output && !result.comm && first_[to] == line && last_[from] == line &&
                     first_[from] < line && !is_late(result.bytes) &&
                     p_.env->statically_known_equal(value.bytes, result.bytes);
    if (!may) return false;
    name_[from] = to;
    first_[to] = first_[from];
    return true;
  }

  bool is_late(Expr bytes) const {
    return std::ranges::any_of(sym::free_symbols(bytes), [&](Expr s) { return late_.contains(s); });
  }

  Program& p_;
  std::vector<BufferId> name_;             ///< whose memory each buffer has
  std::vector<std::size_t> first_, last_;  ///< lines that touch each
  std::unordered_set<Expr> late_;          ///< symbols that data give, while the program runs
};

}  // namespace

void write_into_outputs(Program& p) {
  if (std::ranges::any_of(p.lines, [](const Line& l) { return std::holds_alternative<Control>(l); })) return;
  Uniter(p).run();
}

}  // namespace coil::wrapper
