#include "compiler/provenance.h"

#include <nlohmann/json.hpp>

#include "support/error.h"

namespace coil {
namespace {

using Json = nlohmann::ordered_json;

/// Calls by the name of a node.
using Users = std::map<std::string, std::vector<std::size_t>, std::less<>>;

/// A member behind the others; nobody else has the name. (The library's own way looks through all of them first.)
void append(Json& object, const std::string& name, Json value) {
  static_cast<Json::object_t::Container&>(object.get_ref<Json::object_t&>()).emplace_back(name, std::move(value));
}

Json calls_of(const Users& users, const std::string& node) {
  auto found = users.find(node);
  return found == users.end() ? Json::array() : Json(found->second);
}

/// The user's stack traces of calls, each told once and known by its number.
class StackTraces {
 public:
  explicit StackTraces(const fx::GraphModule& module) { note(module); }

  /// The numbers of the stack traces of nodes after the passes, in order.
  std::set<std::size_t> of(const std::set<std::string>& nodes) {
    std::set<std::size_t> found;
    for (const std::string& name : nodes) {
      const auto trace = by_node_.find(name);
      if (trace == by_node_.end()) continue;
      const auto [number, added] = numbers_.try_emplace(trace->second, texts_.size());
      if (added) texts_.push_back(trace->second);
      found.insert(number->second);
    }
    return found;
  }

  Json texts() const { return Json(texts_); }

 private:
  void note(const fx::GraphModule& module) {
    for (const fx::Node* n = module.graph.first(); n; n = n->next())
      if (!n->meta.stack_trace.empty()) by_node_.emplace(n->name, n->meta.stack_trace);
    for (const auto& [name, subgraph] : module.subgraphs) note(*subgraph);
  }

  std::map<std::string_view, std::string_view> by_node_;
  std::map<std::string_view, std::size_t> numbers_;
  std::vector<std::string_view> texts_;
};

}  // namespace

std::vector<ProvenanceCall> provenance_calls(const wrapper::Program& program) {
  std::vector<ProvenanceCall> calls;
  for (std::size_t i = 0; i < program.lines.size(); ++i) {
    if (auto* k = std::get_if<wrapper::CallKernel>(&program.lines[i]))
      calls.push_back({i, true, program.kernels[k->kernel].symbol, &k->nodes, &k->origins, &k->where});
    if (auto* f = std::get_if<wrapper::CallFallback>(&program.lines[i]))
      calls.push_back({i, false, f->op, &f->nodes, &f->origins, &f->where});
    if (auto* u = std::get_if<wrapper::CallUserKernel>(&program.lines[i]))
      calls.push_back({i, true, u->kernel->symbol, &u->nodes, &u->origins, &u->where});
    if (auto* e = std::get_if<wrapper::CallExtern>(&program.lines[i]))
      calls.push_back({i, false, e->op, &e->nodes, &e->origins, &e->where});
  }
  return calls;
}

std::string provenance_json(const LoweredProgram& lowered, const std::string& form,
                            const std::vector<wrapper::TextLines>& lines) {
  const std::vector<ProvenanceCall> calls = provenance_calls(lowered.lines);
  Users by_node, by_origin, nodes_of;
  Json call_list = Json::array();
  StackTraces traces(*lowered.source.module);
  for (std::size_t c = 0; c < calls.size(); ++c) {
    const ProvenanceCall& call = calls[c];
    for (const std::string& n : *call.nodes) by_node[n].push_back(c);
    for (const std::string& n : *call.origins) by_origin[n].push_back(c);
    Json entry = {{"kind", call.kernel ? "kernel" : "library"}, {"name", call.name}, {"wrapper_line", call.line}};
    if (call.line < lines.size() && lines[call.line].count > 0)
      entry["lines"] = {lines[call.line].first, lines[call.line].first + lines[call.line].count - 1};
    entry["nodes"] = *call.nodes;
    entry["incoming"] = *call.origins;
    if (!call.where->empty()) entry["where"] = *call.where;
    if (const auto found = traces.of(*call.nodes); !found.empty()) entry["stack_traces"] = found;
    call_list.push_back(std::move(entry));
  }

  Json nodes = Json::object(), incoming = Json::object();
  std::map<std::string, std::vector<std::string>, std::less<>> after;
  for (const fx::Node* n = lowered.source.module->graph.first(); n; n = n->next()) {
    if (n->opcode == fx::Opcode::Output) continue;
    for (const std::string& origin : n->meta.origins) after[origin].push_back(n->name);
    append(nodes, n->name, {{"incoming", n->meta.origins}, {"calls", calls_of(by_node, n->name)}});
  }
  for (const auto& [name, text] : lowered.lines.source) {
    Json entry = {{"text", text}};
    if (auto where = lowered.source_lines.find(name); where != lowered.source_lines.end())
      entry["where"] = where->second;
    auto made = after.find(name);
    entry["nodes"] = made == after.end() ? Json::array() : Json(made->second);
    entry["calls"] = calls_of(by_origin, name);
    append(incoming, name, std::move(entry));
  }
  const Json all = {{"version", 1},
                    {"program", lowered.lines.name},
                    {"form", form},
                    {"incoming", std::move(incoming)},
                    {"nodes", std::move(nodes)},
                    {"calls", std::move(call_list)},
                    {"stack_traces", traces.texts()}};
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace coil
