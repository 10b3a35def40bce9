#include "codegen/cuda/kernel.h"

#include "codegen/cuda/forms.h"
#include "codegen/cuda/windows.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

using ir::Scalar;
using ir::ScalarOp;
using scheduler::Role;

constexpr int kRun = 8;  // elements that loop orders should find side by side

bool computes_in_order(const Statement& s, bool pointwise) {
  return s.role == Role::Inner || (pointwise && s.role == Role::Outer);
}

/// Values of points flow into the bodies that read them at the same point; what is read elsewhere in the row must be in
/// memory.
void inline_values(ir::Graph& graph, LoopNest& nest) {
  bool pointwise = true;
  for (const Statement& s : nest.statements) pointwise = pointwise && s.role == Role::Outer;
  std::unordered_map<ir::BufferId, Statement*> made;
  for (Statement& s : nest.statements) {
    bool updates = false;
    auto value = [&](Scalar l) -> Scalar {
      updates = updates || l->buffer == s.op->outs[0];
      auto it = made.find(l->buffer);
      if (it == made.end()) return nullptr;
      Statement& m = *it->second;
      if (!computes_in_order(m, pointwise)) return nullptr;
      if (l->index[0] == m.store && l->dtype == m.body->dtype)
        return l->mask ? graph.pool().op(ScalarOp::Where, l->mask, m.body, graph.pool().constant(l->dtype, 0)) : m.body;
      m.stored = true;
      return nullptr;
    };
    s.body = graph.pool().replace_loads(s.body, value);
    if (!updates) made[s.op->outs[0]] = &s;
  }
}

}  // namespace

LoopNest cuda_nest(ir::Graph& graph, const scheduler::Group& group) {
  LoopNest nest = make_loop_nest(graph, group, kRun, true);
  inline_values(graph, nest);
  return nest;
}

Kernel print_cuda_kernel(ir::Graph& graph, const scheduler::Group& group, const GpuModel& model) {
  GpuModel gpu = model;
  if (group.shape > 0) gpu.shape = group.shape;
  return print_cuda_nest(graph, cuda_nest(graph, group), gpu);
}

Kernel print_cuda_nest(ir::Graph& graph, LoopNest nest, const GpuModel& gpu) {
  if (std::holds_alternative<ir::Scatter>(nest.statements[0].op->node)) {
    Body body(graph, std::move(nest));
    return cuda_scatter(body, gpu);
  }
  bool pointwise = true, scans = false;
  for (const Statement& s : nest.statements)
    pointwise = pointwise && s.role == Role::Outer, scans = scans || s.role == Role::Scan;
  if (!pointwise && !scans)
    if (auto kernel = cuda_windows(graph, nest, gpu)) return std::move(*kernel);
  Body body(graph, std::move(nest));
  if (scans) return cuda_scan(body, gpu);
  if (pointwise) return body.nest.tiled ? cuda_tiles(body, gpu) : cuda_pointwise(body, gpu);
  return body.nest.vector == LoopNest::Vector::Outer ? cuda_columns(body, gpu) : cuda_rows(body, gpu);
}

std::pair<std::string, std::string> batch_cuda_kernel(const std::string& symbol, const std::string& text,
                                                      std::size_t buffers, std::size_t count) {
  // `… SYMBOL(T0* p0, …, i64 n0, …, i64* status) {` and the lines of the body.
  const std::size_t name = text.find(symbol), open = text.find('(', name), close = text.find(") {\n", open);
  COIL_CHECK(name != std::string::npos && close != std::string::npos, "the text of {} has no head", symbol);
  std::vector<std::string> parameters;
  for (std::size_t at = open + 1; at < close;) {
    const std::size_t end = std::min(text.find(", ", at), close);
    parameters.push_back(text.substr(at, end - at));
    at = end + 2;
  }
  const std::string batched = fmt::format("{}_x{}", symbol, count);
  std::string head = fmt::format("{}{}(const __grid_constant__ c_table<{}> table", text.substr(0, name), batched,
                                 buffers * count),
              body;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const std::size_t star = parameters[k].rfind('*');
    if (k >= buffers)
      head += ", " + parameters[k];
    else
      body += fmt::format("  {} = ({})table.p[blockIdx.y * {} + {}];\n", parameters[k],
                          parameters[k].substr(0, star + 1), buffers, k);
  }
  return {batched, head + ") {\n" + body + text.substr(close + 4)};
}

Kernel print_cuda_scatter(ir::Graph& graph, const ir::Operation& op, const GpuModel& model) {
  return print_cuda_nest(graph, make_scatter_nest(graph, op), model);
}

}  // namespace coil::codegen
