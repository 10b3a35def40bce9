// Pointwise kernels: a program computes a block of points at once.
#include "codegen/heuristics/nest_facts.h"
#include "codegen/triton/forms.h"

namespace coil::codegen {

using ir::Scalar;

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

}  // namespace coil::codegen
