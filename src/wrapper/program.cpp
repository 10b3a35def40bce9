#include "wrapper/program.h"

#include <algorithm>

#include "support/error.h"
#include "support/overloaded.h"

namespace coil::wrapper {

Expr span_bytes(const sym::ShapeEnv& env, DType dtype, const Exprs& sizes, const Exprs& strides) {
  Expr last = 0, empty = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    last += (sizes[d] - 1) * strides[d];
    if (!env.statically_known_lt(0, sizes[d])) empty = sym::logical_or(empty, sym::eq(sizes[d], 0));
  }
  return env.simplify(sym::where(empty, 0, (last + 1) * static_cast<std::int64_t>(size_of(dtype))));
}

Uses uses(const Line& line) {
  Uses u;
  if (auto* k = std::get_if<CallKernel>(&line)) {
    for (std::size_t i = 0; i < k->buffers.size(); ++i) (k->written[i] ? u.writes : u.reads).push_back(k->buffers[i]);
  } else if (auto* e = std::get_if<CallExtern>(&line)) {
    for (const View& v : e->inputs) u.reads.push_back(v.buffer);
    for (const View& v : e->outputs) u.writes.push_back(v.buffer);
  } else if (auto* f = std::get_if<CallFallback>(&line)) {
    for (const View& v : f->inputs) u.reads.push_back(v.buffer);
    for (const auto& v : f->outputs)
      if (v) u.writes.push_back(v->buffer);
  } else if (auto* r = std::get_if<ReadSymbol>(&line)) {
    u.reads.push_back(r->source);
  }
  return u;
}

void drop_calls(Program& p, const std::set<std::size_t>& gone) {
  if (gone.empty()) return;
  std::vector<Line> lines;
  std::vector<Kernel> kernels;
  std::map<std::size_t, std::size_t> renumbered;
  for (std::size_t i = 0; i < p.lines.size(); ++i) {
    if (gone.contains(i) || std::holds_alternative<DefineKernel>(p.lines[i])) continue;
    if (auto* call = std::get_if<CallKernel>(&p.lines[i])) {
      auto [it, added] = renumbered.emplace(call->kernel, kernels.size());
      if (added) {
        kernels.push_back(std::move(p.kernels[call->kernel]));
        lines.push_back(DefineKernel{it->second});
      }
      call->kernel = it->second;
    }
    lines.push_back(std::move(p.lines[i]));
  }
  p.lines = std::move(lines);
  p.kernels = std::move(kernels);
}

Exprs runtime_symbols(const Program& p) {
  Exprs found;
  auto define = [&](Expr symbol) {
    std::erase(found, symbol);
    found.push_back(symbol);
  };
  for (const Line& l : p.lines) {
    if (auto* r = std::get_if<ReadSymbol>(&l)) define(r->symbol);
    if (auto* s = std::get_if<SetSymbol>(&l)) define(s->symbol);
    if (auto* c = std::get_if<Control>(&l); c && c->kind == Control::Kind::Loop) define(c->counter);
  }
  return found;
}

std::map<std::size_t, Joined> joined_values(const Program& p) {
  struct Block {
    std::size_t open;
    Joined made, first_side;  ///< in it, or its first side
  };
  std::map<std::size_t, Joined> result;
  std::vector<Block> blocks{{}};
  for (std::size_t k = 0; k < p.lines.size(); ++k) {
    Joined& here = blocks.back().made;
    if (auto* s = std::get_if<SetSymbol>(&p.lines[k])) here.symbols.push_back(s->symbol);
    if (auto* a = std::get_if<Allocate>(&p.lines[k])) here.buffers.push_back(a->buffer);
    if (auto* f = std::get_if<Free>(&p.lines[k])) std::erase(here.buffers, f->buffer);
    auto* c = std::get_if<Control>(&p.lines[k]);
    if (!c) continue;
    Block closed{k, {}, {}};
    if (c->closes()) {
      closed = std::move(blocks.back());
      blocks.pop_back();
    }
    if (c->kind == Control::Kind::Else) blocks.push_back({closed.open, {}, std::move(closed.made)});
    else if (c->opens()) blocks.push_back({k, {}, {}});
    if (c->kind != Control::Kind::EndIf) continue;
    Joined both;
    for (Expr s : closed.made.symbols)
      if (std::ranges::find(closed.first_side.symbols, s) != closed.first_side.symbols.end()) both.symbols.push_back(s);
    for (BufferId b : closed.made.buffers)
      if (std::ranges::find(closed.first_side.buffers, b) != closed.first_side.buffers.end()) both.buffers.push_back(b);
    if (both.symbols.empty() && both.buffers.empty()) continue;
    Joined& around = blocks.back().made;
    around.symbols.insert(around.symbols.end(), both.symbols.begin(), both.symbols.end());
    around.buffers.insert(around.buffers.end(), both.buffers.begin(), both.buffers.end());
    result.emplace(closed.open, std::move(both));
  }
  return result;
}

void verify(const Program& p) {
  enum class State { Absent, Live, Dead };
  std::vector<State> state(p.buffers.size(), State::Absent);
  for (std::size_t b = 0; b < p.buffers.size(); ++b)
    if (p.buffers[b].kind == BufferKind::Input || p.buffers[b].kind == BufferKind::Constant) state[b] = State::Live;
  ir::KnownSymbols symbols;
  struct Block {
    std::vector<State> before;
    bool loop;
    std::set<BufferId> first_side = {};  ///< what the first side of a branch allocated and left to be used after it
  };
  std::vector<Block> open;
  std::size_t at = 0;
  auto known = [&](Expr e) {
    for (Expr s : sym::free_symbols(e)) COIL_CHECK(symbols.contains(s), "line {} uses symbol {} before it is defined", at, s.name());
  };
  auto view = [&](const View& v) {
    for (const Exprs* list : {&v.sizes, &v.strides})
      for (Expr e : *list) known(e);
    known(v.offset);
  };
  std::vector<bool> defined(p.kernels.size(), false);
  auto written = [&](BufferId b) {
    const Buffer& buffer = p.buffers[b];
    COIL_CHECK(buffer.kind != BufferKind::Input || p.inputs[buffer.index].mutated, "line {} writes to the input {}, which is not said to be written to", at, buffer.name);
    COIL_CHECK(buffer.kind != BufferKind::Constant || p.constants[buffer.index].state, "line {} writes to the constant {}", at, buffer.name);
  };
  auto live = [&](BufferId b) { COIL_CHECK(state[b] == State::Live, "line {} uses {}, which is {}", at, p.buffers[b].name, state[b] == State::Dead ? "freed" : "not allocated"); };
  for (const Line& l : p.lines) {
    std::visit(Overloaded{[&](const DefineSymbol& d) {
                            known(d.subtract), known(d.divide);
                            symbols.define(d.symbol);
                          },
                          [&](const Assert& a) { known(a.condition); },
                          [&](const DefineKernel& d) {
                            COIL_CHECK(!defined.at(d.kernel), "line {} defines {} again", at, p.kernels[d.kernel].symbol);
                            defined[d.kernel] = true;
                          },
                          [&](const Allocate& a) {
                            COIL_CHECK(state[a.buffer] == State::Absent, "line {} allocates {} again", at, p.buffers[a.buffer].name);
                            known(p.buffers[a.buffer].bytes);
                            state[a.buffer] = State::Live;
                          },
                          [&](const Reuse& r) {
                            live(r.from);
                            COIL_CHECK(state[r.to] == State::Absent, "line {} allocates {} again", at, p.buffers[r.to].name);
                            COIL_CHECK(p.env->statically_known_equal(p.buffers[r.from].bytes, p.buffers[r.to].bytes), "line {} reuses memory of another size", at);
                            state[r.to] = State::Live;
                          },
                          [&](const Free& f) {
                            live(f.buffer);
                            state[f.buffer] = State::Dead;
                          },
                          [&](const CallKernel& c) {
                            COIL_CHECK(defined.at(c.kernel), "line {} calls {} before it is defined", at, p.kernels[c.kernel].symbol);
                            COIL_CHECK(c.launch.has_value() == (p.device.type != DeviceType::CPU), "line {} calls {} as another device does than {}", at, p.kernels[c.kernel].symbol, to_string(p.device));
                            for (BufferId b : c.buffers) live(b);
                            for (std::size_t k = 0; k < c.buffers.size(); ++k)
                              if (c.written[k]) written(c.buffers[k]);
                            for (Expr e : c.scalars) known(e);
                            known(c.extent);
                            if (!c.launch) return;
                            for (Expr e : c.launch->grid) known(e);
                            known(c.launch->shared_bytes);
                          },
                          [&](const CallExtern& c) {
                            for (const auto* views : {&c.inputs, &c.outputs})
                              for (const View& v : *views) live(v.buffer), view(v);
                            for (const View& v : c.outputs) written(v.buffer);
                          },
                          [&](const CallFallback& c) {
                            for (const View& v : c.inputs) live(v.buffer), view(v);
                            for (const auto& v : c.outputs)
                              if (v) live(v->buffer), view(*v), written(v->buffer);
                            for (const auto& a : c.arguments) ops::for_each_integer(a.value, known);
                            COIL_CHECK(c.writes.size() <= c.outputs.size(), "line {} has no results for what {} writes to", at, c.op);
                            for (std::size_t k = 0; k < c.writes.size(); ++k) {
                              const auto& to = c.outputs[own_results(c) + k];
                              COIL_CHECK(c.writes[k] < c.inputs.size() && to && to->dtype == c.inputs[c.writes[k]].dtype && to->sizes.size() == c.inputs[c.writes[k]].sizes.size(), "line {} writes to a copy that is none of operand %{}", at, c.writes[k]);
                            }
                          },
                          [&](const ReadSymbol& r) {
                            live(r.source);
                            symbols.define(r.symbol);
                          },
                          [&](const SetSymbol& s) {
                            known(s.value);
                            symbols.define(s.symbol);
                          },
                          [&](const Control& c) {
                            known(c.condition), known(c.extent);
                            if (c.closes()) {
                              COIL_CHECK(!open.empty() && open.back().loop == (c.kind == Control::Kind::EndLoop), "line {} closes a block that is not open", at);
                              std::set<BufferId> made;
                              for (std::size_t b = 0; b < state.size(); ++b) {
                                if ((state[b] == State::Live) == (open.back().before[b] == State::Live)) continue;
                                const bool other_side = c.kind == Control::Kind::Else || open.back().first_side.contains(static_cast<BufferId>(b));
                                COIL_CHECK(!open.back().loop && state[b] == State::Live && other_side, "line {} leaves a block that does not give back {}", at, p.buffers[b].name);
                                made.insert(static_cast<BufferId>(b));
                              }
                              const std::set<BufferId> first_side = std::move(open.back().first_side);
                              for (BufferId b : first_side) COIL_CHECK(made.contains(b), "line {} leaves a branch that allocates {} on its first side only", at, p.buffers[b].name);
                              open.pop_back();
                              if (c.kind == Control::Kind::Else) {
                                for (BufferId b : made) state[b] = State::Absent;
                                open.push_back({state, false, std::move(made)});
                              }
                            }
                            symbols.border(c);
                            COIL_CHECK(c.kind != Control::Kind::BreakUnless || (!open.empty() && open.back().loop), "line {} leaves no loop", at);
                            if (c.kind == Control::Kind::If || c.kind == Control::Kind::Loop) open.push_back({state, c.kind == Control::Kind::Loop});
                          }},
               l);
    ++at;
  }
  COIL_CHECK(open.empty(), "a block is not closed");
  for (const Output& o : p.outputs) {
    if (auto* v = std::get_if<View>(&o.value)) {
      live(v->buffer), view(*v);
      COIL_CHECK(p.buffers[v->buffer].kind != BufferKind::Temporary, "the output {} lies in the temporary {}", o.name, p.buffers[v->buffer].name);
    }
    if (auto* e = std::get_if<Expr>(&o.value)) known(*e);
  }
  for (std::size_t b = 0; b < p.buffers.size(); ++b)
    COIL_CHECK(p.buffers[b].kind != BufferKind::Temporary || state[b] != State::Live, "{} is never freed", p.buffers[b].name);
}

}  // namespace coil::wrapper
