#include "compiler/loop_program.h"

#include "codegen/loop_nest_text.h"
#include "codegen/triton/backend.h"
#include "compiler/stages.h"
#include "ir/text.h"
#include "scheduler/split.h"
#include "scheduler/text.h"
#include "support/error.h"
#include "sym/print.h"

namespace coil {
namespace {

void make_schedule(LoopProgram& p, const Machine& machine) {
  if (p.schedule || p.nests) fail("the program is scheduled already");
  p.schedule = scheduler::schedule(
      *p.graph, [&](Device d) -> const scheduler::Choices& { return machine.backend_of(d).choices(); });
}

void split_kernels(LoopProgram& p, const Machine& machine) {
  if (!p.schedule) make_schedule(p, machine);
  scheduler::split_for_memory(*p.graph, *p.schedule);
}

/// Calls `f` on each group and each scatter, in order of the schedule.
template <class F>
void for_each_kernel(LoopProgram& p, F&& f) {
  for (const scheduler::Item& item : p.schedule->items) {
    if (const auto* group = std::get_if<scheduler::Group>(&item)) {
      f(*group);
      continue;
    }
    const ir::Operation& op = p.graph->operations()[std::get<scheduler::Single>(item).op];
    if (std::holds_alternative<ir::Scatter>(op.node) || std::holds_alternative<ir::Extern>(op.node)) f(op);
  }
}

void make_nests(LoopProgram& p, const Machine& machine) {
  if (p.nests) fail("the program has its loop nests already");
  if (!p.schedule) make_schedule(p, machine);
  p.nests.emplace();
  for_each_kernel(p, [&](const auto& item) {
    if constexpr (std::is_same_v<std::decay_t<decltype(item)>, ir::Operation>)
      if (!std::holds_alternative<ir::Scatter>(item.node)) return;  // a library's, or a template
    if (auto nest = machine.backend->nest(*p.graph, item)) p.nests->push_back(std::move(*nest));
  });
}

/// `// coil_2a(buf0, &buf1; [s0]) over s0 by 512`, and the text.
std::string kernel_text(const codegen::Kernel& k) {
  std::string buffers, scalars, grid;
  for (std::size_t n = 0; n < k.buffers.size(); ++n)
    buffers += fmt::format("{}{}buf{}", n ? ", " : "", k.written[n] ? "&" : "", k.buffers[n]);
  for (sym::Expr e : k.scalars) scalars += (scalars.empty() ? "" : ", ") + sym::to_string(e);
  std::string how = fmt::format("over {} by {}", sym::to_string(k.extent), k.grain);
  if (k.launch) {
    for (sym::Expr e : k.launch->grid) grid += (grid.empty() ? "" : ", ") + sym::to_string(e);
    how = fmt::format("on [{}] x {} threads, {} shared bytes", grid, k.launch->block,
                      sym::to_string(k.launch->shared_bytes));
    if (k.launch->cluster > 1) how += fmt::format(", in clusters of {}", k.launch->cluster);
  }
  for (const auto& [from, to] : k.in_place) how += fmt::format(", buf{} may be buf{}", to, from);
  if (!k.language.empty()) how += ", " + k.language;
  return fmt::format("// {}({}; [{}]) {}{}\n{}\n", k.symbol, buffers, scalars, how, k.may_fail ? ", may fail" : "",
                     k.text);
}

void print_kernels(LoopProgram& p, const Machine& machine, const codegen::Backend& backend) {
  std::string out;
  if (p.nests) {
    for (const codegen::LoopNest& nest : *p.nests) out += kernel_text(backend.kernel(*p.graph, nest));
  } else {
    if (!p.schedule) make_schedule(p, machine);
    for_each_kernel(p, [&](const auto& item) {
      if constexpr (std::is_same_v<std::decay_t<decltype(item)>, ir::Operation>) {
        if (const auto* call = std::get_if<ir::Extern>(&item.node)) {
          if (backend.has_template(call->op)) out += kernel_text(backend.template_kernel(*p.graph, *call));
        } else {
          out += kernel_text(backend.scatter(*p.graph, item));
        }
      } else {
        out += kernel_text(backend.group(*p.graph, item));
      }
    });
  }
  p.kernels = std::move(out);
}

void emit_kernels(LoopProgram& p, const Machine& machine) { print_kernels(p, machine, *machine.backend); }

/// Whatever `cuda.kernels` says.
void emit_triton(LoopProgram& p, const Machine& machine) {
  const std::shared_ptr<const codegen::Backend> native(machine.backend.get(), [](const codegen::Backend*) {});
  print_kernels(p, machine, *codegen::make_triton_backend(native));
}

constexpr LoopStage kLoopStages[] = {
    {kStageSchedule.name, "Which operations share a kernel, in order, and why others do not.", make_schedule},
    {kStageSplit.name, "Kernels are taken apart that hold more memory at once than their parts need.", split_kernels},
    {"nest", "The loops of each kernel, made ready to be written in the device's language.", make_nests},
    {"emit-cpp", "The text of each kernel in C++.", emit_kernels, "cpu"},
    {"emit-cuda", "The text of each kernel in CUDA C++.", emit_kernels, "cuda"},
    {"emit-triton", "The text of each kernel in Triton, or in CUDA C++ where Triton has none.", emit_triton, "cuda"},
    {"emit-metal", "The text of each kernel in Metal's language.", emit_kernels, "metal"},
};

}  // namespace

LoopProgram parse_loop_program(std::string_view text) {
  ir::Parsed parsed = ir::parse(text);
  LoopProgram out{.graph = std::move(parsed.graph)};
  const std::string_view next = first_line(parsed.rest);
  if (next.starts_with("nest"))
    out.nests = codegen::parse_nests(parsed.rest, *out.graph, parsed.line);
  else if (!next.empty())
    out.schedule = scheduler::parse(parsed.rest, *out.graph, parsed.line);
  return out;
}

std::string to_string(const LoopProgram& p) {
  if (p.kernels) return *p.kernels;
  std::string text = ir::to_string(*p.graph);
  if (p.nests)
    for (std::size_t k = 0; k < p.nests->size(); ++k) text += codegen::to_string(*p.graph, (*p.nests)[k], k);
  else if (p.schedule)
    text += scheduler::to_string(*p.graph, *p.schedule);
  return text;
}

std::span<const LoopStage> loop_stages() { return kLoopStages; }

}  // namespace coil
