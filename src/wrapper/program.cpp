#include "wrapper/program.h"

#include "support/error.h"
#include "sym/print.h"

namespace coil::wrapper {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

std::string list(const Exprs& values) {
  std::string out;
  for (Expr e : values) out += (out.empty() ? "" : ", ") + sym::to_string(e);
  return "[" + out + "]";
}

class Text {
 public:
  explicit Text(const Program& p) : p_(p) {}

  std::string print() {
    for (const Buffer& b : p_.buffers)
      out_ += fmt::format("buffer {} : {}{} {{{}}} {}\n", b.name, short_name(b.dtype), list(b.sizes), list(b.strides), kinds[static_cast<int>(b.kind)]);
    for (const Line& l : p_.lines) out_ += std::visit([&](const auto& x) { return line(x); }, l) + "\n";
    for (const Output& o : p_.outputs) {
      out_ += "output " + o.name + " = ";
      if (auto* v = std::get_if<View>(&o.value)) out_ += view(*v);
      else if (auto* e = std::get_if<Expr>(&o.value)) out_ += sym::to_string(*e);
      else out_ += fmt::format("{}", std::get<double>(o.value));
      out_ += "\n";
    }
    return std::move(out_);
  }

 private:
  static constexpr const char* kinds[] = {"input", "constant", "temporary", "output"};

  const std::string& name(BufferId b) const { return p_.buffers[b].name; }

  std::string view(const View& v) const {
    const Buffer& b = p_.buffers[v.buffer];
    std::string out = b.name;
    if (v.sizes != b.sizes || v.strides != b.strides || !v.offset.is_constant(0)) out += fmt::format(".as_strided({}, {}, {})", list(v.sizes), list(v.strides), sym::to_string(v.offset));
    return out;
  }
  std::string views(const std::vector<View>& all) const {
    std::string out;
    for (const View& v : all) out += (out.empty() ? "" : ", ") + view(v);
    return out;
  }

  std::string line(const DefineSymbol& d) const {
    static constexpr const char* from[] = {"size", "stride", "value"};
    std::string rhs = fmt::format("{}({}, {})", from[static_cast<int>(d.from)], p_.inputs[d.input].name, d.dim);
    if (!d.subtract.is_constant(0)) rhs = fmt::format("({} - ({}))", rhs, sym::to_string(d.subtract));
    if (!d.divide.is_constant(1)) rhs += fmt::format(" / ({})", sym::to_string(d.divide));
    return fmt::format("symbol {} = {}", sym::to_string(d.symbol), rhs);
  }
  std::string line(const Assert& a) const { return fmt::format("assert {}, \"{}\"", sym::to_string(a.condition), a.message); }
  std::string line(const DefineKernel& d) const { return fmt::format("kernel {}", p_.kernels[d.kernel].symbol); }
  std::string line(const Allocate& a) const { return "allocate " + name(a.buffer); }
  std::string line(const Reuse& r) const { return fmt::format("reuse {} as {}", name(r.from), name(r.to)); }
  std::string line(const Free& f) const { return "free " + name(f.buffer); }
  std::string line(const CallKernel& c) const {
    std::string args;
    for (std::size_t k = 0; k < c.buffers.size(); ++k) args += (k ? ", " : "") + std::string(c.written[k] ? "&" : "") + name(c.buffers[k]);
    if (c.launch) return fmt::format("launch {}({}; {}) on {} x {} threads, {} shared bytes", p_.kernels[c.kernel].symbol, args, list(c.scalars), list(c.launch->grid), c.launch->block, sym::to_string(c.launch->shared_bytes));
    return fmt::format("call {}({}; {}) over {} by {}", p_.kernels[c.kernel].symbol, args, list(c.scalars), sym::to_string(c.extent), c.grain);
  }
  std::string line(const CallExtern& c) const {
    std::string attributes;
    for (const auto& [key, value] : c.attributes)
      attributes += fmt::format(" {}={}", key, std::visit(Overloaded{[](std::int64_t v) { return std::to_string(v); }, [](double v) { return fmt::format("{}", v); },
                                                                      [](const std::string& v) { return v.size() > 40 ? "…" : "\"" + v + "\""; },
                                                                      [](const auto& v) { return fmt::format("[{}]", fmt::join(v, ", ")); }},
                                                           value));
    return fmt::format("extern {} = {}({}){}", views(c.outputs), c.op, views(c.inputs), attributes);
  }
  std::string line(const CallFallback& c) const {
    std::string out = "fallback ";
    for (std::size_t k = 0; k < c.outputs.size(); ++k) out += (k ? ", " : "") + (c.outputs[k] ? view(*c.outputs[k]) : "None");
    return out + fmt::format(" = {}({}){}", c.op, ops::to_string(c.arguments), c.inputs.empty() ? "" : " where " + numbered(c.inputs));
  }
  std::string numbered(const std::vector<View>& all) const {
    std::string out;
    for (std::size_t k = 0; k < all.size(); ++k) out += fmt::format("{}%{} = {}", k ? ", " : "", k, view(all[k]));
    return out;
  }

  const Program& p_;
  std::string out_;
};

}  // namespace

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
  }
  return u;
}

void verify(const Program& p) {
  enum class State { Absent, Live, Dead };
  std::vector<State> state(p.buffers.size(), State::Absent);
  for (std::size_t b = 0; b < p.buffers.size(); ++b)
    if (p.buffers[b].kind == BufferKind::Input || p.buffers[b].kind == BufferKind::Constant) state[b] = State::Live;
  std::set<std::string> symbols;
  std::size_t at = 0;
  auto known = [&](Expr e) {
    for (Expr s : sym::free_symbols(e)) COIL_CHECK(symbols.contains(std::string(s.name())), "line {} uses symbol {} before it is defined", at, s.name());
  };
  auto live = [&](BufferId b) { COIL_CHECK(state[b] == State::Live, "line {} uses {}, which is {}", at, p.buffers[b].name, state[b] == State::Dead ? "freed" : "not allocated"); };
  for (const Line& l : p.lines) {
    std::visit(Overloaded{[&](const DefineSymbol& d) {
                            known(d.subtract), known(d.divide);
                            symbols.emplace(d.symbol.name());
                          },
                          [&](const Assert& a) { known(a.condition); },
                          [&](const DefineKernel&) {},
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
                            for (BufferId b : c.buffers) live(b);
                            for (Expr e : c.scalars) known(e);
                            known(c.extent);
                            if (!c.launch) return;
                            for (Expr e : c.launch->grid) known(e);
                            known(c.launch->shared_bytes);
                          },
                          [&](const CallExtern& c) {
                            for (const auto* views : {&c.inputs, &c.outputs})
                              for (const View& v : *views) live(v.buffer);
                          },
                          [&](const CallFallback& c) {
                            for (const View& v : c.inputs) live(v.buffer);
                            for (const auto& v : c.outputs)
                              if (v) live(v->buffer);
                            for (const auto& a : c.arguments) ops::for_each_integer(a.value, known);
                          }},
               l);
    ++at;
  }
  for (const Output& o : p.outputs)
    if (auto* v = std::get_if<View>(&o.value)) live(v->buffer);
  for (std::size_t b = 0; b < p.buffers.size(); ++b)
    COIL_CHECK(p.buffers[b].kind != BufferKind::Temporary || state[b] != State::Live, "{} is never freed", p.buffers[b].name);
}

std::string to_string(const Program& p) { return Text(p).print(); }

}  // namespace coil::wrapper
