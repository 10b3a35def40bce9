// Scatters: one thread an iteration. What hits one place combines by atomic updates; where it assigns, one of the writers wins, as in eager on a GPU.
#include "codegen/cuda/forms.h"
#include "support/error.h"

namespace coil::codegen {

Kernel cuda_scatter(Body& b, const GpuModel&) {
  constexpr int kThreads = 256;
  const Statement& s = b.nest.statements[0];
  const ir::StoreMode mode = std::get<ir::Scatter>(s.op->node).mode;
  const std::string index = b.index_type();
  const Expr count = b.env().simplify(product_of(b.nest.inner));
  b.line("const {0} w = ({0})blockIdx.x * {1} + threadIdx.x;", index, kThreads);
  b.line("if (w >= {}) return;", b.text(count));
  decode(b, b.nest.inner, "w");
  const std::string x = b.name(s.body);
  std::vector<std::string> indirect;
  for (ir::Scalar i : s.indirect) {
    indirect.push_back(b.name(i));
    if (i->op == ir::ScalarOp::CheckIndex) b.line("if (c_outside({}, {})) return;", b.name(i->args[0]), b.text(i->index[0]));
  }
  b.stops_any_time = true;
  const DType d = b.graph.buffer(s.op->outs[0]).layout.dtype;
  const std::string place = fmt::format("{} + {}", b.pointer(s.op->outs[0], true), b.text_with(s.store, indirect)), dtype(short_name(d));
  if (mode == ir::StoreMode::Assign) {
    b.line("*({}) = c_put_{}({});", place, dtype, x);
  } else if (mode == ir::StoreMode::Add && (d == DType::F32 || d == DType::F64 || d == DType::I32 || d == DType::I64)) {
    b.line("c_atomic_add({}, {});", place, x);
  } else {
    const char* f = mode == ir::StoreMode::Add ? "c_add" : mode == ir::StoreMode::Prod ? "c_mul" : mode == ir::StoreMode::Max ? "c_max" : "c_min";
    const std::string bits = fmt::format("u{}", size_of(d) * 8), type = cuda_storage_type(d);
    b.line("c_update(({0}*)({1}), [&]({0} o) {{ return c_bits_as<{0}>(c_put_{2}({3}(c_get_{2}(c_bits_as<{4}>(o)), {5}))); }});", bits, place, dtype, f, type, x);
  }
  return b.finish({.grid = {sym::ceil_div(count, kThreads), 1, 1}, .block = kThreads});
}

}  // namespace coil::codegen
