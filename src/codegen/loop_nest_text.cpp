#include "codegen/loop_nest_text.h"

#include "ir/scalar_text.h"
#include "scheduler/text.h"
#include "support/error.h"
#include "sym/print.h"

namespace coil::codegen {
namespace {

std::string dims_text(const std::vector<LoopDim>& dims) {
  std::string text;
  for (const LoopDim& d : dims)
    text += fmt::format("{}{} < {}", text.empty() ? "" : ", ", sym::to_string(d.var), sym::to_string(d.size));
  return "[" + text + "]";
}

std::string statement_text(const ir::Graph& graph, const Statement& s) {
  const ir::StoredType stored = [&](ir::BufferId b) { return graph.buffer(b).layout.dtype; };
  std::string text = fmt::format("    op{} {} level {} at {}", s.op->id, scheduler::role_name(s.role), s.level,
                                 sym::to_string(s.store));
  for (std::size_t k = 0; k < s.indirect.size(); ++k)
    text += fmt::format(", x{} = {}", k, ir::to_string(s.indirect[k], stored));
  if (!s.position.is_constant(0)) text += ", place " + sym::to_string(s.position);
  return fmt::format("{}: {}{}\n", text, ir::to_string(s.body, stored), s.stored ? "" : " (kept)");
}

class Parser {
 public:
  Parser(std::string_view text, ir::Graph& graph, std::size_t line)
      : text_(text), number_(line), graph_(graph), read_(graph.env(), true), stored_([&graph](ir::BufferId b) {
          if (b >= graph.buffers().size()) fail("there is no buf{}", b);
          return graph.buffer(b).layout.dtype;
        }) {}

  std::vector<LoopNest> run() {
    while (at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      LineCursor c(text_.substr(at_, end - at_), ++number_);
      at_ = end + 1;
      if (c.peek() == '\0' || c.peek() == '#') continue;
      if (c.look().starts_with("nest"))
        nest(c);
      else if (out_.empty())
        c.fault("this belongs to no nest");
      else
        statement(c, out_.back());
      c.expect_end();
    }
    for (const LoopNest& n : out_)
      if (n.statements.empty()) fail("line {}: a nest has no statements", number_);
    return std::move(out_);
  }

 private:
  std::vector<LoopDim> dims(LineCursor& c) const {
    std::vector<LoopDim> out;
    c.expect("[");
    while (!c.accept("]")) {
      LoopDim d;
      d.var = variable(c);
      c.expect("<");
      d.size = read_.expr(c, {","});
      out.push_back(d);
      if (!c.accept(",") && c.peek() != ']') c.fault("',' or ']' should stand here");
    }
    return out;
  }

  Expr variable(LineCursor& c) const {
    const Expr e = read_.expr(c, {" ", ",", ";", ":"});
    if (!e.is_symbol() || e.symbol_kind() != sym::SymbolKind::Loop) c.fault("a loop's variable should stand here");
    return e;
  }

  /// The place of a variable among loops.
  static std::size_t place(LineCursor& c, const std::vector<LoopDim>& dims, Expr var) {
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (dims[d].var == var) return d;
    c.fault(fmt::format("{} is no loop there", sym::to_string(var)));
  }

  void nest(LineCursor& c) {
    c.expect(fmt::format("nest{}", out_.size()));
    c.expect(":");
    LoopNest n;
    c.expect("over");
    n.outer = dims(c);
    c.expect("x");
    n.inner = dims(c);
    while (c.accept(",")) facts(c, n);
    out_.push_back(std::move(n));
  }

  void facts(LineCursor& c, LoopNest& n) const {
    if (c.accept("vectors along")) {
      const Expr var = variable(c);
      const bool inner = !n.inner.empty() && n.inner.back().var == var;
      if (!inner && (n.outer.empty() || !(n.outer.back().var == var)))
        c.fault("vectors go along the last loop of either kind");
      n.vector = inner ? LoopNest::Vector::Inner : LoopNest::Vector::Outer;
    } else if (c.accept("runs along")) {
      n.tiled = place(c, n.outer, variable(c));
    } else if (c.accept("shared along")) {
      n.shared = place(c, n.inner, variable(c));
    } else if (c.accept("threads by")) {
      n.partition = LoopNest::Partition{};
      LoopNest::Partition& p = *n.partition;
      const std::string name = c.identifier();
      std::uint32_t k = 0;
      const char* end = name.data() + name.size();
      if (name[0] != 'x' || std::from_chars(name.data() + 1, end, k).ptr != end)
        c.fault(fmt::format("'{}' is no value that places come from", name));
      p.indirect = k;
      c.expect("<");
      p.places = read_.expr(c, {","});
    } else {
      n.levels = static_cast<int>(c.integer());
      c.expect(n.levels == 1 ? "level" : "levels");
    }
  }

  void statement(LineCursor& c, LoopNest& n) const {
    Statement s;
    s.op = &graph_.operations()[scheduler::read_operation(c, graph_)];
    if (!s.op->is_loop()) c.fault(fmt::format("op{} is no loop", s.op->id));
    s.role = scheduler::read_role(c);
    c.expect("level");
    s.level = static_cast<int>(c.integer());
    if (s.level < 0 || s.level >= n.levels) c.fault("there is no such level");
    c.expect("at");
    s.store = read_.expr(c, {",", ":"});
    while (c.accept(",")) {
      if (c.accept("place")) {
        s.position = read_.expr(c, {":"});
        continue;
      }
      c.expect(fmt::format("x{}", s.indirect.size()));
      c.expect("=");
      s.indirect.push_back(ir::read_scalar(c, read_, graph_.pool(), stored_));
    }
    c.expect(":");
    s.body = ir::read_scalar(c, read_, graph_.pool(), stored_);
    s.stored = !c.accept("(kept)");
    n.statements.push_back(std::move(s));
  }

  std::string_view text_;
  std::size_t at_ = 0, number_;
  ir::Graph& graph_;
  ir::PartReader read_;
  ir::StoredType stored_;
  std::vector<LoopNest> out_;
};

}  // namespace

std::string to_string(const ir::Graph& graph, const LoopNest& n, std::size_t number) {
  std::string text = fmt::format("nest{}: over {} x {}", number, dims_text(n.outer), dims_text(n.inner));
  if (n.levels != 1) text += fmt::format(", {} levels", n.levels);
  if (n.vector != LoopNest::Vector::None)
    text += ", vectors along " +
            sym::to_string((n.vector == LoopNest::Vector::Inner ? n.inner.back() : n.outer.back()).var);
  if (n.tiled) text += ", runs along " + sym::to_string(n.outer[*n.tiled].var);
  if (n.partition)
    text += fmt::format(", threads by x{} < {}", n.partition->indirect, sym::to_string(n.partition->places));
  if (n.shared) text += ", shared along " + sym::to_string(n.inner[*n.shared].var);
  text += "\n";
  for (const Statement& s : n.statements) text += statement_text(graph, s);
  return text;
}

std::vector<LoopNest> parse_nests(std::string_view text, ir::Graph& graph, std::size_t line) {
  return Parser(text, graph, line).run();
}

}  // namespace coil::codegen
