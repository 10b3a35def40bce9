// Hand-written plans over CUDA kernels, for tests on a device and on the fake driver (test/fake_cuda).
#pragma once
#include <cstring>

#include "runtime/device/device.h"
#include "runtime_plans.h"

namespace coil::runtime {

inline constexpr Device kGpu{DeviceType::CUDA, 0};

inline std::vector<float> counting(std::size_t n, float from = -3) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<float>(i) + from;
  return v;
}

inline std::vector<float> times(std::vector<float> v, float by) {
  for (float& x : v) x *= by;
  return v;
}

/// y[i] = x[i] * s0 and c[i] = a[i] + b[i] over f32, and a kernel that reports a failure when s0 is not 0.
inline constexpr const char* kGpuKernels = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 y, .param .u64 s0, .param .u64 n, .param .u64 status) {
  .reg .pred %p; .reg .b32 %a, %b, %c; .reg .b64 %i, %n, %x, %y, %s; .reg .f32 %v, %f;
  ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; ld.param.u64 %s, [s0]; ld.param.u64 %n, [n];
  mov.u32 %a, %ctaid.x; mov.u32 %b, %ntid.x; mov.u32 %c, %tid.x; mad.lo.u32 %a, %a, %b, %c; cvt.u64.u32 %i, %a;
  setp.ge.u64 %p, %i, %n; @%p ret;
  mad.lo.u64 %x, %i, 4, %x; mad.lo.u64 %y, %i, 4, %y;
  ld.global.f32 %v, [%x]; cvt.rn.f32.s64 %f, %s; mul.f32 %v, %v, %f; st.global.f32 [%y], %v; ret;
}
.visible .entry add(.param .u64 x, .param .u64 z, .param .u64 y, .param .u64 n, .param .u64 status) {
  .reg .pred %p; .reg .b32 %a, %b, %c; .reg .b64 %i, %n, %x, %y, %z; .reg .f32 %v, %f;
  ld.param.u64 %x, [x]; ld.param.u64 %z, [z]; ld.param.u64 %y, [y]; ld.param.u64 %n, [n];
  mov.u32 %a, %ctaid.x; mov.u32 %b, %ntid.x; mov.u32 %c, %tid.x; mad.lo.u32 %a, %a, %b, %c; cvt.u64.u32 %i, %a;
  setp.ge.u64 %p, %i, %n; @%p ret;
  mad.lo.u64 %x, %i, 4, %x; mad.lo.u64 %y, %i, 4, %y; mad.lo.u64 %z, %i, 4, %z;
  ld.global.f32 %v, [%x]; ld.global.f32 %f, [%z]; add.f32 %v, %v, %f; st.global.f32 [%y], %v; ret;
}
.visible .entry guard(.param .u64 s0, .param .u64 status) {
  .reg .pred %p; .reg .b64 %s, %t;
  ld.param.u64 %s, [s0]; ld.param.u64 %t, [status]; setp.eq.u64 %p, %s, 0; @%p ret;
  st.global.u64 [%t], 1; ret;
}
)";

/// y[0] = how many of x[i] are above 0, an I64.
inline constexpr const char* kCountKernel = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry count(.param .u64 x, .param .u64 y, .param .u64 n, .param .u64 status) {
  .reg .pred %p; .reg .b32 %t, %b; .reg .b64 %x, %y, %n, %c; .reg .f32 %v;
  ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; ld.param.u64 %n, [n];
  mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; or.b32 %t, %t, %b; setp.ne.u32 %p, %t, 0; @%p ret;
  mov.u64 %c, 0;
NEXT:
  setp.eq.u64 %p, %n, 0; @%p bra DONE;
  ld.global.f32 %v, [%x]; setp.gt.f32 %p, %v, 0f00000000; @%p add.u64 %c, %c, 1;
  add.u64 %x, %x, 4; sub.u64 %n, %n, 1; bra NEXT;
DONE:
  st.global.u64 [%y], %c; ret;
}
)";

inline std::vector<std::byte> gpu_kernels(const char* text = kGpuKernels) {
  const auto bytes = std::as_bytes(std::span(text, std::strlen(text)));
  return {bytes.begin(), bytes.end()};
}

/// `count` times y = x * 1 + 0…: x scaled by two, then `count - 1` more kernels, each over f32[n].
struct GpuPlan : PlanBuilder {
  Slot elements = 0, bytes = 0, one = 0, zero = 0, blocks = 0;
  std::uint32_t scale = 0, add = 0;

  explicit GpuPlan(std::int64_t most = 1 << 20) {
    plan.device = kGpu;
    elements = this->PlanBuilder::add(ShapeOp::InputSize, 0, 0);
    const Slot limit = constant(most), four = constant(4), threads = constant(128);
    plan.checks.push_back({this->PlanBuilder::add(ShapeOp::Le, elements, limit),
                           fmt::format("input 'x' must have at most {} elements", most)});
    bytes = this->PlanBuilder::add(ShapeOp::Mul, elements, four);
    blocks = this->PlanBuilder::add(ShapeOp::CeilDiv, elements, threads);
    one = constant(1);
    zero = constant(0);
    plan.inputs.push_back({"x", DType::F32, {elements}, {one}});
    scale = kernel("scale");
    add = kernel("add");
  }
  KernelCall launch(std::uint32_t which, std::vector<BufferId> buffers, std::vector<Slot> scalars) const {
    scalars.push_back(elements);
    const auto last = static_cast<std::uint32_t>(buffers.size() - 1);
    return {which, std::move(buffers), std::move(scalars), one, one, {blocks, one, one}, 128, zero, {last}};
  }
  StoredProgram program() { return {std::move(plan), {}, {gpu_kernels(), gpu_kernels(kCountKernel)}, ""}; }
};

/// y = (x * 2) + (x * 3).
inline StoredProgram gpu_scaled_sum() {
  GpuPlan b;
  const Slot two = b.constant(2), three = b.constant(3);
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"});
  const BufferId t0 = b.buffer({.kind = BufferKind::Temporary, .name = "t0", .bytes = b.bytes, .first = 0, .last = 2});
  const BufferId t1 = b.buffer({.kind = BufferKind::Temporary, .name = "t1", .bytes = b.bytes, .first = 1, .last = 2});
  const BufferId y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = b.bytes});
  b.plan.steps = {b.launch(b.scale, {x, t0}, {two}), b.launch(b.scale, {x, t1}, {three}),
                  b.launch(b.add, {t0, t1, y}, {})};
  b.output("y", {y, DType::F32, {b.elements}, {b.one}, b.zero});
  return b.program();
}

/// Work with a number in the middle that the host reads: n = how many of x are above 0; each of `turns` turns makes t =
/// x * 3 over the first n, u = t + t1, which is x * 3 from before. Returns y = x * 5 by four kernels before, and u.
inline StoredProgram gpu_counted(std::int64_t turns = 1) {
  GpuPlan b;
  const Slot two = b.constant(2), three = b.constant(3), eight = b.constant(8), four = b.constant(4),
             threads = b.constant(128), end = b.constant(turns);
  const Slot turn = b.PlanBuilder::add(ShapeOp::RunTime, 0), n = b.PlanBuilder::add(ShapeOp::RunTime, 1),
             bytes = b.PlanBuilder::add(ShapeOp::Mul, n, four),
             blocks = b.PlanBuilder::add(ShapeOp::CeilDiv, n, threads);
  const std::uint32_t count = b.kernel("count");
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"});
  const BufferId t0 = b.buffer({.kind = BufferKind::Temporary, .name = "t0", .bytes = b.bytes, .first = 0, .last = 2});
  const BufferId t1 = b.buffer({.kind = BufferKind::Temporary, .name = "t1", .bytes = b.bytes, .first = 1, .last = 9});
  const BufferId number =
      b.buffer({.kind = BufferKind::Temporary, .name = "number", .bytes = eight, .first = 3, .last = 4});
  const BufferId y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = b.bytes});
  const BufferId t = b.buffer({.kind = BufferKind::Temporary, .name = "t", .bytes = bytes, .first = 6, .last = 9});
  const BufferId u = b.buffer({.kind = BufferKind::Output, .name = "u", .bytes = bytes});
  auto late = [&](std::uint32_t which, std::vector<BufferId> buffers, std::vector<Slot> scalars) {
    scalars.push_back(n);
    return KernelCall{which, std::move(buffers), std::move(scalars), b.one, b.one, {blocks, b.one, b.one}, 128, b.zero};
  };
  b.plan.steps = {b.launch(b.scale, {x, t0}, {two}),                                                               // 0
                  b.launch(b.scale, {x, t1}, {three}),                                                             // 1
                  b.launch(b.add, {t0, t1, y}, {}),                                                                // 2
                  KernelCall{count, {x, number}, {b.elements}, b.one, b.one, {b.one, b.one, b.one}, 128, b.zero},  // 3
                  ReadSymbol{number, n},                                                                           // 4
                  AllocateBuffer{u},                                                                               // 5
                  Control{Control::Kind::Loop, end, turn, 11},                                                     // 6
                  AllocateBuffer{t},                                                                               // 7
                  late(b.scale, {x, t}, {three}),                                                                  // 8
                  late(b.add, {t, t1, u}, {}),                                                                     // 9
                  FreeBuffer{t},                                                                                   // 10
                  Control{Control::Kind::EndLoop, b.zero, b.zero, 6}};                                             // 11
  std::get<Control>(b.plan.steps[6]).target = 12;
  b.output("y", {y, DType::F32, {b.elements}, {b.one}, b.zero});
  b.output("u", {u, DType::F32, {n}, {b.one}, b.zero});
  return b.program();
}

}  // namespace coil::runtime
