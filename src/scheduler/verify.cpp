#include "scheduler/verify.h"

#include <cctype>
#include <unordered_map>

#include "support/error.h"
#include "sym/print.h"

namespace coil::scheduler {
namespace {

using Names = std::set<std::string>;

/// Size symbols among the words of a text; what stands in quotes is somebody's own text, and u8 is a dtype there as
/// well as a symbol.
void add_symbols(const ir::Graph& graph, std::string_view text, Names& names) {
  auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  bool quoted = false;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '"') quoted = !quoted;
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string word(text.substr(at, end - at));
    at = std::max(end, at + 1);
    if (quoted || word.empty() || dtype_from_short_name(word)) continue;
    if (auto s = graph.env_ptr()->context().find(word); s && s->symbol_kind() != sym::SymbolKind::Loop)
      names.insert(word);
  }
}

/// The line of each operation in the graph's text, without its origins.
std::unordered_map<std::size_t, std::string> operation_lines(const ir::Graph& graph) {
  std::unordered_map<std::size_t, std::string> lines;
  const std::string text = ir::to_string(graph);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("op"))
      lines[std::stoul(line.substr(2))] = line.substr(line.find(": ") + 2, line.rfind("  # ") - line.find(": ") - 2);
  }
  return lines;
}

Names named_by(const ir::Graph& graph, const ir::Operation& op, const std::string& line) {
  Names names;
  add_symbols(graph, line, names);
  auto add_buffer = [&](ir::BufferId b) {
    for (const sym::Exprs* list : {&graph.buffer(b).layout.sizes, &graph.buffer(b).layout.strides})
      for (sym::Expr e : *list)
        for (sym::Expr s : sym::free_symbols(e)) names.emplace(s.name());
  };
  for (ir::BufferId b : ir::reads(op)) add_buffer(b);
  for (ir::BufferId b : op.outs) add_buffer(b);
  if (auto own = op.defined_symbol()) names.erase(std::string(own->name()));
  if (auto* c = std::get_if<ir::Control>(&op.node); c && c->kind == ir::Control::Kind::Loop)
    names.erase(std::string(c->counter.name()));
  return names;
}

}  // namespace

void verify(const ir::Graph& graph, const Schedule& schedule) {
  const auto lines = operation_lines(graph);
  std::vector<bool> ran(graph.operations().size(), false);
  std::set<ir::BufferId> written;
  ir::KnownSymbols known;
  for (const ir::Buffer& b : graph.buffers())
    if (b.kind != ir::BufferKind::Computed) written.insert(b.id);
  auto visit = [&](ir::OperationId id) {
    const ir::Operation& op = graph.operations()[id];
    COIL_CHECK(!ran[id], "op{} is scheduled twice", id);
    ran[id] = true;
    if (const auto* c = std::get_if<ir::Control>(&op.node)) known.border(*c);
    for (sym::Expr s : ir::runtime_symbols(graph, op))
      COIL_CHECK(known.contains(s), "op{} is scheduled before {} has a value", id, s.name());
    Names own = ir::free_symbols(graph, op);
    for (const std::string& name : named_by(graph, op, lines.at(id)))
      COIL_CHECK(own.contains(name), "op{} uses {}, but does not say so: {}", id, name, lines.at(id));
    for (ir::BufferId b : ir::reads(op))
      COIL_CHECK(written.contains(b), "op{} is scheduled before buf{} is written", id, b);
    written.insert(op.outs.begin(), op.outs.end());
    if (auto symbol = op.defined_symbol()) known.define(*symbol);
  };
  for (const Item& item : schedule.items) {
    if (auto* single = std::get_if<Single>(&item))
      visit(single->op);
    else
      for (const Member& m : std::get<Group>(item).members) visit(m.op);
  }
  const std::vector<bool> live = ir::live_operations(graph);
  for (std::size_t k = 0; k < live.size(); ++k) COIL_CHECK(!live[k] || ran[k], "op{} is needed, but not scheduled", k);
}

}  // namespace coil::scheduler
