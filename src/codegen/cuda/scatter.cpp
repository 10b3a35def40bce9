// Scatters: a thread takes an iteration, or a run of neighbouring ones that write side by side. What hits one place
// combines by atomic updates; where it assigns, one of the writers wins, as in eager on a GPU. Sorted ones: one thread
// a place, which carries out the place's iterations in order.
#include "codegen/cuda/forms.h"
#include "support/error.h"

namespace coil::codegen {

namespace {

/// The first thread of a place's iterations combines all of them; where they assign, the last one's thread writes.
void in_order(Body& b, const Statement& s, const ir::Scatter& scatter) {
  const LoopDim along = b.nest.inner[*scatter.sorted];
  const std::string index = b.index_type(), i(along.var.name()), n = b.text(along.size);
  auto key_at = [&](const std::string& variable, const std::string& place) {
    b.block("", [&] {
      if (place != i) b.line("const {} other = {};", index, place);
      b.block("", [&] {
        if (place != i) b.line("const {} {} = other;", index, i);
        const std::string key = b.name(s.indirect[0]);
        b.line("{} = {};", variable, key);
      });
    });
  };
  b.put("i64 key, neighbour = -1;");
  key_at("key", i);
  const bool assigns = scatter.mode == ir::StoreMode::Assign;
  b.block(assigns ? fmt::format("if ({} + 1 < {})", i, n) : fmt::format("if ({} > 0)", i),
          [&] { key_at("neighbour", assigns ? i + " + 1" : i + " - 1"); });
  b.put("if (neighbour == key) return;");
  const DType d = b.graph.buffer(s.op->outs[0]).layout.dtype;
  const std::string dtype(short_name(d)),
      place = fmt::format("{}[{}]", b.pointer(s.op->outs[0], true), b.text_with(s.store, {"key"}));
  if (assigns) return b.line("{} = c_put_{}({});", place, dtype, b.name(s.body));
  b.line("const {} first = {};", index, i);
  b.line("{} sum = c_get_{}({});", cuda_register_type(s.body->dtype), dtype, place);
  b.block(fmt::format("for ({0} {1} = first; {1} < {2}; ++{1})", index, i, n), [&] {
    const std::string here = b.name(s.indirect[0]);
    b.line("if ({} != key) break;", here);
    const std::string x = b.name(s.body);
    b.line("sum = {}(sum, {});",
           scatter.mode == ir::StoreMode::Add    ? "c_add"
           : scatter.mode == ir::StoreMode::Prod ? "c_mul"
           : scatter.mode == ir::StoreMode::Max  ? "c_max"
                                                 : "c_min",
           x);
  });
  b.line("{} = c_put_{}(sum);", place, dtype);
}

/// How many neighbouring iterations a thread takes: whole vectors that are written, or added, side by side where one
/// set of indices says. 1: each by itself.
int width_of_runs(Body& b, const Statement& s, const ir::Scatter& scatter, const GpuModel& gpu) {
  const DType d = b.graph.buffer(s.op->outs[0]).layout.dtype;
  const int vector = static_cast<int>(16 / size_of(d));
  const bool adds = scatter.mode == ir::StoreMode::Add && gpu.most_cluster > 1 &&
                    (d == DType::F32 || d == DType::BF16 || d == DType::F16);  // sm_90 has the instructions
  if (scatter.sorted || b.nest.inner.empty() || vector < 2 || !(adds || scatter.mode == ir::StoreMode::Assign))
    return 1;
  const LoopDim& last = b.nest.inner.back();
  if (std::any_of(s.indirect.begin(), s.indirect.end(),
                  [&](ir::Scalar i) { return b.depends(i, std::span(&last.var, 1)); }))
    return 1;
  const int width = run_width(b, last);
  const Lanes lanes{last.var, width};
  const bool whole = adds ? width == vector : width > 1 && width <= vector;
  const bool fills = b.env().hint_or(b.env().simplify(product_of(b.nest.inner)), 1 << 24) / width >= gpu.threads() / 8;
  return whole && fills && lane_stride(b.env(), s.store, lanes) == 1 && run_aligned(b.env(), s.store, lanes) ? width
                                                                                                             : 1;
}

}  // namespace

Kernel cuda_scatter(Body& b, const GpuModel& gpu) {
  constexpr int kThreads = 256;
  const Statement& s = b.nest.statements[0];
  const auto& scatter = std::get<ir::Scatter>(s.op->node);
  const ir::StoreMode mode = scatter.mode;
  const std::string index = b.index_type();
  const Expr count = b.env().simplify(product_of(b.nest.inner));
  const int width = width_of_runs(b, s, scatter, gpu);
  const Launch launch{.grid = {sym::ceil_div(count, kThreads * width), 1, 1}, .block = kThreads};
  if (width == 1)
    b.line("const {0} w = ({0})blockIdx.x * {1} + threadIdx.x;", index, kThreads);
  else
    b.line("const {0} w = (({0})blockIdx.x * {1} + threadIdx.x) * {2};", index, kThreads, width);
  b.line("if (w >= {}) return;", b.text(count));
  decode(b, b.nest.inner, "w");
  b.stops_any_time = true;
  if (scatter.sorted) {
    in_order(b, s, scatter);
    return b.finish(launch);
  }
  if (width > 1) b.lanes = {b.nest.inner.back().var, width};
  std::vector<std::string> indirect;
  for (ir::Scalar i : s.indirect) {
    indirect.push_back(b.name(i));
    if (i->op == ir::ScalarOp::CheckIndex)
      b.line("if (c_outside({}, {})) return;", b.name(i->args[0]), b.text(i->index[0]));
  }
  const DType d = b.graph.buffer(s.op->outs[0]).layout.dtype;
  const std::string place = fmt::format("{} + {}", b.pointer(s.op->outs[0], true), b.text_with(s.store, indirect)),
                    dtype(short_name(d));
  if (width > 1) {
    const bool rounds = (d == DType::BF16 || d == DType::F16) && s.body->dtype == DType::F32;  // two at a time
    std::string run = b.fresh("o");
    if (rounds)
      b.line("f32 {}[{}];", run, width);
    else
      b.line("{} {};", b.pack_type(d), run);
    b.elements(b.roots({&s}), {}, [&] {
      const std::string x = b.name(s.body);
      if (rounds)
        b.line("{}{} = {};", run, b.lane(), x);
      else
        b.line("{}.e{} = c_put_{}({});", run, b.lane(), dtype, x);
    });
    if (rounds) run = fmt::format("c_packed_{}({})", dtype, run);
    if (mode == ir::StoreMode::Assign)
      b.line("c_write<{}>({}, {});", width, place, run);
    else
      b.line("c_add_run_{}({}, {});", dtype, place, run);
    return b.finish(launch);
  }
  const std::string x = b.name(s.body);
  if (mode == ir::StoreMode::Assign) {
    b.line("*({}) = c_put_{}({});", place, dtype, x);
  } else if (mode == ir::StoreMode::Add && (d == DType::F32 || d == DType::F64 || d == DType::I32 || d == DType::I64)) {
    b.line("c_atomic_add({}, {});", place, x);
  } else {
    const char* f = mode == ir::StoreMode::Add    ? "c_add"
                    : mode == ir::StoreMode::Prod ? "c_mul"
                    : mode == ir::StoreMode::Max  ? "c_max"
                                                  : "c_min";
    const std::string bits = fmt::format("u{}", size_of(d) * 8), type = cuda_storage_type(d);
    b.line(
        "c_update(({0}*)({1}), [&]({0} o) {{ return c_bits_as<{0}>(c_put_{2}({3}(c_get_{2}(c_bits_as<{4}>(o)), {5}))); "
        "}});",
        bits, place, dtype, f, type, x);
  }
  return b.finish(launch);
}

}  // namespace coil::codegen
