#include "ir/text.h"

#include "ir/names.h"
#include "ir/scalar_text.h"
#include "support/overloaded.h"
#include "sym/declarations.h"
#include "sym/print.h"

namespace coil::ir {
namespace {

std::string loops(char letter, const Exprs& sizes) {
  std::string text;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    text += fmt::format("{}{}{} < {}", d ? ", " : "", letter, d, sym::to_string(sizes[d]));
  return text;
}

template <class Views>
std::string views(const Views& all) {
  std::string text;
  for (const auto& v : all) {
    text += text.empty() ? "" : ", ";
    if constexpr (std::is_same_v<Views, std::vector<BufferView>>)
      text += view_text(v);
    else
      text += v ? view_text(*v) : "None";
  }
  return text;
}

class Text {
 public:
  explicit Text(const Graph& graph) : graph_(graph) {}

  std::string print() {
    out_ = fmt::format("loops({}){}:\n", sym::declarations(*graph_.env_ptr()),
                       graph_.on_several_devices ? " on several devices" : "");
    for (const Buffer& b : graph_.buffers()) buffer(b);
    for (const Operation& op : graph_.operations()) operation(op);
    out_ += "return";
    for (const GraphOutput& out : graph_.outputs) output(out);
    return std::move(out_) + "\n";
  }

 private:
  void buffer(const Buffer& b) {
    const Layout& l = b.layout;
    const sym::TensorMeta meta{.dtype = l.dtype, .device = l.device, .sizes = l.sizes, .strides = l.strides};
    out_ += fmt::format("buf{}: {}", b.id, sym::to_string(meta));
    if (b.kind == BufferKind::Input) out_ += " input";
    if (b.kind == BufferKind::Constant) out_ += graph_.seed_buffer() == b.id ? " seed" : " constant";
    if (b.kind == BufferKind::Computed && l.fixed) out_ += " fixed";
    if (l.comm) out_ += fmt::format(" comm {} {}", to_string(l.comm->kind), ops::quote(l.comm->group));
    const bool is_word_of_text = b.name == "output" || b.name == "comm";
    if (b.name != fmt::format("buf{}", b.id)) out_ += " " + (is_word_of_text ? ops::quote(b.name) : word_text(b.name));
    if (b.is_output) out_ += " output";
    out_ += "\n";
  }

  void operation(const Operation& op) {
    out_ += fmt::format("op{}: ", op.id);
    for (BufferId out : op.outs) out_ += fmt::format("buf{} ", out);
    if (!op.store_index.empty()) out_ += fmt::format("at {} ", list_text(op.store_index));
    out_ += (op.outs.empty() ? "" : "= ") + std::visit([this](const auto& node) { return this->text(node); }, op.node);
    std::string origins;
    for (const std::string& name : op.origins) origins += (origins.empty() ? "  # " : ", ") + word_text(name);
    out_ += origins + "\n";
  }

  void output(const GraphOutput& out) {
    out_ += fmt::format("{} {}=", &out == graph_.outputs.data() ? "" : ",", word_text(out.name));
    out_ += std::visit(Overloaded{[](const BufferView& v) { return view_text(v); },
                                  [&](const Expr& e) { return (out.is_bool ? "bool " : "int ") + sym::to_string(e); },
                                  [](double v) { return "real " + ops::to_string(v); }},
                       out.value);
  }

  std::string text(const Pointwise& p) const {
    return fmt::format("pointwise[{}] {}", loops('i', p.sizes), scalar(p.body));
  }
  std::string text(const Reduction& r) const {
    return fmt::format("reduce.{}[{}; {}] {}", kReductionNames[static_cast<int>(r.kind)], loops('i', r.sizes),
                       loops('r', r.reduced), scalar(r.body));
  }
  std::string text(const Scan& s) const {
    return fmt::format("scan.{}[{}; dim {}] {}", kScanNames[static_cast<int>(s.kind)], loops('i', s.sizes), s.dim,
                       scalar(s.body));
  }
  std::string text(const Scatter& s) const {
    std::string where = list_text(s.index);
    for (std::size_t k = 0; k < s.indirect.size(); ++k) where += fmt::format(", x{} = {}", k, scalar(s.indirect[k]));
    return fmt::format("scatter.{}[{}{}{}] at {} {}", kStoreNames[static_cast<int>(s.mode)], loops('i', s.sizes),
                       s.sorted ? fmt::format("; sorted along i{}", *s.sorted) : "",
                       s.piece != 0 ? fmt::format(" in pieces of {}", s.piece) : "", where, scalar(s.body));
  }
  static std::string text(const Extern& e) {
    std::string attributes;
    for (const auto& [name, value] : e.attributes) attributes += fmt::format(" {}={}", name, attribute_text(value));
    return fmt::format("extern {}({}){} -> {}", e.op, views(e.inputs), attributes, views(e.outputs));
  }
  static std::string text(const Fallback& f) {
    std::string operands;
    for (std::size_t k = 0; k < f.inputs.size(); ++k)
      operands += fmt::format("{}%{} = {}", k ? ", " : " where ", k, view_text(f.inputs[k]));
    return fmt::format("fallback {}({}){}{}{} -> {}{}{}", f.op, ops::to_string(f.arguments), writes_text(f.writes),
                       operands, f.has_effect ? " with effect" : "", f.is_list ? "[" : "", views(f.outputs),
                       f.is_list ? "]" : "");
  }
  static std::string text(const UserCall& u) {
    return fmt::format("user_kernel {}({}; {}) on {}{}", u.kernel->symbol, views(u.tensors), list_text(u.numbers),
                       list_text(u.grid), writes_text(u.written));
  }
  static std::string text(const Assertion& a) {
    return fmt::format("assert {}, {}", sym::to_string(a.condition), ops::quote(a.message));
  }
  static std::string text(const ReadSymbol& r) {
    return fmt::format("symbol {} = read(buf{})", sym::to_string(r.symbol), r.source);
  }
  static std::string text(const SetSymbol& s) {
    return fmt::format("symbol {} = number({})", sym::to_string(s.symbol), sym::to_string(s.value));
  }
  static std::string text(const Control& c) { return control_text(c); }

  std::string scalar(Scalar s) const {
    return to_string(s, [this](BufferId b) { return graph_.buffer(b).layout.dtype; });
  }

  const Graph& graph_;
  std::string out_;
};

}  // namespace

std::string view_text(const BufferView& v) {
  const sym::TensorMeta meta{.dtype = v.dtype, .sizes = v.sizes, .strides = v.strides, .offset = v.offset};
  return fmt::format("buf{} as {}", v.buffer, sym::to_string(meta));
}

std::string to_string(const Graph& graph) { return Text(graph).print(); }

}  // namespace coil::ir
