#include "passes/wrapper/lifetimes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/plan/arena_planner.h"
#include "runtime/plan/output_rooms.h"
#include "support/error.h"

namespace coil::wrapper {
namespace {

struct Lifetime {
  std::size_t first = SIZE_MAX, last = 0;
};

/// Blocks of lines, by the borders that open and close them: a value used in several blocks lives in the innermost one
/// around them all, from before the border that opens the first to after the one that closes the last.
class Blocks {
 public:
  explicit Blocks(const std::vector<Line>& lines) : lines_(lines), of_(lines.size()) {
    all_.push_back({0, 0, lines.size(), 0});
    std::size_t current = 0;
    for (std::size_t k = 0; k < lines.size(); ++k) {
      auto* c = std::get_if<Control>(&lines[k]);
      if (c && c->closes()) {
        all_[current].close = k;
        current = all_[current].parent;
      }
      of_[k] = current;
      if (c && c->opens()) {
        all_.push_back({current, k, lines.size(), all_[current].depth + 1});
        current = all_.size() - 1;
      }
    }
    // `Else` closes one block and opens another: a value that lives in both lives from `If` to `EndIf`.
    for (std::size_t b = 1; b < all_.size(); ++b)
      if (auto* c = std::get_if<Control>(&lines[all_[b].open]); c->kind == Control::Kind::Else) {
        for (std::size_t first = 1; first < b; ++first)
          if (all_[first].close == all_[b].open) all_[b].open = all_[first].open, all_[first].close = all_[b].close;
      }
  }

  /// From the first to the last of these lines, both included, widened to the borders of their common block; for what
  /// leaves the program, of the program's own.
  Lifetime around(const std::vector<std::size_t>& lines, bool leaves) const {
    std::size_t common = leaves ? 0 : of_[lines[0]];
    for (std::size_t k : lines) common = meet(common, of_[k]);
    Lifetime life;
    for (std::size_t k : lines) {
      std::size_t block = of_[k], first = k, last = k;
      for (; block != common; block = all_[block].parent) first = all_[block].open, last = all_[block].close;
      life.first = std::min(life.first, first);
      life.last = std::max(life.last, last);
    }
    return life;
  }

  /// Before which lines a buffer of this many bytes gets its memory, which is used from `first` on: where only the
  /// sides of a branch there say how many, on each side.
  std::vector<std::size_t> births(std::size_t first, const std::vector<std::size_t>& touches, Expr bytes) const {
    const auto* c = std::get_if<Control>(&lines_[first]);
    if (!c || c->kind != Control::Kind::If || !is_set_inside(first, bytes)) return {first};
    std::vector<std::size_t> found;
    for (std::size_t side = 1; side < all_.size(); ++side) {
      if (all_[side].open != first) continue;
      std::vector<std::size_t> inside;
      std::size_t begin = SIZE_MAX;
      for (std::size_t k : touches) {
        std::size_t block = of_[k], at = k;
        for (; block != side && block != 0; block = all_[block].parent) at = all_[block].open;
        if (block != side) continue;
        inside.push_back(k);
        begin = std::min(begin, at);
      }
      COIL_CHECK(!inside.empty(), "a result of a branch is not made on one of its sides");
      for (std::size_t k : births(begin, inside, bytes)) found.push_back(k);
    }
    return found;
  }

 private:
  bool is_set_inside(std::size_t open, Expr bytes) const {
    const Exprs symbols = sym::free_symbols(bytes);
    std::size_t close = open;
    for (const Block& b : all_)
      if (b.open == open) close = std::max(close, b.close);
    return std::any_of(lines_.begin() + static_cast<std::ptrdiff_t>(open),
                       lines_.begin() + static_cast<std::ptrdiff_t>(close), [&](const Line& l) {
                         const auto* s = std::get_if<SetSymbol>(&l);
                         return s && std::ranges::find(symbols, s->symbol) != symbols.end();
                       });
  }

  struct Block {
    std::size_t parent, open, close, depth;
  };
  std::size_t meet(std::size_t a, std::size_t b) const {
    while (a != b) (all_[a].depth >= all_[b].depth ? a : b) = all_[all_[a].depth >= all_[b].depth ? a : b].parent;
    return a;
  }
  const std::vector<Line>& lines_;
  std::vector<std::size_t> of_;
  std::vector<Block> all_;
};

/// A dead operand of a call whose memory the output may take over: a temporary, or one of `inputs`.
std::optional<BufferId> dying_operand(const Program& p, const CallKernel& call, BufferId out, std::size_t at,
                                      const std::vector<Lifetime>& life, const std::set<BufferId>& inputs,
                                      const std::set<BufferId>& taken) {
  const auto has_memory = [&](BufferId b) { return p.buffers[b].kind == BufferKind::Temporary || inputs.contains(b); };
  for (auto [in, to] : call.in_place)
    if (to == out && has_memory(in) && !p.buffers[in].comm && !p.buffers[out].comm && life[in].last == at &&
        !taken.contains(in) && p.env->statically_known_equal(p.buffers[in].bytes, p.buffers[out].bytes))
      return in;
  return std::nullopt;
}

using Takeovers = std::vector<std::optional<BufferId>>;  ///< whose memory each buffer takes over, if any

/// Bytes of each buffer at sizes that a program may be called with.
using Sizes = std::vector<std::uint64_t>;

/// Bytes where some symbols are so many times their hints, as far as their ranges go; nothing where a size has no hint.
std::optional<Sizes> sizes_at(const Program& p, const Exprs& scaled, std::int64_t times) {
  const auto lookup = [&](Expr symbol) {
    const std::int64_t hint = p.env->hint_or(symbol, 0), most = p.env->range(symbol).high;
    if (std::ranges::find(scaled, symbol) == scaled.end()) return hint;
    return std::max(hint, hint > most / times ? most : hint * times);
  };
  Sizes found;
  for (const Buffer& b : p.buffers) {
    if (!p.env->hint(b.bytes)) return std::nullopt;
    try {
      found.push_back(static_cast<std::uint64_t>(std::max<std::int64_t>(0, sym::evaluate(b.bytes, lookup))));
    } catch (const Error&) {
      return std::nullopt;  // too large to be counted
    }
  }
  return found;
}

/// The sizes themselves where all are known; else those of the hints, and of larger ones together and one by one, so
/// that what is best for all of these is a good guess for others.
std::vector<Sizes> samples(const Program& p) {
  constexpr std::size_t kMostSymbols = 2;
  std::vector<Sizes> found;
  const auto add = [&](const Exprs& scaled, std::int64_t times) {
    if (std::optional<Sizes> sizes = sizes_at(p, scaled, times)) found.push_back(std::move(*sizes));
  };
  add({}, 1);
  if (found.empty()) return found;
  Exprs symbols;
  for (const Buffer& b : p.buffers)
    for (Expr symbol : sym::free_symbols(b.bytes))
      if (std::ranges::find(symbols, symbol) == symbols.end()) symbols.push_back(symbol);
  if (symbols.empty()) return found;
  add(symbols, 4);
  if (symbols.size() > 1 && symbols.size() <= kMostSymbols)
    for (Expr symbol : symbols) add({symbol}, 8);
  return found;
}

/// Blocks of memory, by their first owner, where each buffer takes over the memory of another, or has its own.
std::vector<runtime::Interval> blocks_of(const Program& p, const std::vector<Lifetime>& life, const Takeovers& from,
                                         const Sizes& sizes) {
  std::vector<runtime::Interval> intervals(p.buffers.size());
  std::vector<BufferId> owner(p.buffers.size());
  std::iota(owner.begin(), owner.end(), BufferId{0});
  // The buffer whose memory another takes over is born before that one.
  std::vector<BufferId> by_birth;
  for (BufferId b = 0; b < owner.size(); ++b)
    if (p.buffers[b].kind == BufferKind::Temporary && !p.buffers[b].comm && life[b].first != SIZE_MAX)
      by_birth.push_back(b);
  std::ranges::stable_sort(by_birth, {}, [&](BufferId b) { return life[b].first; });
  for (BufferId b : by_birth) {
    owner[b] = from[b] ? owner[*from[b]] : b;
    const auto first = static_cast<std::uint32_t>(life[b].first), last = static_cast<std::uint32_t>(life[b].last);
    runtime::Interval& i = intervals[owner[b]];
    if (owner[b] == b) i = {sizes[b], first, last};
    i.last = std::max(i.last, last);
  }
  return intervals;
}

/// Takes back takeovers that keep values out of the memory of results (runtime/plan/output_rooms.h): a block that many
/// buffers hold in turn is free in no step, and what holds it last could lie in a result that comes later. Each time
/// the one without which least is left in the arena, where that is less by more than the runtime asks for, and the
/// arena needs no more if nothing lies in results.
class Loosening {
 public:
  Loosening(const Program& p, const std::vector<Lifetime>& life, const std::vector<Sizes>& samples, Takeovers& from)
      : p_(p), life_(life), samples_(samples), from_(from) {
    for (const Sizes& sizes : samples) {
      std::vector<runtime::OutputRoom>& rooms = rooms_.emplace_back();
      for (BufferId b = 0; b < p.buffers.size(); ++b)
        if (p.buffers[b].kind == BufferKind::Output && life[b].first != SIZE_MAX)
          rooms.push_back({sizes[b], static_cast<std::uint32_t>(life[b].first)});
    }
  }

  void run() {
    constexpr int kMostTaken = 4;
    if (std::ranges::none_of(rooms_, [](const std::vector<runtime::OutputRoom>& rooms) {
          return std::ranges::any_of(rooms, [](const runtime::OutputRoom& room) { return room.bytes >= kLeast; });
        }))
      return;
    std::vector<Need> now = needs();
    const std::vector<Need> first = now;
    for (int k = 0; k < kMostTaken; ++k) {
      std::optional<BufferId> best;
      for (BufferId b : candidates()) {
        const std::optional<BufferId> old = std::exchange(from_[b], std::nullopt);
        if (std::vector<Need> without = needs(); is_better(without, now, first)) now = std::move(without), best = b;
        from_[b] = old;
      }
      if (!best) return;
      from_[*best].reset();
    }
  }

 private:
  static constexpr std::uint64_t kLeast = 1 << 16;  ///< bytes that are worth it
  struct Need {
    std::uint64_t arena, beside_results;
  };

  /// At each of the sizes.
  std::vector<Need> needs() const {
    std::vector<Need> found;
    for (std::size_t k = 0; k < samples_.size(); ++k) {
      const std::vector<runtime::Interval> blocks = blocks_of(p_, life_, from_, samples_[k]);
      const std::uint64_t arena = runtime::plan_arena(blocks, runtime::ArenaEffort::Call).peak;
      found.push_back({arena, runtime::plan_output_rooms(blocks, rooms_[k], arena).arena});
    }
    return found;
  }

  /// Less is left at one of the sizes by what is worth it, and at none more.
  static bool is_better(const std::vector<Need>& a, const std::vector<Need>& now, const std::vector<Need>& first) {
    bool gains = false;
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (a[k].arena > first[k].arena || a[k].beside_results > now[k].beside_results) return false;
      gains |= a[k].beside_results + kLeast <= now[k].beside_results;
    }
    return gains;
  }

  /// The last takeovers of blocks that are large at one of the sizes.
  std::vector<BufferId> candidates() const {
    // Each of them is planned for each of the sizes, which takes time in proportion to what there is to be placed.
    const std::size_t most = std::clamp<std::size_t>(64'000 / (from_.size() * samples_.size()), 4, 32);
    std::vector<BufferId> found;
    for (BufferId b = 0; b < from_.size(); ++b)
      if (from_[b] && std::ranges::any_of(samples_, [&](const Sizes& sizes) { return sizes[b] >= kLeast; }))
        found.push_back(b);
    std::ranges::stable_sort(found, std::greater<>(), [&](BufferId b) { return life_[b].first; });
    if (found.size() > most) found.resize(most);
    return found;
  }

  const Program& p_;
  const std::vector<Lifetime>& life_;
  const std::vector<Sizes>& samples_;
  Takeovers& from_;
  std::vector<std::vector<runtime::OutputRoom>> rooms_;
};

/// Whether all sizes have the smaller arena without takeovers.
bool is_smaller_without(const Program& p, const std::vector<Lifetime>& life, const std::vector<Sizes>& samples,
                        const Takeovers& from) {
  const Takeovers none(from.size());
  const bool only = samples.size() == 1;
  return std::ranges::all_of(samples, [&](const Sizes& sizes) {
    const runtime::ArenaEffort effort = only ? runtime::ArenaEffort::Compile : runtime::ArenaEffort::Call;
    const runtime::ArenaPlan with = runtime::plan_arena(blocks_of(p, life, from, sizes), effort);
    if (with.peak - with.least <= with.least / 256) return false;
    return runtime::plan_arena(blocks_of(p, life, none, sizes), effort).peak < with.peak;
  });
}

/// Two that are one block of memory leave the planner less choice of places: where the arena is smaller without, no
/// buffer takes over another's memory, or some do not.
Takeovers hand_overs(const Program& p, const std::vector<Lifetime>& life, const std::vector<std::set<BufferId>>& born,
                     const std::set<BufferId>& of_sides) {
  Takeovers from(p.buffers.size());
  const Takeovers none = from;
  const std::set<BufferId> inputs = inputs_to_take(p);
  for (std::size_t k = 0; k < p.lines.size(); ++k) {
    const auto* call = std::get_if<CallKernel>(&p.lines[k]);
    if (!call) continue;
    std::set<BufferId> taken;
    for (BufferId b : born[k]) {
      if (p.buffers[b].kind != BufferKind::Temporary || of_sides.contains(b)) continue;
      from[b] = dying_operand(p, *call, b, k, life, inputs, taken);
      if (from[b]) taken.insert(*from[b]);
    }
  }
  if (from == none) return from;
  const std::vector<Sizes> sizes = samples(p);
  if (sizes.empty()) return from;
  if (is_smaller_without(p, life, sizes, from)) return none;
  if (p.device.is_host() && p.others.empty()) Loosening(p, life, sizes, from).run();
  return from;
}

}  // namespace

void plan_lifetimes(Program& p) {
  std::erase_if(p.lines, [](const Line& l) {
    return std::holds_alternative<Allocate>(l) || std::holds_alternative<Reuse>(l) || std::holds_alternative<Free>(l) ||
           std::holds_alternative<AllocateComm>(l) || std::holds_alternative<FreeComm>(l);
  });
  std::vector<std::vector<std::size_t>> touches(p.buffers.size());
  for (std::size_t k = 0; k < p.lines.size(); ++k) {
    const Uses u = uses(p.lines[k]);
    for (const auto* side : {&u.reads, &u.writes})
      for (BufferId b : *side) touches[b].push_back(k);
  }
  const Blocks blocks(p.lines);
  std::set<BufferId> leaves;
  for (const Output& o : p.outputs)
    if (auto* v = std::get_if<View>(&o.value)) leaves.insert(v->buffer);
  std::vector<Lifetime> life(p.buffers.size());
  // Buffers that come to life before a line, or die after it, in order of their numbers.
  std::vector<std::set<BufferId>> born(p.lines.size()), dies(p.lines.size());
  std::set<BufferId> of_sides;  // made on both sides of a branch
  for (std::size_t b = 0; b < p.buffers.size(); ++b) {
    const BufferKind kind = p.buffers[b].kind;
    if (touches[b].empty()) continue;
    life[b] = blocks.around(touches[b], leaves.contains(static_cast<BufferId>(b)) || kind == BufferKind::Input);
    if (kind == BufferKind::Temporary || kind == BufferKind::Output) {
      // A communication buffer's place does not depend on what it needs in this run.
      const std::vector<std::size_t> births =
          p.buffers[b].comm ? std::vector{life[b].first} : blocks.births(life[b].first, touches[b], p.buffers[b].bytes);
      for (std::size_t k : births) born[k].insert(static_cast<BufferId>(b));
      if (births.size() > 1) of_sides.insert(static_cast<BufferId>(b));
    }
    if (kind == BufferKind::Temporary) dies[life[b].last].insert(static_cast<BufferId>(b));
  }
  for (const Output& o : p.outputs)
    if (auto* v = std::get_if<View>(&o.value)) life[v->buffer].last = p.lines.size();

  const Takeovers from = hand_overs(p, life, born, of_sides);
  std::vector<Line> lines;
  for (std::size_t k = 0; k < p.lines.size(); ++k) {
    for (BufferId b : born[k]) {
      if (from[b])
        lines.push_back(Reuse{*from[b], b});
      else if (p.buffers[b].comm)
        lines.push_back(AllocateComm{b});
      else
        lines.push_back(Allocate{b});
    }
    lines.push_back(std::move(p.lines[k]));
    for (BufferId b : dies[k]) lines.push_back(p.buffers[b].comm ? Line(FreeComm{b}) : Line(Free{b}));
  }
  p.lines = std::move(lines);
}

}  // namespace coil::wrapper
