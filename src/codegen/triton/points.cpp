// Pointwise kernels and scatters: a program computes a block of points at once.
#include <algorithm>

#include "codegen/heuristics/nest_facts.h"
#include "codegen/triton/forms.h"
#include "codegen/triton/operations.h"

namespace coil::codegen {

using ir::Scalar;
using ir::StoreMode;

Kernel triton_points(TritonBody& b, const BlockShape& block) {
  const std::vector<LoopDim>& dims = b.nest.outer;
  const Expr count = b.env().simplify(product_of(dims));
  b.begin_x(count, block.x);
  b.decode(dims, "xindex");
  for (const Statement& s : b.nest.statements) {
    const Scalar x = b.value_to_store(s);
    const std::string value = b.value(x);
    if (s.stored) b.store(s, value, kAlongX);
  }
  return b.finish({sym::ceil_div(count, block.x), 1, 1}, block.warps, {{"XBLOCK", block.x}}, true);
}

Kernel triton_tiles(TritonBody& b, const BlockShape& block) {
  std::vector<LoopDim> others = b.nest.outer;
  const LoopDim v = others.back(), u = others[*b.nest.tiled];
  others.pop_back();
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(*b.nest.tiled));
  b.second = 'Y';
  b.set_axis(u.var, kAlongR);
  for (const LoopDim& d : others) b.set_axis(d.var, kNoDims);
  const Expr along_v = b.env().simplify(sym::ceil_div(v.size, block.x)),
             along_u = b.env().simplify(sym::ceil_div(u.size, block.r));
  b.line("square = {}", b.program());
  b.begin_x(v.size, block.x, fmt::format("square % {}", b.divisor(along_v)));
  b.begin_r(u.size, block.r, fmt::format("square // {} % {} * YBLOCK", b.divisor(along_v), b.divisor(along_u)));
  b.line("{} = xindex", v.var.name());
  b.line("{} = yindex", u.var.name());
  if (!others.empty()) b.line("other = square // {}", b.divisor(b.env().simplify(along_v * along_u)));
  b.decode(others, "other");
  for (const Statement& s : b.nest.statements) {
    const Scalar x = b.value_to_store(s);
    const std::string value = b.value(x);
    if (s.stored) b.store(s, value, kBothDims);
  }
  return b.finish({product_of(others) * along_u * along_v, 1, 1}, block.warps,
                  {{"XBLOCK", block.x}, {"YBLOCK", block.r}}, true);
}

std::optional<std::string> no_triton_scatter(const ir::Graph& graph, const ir::Operation& op) {
  const auto& scatter = std::get<ir::Scatter>(op.node);
  const DType d = graph.buffer(op.outs[0]).layout.dtype;
  if (scatter.sorted) return "writes to one place in order";
  if (size_of(d) > 1 || scatter.mode == StoreMode::Assign) return std::nullopt;
  return fmt::format("atomic updates of {}", short_name(d));
}

namespace {

/// Triton's atomic operation, where it has one for all GPUs: of signed integers all but products, of floats addition.
std::string_view atomic_operation(StoreMode mode, DType d) {
  const bool words = d == DType::I32 || d == DType::I64;
  if (mode == StoreMode::Add && (words || (is_floating(d) && d != DType::BF16))) return "tl.atomic_add";
  if (mode == StoreMode::Max && words) return "tl.atomic_max";
  if (mode == StoreMode::Min && words) return "tl.atomic_min";
  return "";
}

std::string_view kind_of(StoreMode mode) {
  return mode == StoreMode::Max ? "max" : mode == StoreMode::Min ? "min" : mode == StoreMode::Prod ? "prod" : "add";
}

}  // namespace

Kernel triton_scatter(TritonBody& b, const BlockShape& block) {
  const Statement& s = b.nest.statements[0];
  const auto& scatter = std::get<ir::Scatter>(s.op->node);
  const Expr count = b.env().simplify(product_of(b.nest.inner));
  b.begin_x(count, block.x);
  b.decode(b.nest.inner, "xindex");
  const DType d = b.graph.buffer(s.op->outs[0]).layout.dtype;
  const Scalar body = b.value_to_store(s);
  const std::string x = triton_stored(b.block_value(body, kAlongX), d);
  const auto at = b.place(s.op->outs[0], true, s.store, s.indirect, kAlongX);
  const std::string_view atomic = atomic_operation(scatter.mode, d);
  if (scatter.mode == StoreMode::Assign)
    b.line("tl.store({}, {}{})", at.pointers, x, at.mask);
  else if (!atomic.empty())
    b.line("{}({}, {}{}, sem=\"relaxed\")", atomic, at.pointers, x, at.mask);
  else
    b.line("c_update({}, {}, {}, {}, \"{}\")", at.pointers, b.memory(s.op->outs[0]), x,
           at.mask.empty() ? "tl.full([1], True, tl.int1)" : at.mask.substr(2), kind_of(scatter.mode));
  return b.finish({sym::ceil_div(count, block.x), 1, 1}, block.warps, {{"XBLOCK", block.x}}, false);
}

}  // namespace coil::codegen
