#include "sym/print.h"
#include "fx/text.h"
#include "support/error.h"
#include "sym/declarations.h"

namespace coil::fx {

namespace {

/// A target or name as it is when it reads back so, in quotes otherwise.
std::string word(std::string_view text) {
  bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  });
  return plain ? std::string(text) : ops::quote(text);
}

class Printer {
 public:
  Printer(PrintOptions options) : options_(options) {}

  void module(const GraphModule& m, const std::string& indent, bool top) {
    out += indent + "graph";
    if (top && m.name != "main") out += fmt::format(" {}", word(m.name));
    out += "(";
    if (top) out += sym::declarations(*m.env);
    out += "):\n";
    for (Node* n = m.graph.first(); n; n = n->next()) {
      out += indent + "    ";
      node(*n);
      out += "\n";
    }
    signature(m, indent);
    for (const auto& [name, sub] : m.subgraphs) {
      out += fmt::format("{}subgraph {}:\n", indent, word(name));
      module(*sub, indent + "    ", false);
    }
  }

  void lines(const GraphModule& m, std::vector<std::pair<std::string, std::string>>& result) {
    for (Node* n = m.graph.first(); n; n = n->next()) {
      if (n->opcode == Opcode::Output) continue;
      node(*n);
      result.emplace_back(n->name, std::exchange(out, ""));
    }
    for (const auto& [name, sub] : m.subgraphs) lines(*sub, result);
  }

  std::string out;

 private:
  void list(const Values& values, std::size_t count, char open, char close) {
    out += open;
    for (std::size_t i = 0; i < count; ++i) {
      if (i) out += ", ";
      out += ops::to_string(values[i]);
    }
    if (count == 1) out += ",";
    out += close;
  }

  void node(const Node& n) {
    if (n.opcode == Opcode::Output) {
      out += "return ";
      list(n.args, n.args.size(), '(', ')');
      return;
    }
    out += "%";
    out += n.name;
    if (!n.meta.value.is_none()) out += fmt::format(" : {}", ops::to_string(n.meta.value));
    out += " = ";
    switch (n.opcode) {
      case Opcode::Placeholder: out += "placeholder"; break;
      case Opcode::GetAttr: out += "get_attr"; break;
      default: out += "call_function"; break;
    }
    out += fmt::format("[target={}]", word(n.target));
    if (n.opcode == Opcode::CallFunction) arguments(n);
    if (std::string at = options_.locations ? n.where() : ""; !at.empty()) out += fmt::format("  # at {}", at);
    if (options_.origins && !n.meta.origins.empty()) {
      out += "  # from ";
      for (std::size_t i = 0; i < n.meta.origins.size(); ++i) out += (i ? ", " : "") + n.meta.origins[i];
    }
  }

  /// Positional ones up to the last that is not the default, then the keyword-only ones that are not.
  void arguments(const Node& n) {
    std::size_t positional = n.args.size();
    std::vector<std::pair<std::string, Value>> named = n.kwargs;
    if (n.op) {
      const auto& parameters = n.op->schema.parameters;
      auto is_default = [&](std::size_t i) { return parameters[i].fallback && *parameters[i].fallback == n.args[i]; };
      std::size_t end = 0;
      while (end < parameters.size() && !parameters[end].keyword_only) ++end;
      positional = end;
      while (positional > 0 && is_default(positional - 1)) --positional;
      for (std::size_t i = end; i < parameters.size(); ++i)
        if (!is_default(i)) named.emplace_back(parameters[i].name, n.args[i]);
    }
    out += "(args = ";
    list(n.args, positional, '(', ')');
    out += ", kwargs = {";
    for (std::size_t i = 0; i < named.size(); ++i)
      out += fmt::format("{}{}: {}", i ? ", " : "", named[i].first, ops::to_string(named[i].second));
    out += "})";
  }

  /// Inputs and outputs where they are not the plain ones, and mutations.
  void signature(const GraphModule& m, const std::string& indent) {
    std::vector<Node*> placeholders = m.graph.placeholders();
    bool plain = m.inputs.size() == placeholders.size();
    for (std::size_t i = 0; plain && i < placeholders.size(); ++i) {
      const Input& in = m.inputs[i];
      plain = in.placeholder == placeholders[i]->name && in.path == in.placeholder && !in.constant && !in.strides &&
              !in.goes;
    }
    if (!plain)
      for (const Input& in : m.inputs) {
        out += fmt::format("{}input %{} {}", indent, in.placeholder, ops::quote(in.path));
        if (in.constant) out += fmt::format(" = {}", ops::to_string(*in.constant));
        if (in.strides)
          out += fmt::format(" strides {}", ops::to_string(Values(in.strides->begin(), in.strides->end())));
        if (in.goes) out += text_of(*in.goes);
        out += "\n";
      }
    plain = true;
    for (std::size_t i = 0; i < m.outputs.size(); ++i)
      plain &= m.outputs[i].path == plain_output_name(i, m.outputs.size()) && !m.outputs[i].any_strides;
    if (!plain)
      for (const Output& o : m.outputs)
        out += fmt::format("{}output {}{}\n", indent, ops::quote(o.path), o.any_strides ? " any_strides" : "");
    for (const Mutation& w : m.mutations)
      out += fmt::format("{}mutation {} {} = {}\n", indent, w.kind == Mutation::Target::Input ? "input" : "attribute",
                         word(w.target), w.output);
  }

  PrintOptions options_;
};

}  // namespace

std::string plain_output_name(std::size_t index, std::size_t count) {
  return count == 1 ? "output" : std::to_string(index);
}

std::string to_string(const GraphModule& m, PrintOptions options) {
  Printer p(options);
  p.module(m, "", true);
  return std::move(p.out);
}

std::vector<std::pair<std::string, std::string>> node_lines(const GraphModule& m, PrintOptions options) {
  std::vector<std::pair<std::string, std::string>> result;
  Printer(options).lines(m, result);
  return result;
}

}  // namespace coil::fx
