#include "scheduler/text.h"

#include "ir/text_parts.h"
#include "support/error.h"

namespace coil::scheduler {
namespace {

constexpr std::string_view kRoles[] = {"inner", "reduce", "scan", "outer"};

bool is_identity(const Exprs& list, char letter) {
  for (std::size_t d = 0; d < list.size(); ++d)
    if (!list[d].is_symbol() || list[d].name() != fmt::format("{}{}", letter, d)) return false;
  return true;
}

/// ` at [i0, 0; r0]`
std::string place_text(const Member& m) {
  if (is_identity(m.ivars, 'i') && is_identity(m.rvars, 'r')) return "";
  std::string text = ir::list_text(m.ivars);
  if (m.rvars.empty()) return " at " + text;
  text.back() = ';';
  return fmt::format(" at {} {}", text, ir::list_text(m.rvars).substr(1));
}

std::string single_text(const ir::Operation& op) {
  if (const auto* call = std::get_if<ir::Extern>(&op.node)) return fmt::format(" ({})", call->op);
  if (const auto* user = std::get_if<ir::UserCall>(&op.node))
    return fmt::format(" (user kernel {})", user->kernel->symbol);
  if (const auto* host = std::get_if<ir::Fallback>(&op.node)) return fmt::format(" (fallback {})", host->op);
  return "";
}

std::string group_text(const ir::Graph& graph, const Group& g) {
  std::string text = fmt::format("kernel over {} x {}{}\n", ir::list_text(g.outer), ir::list_text(g.inner),
                                 g.launch_config > 0 ? fmt::format(", launch config {}", g.launch_config) : "");
  for (const Member& m : g.members) {
    const ir::Buffer& out = graph.buffer(graph.operations()[m.op].outs[0]);
    text += fmt::format("    op{} {} level {}{} -> {}{}\n", m.op, role_name(m.role), m.level, place_text(m),
                        ir::word_text(out.name), g.internal.contains(out.id) ? " (internal)" : "");
  }
  return text;
}

class Parser {
 public:
  Parser(std::string_view text, ir::Graph& graph, std::size_t line)
      : text_(text), number_(line), graph_(graph), read_(graph.env(), true) {}

  Schedule run() {
    while (at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      LineCursor c(text_.substr(at_, end - at_), ++number_);
      at_ = end + 1;
      if (c.peek() == '\0' || c.peek() == '#') continue;
      line(c);
    }
    return std::move(out_);
  }

 private:
  void line(LineCursor& c) {
    if (c.accept("not fused:")) {
      refusal(c);
    } else if (c.look().starts_with("item")) {
      item(c);
    } else {
      if (out_.items.empty() || !std::holds_alternative<Group>(out_.items.back())) c.fault("this belongs to no kernel");
      member(c, std::get<Group>(out_.items.back()));
    }
    c.expect_end();
  }

  ir::OperationId operation(LineCursor& c) const { return read_operation(c, graph_); }

  void refusal(LineCursor& c) {
    Refusal r;
    r.producer = operation(c);
    c.expect("with");
    r.consumer = operation(c);
    c.expect(":");
    c.skip_blanks();
    r.reason = c.until({});
    out_.refusals.push_back(std::move(r));
  }

  void item(LineCursor& c) {
    c.expect(fmt::format("item{}", out_.items.size()));
    c.expect(":");
    if (c.accept("kernel")) {
      Group g;
      c.expect("over");
      g.outer = read_.exprs(c);
      c.expect("x");
      g.inner = read_.exprs(c);
      if (c.accept(",")) {
        c.expect("launch");
        c.expect("config");
        g.launch_config = static_cast<int>(c.integer());
      }
      out_.items.push_back(std::move(g));
      return;
    }
    out_.items.push_back(Single{operation(c)});
    c.expect("alone");
    if (c.accept("(")) {
      c.until({});
      c.expect(")");
    }
  }

  void member(LineCursor& c, Group& g) {
    Member m;
    m.op = operation(c);
    const ir::Operation& op = graph_.operations()[m.op];
    if (!op.is_loop() || std::holds_alternative<ir::Scatter>(op.node))
      c.fault(fmt::format("op{} shares no kernel", m.op));
    m.role = read_role(c);
    c.expect("level");
    m.level = static_cast<int>(c.integer());
    m.ivars = graph_.ivars(op.sizes().size());
    m.rvars = graph_.rvars(op.reduced().size());
    if (c.accept("at")) place(c, m);
    c.expect("->");
    const ir::Buffer& out = graph_.buffer(op.outs[0]);
    if (c.name() != out.name) c.fault(fmt::format("op{} makes {}", m.op, out.name));
    if (c.accept("(internal)")) g.internal.insert(out.id);
    g.members.push_back(std::move(m));
  }

  void place(LineCursor& c, Member& m) const {
    const std::size_t made = m.ivars.size(), reduced = m.rvars.size();
    m.ivars.clear(), m.rvars.clear();
    c.expect("[");
    Exprs* list = &m.ivars;
    while (!c.accept("]")) {
      if (c.accept(";")) {
        list = &m.rvars;
        continue;
      }
      list->push_back(read_.expr(c, {",", ";"}));
      if (!c.accept(",") && c.peek() != ']' && c.peek() != ';') c.fault("',', ';' or ']' should stand here");
    }
    if (m.ivars.size() != made || m.rvars.size() != reduced)
      c.fault(fmt::format("op{} has {} loops, and {} that it reduces", m.op, made, reduced));
  }

  std::string_view text_;
  std::size_t at_ = 0, number_;
  ir::Graph& graph_;
  ir::PartReader read_;
  Schedule out_;
};

}  // namespace

std::string_view role_name(Role role) { return kRoles[static_cast<std::size_t>(role)]; }

Role read_role(LineCursor& c) {
  const std::string role = c.identifier();
  const auto found = std::find(std::begin(kRoles), std::end(kRoles), role);
  if (found == std::end(kRoles)) c.fault(fmt::format("there is no role {}", role));
  return static_cast<Role>(found - std::begin(kRoles));
}

ir::OperationId read_operation(LineCursor& c, const ir::Graph& graph) {
  const std::string name = c.identifier();
  std::uint32_t id = 0;
  const char* end = name.data() + name.size();
  if (!name.starts_with("op") || std::from_chars(name.data() + 2, end, id).ptr != end)
    c.fault(fmt::format("'{}' is no operation", name));
  if (id >= graph.operations().size()) c.fault(fmt::format("there is no {}", name));
  return id;
}

std::string to_string(const ir::Graph& graph, const Schedule& s) {
  std::string text;
  for (std::size_t k = 0; k < s.items.size(); ++k) {
    text += fmt::format("item{}: ", k);
    if (const auto* single = std::get_if<Single>(&s.items[k]))
      text += fmt::format("op{} alone{}\n", single->op, single_text(graph.operations()[single->op]));
    else
      text += group_text(graph, std::get<Group>(s.items[k]));
  }
  for (const Refusal& r : s.refusals)
    text += fmt::format("not fused: op{} with op{}: {}\n", r.producer, r.consumer, r.reason);
  return text;
}

Schedule parse(std::string_view text, ir::Graph& graph, std::size_t line) { return Parser(text, graph, line).run(); }

}  // namespace coil::scheduler
