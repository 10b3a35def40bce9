#include "passes/wrapper/batch_launches.h"

#include <algorithm>
#include <map>
#include <set>

#include "codegen/triton/batch.h"
#include "passes/wrapper/joined_launches.h"

namespace coil::wrapper {
namespace {

constexpr std::size_t kMostPointers = 480;  // of a launch: what fits into 4 KiB of arguments
constexpr std::int64_t kLargest = std::int64_t{64}
                                  << 20;     // bytes that one launch writes, past which it fills the machine alone
constexpr std::int64_t kTogether = 1 << 22;  // bytes of all temporaries of a launch, which are there at once

/// Calls that become one, and what lines between the outermost of them and where the search is touch.
struct Batch {
  std::size_t place = 0;  ///< of the call that the others join
  std::vector<std::size_t> calls;
  std::set<BufferId> reads, writes, passed_reads, passed_writes;
  std::int64_t temporaries = 0;  ///< bytes of those that it reads or writes
};

class Batcher {
 public:
  Batcher(Program& p, const codegen::Backend& backend) : p_(p), backend_(backend) {
    for (const Line& l : p.lines)
      for (BufferId b : uses(l).reads) read_.insert(b);
  }

  /// Calls join the first of them; or the last, where they make results of the program of something small that may live
  /// longer for it.
  void run(bool join_last) {
    join_last_ = join_last;
    std::vector<Batch> all;
    std::map<std::size_t, Batch> open;  // by kernel
    for (std::size_t n = 0; n < p_.lines.size(); ++n) {
      const std::size_t i = join_last ? p_.lines.size() - 1 - n : n;
      if (keeps_calls_apart(p_.lines[i])) {
        for (auto& [kernel, batch] : open) all.push_back(std::move(batch));
        open.clear();
      }
      const Uses u = uses(p_.lines[i]);
      const CallKernel* call = std::get_if<CallKernel>(&p_.lines[i]);
      if (call && !may_join(*call)) call = nullptr;
      if (call)
        if (auto it = open.find(call->kernel); it != open.end() && !joins(it->second, *call, u)) {
          all.push_back(std::move(it->second));
          open.erase(it);
        }
      for (auto& [kernel, batch] : open)
        if (!call || kernel != call->kernel)
          batch.passed_reads.insert(u.reads.begin(), u.reads.end()),
              batch.passed_writes.insert(u.writes.begin(), u.writes.end());
      if (!call) continue;
      Batch& batch = open[call->kernel];
      if (batch.calls.empty()) batch.place = i;
      batch.calls.push_back(i);
      batch.temporaries += temporaries_of(*call);
      batch.reads.insert(u.reads.begin(), u.reads.end());
      batch.writes.insert(u.writes.begin(), u.writes.end());
    }
    for (auto& [kernel, batch] : open) all.push_back(std::move(batch));
    std::sort(all.begin(), all.end(), [](const Batch& a, const Batch& b) { return a.place < b.place; });
    std::set<std::size_t> gone;
    for (const Batch& b : all) merge(b, gone);
    drop_calls(p_, gone);
  }

 private:
  bool may_join(const CallKernel& call) const {
    if (!call.launch || !call.failure.empty() || call.launch->grid.size() != 3 ||
        !call.launch->grid[1].is_constant(1) || !call.launch->maps.empty())
      return false;
    std::int64_t written = 0;
    for (std::size_t k = 0; k < call.buffers.size(); ++k) {
      const Buffer& b = p_.buffers[call.buffers[k]];
      const std::int64_t bytes = p_.env->hint_or(b.bytes, kLargest);
      if (join_last_ && !(call.written[k] ? b.kind == BufferKind::Output && !read_.contains(call.buffers[k])
                                          : b.kind == BufferKind::Constant || bytes <= kJoinedTemporary))
        return false;
      if (!call.written[k]) continue;
      if (b.kind == BufferKind::Temporary && bytes > kJoinedTemporary) return false;
      written += bytes;
    }
    return written <= kLargest;
  }

  std::int64_t temporaries_of(const CallKernel& call) const {
    std::int64_t bytes = 0;
    for (BufferId b : std::set<BufferId>(call.buffers.begin(), call.buffers.end()))
      if (p_.buffers[b].kind == BufferKind::Temporary) bytes += p_.env->hint_or(p_.buffers[b].bytes, kLargest);
    return bytes;
  }

  bool joins(const Batch& batch, const CallKernel& call, const Uses& u) const {
    if (batch.temporaries + temporaries_of(call) > kTogether) return false;
    const auto& first = std::get<CallKernel>(p_.lines[batch.place]);
    if (first.scalars != call.scalars || first.launch->grid != call.launch->grid ||
        (batch.calls.size() + 1) * call.buffers.size() > kMostPointers)
      return false;
    return !meet(batch.writes, u.reads) && !meet(batch.passed_writes, u.reads) && !meet(batch.reads, u.writes) &&
           !meet(batch.writes, u.writes) && !meet(batch.passed_reads, u.writes) && !meet(batch.passed_writes, u.writes);
  }

  void merge(const Batch& batch, std::set<std::size_t>& gone) {
    if (batch.calls.size() < 2) return;
    auto& first = std::get<CallKernel>(p_.lines[batch.place]);
    const KernelEntry& alone = p_.kernels[first.kernel];
    const std::string symbol = fmt::format("{}_x{}", alone.symbol, batch.calls.size());
    std::optional<KernelEntry> together = batched(alone, symbol, first.buffers.size(), batch.calls.size());
    if (!together) return;
    for (std::size_t k = 1; k < batch.calls.size(); ++k) {
      const auto& call = std::get<CallKernel>(p_.lines[batch.calls[k]]);
      first.buffers.insert(first.buffers.end(), call.buffers.begin(), call.buffers.end());
      first.written.insert(first.written.end(), call.written.begin(), call.written.end());
      first.in_place.insert(first.in_place.end(), call.in_place.begin(), call.in_place.end());
      first.nodes.insert(call.nodes.begin(), call.nodes.end());
      first.origins.insert(call.origins.begin(), call.origins.end());
      gone.insert(batch.calls[k]);
    }
    leave_what_others_read(first, first.buffers.size() / batch.calls.size());
    first.copies.reset();
    first.alternatives.clear();
    first.launch->grid[1] = static_cast<std::int64_t>(batch.calls.size());
    auto same =
        std::find_if(p_.kernels.begin(), p_.kernels.end(), [&](const KernelEntry& k) { return k.symbol == symbol; });
    first.kernel = static_cast<std::size_t>(same - p_.kernels.begin());
    if (same == p_.kernels.end()) p_.kernels.push_back(*std::move(together));
  }

  /// No result is put into the memory of an operand that another of the calls, which run side by side, reads too.
  static void leave_what_others_read(CallKernel& together, std::size_t of_each) {
    std::map<BufferId, std::set<std::size_t>> readers;
    for (std::size_t k = 0; k < together.buffers.size(); ++k)
      if (!together.written[k]) readers[together.buffers[k]].insert(k / of_each);
    std::erase_if(together.in_place, [&](const auto& pair) { return readers[pair.first].size() > 1; });
  }

  std::optional<KernelEntry> batched(const KernelEntry& alone, const std::string& symbol, std::size_t buffers,
                                     std::size_t count) const {
    KernelEntry out{symbol, ""};
    if (alone.triton) {
      out.triton = codegen::batch_triton_kernel(*alone.triton, count);
      out.text = out.triton->text(symbol);
    } else if (alone.parts) {
      out.parts = backend_.batch(*alone.parts, buffers, count);
      if (!out.parts) return std::nullopt;
      out.text = out.parts->text(symbol);
    } else {
      return std::nullopt;
    }
    out.language = alone.language;
    out.place = alone.place;
    return out;
  }

  Program& p_;
  const codegen::Backend& backend_;
  std::set<BufferId> read_;
  bool join_last_ = false;
};

}  // namespace

void batch_launches(Program& p, const codegen::Backend& backend) {
  Batcher batcher(p, backend);
  batcher.run(true);
  batcher.run(false);
}

}  // namespace coil::wrapper
