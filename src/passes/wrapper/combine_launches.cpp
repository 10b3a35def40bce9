#include "passes/wrapper/combine_launches.h"

#include <algorithm>
#include <set>

#include "passes/wrapper/joined_launches.h"
#include "support/hash.h"

namespace coil::wrapper {
namespace {

constexpr std::int64_t kLittle = 1 << 15;  // bytes of a buffer that one block moves as fast as several

/// Calls that become one where the last of them is.
struct Together {
  std::vector<std::size_t> calls;  ///< places among the lines
  std::vector<bool> waits;         ///< for calls before it
  std::set<BufferId> reads, writes;
  bool may_fail = false;  ///< one of them, because of data
};

class Combiner {
 public:
  Combiner(Program& p, const codegen::Backend& backend) : p_(p), backend_(backend) {}

  void run() {
    for (std::size_t i = 0; i < p_.lines.size(); ++i) {
      if (const auto* call = std::get_if<CallKernel>(&p_.lines[i]); call && may_join(*call))
        take(i);
      else if (keeps_calls_apart(p_.lines[i]) || depends(uses(p_.lines[i])))
        finish();
    }
    finish();
    drop_calls(p_, gone_);
  }

 private:
  bool may_join(const CallKernel& call) const {
    if (!call.launch || !call.alternatives.empty() || call.when || !p_.kernels[call.kernel].parts) return false;
    const codegen::MemberKernel alone = member(call, false);
    if (!backend_.launch_together({&alone, 1})) return false;
    // Other ranks are told by lines of their own when they may look at communication buffers.
    return std::ranges::all_of(call.buffers, [&](BufferId b) {
      return !p_.buffers[b].comm && (p_.buffers[b].kind != BufferKind::Temporary || bytes_of(b) <= kJoinedTemporary);
    });
  }

  std::int64_t bytes_of(BufferId b) const { return p_.env->hint_or(p_.buffers[b].bytes, kJoinedTemporary + 1); }

  /// Whether what comes with these uses has to stay behind the calls that are open.
  bool depends(const Uses& u) const {
    return meet(open_.writes, u.reads) || meet(open_.writes, u.writes) || meet(open_.reads, u.writes);
  }

  void take(std::size_t i) {
    const Uses u = uses(p_.lines[i]);
    // What fails leaves the caller's memory as it was written before.
    if (open_.may_fail && std::ranges::any_of(u.writes, [&](BufferId b) { return is_callers(p_.buffers[b]); }))
      finish();
    const bool waits = !open_.calls.empty() && depends(u);
    open_.calls.push_back(i);
    open_.waits.push_back(waits);
    if (open_.calls.size() > 1 && !launch()) {
      open_.calls.pop_back();
      open_.waits.pop_back();
      finish();
      open_.calls = {i};
      open_.waits = {false};
    }
    open_.may_fail |= !call(i).failure.empty();
    open_.reads.insert(u.reads.begin(), u.reads.end());
    open_.writes.insert(u.writes.begin(), u.writes.end());
  }

  const CallKernel& call(std::size_t i) const { return std::get<CallKernel>(p_.lines[i]); }

  std::vector<codegen::MemberKernel> members() const {
    std::vector<codegen::MemberKernel> out;
    for (std::size_t k = 0; k < open_.calls.size(); ++k) out.push_back(member(call(open_.calls[k]), open_.waits[k]));
    return out;
  }

  codegen::MemberKernel member(const CallKernel& c, bool waits) const {
    return {&*p_.kernels[c.kernel].parts, &*c.launch, c.buffers.size(), waits};
  }

  std::optional<codegen::SymbolicLaunch> launch() const {
    const std::size_t place = p_.kernels[call(open_.calls.front()).kernel].place;
    const bool one_block = std::ranges::find(open_.waits, true) != open_.waits.end();
    for (std::size_t i : open_.calls)
      if (p_.kernels[call(i).kernel].place != place || (one_block && !suits_one_block(call(i)))) return std::nullopt;
    return backend_.launch_together(members());
  }

  /// Several multiprocessors would move much data faster than one.
  bool suits_one_block(const CallKernel& c) const {
    return c.launch->grid[0].is_constant(1) ||
           std::ranges::all_of(c.buffers, [&](BufferId b) { return bytes_of(b) <= kLittle; });
  }

  void finish() {
    if (open_.calls.size() > 1) merge();
    open_ = {};
  }

  void merge() {
    const codegen::SymbolicLaunch how = *launch();
    CallKernel all{.launch = how};
    for (std::size_t i : open_.calls) add(all, call(i));
    keep_what_others_use(all);
    all.kernel = kernel_of(backend_.together(members(), how), p_.kernels[call(open_.calls.front()).kernel]);
    gone_.insert(open_.calls.begin(), std::prev(open_.calls.end()));
    p_.lines[open_.calls.back()] = std::move(all);
  }

  static void add(CallKernel& all, const CallKernel& c) {
    const auto written_before = [&](BufferId b) {
      for (std::size_t k = 0; k < all.buffers.size(); ++k)
        if (all.buffers[k] == b && all.written[k]) return true;
      return false;
    };
    for (std::size_t k = 0; k < c.buffers.size(); ++k) {
      const bool written = c.written[k] || written_before(c.buffers[k]);
      all.buffers.push_back(c.buffers[k]);
      all.written.push_back(written);
    }
    all.scalars.insert(all.scalars.end(), c.scalars.begin(), c.scalars.end());
    all.in_place.insert(all.in_place.end(), c.in_place.begin(), c.in_place.end());
    all.nodes.insert(c.nodes.begin(), c.nodes.end());
    all.origins.insert(c.origins.begin(), c.origins.end());
    if (all.where.empty()) all.where = c.where;
    if (!c.failure.empty() && all.failure.find(c.failure) == std::string::npos)
      all.failure += (all.failure.empty() ? "" : ", or ") + c.failure;
  }

  /// No result is put into the memory of an operand that another of the kernels uses too.
  static void keep_what_others_use(CallKernel& all) {
    std::erase_if(all.in_place, [&](const auto& pair) {
      return std::ranges::count(all.buffers, pair.first) > 1 || std::ranges::count(all.buffers, pair.second) > 1;
    });
  }

  /// The place of a kernel among the program's, which it is given where it is not there yet.
  std::size_t kernel_of(codegen::KernelParts parts, const KernelEntry& like) {
    const std::string symbol =
        "coil_together_" + to_hex(hash(to_string(parts.parameters) + parts.qualifiers + parts.body)).substr(0, 16);
    const auto same = std::ranges::find(p_.kernels, symbol, &KernelEntry::symbol);
    if (same != p_.kernels.end()) return static_cast<std::size_t>(same - p_.kernels.begin());
    KernelEntry entry{symbol, parts.text(symbol)};
    entry.parts = std::move(parts);
    entry.language = like.language;
    entry.place = like.place;
    p_.kernels.push_back(std::move(entry));
    return p_.kernels.size() - 1;
  }

  Program& p_;
  const codegen::Backend& backend_;
  Together open_;
  std::set<std::size_t> gone_;
};

}  // namespace

void combine_launches(Program& p, const codegen::Backend& backend) { Combiner(p, backend).run(); }

}  // namespace coil::wrapper
