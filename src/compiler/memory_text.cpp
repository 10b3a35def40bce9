#include "compiler/memory_text.h"

#include <algorithm>

#include "compiler/provenance.h"
#include "support/error.h"

namespace coil {
namespace {

using wrapper::BufferId;

constexpr std::size_t kBars = 40, kBarLength = 40, kOwners = 10;

/// A block of memory, from the call that first needs it to the last one that does.
struct LiveBlock {
  std::string names;  ///< of the buffers that live in it, one after the other
  std::uint64_t bytes = 0;
  std::size_t first = 0, last = 0;
  std::vector<std::size_t> touched;  ///< calls
  bool is_output = false;
};

class Memory {
 public:
  Memory(const wrapper::Program& p, const SourceLines& lines) : p_(p), lines_(lines), calls_(provenance_calls(p)) {
    find_blocks();
    live_.assign(calls_.size(), 0);
    for (const LiveBlock& b : blocks_)
      for (std::size_t c = b.first; c <= b.last && c < live_.size(); ++c) live_[c] += b.bytes;
  }

  std::string print() const {
    if (calls_.empty() || blocks_.empty()) return "";
    return bars() + owners() + remedies();
  }

 private:
  void find_blocks() {
    std::map<BufferId, std::size_t> block_of;
    std::size_t call = 0;
    for (std::size_t l = 0; l < p_.lines.size(); ++l) {
      if (const auto* a = std::get_if<wrapper::Allocate>(&p_.lines[l])) {
        const wrapper::Buffer& b = p_.buffers[a->buffer];
        block_of[a->buffer] = blocks_.size();
        const auto bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, p_.env->hint_or(b.bytes, 0)));
        blocks_.push_back({b.name, bytes, call, call, {}, b.kind == wrapper::BufferKind::Output});
      } else if (const auto* r = std::get_if<wrapper::Reuse>(&p_.lines[l])) {
        const auto from = block_of.find(r->from);  // none: an input's memory
        if (from == block_of.end()) continue;
        block_of[r->to] = from->second;
        blocks_[from->second].names += ", " + p_.buffers[r->to].name;
      } else if (call < calls_.size() && calls_[call].line == l) {
        const wrapper::Uses uses = wrapper::uses(p_.lines[l]);
        for (const auto* side : {&uses.reads, &uses.writes})
          for (BufferId b : *side)
            if (auto found = block_of.find(b); found != block_of.end()) touch(blocks_[found->second], call);
        ++call;
      }
    }
    for (LiveBlock& b : blocks_)
      if (b.is_output) b.last = calls_.size() - 1;
  }

  static void touch(LiveBlock& b, std::size_t call) {
    b.last = std::max(b.last, call);
    if (b.touched.empty() || b.touched.back() != call) b.touched.push_back(call);
  }

  std::size_t fullest() const { return static_cast<std::size_t>(std::ranges::max_element(live_) - live_.begin()); }

  /// What a call computes, and where in the user's program that stands.
  std::string computed(std::size_t call) const {
    const ProvenanceCall& c = calls_[call];
    std::set<std::string> places;
    for (const std::string& o : *c.origins)
      if (auto where = lines_.find(o); where != lines_.end()) places.insert(where->second);
    if (places.empty() && !c.where->empty()) places.insert(*c.where);
    return fmt::format("{}{}", c.nodes->empty() ? c.name : fmt::format("{}", fmt::join(*c.nodes, ", ")),
                       places.empty() ? "" : fmt::format(" ({})", fmt::join(places, ", ")));
  }

  std::string bars() const {
    std::string text = "\nMemory over time: temporaries and outputs that are live at each call\n";
    const std::uint64_t most = std::max<std::uint64_t>(1, live_[fullest()]);
    const std::size_t each = (live_.size() + kBars - 1) / kBars;
    for (std::size_t first = 0; first < live_.size(); first += each) {
      const std::size_t end = std::min(live_.size(), first + each);
      const auto top = std::max_element(live_.begin() + static_cast<std::ptrdiff_t>(first),
                                        live_.begin() + static_cast<std::ptrdiff_t>(end));
      const auto at = static_cast<std::size_t>(top - live_.begin());
      const auto length = static_cast<std::size_t>(static_cast<double>(*top) / static_cast<double>(most) * kBarLength);
      std::vector<std::string> born;
      for (const LiveBlock& b : blocks_)
        if (b.first == at && b.bytes > 0) born.push_back(b.names.substr(0, b.names.find(',')));
      if (born.size() > 4) born.resize(4), born.emplace_back("…");
      text += fmt::format("  {:5} {:<{}} {:>10}{}\n", at, std::string(length, '#'), kBarLength, human_bytes(*top),
                          born.empty() ? "" : fmt::format("  + {}", fmt::join(born, ", ")));
    }
    return text;
  }

  /// Blocks that are live at the peak, the largest first.
  std::vector<const LiveBlock*> at_peak() const {
    const std::size_t peak = fullest();
    std::vector<const LiveBlock*> found;
    for (const LiveBlock& b : blocks_)
      if (b.first <= peak && peak <= b.last && b.bytes > 0) found.push_back(&b);
    std::ranges::stable_sort(found, std::greater<>(), &LiveBlock::bytes);
    return found;
  }

  std::string owners() const {
    const std::vector<const LiveBlock*> all = at_peak();
    std::string text =
        fmt::format("\nThe peak, {}, at call {}: {}\n", human_bytes(live_[fullest()]), fullest(), computed(fullest()));
    for (std::size_t k = 0; k < std::min(kOwners, all.size()); ++k)
      text += fmt::format("  {:>10}  {}{}: made by {}\n", human_bytes(all[k]->bytes), all[k]->names,
                          all[k]->is_output ? ", an output" : "",
                          all[k]->touched.empty() ? "nothing" : computed(all[k]->touched.front()));
    if (all.size() > kOwners) text += fmt::format("  and {} smaller ones\n", all.size() - kOwners);
    return text;
  }

  /// The peak if a block were there only while calls touch it.
  std::uint64_t peak_without(const LiveBlock& gone) const {
    std::uint64_t most = 0;
    for (std::size_t c = 0; c < live_.size(); ++c) {
      const bool kept = gone.first <= c && c <= gone.last && !std::ranges::binary_search(gone.touched, c);
      most = std::max(most, kept ? live_[c] - gone.bytes : live_[c]);
    }
    return most;
  }

  std::string remedies() const {
    const std::size_t peak = fullest();
    std::string text = "What would lower it next\n";
    std::size_t count = 0;
    for (const LiveBlock* b : at_peak()) {
      if (b->is_output || std::ranges::binary_search(b->touched, peak) || count == 3) continue;
      const auto next = std::ranges::upper_bound(b->touched, peak);
      if (next == b->touched.end()) continue;
      ++count;
      text += fmt::format("  {} is only kept there for call {}, {}; made again or read before, the peak would be {}\n",
                          b->names, *next, computed(*next), human_bytes(peak_without(*b)));
    }
    if (count == 0) text += "  the call itself reads or writes all of it: a smaller batch, or parts of it at a time\n";
    return text;
  }

  const wrapper::Program& p_;
  const SourceLines& lines_;
  std::vector<ProvenanceCall> calls_;
  std::vector<LiveBlock> blocks_;
  std::vector<std::uint64_t> live_;  ///< bytes at each call
};

}  // namespace

std::string memory_text(const wrapper::Program& p, const SourceLines& lines) { return Memory(p, lines).print(); }

}  // namespace coil
