// Scans along one dimension: a block walks a row in chunks and carries the total from one to the next; columns are one thread's each where they lie side by side.
#include "codegen/cuda/forms.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

using ir::Scalar;
using ir::ScanKind;

struct Combine {
  std::string op, identity;
};

Combine combine_of(ScanKind kind, DType d) {
  switch (kind) {
    case ScanKind::Sum: return {"c_op_add()", reduction_identity(ir::ReductionKind::Sum, d)};
    case ScanKind::Prod: return {"c_op_mul()", reduction_identity(ir::ReductionKind::Prod, d)};
    case ScanKind::Max: return {"c_op_max()", reduction_identity(ir::ReductionKind::Max, d)};
    case ScanKind::Min: return {"c_op_min()", reduction_identity(ir::ReductionKind::Min, d)};
    case ScanKind::LogSumExp: return {"c_op_lse()", reduction_identity(ir::ReductionKind::Max, d)};
  }
  return {};
}

Kernel columns(Body& b, const Statement& s, const Combine& c, const std::string& type) {
  constexpr int kThreads = 128;
  const std::string index = b.index_type();
  const LoopDim along = b.nest.inner[0];
  const Expr count = b.env().simplify(product_of(b.nest.outer));
  b.line("const {0} w = ({0})blockIdx.x * {1} + threadIdx.x;", index, kThreads);
  b.line("if (w >= {}) return;", b.text(count));
  decode(b, b.nest.outer, "w");
  const auto nodes = b.roots({&s});
  const Exprs moving{along.var};
  b.hoist(nodes, moving);
  b.line("{} a = {};", type, c.identity);
  b.put("#pragma unroll 8");
  b.block(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1})", index, along.var.name(), b.text(along.size)), [&] {
    const std::string x = b.name(s.body);
    b.line("a = {}(a, {});", c.op, x);
    b.store(s, "a");
  });
  return b.finish({.grid = {sym::ceil_div(count, kThreads), 1, 1}, .block = kThreads});
}

Kernel rows(Body& b, const Statement& s, const Combine& c, const std::string& type) {
  const std::string index = b.index_type();
  const LoopDim along = b.nest.inner[0];
  const std::string r(along.var.name()), n = b.text(along.size);
  const int width = run_width(b, along), each = std::max(4, width);  // elements of a thread in one chunk
  const int threads = std::max(32, power_of_two_at_least((b.env().hint_or(along.size, 4096) + each - 1) / each, 1024));
  const int warps = threads / 32;
  b.lanes = {along.var, width};
  b.line("const {0} row = ({0})blockIdx.x;", index);
  b.put("const int t = threadIdx.x, lane = t % 32, warp = t / 32;");
  decode(b, b.nest.outer, "row");
  const auto nodes = b.roots({&s});
  const Exprs moving{along.var};
  b.hoist(nodes, moving);
  b.head(fmt::format("__shared__ {} h[{}];", type, warps));
  b.line("{} carry = {};", type, c.identity);
  const bool whole = b.env().statically_known_multiple_of(along.size, static_cast<std::int64_t>(threads) * each);
  b.block(fmt::format("for ({0} q0 = 0; q0 < {1}; q0 += {2})", index, n, threads * each), [&] {
    b.line("{} y[{}];", type, each);
    auto runs = [&](const std::function<void()>& inside) {
      b.put("#pragma unroll");
      b.block(fmt::format("for (int m = 0; m < {}; ++m)", each / width), [&] {
        b.line("const {0} {1} = q0 + t * {2} + m * {3};", index, r, each, width);
        inside();
      });
    };
    const std::string at = width > 1 ? fmt::format("y[m * {} + j]", width) : "y[m]";
    runs([&] {
      const auto take = [&] {
        b.elements(nodes, {}, [&] {
          const std::string x = b.name(s.body);
          b.line("{} = {};", at, x);
        });
      };
      if (whole) return take();
      b.put("#pragma unroll");
      b.line("for (int j = 0; j < {0}; ++j) y[m * {0} + j] = {1};", width, c.identity);
      b.block(fmt::format("if ({} < {})", r, n), take);
    });
    b.put("#pragma unroll");
    b.line("for (int m = 1; m < {}; ++m) y[m] = {}(y[m - 1], y[m]);", each, c.op);
    b.line("const {} sum = c_scan_warp(y[{}], lane, {});", type, each - 1, c.op);
    b.line("const {} left = c_lane_up(sum, 1);", type);
    b.put("if (lane == 31) h[warp] = sum;");
    b.put("c_sync();");
    // Every warp scans the warps' totals for itself.
    b.line("{0} totals = lane < {1} ? h[lane] : {2};", type, warps, c.identity);
    b.line("totals = c_scan_warp(totals, lane, {});", c.op);
    b.line("{} before = carry;", type);
    b.line("const {0} earlier = c_lane_from(totals, warp > 0 ? warp - 1 : 0);", type);
    b.line("if (warp > 0) before = {}(before, earlier);", c.op);
    b.line("carry = {}(carry, c_lane_from(totals, {}));", c.op, warps - 1);
    b.line("if (lane > 0) before = {}(before, left);", c.op);
    runs([&] {
      const auto give = [&] {
        const Statement* const stores[] = {&s};
        b.elements({}, stores, [&] { b.store(s, fmt::format("{}(before, {})", c.op, at)); });
      };
      if (whole) return give();
      b.block(fmt::format("if ({} < {})", r, n), give);
    });
    b.put("c_sync();");
  });
  return b.finish({.grid = {product_of(b.nest.outer), 1, 1}, .block = threads});
}

}  // namespace

Kernel cuda_scan(Body& b, const GpuModel&) {
  COIL_CHECK(b.nest.statements.size() == 1 && b.nest.inner.size() == 1, "a scan runs alone, along one dimension");
  const Statement& s = b.nest.statements[0];
  const Combine c = combine_of(std::get<ir::Scan>(s.op->node).kind, s.body->dtype);
  const std::string type = cuda_register_type(s.body->dtype);
  const bool side_by_side = b.nest.vector == LoopNest::Vector::Outer;
  return side_by_side ? columns(b, s, c, type) : rows(b, s, c, type);
}

}  // namespace coil::codegen
