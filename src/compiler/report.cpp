#include "compiler/report.h"

#include <numeric>

#include "codegen/triton/compile.h"
#include "compiler/memory_text.h"
#include "compiler/streams_text.h"
#include "library_ops/table.h"
#include "passes/wrapper/partition.h"
#include "support/error.h"
#include "sym/print.h"
#include "wrapper/comm_pools.h"

namespace coil {
namespace {

/// With its language, where a program's kernels have several.
std::string kernel_name(const wrapper::KernelEntry& kernel) {
  return kernel.language.empty() ? kernel.symbol : fmt::format("{} ({})", kernel.symbol, kernel.language);
}

std::string user_kernel_name(const ops::UserKernel& kernel) {
  if (codegen::is_triton_text(kernel)) return fmt::format("{} (Triton)", kernel.symbol);
  return fmt::format("user's kernel {} ({})", kernel.name, kernel.where);
}

constexpr std::size_t kListed = 12;  // names worth a line

template <class Names>
std::string some(const Names& names) {
  std::string text;
  std::size_t count = 0;
  for (const std::string& name : names) {
    if (count++ == kListed) return text + fmt::format(", … ({} in all)", names.size());
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

std::set<std::string> lines_of(const SourceLines& lines, const std::set<std::string>& origins,
                               const std::string& where) {
  std::set<std::string> result;
  for (const std::string& origin : origins)
    if (auto found = lines.find(origin); found != lines.end()) result.insert(found->second);
  if (result.empty() && !where.empty()) result.insert(where);
  return result;
}

/// `add, relu (model.py:12)`: what an operation computes and where the user wrote it.
std::string operation_name(const ir::Operation& op) {
  std::string name = op.origins.empty() ? fmt::format("op{}", op.id) : some(op.origins);
  return op.where.empty() ? name : fmt::format("{} ({})", name, op.where);
}

std::uint64_t bytes_of(const wrapper::Program& program, wrapper::BufferId b) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, program.env->hint_or(program.buffers[b].bytes, 0)));
}

/// `x 3.0 KiB, buf2 1.5 KiB`, each buffer once.
std::string buffers_of(const wrapper::Program& program, const std::vector<wrapper::BufferId>& ids) {
  std::vector<std::string> names;
  for (wrapper::BufferId b : ids) {
    std::string name = fmt::format("{} {}", program.buffers[b].name, human_bytes(bytes_of(program, b)));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  return some(names);
}

/// ` on cpu`, in a program over several devices.
std::string on_device(const wrapper::Program& program, std::size_t place) {
  return program.others.empty() ? "" : " on " + to_string(program.device_of(place));
}

/// Where a library call is carried out: of a copy, from where to where.
std::string place_of(const wrapper::Program& program, const wrapper::CallExtern& call) {
  const std::size_t place = program.place_of(call);
  if (library_ops::has(call.op, library_ops::Trait::DeviceCopy))
    return fmt::format(" from {} to {}", to_string(program.device_of(program.place_of(call.inputs.at(0).buffer))),
                       to_string(program.device_of(place)));
  return on_device(program, place);
}

void write_steps(std::string& text, const CompileReport& report, const SourceLines& lines,
                 const wrapper::Program& program) {
  std::size_t step = 0;
  auto add = [&](const wrapper::Line& line, const std::string& name, const std::set<std::string>& origins,
                 const std::string& where) {
    text += fmt::format("{:5} {:>11}  {}\n{:20}computes {}\n", step, human_bytes(report.live_bytes[step]), name, "",
                        some(origins));
    if (auto from = lines_of(lines, origins, where); !from.empty())
      text += fmt::format("{:20}from {}\n", "", some(from));
    const wrapper::Uses uses = wrapper::uses(line);
    if (!uses.reads.empty()) text += fmt::format("{:20}reads {}\n", "", buffers_of(program, uses.reads));
    text += fmt::format("{:20}writes {}\n", "", buffers_of(program, uses.writes));
    ++step;
  };
  for (const wrapper::Line& line : program.lines) {
    if (auto* call = std::get_if<wrapper::CallKernel>(&line))
      add(line,
          kernel_name(program.kernels.at(call->kernel)) + on_device(program, program.kernels[call->kernel].place) +
              (call->when ? ", where " + sym::to_string(*call->when) : ""),
          call->origins, call->where);
    if (auto* call = std::get_if<wrapper::CallExtern>(&line))
      add(line, fmt::format("library {}{}", call->op, place_of(program, *call)), call->origins, call->where);
    if (auto* call = std::get_if<wrapper::CallFallback>(&line))
      add(line, "fallback " + call->op, call->origins, call->where);
    if (auto* call = std::get_if<wrapper::CallUserKernel>(&line))
      add(line, user_kernel_name(*call->kernel), call->origins, call->where);
    if (auto* assertion = std::get_if<wrapper::Assert>(&line)) {
      text += fmt::format("      assert       {}\n", assertion->message);
      if (step > 0) ++step;  // before the first call it is a check on the inputs and no step of the plan
    }
  }
}

void write_fusions(std::string& text, const ir::Graph& graph, const scheduler::Schedule& schedule) {
  std::size_t fused = 0;
  for (const scheduler::Item& item : schedule.items)
    if (auto* group = std::get_if<scheduler::Group>(&item); group && group->members.size() > 1) {
      text += fmt::format("  one kernel for {} operations; {} of their results need no memory:\n",
                          group->members.size(), group->internal.size());
      // One node of the program is often several loops in a row.
      for (std::size_t i = 0, next = 0; i < group->members.size(); i = next) {
        const std::string name = operation_name(graph.operations()[group->members[i].op]);
        while (next < group->members.size() && operation_name(graph.operations()[group->members[next].op]) == name)
          ++next;
        text += "      " + name + (next - i > 1 ? fmt::format(", {} loops", next - i) : "") + "\n";
      }
      ++fused;
    }
  if (fused == 0) text += "  nothing\n";
}

/// Reasons in order of their first case, each with its cases.
void write_refusals(std::string& text, const ir::Graph& graph, const scheduler::Schedule& schedule) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const scheduler::Refusal& r : schedule.refusals) {
    auto found =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& entry) { return entry.first == r.reason; });
    if (found == reasons.end()) found = reasons.insert(reasons.end(), {r.reason, {}});
    found->second.push_back(fmt::format("{} with {}", operation_name(graph.operations()[r.producer]),
                                        operation_name(graph.operations()[r.consumer])));
  }
  for (const auto& [reason, cases] : reasons) {
    text += fmt::format("  {} ({} times):\n", reason, cases.size());
    for (std::size_t i = 0; i < std::min(cases.size(), kListed); ++i) text += "      " + cases[i] + "\n";
    if (cases.size() > kListed) text += fmt::format("      … and {} more\n", cases.size() - kListed);
  }
  if (reasons.empty()) text += "  nothing that shares data was kept apart\n";
}

void write_library_calls(std::string& text, const wrapper::Program& program) {
  std::map<std::string, int> calls;
  for (const wrapper::Line& line : program.lines)
    if (auto* call = std::get_if<wrapper::CallExtern>(&line)) {
      std::string name = call->op;
      if (auto post = call->attributes.find("post"); post != call->attributes.end())
        if (auto* list = std::get_if<std::vector<std::string>>(&post->second); list && !list->empty())
          name += fmt::format(" then {}", fmt::join(*list, ", "));
      ++calls[fmt::format("{}{}", name, place_of(program, *call))];
    }
  for (const auto& [name, count] : calls) text += fmt::format("  {:5} × {}\n", count, name);
  if (calls.empty()) text += "  none\n";
}

/// Operators that the host program carries out, with the lines that ask for them.
void write_fallbacks(std::string& text, const SourceLines& lines, const wrapper::Program& program) {
  std::map<std::string, std::pair<int, std::string>> calls;
  for (const wrapper::Line& line : program.lines)
    if (auto* call = std::get_if<wrapper::CallFallback>(&line)) {
      auto& [count, from] = calls[call->op];
      if (++count == 1)
        if (auto places = lines_of(lines, call->origins, call->where); !places.empty())
          from = " (first at " + some(places) + ")";
    }
  if (calls.empty()) return;
  text += "\nCalled in the host, for want of a lowering\n";
  for (const auto& [name, call] : calls) text += fmt::format("  {:5} × {}{}\n", call.first, name, call.second);
}

std::string indented(std::string_view lines) {
  std::string out;
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n') + 1;
    out += fmt::format("  {}", lines.substr(0, end));
    lines.remove_prefix(end);
  }
  return out;
}

/// Memory that ranks share: what lies there, and what sharing places saves.
void write_comm_pools(std::string& text, const wrapper::Program& program) {
  const std::vector<wrapper::CommPool> pools = wrapper::comm_pools(program);
  if (pools.empty()) return;
  text += "\nCommunication buffers\n";
  for (const wrapper::CommPool& pool : pools) {
    text += fmt::format("  process group {}: {}, {} saved against memory for each\n", pool.layout.group,
                        human_bytes(static_cast<std::uint64_t>(pool.bytes)),
                        human_bytes(static_cast<std::uint64_t>(pool.apart - pool.bytes)));
    for (const wrapper::Line& line : program.lines)
      if (auto* a = std::get_if<wrapper::AllocateComm>(&line); a && *program.buffers[a->buffer].comm == pool.layout)
        text += fmt::format("    {:>10}  {} at {}\n",
                            human_bytes(static_cast<std::uint64_t>(wrapper::comm_bytes(program, a->buffer))),
                            program.buffers[a->buffer].name, a->offset);
  }
}

}  // namespace

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  return bytes < 1024 * 1024 ? fmt::format("{:.1f} KiB", bytes / 1024.0) : fmt::format("{:.1f} MiB", bytes / 1048576.0);
}

std::string fusion_text(const ir::Graph& graph, const scheduler::Schedule& schedule) {
  std::string text = "Fused\n";
  write_fusions(text, graph, schedule);
  text += "\nNot fused\n";
  write_refusals(text, graph, schedule);
  return text;
}

std::vector<std::uint64_t> live_at_calls(const wrapper::Program& program) {
  CompileReport report;
  describe_program(report, program);
  std::vector<std::uint64_t> live;
  std::size_t step = 0;
  for (const wrapper::Line& line : program.lines) {
    const bool call =
        std::holds_alternative<wrapper::CallKernel>(line) || std::holds_alternative<wrapper::CallExtern>(line) ||
        std::holds_alternative<wrapper::CallFallback>(line) || std::holds_alternative<wrapper::CallUserKernel>(line);
    if (call) live.push_back(report.live_bytes.at(step));
    step += call || (std::holds_alternative<wrapper::Assert>(line) && step > 0);
  }
  return live;
}

SourceLines source_lines(const fx::GraphModule& module) {
  SourceLines lines;
  for (fx::Node* node = module.graph.first(); node; node = node->next())
    if (std::string where = node->where(); !where.empty()) lines.emplace(node->name, std::move(where));
  for (const auto& [name, subgraph] : module.subgraphs) lines.merge(source_lines(*subgraph));
  return lines;
}

void describe_program(CompileReport& report, const wrapper::Program& program) {
  report.kernels = static_cast<int>(program.kernels.size());
  for (const auto& kernel : wrapper::user_kernels(program)) report.kernels += codegen::is_triton_text(*kernel);
  report.live_bytes.clear();
  std::vector<int> owners(program.buffers.size(), 0);  // of each memory, named by the buffer it was allocated for
  std::vector<wrapper::BufferId> memory(program.buffers.size());
  std::iota(memory.begin(), memory.end(), wrapper::BufferId{0});
  const auto is_callers = [&](wrapper::BufferId b) {
    return program.buffers[memory[b]].kind == wrapper::BufferKind::Input;
  };
  std::uint64_t live = 0;
  for (const wrapper::Line& line : program.lines) {
    if (auto* a = std::get_if<wrapper::Allocate>(&line))
      memory[a->buffer] = a->buffer, owners[a->buffer] = 1, live += bytes_of(program, a->buffer);
    if (auto* a = std::get_if<wrapper::AllocateComm>(&line))
      live += static_cast<std::uint64_t>(wrapper::comm_bytes(program, a->buffer));
    if (auto* f = std::get_if<wrapper::FreeComm>(&line))
      live -= static_cast<std::uint64_t>(wrapper::comm_bytes(program, f->buffer));
    if (auto* r = std::get_if<wrapper::Reuse>(&line)) memory[r->to] = memory[r->from], ++owners[memory[r->from]];
    if (auto* f = std::get_if<wrapper::Free>(&line); f && --owners[memory[f->buffer]] == 0 && !is_callers(f->buffer))
      live -= bytes_of(program, memory[f->buffer]);
    const bool call =
        std::holds_alternative<wrapper::CallKernel>(line) || std::holds_alternative<wrapper::CallExtern>(line) ||
        std::holds_alternative<wrapper::CallFallback>(line) || std::holds_alternative<wrapper::CallUserKernel>(line);
    report.extern_calls += std::holds_alternative<wrapper::CallExtern>(line);
    if (call || (std::holds_alternative<wrapper::Assert>(line) && !report.live_bytes.empty()))
      report.live_bytes.push_back(live);
  }
  report.weight_bytes = 0;
  for (const wrapper::Buffer& b : program.buffers)
    if (b.kind == wrapper::BufferKind::Constant)
      report.weight_bytes += static_cast<std::uint64_t>(program.env->hint_or(b.bytes, 0));
  report.peak_bytes =
      report.weight_bytes +
      (report.live_bytes.empty() ? 0 : *std::max_element(report.live_bytes.begin(), report.live_bytes.end()));
}

std::string report_text(const CompileReport& report, const SourceLines& lines, const ir::Graph& graph,
                        const scheduler::Schedule& schedule, const wrapper::Program& program,
                        const target::Costs& costs) {
  const auto peak = std::max_element(report.live_bytes.begin(), report.live_bytes.end());
  std::string text =
      fmt::format("{}: {} kernels, {} library calls, {} steps, {} of weights\n", program.name, report.kernels,
                  report.extern_calls, report.live_bytes.size(), human_bytes(report.weight_bytes));
  if (peak != report.live_bytes.end())
    text += fmt::format("peak of temporaries and outputs: {}, at step {} (sizes as exported)\n", human_bytes(*peak),
                        peak - report.live_bytes.begin());
  if (const auto& order = program.memory_order)
    text += fmt::format("order of calls: {}; temporaries and results peak at {}, {} as written\n", order->name,
                        human_bytes(order->now), human_bytes(order->written));
  text += "\nSteps, with the bytes live at each\n";
  write_steps(text, report, lines, program);
  text += memory_text(program, lines);
  if (const std::string streams = streams_text(program, costs); !streams.empty()) text += "\n" + streams;
  text += wrapper::parts_text(program, graph.target());
  text += "\n" + fusion_text(graph, schedule) + "\nLibrary calls\n";
  write_library_calls(text, program);
  write_fallbacks(text, lines, program);
  write_comm_pools(text, program);
  if (!report.resources.empty()) text += "\nWhat kernels take of a multiprocessor\n" + indented(report.resources);
  text += "\nTime of each stage\n";
  for (const auto& [name, seconds] : report.stages) text += fmt::format("  {:9.2f} ms  {}\n", seconds * 1e3, name);
  return text;
}

}  // namespace coil
