// Library operations and plans on the first CUDA device, for tests that compare with the CPU.
#pragma once
#include "runtime/device.h"
#include "gpu_plans.h"
#include "runtime_calls.h"

namespace coil::runtime {

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

}  // namespace coil::runtime
