// A checker of wrapper programs: what each line uses is there, and what is allocated is freed.
#include <algorithm>
#include <utility>

#include "library_ops/check.h"
#include "library_ops/collectives.h"
#include "library_ops/table.h"
#include "support/error.h"
#include "wrapper/comm_pools.h"
#include "wrapper/program.h"

namespace coil::wrapper {
namespace {

class Verifier {
 public:
  /// `complete`: symbols are defined and lifetimes planned.
  Verifier(const Program& p, bool complete)
      : p_(p), complete_(complete), state_(p.buffers.size(), State::Absent), defined_(p.kernels.size(), false) {
    for (std::size_t b = 0; b < p.buffers.size(); ++b)
      if (p.buffers[b].kind == BufferKind::Input || p.buffers[b].kind == BufferKind::Constant) state_[b] = State::Live;
  }

  void run() {
    for (const Line& l : p_.lines) {
      in_part(l);
      std::visit([this](const auto& line) { check(line); }, l);
      ++at_;
    }
    COIL_CHECK(open_.empty(), "a block is not closed");
    COIL_CHECK(!part_ && next_part_ == p_.parts.size(), "a part is not closed, or has no lines");
    nothing_pending("the program ends");
    for (const Output& o : p_.outputs) check(o);
    for (std::size_t b = 0; b < p_.buffers.size(); ++b)
      COIL_CHECK(p_.buffers[b].kind != BufferKind::Temporary || state_[b] != State::Live, "{} is never freed",
                 p_.buffers[b].name);
  }

 private:
  enum class State { Absent, Live, Dead };
  /// A collective that nothing has waited for yet.
  struct Exchange {
    std::size_t line, depth;
    View result, operand;
  };
  struct Block {
    std::vector<State> before;
    bool loop;
    std::set<BufferId> first_side = {};  ///< what the first side of a branch allocated and left to be used after it
  };

  void known(Expr e) const {
    if (!complete_) return;
    for (Expr s : sym::free_symbols(e))
      COIL_CHECK(symbols_.contains(s), "line {} uses symbol {} before it is defined", at_, s.name());
  }

  void live(BufferId b) const {
    if (!complete_) return;
    COIL_CHECK(state_[b] == State::Live, "line {} uses {}, which is {}", at_, p_.buffers[b].name,
               state_[b] == State::Dead ? "freed" : "not allocated");
  }

  void viewed(const View& v) const {
    live(v.buffer);
    for (const Exprs* list : {&v.sizes, &v.strides})
      for (Expr e : *list) known(e);
    known(v.offset);
  }

  void written(BufferId b) const {
    const Buffer& buffer = p_.buffers[b];
    COIL_CHECK(buffer.kind != BufferKind::Input || p_.inputs[buffer.index].mutated,
               "line {} writes to the input {}, which is not said to be written to", at_, buffer.name);
    COIL_CHECK(buffer.kind != BufferKind::Constant || p_.constants[buffer.index].state,
               "line {} writes to the constant {}", at_, buffer.name);
  }

  void allocated(BufferId b) {
    COIL_CHECK(state_[b] == State::Absent, "line {} allocates {} again", at_, p_.buffers[b].name);
    state_[b] = State::Live;
  }

  // ---- Exchanges between processes: until the wait nothing touches the result, and nothing writes to the operand ----

  /// Whether any of the views may have memory in common with another one.
  bool meets(const std::vector<View>& views, const View& other) const {
    return std::ranges::any_of(
        views, [&](const View& v) { return v.buffer == other.buffer && !lie_apart(*p_.env, v, other); });
  }

  /// Views that a line reads and writes.
  struct Touched {
    std::vector<View> reads, writes;
  };
  Touched all_of(const Uses& u) const {
    Touched out;
    for (BufferId b : u.reads) out.reads.push_back(whole(p_, b));
    for (BufferId b : u.writes) out.writes.push_back(whole(p_, b));
    return out;
  }

  void untouched(const Touched& t) const {
    for (const Exchange& e : exchanges_) {
      COIL_CHECK(!meets(t.reads, e.result) && !meets(t.writes, e.result),
                 "line {} uses {}, which the collective of line {} gives, before a wait", at_,
                 p_.buffers[e.result.buffer].name, e.line);
      COIL_CHECK(!meets(t.writes, e.operand),
                 "line {} writes to {}, which the collective of line {} reads, before a wait", at_,
                 p_.buffers[e.operand.buffer].name, e.line);
    }
  }

  /// Memory that is given back, or away.
  void released(BufferId b) const {
    for (const Exchange& e : exchanges_)
      COIL_CHECK(b != e.result.buffer && b != e.operand.buffer,
                 "line {} lets go of {} while the collective of line {} is on its way", at_, p_.buffers[b].name,
                 e.line);
  }

  /// Checks that no exchange of the innermost open block, or of the program, is still on its way.
  void nothing_pending(const char* what) const {
    for (const Exchange& e : exchanges_)
      COIL_CHECK(e.depth < open_.size(),
                 "{} at line {}, and nothing has waited for {}, which the collective of line {} gives", what, at_,
                 p_.buffers[e.result.buffer].name, e.line);
  }

  /// What is waited for: it begins where the result does.
  auto awaited(const View& v) {
    return std::ranges::find_if(exchanges_, [&](const Exchange& e) {
      return e.result.buffer == v.buffer && p_.env->statically_known_equal(e.result.offset, v.offset);
    });
  }

  void exchange(const CallExtern& c) {
    if (library_ops::has(c.op, library_ops::Trait::Wait)) {
      const View& waited = c.outputs.at(0);
      const auto found = awaited(waited);
      COIL_CHECK(found != exchanges_.end(), "line {} waits for {}, which no collective is about to give", at_,
                 p_.buffers[waited.buffer].name);
      COIL_CHECK(std::ranges::find(c.inputs, found->operand.buffer, &View::buffer) != c.inputs.end(),
                 "line {} does not keep {} alive, which the collective of line {} reads", at_,
                 p_.buffers[found->operand.buffer].name, found->line);
      exchanges_.erase(found);
      return;
    }
    untouched({c.inputs, c.outputs});
    if (!library_ops::has(c.op, library_ops::Trait::Collective)) return;
    for (std::size_t k = 0; k < c.outputs.size(); ++k) {
      const std::vector<View> before(c.outputs.begin(), c.outputs.begin() + static_cast<std::ptrdiff_t>(k));
      COIL_CHECK(!meets(before, c.outputs[k]), "line {} gives {} twice", at_, p_.buffers[c.outputs[k].buffer].name);
      exchanges_.push_back({at_, open_.size(), c.outputs[k], c.inputs.at(k)});
    }
  }

  void check(const DefineSymbol& d) {
    known(d.subtract), known(d.divide);
    symbols_.define(d.symbol);
  }

  void check(const Assert& a) { known(a.condition); }

  void check(const DefineKernel& d) {
    COIL_CHECK(!defined_.at(d.kernel), "line {} defines {} again", at_, p_.kernels[d.kernel].symbol);
    defined_[d.kernel] = true;
  }

  void check(const Allocate& a) {
    COIL_CHECK(!p_.buffers[a.buffer].comm, "line {} gives {}, which other ranks must reach, memory of its own", at_,
               p_.buffers[a.buffer].name);
    allocated(a.buffer);
    known(p_.buffers[a.buffer].bytes);
  }

  // ---- Communication buffers ----

  void check(const AllocateComm& a) {
    const Buffer& b = p_.buffers[a.buffer];
    COIL_CHECK(b.comm && b.kind == BufferKind::Temporary,
               "line {} allocates {} where other ranks reach it, which is no "
               "communication buffer",
               at_, b.name);
    allocated(a.buffer);
    if (!complete_) return;
    COIL_CHECK(a.offset >= 0 && a.offset % kCommAlignment == 0, "line {} gives {} no place", at_, b.name);
    const std::int64_t end = a.offset + comm_bytes(p_, a.buffer);
    for (auto it = comm_.begin(); it != comm_.end();) {
      const bool meets =
          a.buffer != it->buffer && *p_.buffers[it->buffer].comm == *b.comm && a.offset < it->end && it->begin < end;
      COIL_CHECK(!meets || state_[it->buffer] != State::Live, "line {} gives {} the place of {}, which lives", at_,
                 b.name, p_.buffers[it->buffer].name);
      COIL_CHECK(!meets || !it->read_by_host,
                 "line {} gives {} the place of {}, which the host's operator of line {} "
                 "may still be reading on another rank: a barrier is missing",
                 at_, b.name, p_.buffers[it->buffer].name, it->line);
      it = meets ? comm_.erase(it) : std::next(it);
    }
    comm_.push_back({a.buffer, a.offset, end, false, 0});
  }

  void check(const FreeComm& f) {
    COIL_CHECK(p_.buffers[f.buffer].comm, "line {} frees {}, which is no communication buffer", at_,
               p_.buffers[f.buffer].name);
    live(f.buffer);
    released(f.buffer);
    state_[f.buffer] = State::Dead;
  }

  /// What an exchange over shared memory takes lies there, and what it gives does not.
  void shared_exchange(const CallExtern& c) {
    namespace names = library_ops::collectives;
    if (!library_ops::has(c.op, library_ops::Trait::Exchange)) return;
    const bool is_barrier = library_ops::has(c.op, library_ops::Trait::Barrier);
    const Buffer& x = p_.buffers[c.inputs.at(0).buffer];
    COIL_CHECK(x.comm && x.comm->group == read(c.attributes, names::kGroup),
               "line {} exchanges {}, which is no communication buffer of process group '{}'", at_, x.name,
               read(c.attributes, names::kGroup));
    COIL_CHECK(is_barrier || library_ops::has(c.op, library_ops::Trait::PeerSum) ||
                   c.inputs[0].buffer != c.outputs.at(0).buffer,
               "line {} writes sums to {}, which other ranks read", at_, x.name);
    for (CommPlace& place : comm_)
      if (is_barrier && *p_.buffers[place.buffer].comm == *x.comm) place.read_by_host = false;
  }

  void read_by_host(const Uses& u) {
    for (const auto* side : {&u.reads, &u.writes})
      for (BufferId b : *side)
        for (CommPlace& place : comm_)
          if (place.buffer == b) place.read_by_host = true, place.line = at_;
  }

  /// What a call touches lies where it is carried out.
  void lies(BufferId b, std::size_t place) const {
    COIL_CHECK(p_.place_of(b) == place, "line {} is carried out on {}, but touches {}", at_,
               to_string(p_.device_of(place)), p_.buffers[b].name);
  }

  void check(const Reuse& r) {
    COIL_CHECK(p_.place_of(r.from) == p_.place_of(r.to), "line {} reuses memory of another device", at_);
    COIL_CHECK(!p_.buffers[r.from].comm && !p_.buffers[r.to].comm, "line {} hands a communication buffer's place on",
               at_);
    live(r.from);
    released(r.from);
    allocated(r.to);
    if (const Buffer& from = p_.buffers[r.from]; from.kind == BufferKind::Input) {
      COIL_CHECK(p_.inputs[from.index].goes && p_.inputs[from.index].goes->writable,
                 "line {} reuses the memory of {}, which the caller has not given", at_, from.name);
      handed_.push_back(r.from);
    }
    COIL_CHECK(p_.env->statically_known_equal(p_.buffers[r.from].bytes, p_.buffers[r.to].bytes),
               "line {} reuses memory of another size", at_);
  }

  void check(const Free& f) {
    live(f.buffer);
    released(f.buffer);
    state_[f.buffer] = State::Dead;
  }

  /// What a call of a kernel, or an alternative, runs over.
  template <class Call>
  void known_range(const Call& c) const {
    for (Expr e : c.scalars) known(e);
    known(c.extent);
    if (!c.launch) return;
    for (Expr e : c.launch->grid) known(e);
    known(c.launch->shared_bytes);
    for (const codegen::MappedTensor& m : c.launch->maps) known_map(m);
  }
  void known_map(const codegen::MappedTensor& m) const {
    COIL_CHECK(m.sizes.size() == m.map.box.size() && m.strides.size() == m.map.box.size(),
               "line {} describes a tensor of {} dimensions by tiles of {}", at_, m.sizes.size(), m.map.box.size());
    known(m.offset);
    for (const Exprs* list : {&m.sizes, &m.strides})
      for (Expr e : *list) known(e);
  }

  void check(const CallKernel& c) {
    COIL_CHECK(defined_.at(c.kernel), "line {} calls {} before it is defined", at_, p_.kernels[c.kernel].symbol);
    const std::size_t place = p_.kernels[c.kernel].place;
    const bool launched = !p_.device_of(place).is_host() || p_.kernels[c.kernel].triton;
    COIL_CHECK(c.launch.has_value() == launched, "line {} calls {} as another device does than {}", at_,
               p_.kernels[c.kernel].symbol, to_string(p_.device_of(place)));
    for (BufferId b : c.buffers) lies(b, place);
    for (BufferId b : c.buffers) live(b);
    untouched(all_of(uses(c)));
    for (std::size_t k = 0; k < c.buffers.size(); ++k)
      if (c.written[k]) written(c.buffers[k]);
    for (BufferId b : std::exchange(handed_, {})) state_[b] = State::Dead;
    known_range(c);
    for (std::size_t k = 0; c.launch && k < c.launch->maps.size(); ++k)
      COIL_CHECK(c.launch->maps[k].pointer < c.buffers.size(), "line {} describes a tensor in buffer {} of {}", at_,
                 c.launch->maps[k].pointer, c.buffers.size());
    if (c.when) known(*c.when);
    for (const KernelAlternative& a : c.alternatives) {
      known_range(a);
      known(a.when);
      COIL_CHECK(defined_.at(a.kernel), "line {} calls {} before it is defined", at_, p_.kernels[a.kernel].symbol);
      COIL_CHECK(a.launch.has_value() == c.launch.has_value() && p_.kernels[a.kernel].place == place,
                 "line {} calls {} as another device does than {}", at_, p_.kernels[a.kernel].symbol,
                 p_.kernels[c.kernel].symbol);
    }
  }

  void check(const CallExtern& c) {
    library_ops::check_call(c);
    if (!library_ops::has(c.op, library_ops::Trait::DeviceCopy))
      for (const auto* views : {&c.inputs, &c.outputs})
        for (const View& v : *views) lies(v.buffer, p_.place_of(c));
    for (const auto* views : {&c.inputs, &c.outputs})
      for (const View& v : *views) viewed(v);
    for (const View& v : c.outputs) written(v.buffer);
    exchange(c);
    shared_exchange(c);
  }

  void check(const CallFallback& c) {
    for (const View& v : c.inputs) viewed(v);
    for (const auto& v : c.outputs)
      if (v) viewed(*v), written(v->buffer);
    untouched(all_of(uses(c)));
    read_by_host(uses(c));
    for (const auto& a : c.arguments) ops::for_each_integer(a.value, [this](Expr e) { known(e); });
    COIL_CHECK(c.writes.size() <= c.outputs.size(), "line {} has no results for what {} writes to", at_, c.op);
    for (std::size_t k = 0; k < c.writes.size(); ++k) {
      const auto& to = c.outputs[own_results(c) + k];
      COIL_CHECK(c.writes[k] < c.inputs.size() && to && to->dtype == c.inputs[c.writes[k]].dtype &&
                     to->sizes.size() == c.inputs[c.writes[k]].sizes.size(),
                 "line {} writes to a copy that is none of operand %{}", at_, c.writes[k]);
    }
  }

  void check(const CallUserKernel& c) {
    for (std::size_t k = 0; k < c.tensors.size(); ++k) {
      viewed(c.tensors[k]);
      if (c.written[k]) written(c.tensors[k].buffer);
    }
    for (Expr e : c.numbers) known(e);
    for (Expr e : c.grid) known(e);
    COIL_CHECK(c.grid.size() == 3, "line {} has a grid of {} dimensions", at_, c.grid.size());
  }

  // ---- Parts: what they use is theirs or crosses their borders ----

  void check(const BeginPart& b) {
    COIL_CHECK(!part_ && b.part == next_part_ && b.part < p_.parts.size(), "line {} begins part {} out of order", at_,
               b.part);
    const Part& part = p_.parts[b.part];
    COIL_CHECK(part.written.size() == part.inputs.size(), "line {} does not say what part {} writes to", at_, b.part);
    for (BufferId id : part.inputs) live(id);
    for (Expr s : part.symbols) known(s);
    part_ = &part;
    part_depth_ = open_.size();
    made_.clear();
    ++next_part_;
  }

  void check(const EndPart& e) {
    COIL_CHECK(part_ && e.part + 1 == next_part_ && part_depth_ == open_.size(), "line {} ends no part", at_);
    for (BufferId id : part_->outputs)
      COIL_CHECK(made_.contains(id) && (!complete_ || state_[id] == State::Live),
                 "line {} ends a part that does not make {}", at_, p_.buffers[id].name);
    for (BufferId id : made_)
      COIL_CHECK(state_[id] != State::Live || std::ranges::find(part_->outputs, id) != part_->outputs.end(),
                 "line {} ends a part that does not give {}, which lives", at_, p_.buffers[id].name);
    part_ = nullptr;
  }

  void in_part(const Line& line) {
    if (!part_) return;
    COIL_CHECK(!std::holds_alternative<DefineSymbol>(line) && !std::holds_alternative<Assert>(line) &&
                   !std::holds_alternative<ReadSymbol>(line) && !std::holds_alternative<SetSymbol>(line) &&
                   !std::holds_alternative<CallFallback>(line),
               "line {} is the host's, in a part", at_);
    if (const auto* a = std::get_if<Allocate>(&line)) made_.insert(a->buffer);
    if (const auto* a = std::get_if<AllocateComm>(&line)) made_.insert(a->buffer);
    if (const auto* r = std::get_if<Reuse>(&line)) made_.insert(r->to);
    if (!complete_) return;
    const auto given = [&](BufferId id) {
      return made_.contains(id) || std::ranges::find(part_->inputs, id) != part_->inputs.end();
    };
    const Uses u = uses(line);
    for (BufferId id : u.reads)
      COIL_CHECK(given(id), "line {} uses {}, which its part is not given", at_, p_.buffers[id].name);
    for (BufferId id : u.writes) {
      COIL_CHECK(given(id), "line {} uses {}, which its part is not given", at_, p_.buffers[id].name);
      const auto input = std::ranges::find(part_->inputs, id);
      COIL_CHECK(
          input == part_->inputs.end() || part_->written[static_cast<std::size_t>(input - part_->inputs.begin())],
          "line {} writes to {}, which its part is said to read", at_, p_.buffers[id].name);
    }
    const auto* loop = std::get_if<Control>(&line);
    if (loop && loop->kind == Control::Kind::Loop) counters_.insert(loop->counter);
    for_each_expr(p_, line, [&](Expr e) {
      for (Expr s : sym::free_symbols(e))
        COIL_CHECK(counters_.contains(s) || std::ranges::find(part_->symbols, s) != part_->symbols.end(),
                   "line {} mentions {}, which its part is not given", at_, s.name());
    });
  }

  void check(const ReadSymbol& r) {
    live(r.source);
    untouched(all_of(uses(r)));
    symbols_.define(r.symbol);
  }

  void check(const SetSymbol& s) {
    known(s.value);
    symbols_.define(s.symbol);
  }

  void check(const Control& c) {
    using Kind = Control::Kind;
    known(c.condition), known(c.extent);
    if (c.closes() || c.kind == Kind::BreakUnless) nothing_pending("a block ends");
    if (c.closes()) close(c.kind);
    symbols_.border(c);
    COIL_CHECK(c.kind != Kind::BreakUnless || (!open_.empty() && open_.back().loop), "line {} leaves no loop", at_);
    if (c.kind == Kind::If || c.kind == Kind::Loop) open_.push_back({state_, c.kind == Kind::Loop});
  }

  /// What lives after a block is what lived before it, and what both sides of a branch allocated.
  void close(Control::Kind kind) {
    using Kind = Control::Kind;
    COIL_CHECK(!open_.empty() && open_.back().loop == (kind == Kind::EndLoop),
               "line {} closes a block that is not open", at_);
    const Block block = std::move(open_.back());
    open_.pop_back();
    std::set<BufferId> made;
    for (BufferId b = 0; b < state_.size(); ++b) {
      if ((state_[b] == State::Live) == (block.before[b] == State::Live)) continue;
      const bool other_side = kind == Kind::Else || block.first_side.contains(b);
      COIL_CHECK(!block.loop && state_[b] == State::Live && other_side,
                 "line {} leaves a block that does not give back {}", at_, p_.buffers[b].name);
      made.insert(b);
    }
    for (BufferId b : block.first_side)
      COIL_CHECK(made.contains(b), "line {} leaves a branch that allocates {} on its first side only", at_,
                 p_.buffers[b].name);
    if (kind != Kind::Else) return;
    for (BufferId b : made) state_[b] = State::Absent;
    open_.push_back({state_, false, std::move(made)});
  }

  void check(const Output& o) {
    if (auto* v = std::get_if<View>(&o.value)) {
      viewed(*v);
      COIL_CHECK(p_.buffers[v->buffer].kind != BufferKind::Temporary, "the output {} lies in the temporary {}", o.name,
                 p_.buffers[v->buffer].name);
    }
    if (auto* e = std::get_if<Expr>(&o.value)) known(*e);
  }

  /// Where a communication buffer lies, or lay last.
  struct CommPlace {
    BufferId buffer;
    std::int64_t begin, end;
    bool read_by_host;  ///< and no barrier since
    std::size_t line;   ///< of the host's call
  };
  std::vector<CommPlace> comm_;
  const Program& p_;
  const bool complete_;
  std::vector<State> state_;
  std::vector<BufferId> handed_;  ///< inputs whose memory is taken over, which the call that follows reads last
  ir::KnownSymbols symbols_;
  std::vector<Block> open_;
  std::vector<bool> defined_;
  std::vector<Exchange> exchanges_;
  const Part* part_ = nullptr;  ///< that is open
  std::size_t next_part_ = 0, part_depth_ = 0;
  std::set<BufferId> made_;            ///< in the open part
  std::unordered_set<Expr> counters_;  ///< of loops in parts
  std::size_t at_ = 0;
};

}  // namespace

void verify(const Program& p) { Verifier(p, true).run(); }
void verify_calls(const Program& p) { Verifier(p, false).run(); }

}  // namespace coil::wrapper
