#include "wrapper/program.h"

#include <algorithm>

#include "library_ops/table.h"
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

bool lie_apart(const sym::ShapeEnv& env, const View& a, const View& b) {
  const auto begin = [](const View& v) { return v.offset * static_cast<std::int64_t>(size_of(v.dtype)); };
  const auto end = [&](const View& v) { return begin(v) + span_bytes(env, v.dtype, v.sizes, v.strides); };
  return env.statically_known_le(end(a), begin(b)) || env.statically_known_le(end(b), begin(a));
}

std::size_t Program::place_of(Device d) const {
  const auto found = std::ranges::find(others, d);
  return found == others.end() ? 0 : static_cast<std::size_t>(found - others.begin()) + 1;
}

std::size_t Program::place_of(const CallExtern& c) const {
  const std::vector<View>& views = c.outputs.empty() ? c.inputs : c.outputs;
  return views.empty() ? 0 : place_of(views.front().buffer);
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
  } else if (auto* k = std::get_if<CallUserKernel>(&line)) {
    for (std::size_t i = 0; i < k->tensors.size(); ++i)
      (k->written[i] ? u.writes : u.reads).push_back(k->tensors[i].buffer);
    std::erase_if(u.reads, [&](BufferId b) { return std::ranges::find(u.writes, b) != u.writes.end(); });
  } else if (auto* r = std::get_if<ReadSymbol>(&line)) {
    u.reads.push_back(r->source);
  }
  return u;
}

namespace {

void expressions_of(const View& v, const std::function<void(Expr)>& f) {
  for (const Exprs* list : {&v.sizes, &v.strides}) std::ranges::for_each(*list, f);
  f(v.offset);
}

void expressions_of(const Program& p, BufferId id, const std::function<void(Expr)>& f) {
  const Buffer& b = p.buffers[id];
  for (const Exprs* list : {&b.sizes, &b.strides}) std::ranges::for_each(*list, f);
  f(b.bytes);
}

/// Calls `f` with the expressions of a kernel's call, or of an alternative's.
template <class Call>
void expressions_of_range(const Call& c, const std::function<void(Expr)>& f) {
  std::ranges::for_each(c.scalars, f);
  f(c.extent);
  if (!c.launch) return;
  std::ranges::for_each(c.launch->grid, f);
  f(c.launch->shared_bytes);
  for (const codegen::MappedTensor& m : c.launch->maps) {
    f(m.offset);
    for (const Exprs* list : {&m.sizes, &m.strides}) std::ranges::for_each(*list, f);
  }
}

void expressions_of(const CallFallback& call, const std::function<void(Expr)>& f) {
  for (const View& v : call.inputs) expressions_of(v, f);
  for (const auto& v : call.outputs)
    if (v) expressions_of(*v, f);
  for (const auto& a : call.arguments) ops::for_each_integer(a.value, f);
}

}  // namespace

void for_each_expr(const Program& p, const Line& line, const std::function<void(Expr)>& f) {
  const auto all = [&](const Exprs& list) { std::ranges::for_each(list, f); };
  const auto views = [&](const std::vector<View>& list) {
    for (const View& v : list) expressions_of(v, f);
  };
  std::visit(
      Overloaded{[&](const DefineSymbol& d) { all({d.subtract, d.divide}); }, [&](const Assert& a) { f(a.condition); },
                 [&](const Allocate& a) { expressions_of(p, a.buffer, f); },
                 [&](const AllocateComm& a) { expressions_of(p, a.buffer, f); },
                 [&](const Reuse& r) { expressions_of(p, r.to, f); },
                 [&](const CallKernel& c) {
                   expressions_of_range(c, f);
                   if (c.when) f(*c.when);
                   for (const KernelAlternative& a : c.alternatives) f(a.when), expressions_of_range(a, f);
                 },
                 [&](const CallExtern& c) { views(c.inputs), views(c.outputs); },
                 [&](const CallFallback& c) { expressions_of(c, f); },
                 [&](const CallUserKernel& c) { views(c.tensors), all(c.numbers), all(c.grid); },
                 [&](const SetSymbol& s) { f(s.value); }, [&](const Control& c) { f(c.condition), f(c.extent); },
                 [](const auto&) {}},
      line);
}

void rename_buffers(Line& line, const std::vector<BufferId>& names) {
  auto view = [&](View& v) { v.buffer = names[v.buffer]; };
  if (auto* call = std::get_if<CallKernel>(&line)) {
    for (BufferId& b : call->buffers) b = names[b];
    for (auto& [from, to] : call->in_place) from = names[from], to = names[to];
    std::erase_if(call->in_place, [](const auto& pair) { return pair.first == pair.second; });
    if (call->copies) call->copies = {names[call->copies->first], names[call->copies->second]};
  } else if (auto* library = std::get_if<CallExtern>(&line)) {
    for (auto* views : {&library->inputs, &library->outputs}) std::ranges::for_each(*views, view);
  } else if (auto* host = std::get_if<CallFallback>(&line)) {
    std::ranges::for_each(host->inputs, view);
    for (auto& v : host->outputs)
      if (v) view(*v);
  } else if (auto* user = std::get_if<CallUserKernel>(&line)) {
    std::ranges::for_each(user->tensors, view);
  } else if (auto* read = std::get_if<ReadSymbol>(&line)) {
    read->source = names[read->source];
  }
}

void drop_calls(Program& p, const std::set<std::size_t>& gone) {
  if (gone.empty()) return;
  std::vector<Line> lines;
  std::vector<KernelEntry> kernels;
  std::map<std::size_t, std::size_t> renumbered;
  for (std::size_t i = 0; i < p.lines.size(); ++i) {
    if (gone.contains(i) || std::holds_alternative<DefineKernel>(p.lines[i])) continue;
    if (auto* call = std::get_if<CallKernel>(&p.lines[i]))
      for_each_kernel(*call, [&](std::size_t& kernel) {
        auto [it, added] = renumbered.emplace(kernel, kernels.size());
        if (added) {
          kernels.push_back(std::move(p.kernels[kernel]));
          lines.push_back(DefineKernel{it->second});
        }
        kernel = it->second;
      });
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

std::set<BufferId> inputs_to_take(const Program& p) {
  if (p.check_lifetimes) return {};  // inputs are what they were at the end of such a run
  std::map<std::uint32_t, std::size_t> views;
  for (const Input& in : p.inputs)
    if (in.goes) ++views[in.goes->number];
  std::set<BufferId> found;
  for (const Input& in : p.inputs) {
    if (!in.goes || !in.goes->writable || in.mutated || views[in.goes->number] != 1) continue;
    const std::int64_t bytes = p.env->hint_or(p.buffers[in.buffer].bytes, 0);
    if (in.goes->bytes == 0 || static_cast<std::uint64_t>(bytes) == in.goes->bytes) found.insert(in.buffer);
  }
  for (const Output& o : p.outputs)
    if (auto* v = std::get_if<View>(&o.value)) found.erase(v->buffer);
  return found;
}

bool is_exchange(const CallExtern& c) {
  return library_ops::has(c.op, library_ops::Trait::Collective) || library_ops::has(c.op, library_ops::Trait::Exchange);
}

bool exchanges(const Program& p) {
  return std::ranges::any_of(p.lines, [](const Line& l) {
    const auto* c = std::get_if<CallExtern>(&l);
    return c && is_exchange(*c);
  });
}

std::vector<std::shared_ptr<const ops::UserKernel>> user_kernels(const Program& p) {
  std::vector<std::shared_ptr<const ops::UserKernel>> found;
  std::set<std::string> symbols;
  for (const Line& l : p.lines)
    if (auto* call = std::get_if<CallUserKernel>(&l); call && symbols.insert(call->kernel->symbol).second)
      found.push_back(call->kernel);
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
    if (c->kind == Control::Kind::Else)
      blocks.push_back({closed.open, {}, std::move(closed.made)});
    else if (c->opens())
      blocks.push_back({k, {}, {}});
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

}  // namespace coil::wrapper
