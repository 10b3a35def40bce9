#include "wrapper/text.h"

#include <algorithm>

#include "ir/text_parts.h"
#include "ops/call_argument.h"
#include "ops/value.h"
#include "support/error.h"
#include "sym/declarations.h"
#include "sym/print.h"

namespace coil::wrapper {
namespace {

class Text {
 public:
  Text(const Program& p, bool complete) : p_(p), complete_(complete) {}

  std::string print() {
    if (complete_) header();
    for (const Buffer& b : p_.buffers) buffer(b);
    std::size_t depth = 0;
    for (const Line& l : p_.lines) {
      auto* control = std::get_if<Control>(&l);
      if (((control && control->closes()) || std::holds_alternative<EndPart>(l)) && depth > 0) --depth;
      out_ += std::string(2 * depth, ' ') + std::visit([&](const auto& x) { return line(x); }, l) + "\n";
      if ((control && control->opens()) || std::holds_alternative<BeginPart>(l)) ++depth;
    }
    for (const Output& o : p_.outputs) output(o);
    if (complete_) {
      for (std::size_t k : kernels_as_defined()) kernel_text(p_.kernels[k]);
      for (const auto& [name, text] : p_.source)
        out_ += fmt::format("source {} = {}\n", ir::word_text(name), ops::quote(text));
    }
    return std::move(out_);
  }

 private:
  /// In the order in which lines define them, which is how a reader numbers them.
  std::vector<std::size_t> kernels_as_defined() const {
    std::vector<std::size_t> order;
    for (const Line& l : p_.lines)
      if (const auto* d = std::get_if<DefineKernel>(&l)) order.push_back(d->kernel);
    for (std::size_t k = 0; k < p_.kernels.size(); ++k)
      if (std::ranges::find(order, k) == order.end()) order.push_back(k);
    return order;
  }

  void header() {
    std::string devices = p_.device == Device{} ? "" : " on " + to_string(p_.device);
    for (Device d : p_.others) devices += " and " + to_string(d);
    out_ += fmt::format("wrapper {}({}){}{}:\n", ir::word_text(p_.name), sym::declarations(*p_.env), devices,
                        p_.check_lifetimes ? " watched" : "");
  }

  void buffer(const Buffer& b) {
    static constexpr const char* kinds[] = {"input", "constant", "temporary", "output"};
    out_ += fmt::format("buffer {} : {}{} {{{}}} {}", ir::word_text(b.name), short_name(b.dtype),
                        ir::list_text(b.sizes), ir::list_text(b.strides), kinds[static_cast<int>(b.kind)]);
    if (b.device != Device{}) out_ += " on " + to_string(b.device);
    if (b.comm) out_ += fmt::format(" comm {} {}", ir::to_string(b.comm->kind), ops::quote(b.comm->group));
    if (complete_) {
      if (b.kind == BufferKind::Input) {
        const Input& in = p_.inputs[b.index];
        out_ += fmt::format(" {}{}{}", ops::quote(in.name), in.mutated ? " mutated" : "", in.unused ? " unused" : "");
        if (in.goes) out_ += text_of(*in.goes);
        if (in.number) out_ += " number " + sym::to_string(*in.number);
      }
      if (b.kind == BufferKind::Constant && p_.constants[b.index].state)
        out_ += p_.constants[b.index].seed ? " seed" : " state";
      if (!(b.bytes == span_bytes(*p_.env, b.dtype, b.sizes, b.strides))) out_ += " bytes " + sym::to_string(b.bytes);
    }
    out_ += "\n";
  }

  void output(const Output& o) {
    out_ += "output " + (complete_ ? ops::quote(o.name) : o.name) + " = ";
    if (auto* v = std::get_if<View>(&o.value))
      out_ += view(*v);
    else if (auto* e = std::get_if<Expr>(&o.value))
      out_ += (!complete_ ? "" : o.is_bool ? "bool " : "int ") + sym::to_string(*e);
    else
      out_ += (complete_ ? "real " : "") + ops::to_string(std::get<double>(o.value));
    out_ += "\n";
  }

  void kernel_text(const KernelEntry& k) {
    out_ += "text " + k.symbol;
    if (k.parts) {
      out_ += fmt::format(" {} (", ops::quote(k.parts->qualifiers));
      for (const codegen::Parameter& p : k.parts->parameters)
        out_ += fmt::format("{}{} {}{}", &p == k.parts->parameters.data() ? "" : ", ", ops::quote(p.type),
                            p.restricted ? "restrict " : "", p.name);
      out_ += ")";
    }
    if (k.triton) triton_text(*k.triton);
    out_ += "\n";
    const std::string& lines = k.parts ? k.parts->body : k.triton ? k.triton->body : k.text;
    for (std::size_t at = 0; at < lines.size();) {
      const std::size_t end = std::min(lines.find('\n', at), lines.size());
      out_ += "| " + lines.substr(at, end - at) + "\n";
      at = end + 1;
    }
  }

  void triton_text(const codegen::TritonParts& t) {
    out_ += fmt::format(" triton {} warps (", t.warps);
    for (const auto& p : t.tensors)
      out_ += fmt::format("{}{} {}", &p == t.tensors.data() ? "" : ", ", ops::quote(p.type), p.name);
    out_ +=
        fmt::format(") {} [{}]{}", t.wide ? "wide" : "narrow", fmt::join(t.numbers, ", "), t.status ? " status" : "");
    for (const auto& [name, number] : t.constants) out_ += fmt::format(" {} = {}", name, number);
  }

  std::string name(BufferId b) const { return ir::word_text(p_.buffers[b].name); }

  std::string view(const View& v) const {
    const Buffer& b = p_.buffers[v.buffer];
    std::string out = ir::word_text(b.name);
    if (v.dtype != b.dtype) out += fmt::format(".view({})", short_name(v.dtype));
    if (v.sizes != b.sizes || v.strides != b.strides || !v.offset.is_constant(0))
      out += fmt::format(".as_strided({}, {}, {})", ir::list_text(v.sizes), ir::list_text(v.strides),
                         sym::to_string(v.offset));
    return out;
  }
  std::string views(const std::vector<View>& all) const {
    std::string out;
    for (const View& v : all) out += (out.empty() ? "" : ", ") + view(v);
    return out;
  }
  template <class Call>
  std::string origins(const Call& call) const {
    if (!complete_) return "";
    std::string out, nodes;
    for (const std::string& o : call.origins) out += (out.empty() ? " from " : ", ") + ir::word_text(o);
    if (call.nodes != call.origins)
      for (const std::string& n : call.nodes) nodes += (nodes.empty() ? " as " : ", ") + ir::word_text(n);
    out += nodes;
    const std::string& where = call.where;
    return where.empty() ? out : out + " at " + ops::quote(where);
  }

  std::string fails(const std::string& failure) const {
    return complete_ && !failure.empty() ? " fails " + ops::quote(failure) : "";
  }

  std::string line(const DefineSymbol& d) const {
    static constexpr const char* from[] = {"size", "stride", "value"};
    std::string rhs = fmt::format("{}({}, {})", from[static_cast<int>(d.from)], name(p_.inputs[d.input].buffer), d.dim);
    if (!d.subtract.is_constant(0)) rhs = fmt::format("({} - ({}))", rhs, sym::to_string(d.subtract));
    if (!d.divide.is_constant(1)) rhs += fmt::format(" / ({})", sym::to_string(d.divide));
    return fmt::format("symbol {} = {}", sym::to_string(d.symbol), rhs);
  }
  std::string line(const Assert& a) const {
    return fmt::format("assert {}, {}", sym::to_string(a.condition), ops::quote(a.message));
  }
  std::string line(const DefineKernel& d) const {
    const KernelEntry& k = p_.kernels[d.kernel];
    return fmt::format("kernel {}{}", k.symbol, k.place == 0 ? "" : " on " + to_string(p_.device_of(k.place)));
  }
  std::string line(const Allocate& a) const { return "allocate " + name(a.buffer); }
  std::string line(const Reuse& r) const { return fmt::format("reuse {} as {}", name(r.from), name(r.to)); }
  std::string line(const AllocateComm& a) const {
    return "comm allocate " + name(a.buffer) + (a.offset < 0 ? "" : fmt::format(" at {}", a.offset));
  }
  std::string line(const FreeComm& f) const { return "comm free " + name(f.buffer); }
  std::string line(const Free& f) const { return "free " + name(f.buffer); }
  std::string line(const ReadSymbol& r) const {
    return fmt::format("symbol {} = read({})", sym::to_string(r.symbol), name(r.source));
  }
  std::string line(const SetSymbol& s) const {
    return fmt::format("symbol {} = number({})", sym::to_string(s.symbol), sym::to_string(s.value));
  }
  std::string line(const Control& c) const { return ir::control_text(c); }
  std::string line(const BeginPart& b) const {
    const Part& part = p_.parts[b.part];
    std::string inputs, outputs, symbols;
    for (std::size_t k = 0; k < part.inputs.size(); ++k)
      inputs += (k ? ", " : "") + std::string(part.written[k] ? "&" : "") + name(part.inputs[k]);
    for (Expr s : part.symbols) symbols += (symbols.empty() ? " " : ", ") + sym::to_string(s);
    for (BufferId id : part.outputs) outputs += (outputs.empty() ? " -> " : ", ") + name(id);
    return fmt::format("part {}({};{}){}:", b.part, inputs, symbols, outputs);
  }
  std::string line(const EndPart&) const { return "end part"; }
  /// What a call of a kernel, or an alternative, runs over.
  template <class Call>
  static std::string range(const Call& c) {
    if (!c.launch) return fmt::format("over {} by {}", sym::to_string(c.extent), c.grain);
    std::string out = fmt::format("on {} x {} threads, {} shared bytes", ir::list_text(c.launch->grid), c.launch->block,
                                  sym::to_string(c.launch->shared_bytes));
    for (const codegen::MappedTensor& m : c.launch->maps) out += map_text(m);
    return out;
  }
  std::string line(const CallKernel& c) const {
    std::string args;
    for (std::size_t k = 0; k < c.buffers.size(); ++k)
      args += (k ? ", " : "") + std::string(c.written[k] ? "&" : "") + name(c.buffers[k]);
    std::string out = fmt::format("{} {}({}; {}) {}", c.launch ? "launch" : "call", p_.kernels[c.kernel].symbol, args,
                                  ir::list_text(c.scalars), range(c));
    out += fails(c.failure);
    if (complete_)
      for (std::size_t k = 0; k < c.in_place.size(); ++k)
        out +=
            fmt::format("{}{} -> {}", k ? ", " : " in place ", name(c.in_place[k].first), name(c.in_place[k].second));
    if (complete_ && c.copies) out += fmt::format(" copies {} -> {}", name(c.copies->first), name(c.copies->second));
    if (c.when) out += " when " + ir::list_text({*c.when});
    for (const KernelAlternative& a : c.alternatives)
      out += fmt::format(" or {}({}) {} when {}", p_.kernels[a.kernel].symbol, ir::list_text(a.scalars), range(a),
                         ir::list_text({a.when}));
    return out + origins(c);
  }
  static std::string map_text(const codegen::MappedTensor& m) {
    return fmt::format(" map {} ({}; {}; {}) by [{}] of {} swizzled {}", m.pointer, sym::to_string(m.offset),
                       ir::list_text(m.sizes), ir::list_text(m.strides), fmt::join(m.map.box, ", "), m.map.element,
                       m.map.swizzle);
  }
  std::string line(const CallExtern& c) const {
    std::string attributes;
    for (const auto& [key, v] : c.attributes) {
      std::string text = ir::attribute_text(v);
      if (!complete_ && text.size() > 60 && std::holds_alternative<std::string>(v)) text = "…";
      attributes += fmt::format(" {}={}", key, text);
    }
    return fmt::format("extern {} = {}({}){}{}", views(c.outputs), c.op, views(c.inputs), attributes, origins(c));
  }

  std::string line(const CallFallback& c) const {
    std::string out = c.is_list ? "fallback [" : "fallback ";
    for (std::size_t k = 0; k < c.outputs.size(); ++k)
      out += (k ? ", " : "") + (c.outputs[k] ? view(*c.outputs[k]) : "None");
    if (c.is_list) out += "]";
    std::string operands;
    for (std::size_t k = 0; k < c.inputs.size(); ++k)
      operands += fmt::format("{}%{} = {}", k ? ", " : " where ", k, view(c.inputs[k]));
    return out + fmt::format(" = {}({}){}{}{}", c.op, ops::to_string(c.arguments), ir::writes_text(c.writes), operands,
                             origins(c));
  }

  std::string line(const CallUserKernel& c) const {
    std::string tensors;
    for (std::size_t k = 0; k < c.tensors.size(); ++k)
      tensors += (k ? ", " : "") + std::string(c.written[k] ? "&" : "") + view(c.tensors[k]);
    return fmt::format("user_kernel {}({}; {}) on {}{}{}", c.kernel->symbol, tensors, ir::list_text(c.numbers),
                       ir::list_text(c.grid), fails(c.failure), origins(c));
  }

  const Program& p_;
  const bool complete_;
  std::string out_;
};

}  // namespace

std::string to_text(const Program& p) { return Text(p, true).print(); }
std::string to_string(const Program& p) { return Text(p, false).print(); }

}  // namespace coil::wrapper
