// Library operations and plans on the first CUDA device, for tests that compare with the CPU.
#pragma once
#include "runtime/device.h"
#include "runtime_calls.h"
#include "runtime_plans.h"

namespace coil::runtime {

inline constexpr Device kGpu{DeviceType::CUDA, 0};

/// A copy of a one-dimensional tensor on the queue's device.
inline Tensor on_device(Queue& queue, const Tensor& host) {
  Tensor t{queue.allocate(std::max<std::size_t>(static_cast<std::size_t>(host.numel()) * size_of(host.dtype), 1)), host.dtype, host.sizes, contiguous_strides(host.sizes), 0};
  if (host.numel() > 0) queue.copy(t, host);
  return t;
}

inline Tensor on_host(Queue& queue, const Tensor& t) {
  Tensor host = Tensor::empty(t.dtype, t.sizes);
  if (host.numel() > 0) queue.copy(host, t);
  queue.wait();
  return host;
}

/// As run_call, on a queue. Memory that nothing wrote is 0xff bytes (NaN in floats).
inline std::vector<double> run_on(Queue& queue, std::string_view op, const Attributes& attributes, const Operands& in, const BoundView& out, const Tensor* before = nullptr) {
  const QueueScope scope(queue);
  auto call = queue.make_op(std::string(op), attributes);
  call->prepare(in.views, {&out, 1});
  std::vector<Tensor> memory;
  std::vector<const void*> inputs;
  for (const Tensor& t : in.tensors) {
    memory.push_back(on_device(queue, t));
    inputs.push_back(memory.back().bytes());
  }
  Tensor result = Tensor::empty(out.dtype, {std::max<std::int64_t>(layout_span(out.sizes, out.strides), 1)});
  std::memset(result.bytes(), 0xff, static_cast<std::size_t>(result.numel()) * size_of(result.dtype));
  const Tensor device = on_device(queue, before ? *before : result);
  void* output = device.bytes();
  const Storage workspace = queue.allocate(call->workspace_bytes());
  call->run(inputs, {&output, 1}, workspace.data.get());
  return numbers(out, on_host(queue, device).bytes());
}

struct Gpu : testing::Test {
  std::shared_ptr<DeviceRuntime> device = open_device(kGpu);
  std::unique_ptr<Queue> queue = device->make_queue();
};

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

inline std::vector<std::byte> gpu_kernels() {
  const auto bytes = std::as_bytes(std::span(kGpuKernels, std::strlen(kGpuKernels)));
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
    plan.checks.push_back({this->PlanBuilder::add(ShapeOp::Le, elements, limit), fmt::format("input 'x' must have at most {} elements", most)});
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
    return {which, std::move(buffers), std::move(scalars), one, one, {blocks, one, one}, 128, zero};
  }
  Program program() { return {std::move(plan), {}, {gpu_kernels()}, ""}; }
};

/// y = (x * 2) + (x * 3).
inline Program gpu_scaled_sum() {
  GpuPlan b;
  const Slot two = b.constant(2), three = b.constant(3);
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"});
  const BufferId t0 = b.buffer({.kind = BufferKind::Temporary, .name = "t0", .bytes = b.bytes, .first = 0, .last = 2});
  const BufferId t1 = b.buffer({.kind = BufferKind::Temporary, .name = "t1", .bytes = b.bytes, .first = 1, .last = 2});
  const BufferId y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = b.bytes});
  b.plan.steps = {b.launch(b.scale, {x, t0}, {two}), b.launch(b.scale, {x, t1}, {three}), b.launch(b.add, {t0, t1, y}, {})};
  b.output("y", {y, DType::F32, {b.elements}, {b.one}, b.zero});
  return b.program();
}

}  // namespace coil::runtime
