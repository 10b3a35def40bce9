#include "passes/wrapper/coalesce_copies.h"

#include "wrapper/failures.h"

#include <algorithm>

namespace coil::wrapper {
namespace {

struct Copy {
  BufferId from = 0, to = 0;
};

class Coalescer {
 public:
  explicit Coalescer(Program& p)
      : p_(p), name_(p.buffers.size()), touches_(p.buffers.size()), lives_on_(p.buffers.size(), false) {
    for (std::size_t b = 0; b < name_.size(); ++b) {
      name_[b] = static_cast<BufferId>(b);
      lives_on_[b] = of_caller(name_[b]);
    }
    for (const Output& o : p.outputs)
      if (auto* v = std::get_if<View>(&o.value)) lives_on_[v->buffer] = true;
    std::size_t depth = 0;
    for (std::size_t k = 0; k < p.lines.size(); ++k) {
      auto* c = std::get_if<Control>(&p.lines[k]);
      if (c && c->closes()) --depth;
      nested_.push_back(depth > 0);
      if (c && c->opens()) ++depth;
      uses_.push_back(uses(p.lines[k]));
      for (const auto* side : {&uses_[k].reads, &uses_[k].writes})
        for (BufferId b : *side)
          if (touches_[b].empty() || touches_[b].back() != k) touches_[b].push_back(k);
      if (auto* call = std::get_if<CallKernel>(&p.lines[k]); call && call->copies)
        copy_at_.emplace(k, Copy{call->copies->first, call->copies->second});
    }
  }

  void run() {
    if (copy_at_.empty()) return;
    for (bool more = true; more;) {
      more = false;
      // The last first: it tells which memory the earlier ones may write to.
      for (auto copy = copy_at_.rbegin(); copy != copy_at_.rend(); ++copy)
        more = merge(name_[copy->second.from], name_[copy->second.to]) || more;
    }
    rename();
  }

 private:
  bool of_caller(BufferId b) const { return is_callers(p_.buffers[b]); }
  /// Memory of its own, which others may have part in but not give it: the caller's, or what other ranks reach.
  bool has_memory(BufferId b) const {
    return p_.buffers[b].kind != BufferKind::Temporary || p_.buffers[b].comm.has_value();
  }

  bool merge(BufferId a, BufferId b) {
    if (a == b || (has_memory(a) && has_memory(b)) || !same_values(a, b)) return false;
    const BufferId kept = has_memory(a) ? a : b, gone = kept == a ? b : a;
    for (BufferId& n : name_)
      if (n == gone) n = kept;
    std::vector<std::size_t> both;
    std::set_union(touches_[a].begin(), touches_[a].end(), touches_[b].begin(), touches_[b].end(),
                   std::back_inserter(both));
    touches_[kept] = std::move(both);
    lives_on_[kept] = lives_on_[a] || lives_on_[b];
    return true;
  }

  /// Carries out the program on one piece of memory for both, with numbers for values: every reader must find the value
  /// that it found in its own buffer.
  bool same_values(BufferId a, BufferId b) const {
    constexpr int kNone = 0, kGiven = 1;
    int last = kGiven, memory = of_caller(a) || of_caller(b) ? kGiven : kNone;
    int value[2] = {of_caller(a) ? kGiven : kNone, of_caller(b) ? kGiven : kNone};
    auto side = [&](BufferId id) { return name_[id] == a ? 0 : name_[id] == b ? 1 : -1; };
    std::vector<std::size_t> lines;
    std::set_union(touches_[a].begin(), touches_[a].end(), touches_[b].begin(), touches_[b].end(),
                   std::back_inserter(lines));
    for (std::size_t k : lines) {
      if (auto copy = copy_at_.find(k); copy != copy_at_.end()) {
        const int from = side(copy->second.from), to = side(copy->second.to);
        if (from == to) continue;  // is dropped already
        if (from >= 0 && to >= 0) {
          if (nested_[k] || memory != value[from]) return false;
          value[to] = value[from];
          continue;
        }
      }
      bool reads[2] = {}, writes[2] = {};
      for (BufferId id : uses_[k].reads)
        if (int s = side(id); s >= 0) reads[s] = true;
      for (BufferId id : uses_[k].writes)
        if (int s = side(id); s >= 0) writes[s] = true;
      for (int s : {0, 1})
        if (reads[s] && memory != value[s]) return false;
      if (!writes[0] && !writes[1]) continue;
      const int s = writes[1];
      // A value made anew that may fail half way is not made in memory of the caller.
      if (value[s] == kNone && (of_caller(a) || of_caller(b)) && may_fail(k)) return false;
      if (nested_[k] || (writes[0] && writes[1]) || (value[s] != kNone && memory != value[s])) return false;
      if (reads[1 - s] && !in_place(k, s ? a : b, s ? b : a)) return false;
      memory = value[s] = ++last;
    }
    return (!lives_on_[a] || value[0] == memory) && (!lives_on_[b] || value[1] == memory);
  }

  bool may_fail(std::size_t line) const { return !failure_of(p_.lines[line]).empty(); }

  /// Whether a call may write `to` over what it reads of `from`.
  bool in_place(std::size_t line, BufferId from, BufferId to) const {
    const auto* call = std::get_if<CallKernel>(&p_.lines[line]);
    if (!call) return false;
    for (std::size_t i = 0; i < call->buffers.size(); ++i)
      for (std::size_t o = 0; o < call->buffers.size(); ++o) {
        if (call->written[i] || !call->written[o] || name_[call->buffers[i]] != from || name_[call->buffers[o]] != to)
          continue;
        if (std::find(call->in_place.begin(), call->in_place.end(), std::pair(call->buffers[i], call->buffers[o])) ==
            call->in_place.end())
          return false;
      }
    return true;
  }

  void rename() {
    std::set<std::size_t> gone;
    for (std::size_t k = 0; k < p_.lines.size(); ++k) {
      if (auto copy = copy_at_.find(k); copy != copy_at_.end() && name_[copy->second.from] == name_[copy->second.to])
        gone.insert(k);
      rename_buffers(p_.lines[k], name_);
    }
    for (Output& o : p_.outputs)
      if (auto* v = std::get_if<View>(&o.value)) v->buffer = name_[v->buffer];
    drop_calls(p_, gone);
  }

  Program& p_;
  std::vector<BufferId> name_;                     ///< whose memory each buffer has
  std::vector<std::vector<std::size_t>> touches_;  ///< lines, by name
  std::vector<bool> lives_on_;                     ///< whether the value at the end counts, by name
  std::vector<bool> nested_;                       ///< of each line: whether it may run more or less often than once
  std::vector<Uses> uses_;
  std::map<std::size_t, Copy> copy_at_;
};

}  // namespace

void coalesce_copies(Program& p) { Coalescer(p).run(); }

}  // namespace coil::wrapper
