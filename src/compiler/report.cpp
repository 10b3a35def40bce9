#include "compiler/report.h"

#include "runtime/shape_program.h"
#include "support/error.h"

namespace coil {
namespace {

constexpr std::size_t kListed = 12;  // names of a kernel's nodes that are worth a line

std::string some(const std::set<std::string>& names) {
  std::string text;
  std::size_t count = 0;
  for (const std::string& name : names) {
    if (count++ == kListed) return text + fmt::format(", … ({} in all)", names.size());
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

std::set<std::string> lines_of(const SourceLines& lines, const std::set<std::string>& origins, const std::string& where) {
  std::set<std::string> result;
  for (const std::string& origin : origins)
    if (auto found = lines.find(origin); found != lines.end()) result.insert(found->second);
  if (result.empty() && !where.empty()) result.insert(where);
  return result;
}

std::string human(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  return bytes < 1024 * 1024 ? fmt::format("{:.1f} KiB", bytes / 1024.0) : fmt::format("{:.1f} MiB", bytes / 1048576.0);
}

/// `add, relu (model.py:12)`: what an operation computes and where the user wrote it.
std::string operation_name(const ir::Operation& op) {
  std::string name = op.origins.empty() ? fmt::format("op{}", op.id) : some(op.origins);
  return op.where.empty() ? name : fmt::format("{} ({})", name, op.where);
}

void write_steps(std::string& text, const SourceLines& lines, const wrapper::Program& program, const std::vector<std::uint64_t>& live) {
  std::size_t step = 0;
  auto add = [&](const std::string& name, const std::set<std::string>& origins, const std::string& where) {
    std::string memory = step < live.size() ? human(live[step]) : "";
    text += fmt::format("{:5} {:>11}  {}\n{:20}computes {}\n", step, memory, name, "", some(origins));
    if (auto from = lines_of(lines, origins, where); !from.empty()) text += fmt::format("{:20}from {}\n", "", some(from));
    ++step;
  };
  for (const wrapper::Line& line : program.lines) {
    if (auto* call = std::get_if<wrapper::CallKernel>(&line)) add(program.kernels.at(call->kernel).symbol, call->origins, call->where);
    if (auto* call = std::get_if<wrapper::CallExtern>(&line)) add("library " + call->op, call->origins, call->where);
    if (auto* assertion = std::get_if<wrapper::Assert>(&line)) text += fmt::format("      assert       {}\n", assertion->message);
  }
}

void write_fusions(std::string& text, const ir::Graph& graph, const scheduler::Schedule& schedule) {
  std::size_t fused = 0;
  for (const scheduler::Item& item : schedule.items)
    if (auto* group = std::get_if<scheduler::Group>(&item); group && group->members.size() > 1) {
      text += fmt::format("  one kernel for {} operations; {} of their results need no memory:\n", group->members.size(), group->internal.size());
      for (const scheduler::Member& member : group->members) text += "      " + operation_name(graph.operations()[member.op]) + "\n";
      ++fused;
    }
  if (fused == 0) text += "  nothing\n";
}

}  // namespace

SourceLines source_lines(const fx::GraphModule& module) {
  SourceLines lines;
  for (fx::Node* node = module.graph.first(); node; node = node->next())
    if (std::string where = node->where(); !where.empty()) lines.emplace(node->name, std::move(where));
  for (const auto& [name, subgraph] : module.subgraphs) lines.merge(source_lines(*subgraph));
  return lines;
}

std::vector<std::uint64_t> live_bytes(const runtime::Program& program) {
  const runtime::Plan& plan = program.plan;
  if (program.sample_inputs.size() != plan.inputs.size() || plan.steps.empty()) return {};
  std::vector<std::int64_t> slots(plan.shape_program.size());
  runtime::run_shape_program(plan.shape_program, program.sample_inputs, slots);
  std::vector<std::int64_t> change(plan.steps.size() + 1);
  for (const runtime::Buffer& buffer : plan.buffers) {
    bool output = buffer.kind == runtime::BufferKind::Output;
    if (buffer.shares >= 0 || !(output || buffer.kind == runtime::BufferKind::Temporary)) continue;
    std::size_t first = std::min<std::size_t>(buffer.first, plan.steps.size() - 1), last = output ? plan.steps.size() - 1 : std::min<std::size_t>(buffer.last, plan.steps.size() - 1);
    change[first] += slots.at(buffer.bytes);
    change[last + 1] -= slots.at(buffer.bytes);
  }
  std::vector<std::uint64_t> live;
  std::int64_t now = 0;
  for (std::size_t step = 0; step < plan.steps.size(); ++step) live.push_back(static_cast<std::uint64_t>(now += change[step]));
  return live;
}

std::string report_text(const SourceLines& lines, const ir::Graph& graph, const scheduler::Schedule& schedule, const wrapper::Program& program, const runtime::Program& ready) {
  const std::vector<std::uint64_t> live = live_bytes(ready);
  std::uint64_t weights = 0;
  for (const runtime::Constant& constant : ready.plan.constants) weights += constant.bytes;
  std::string text = fmt::format("{}: {} kernels, {} steps, {} of weights\n", program.name, program.kernels.size(), ready.plan.steps.size(), human(weights));
  if (!live.empty()) text += fmt::format("peak of temporaries and outputs: {}, at step {} (sizes of the sample inputs)\n", human(*std::max_element(live.begin(), live.end())), std::max_element(live.begin(), live.end()) - live.begin());
  text += "\nSteps, with the bytes live at each\n";
  write_steps(text, lines, program, live);
  text += "\nFused\n";
  write_fusions(text, graph, schedule);
  text += "\nNot fused\n";
  for (const scheduler::Refusal& refusal : schedule.refusals)
    text += fmt::format("  {}\n    with {}: {}\n", operation_name(graph.operations()[refusal.producer]), operation_name(graph.operations()[refusal.consumer]), refusal.reason);
  if (schedule.refusals.empty()) text += "  nothing that shares data was kept apart\n";
  return text;
}

}  // namespace coil
