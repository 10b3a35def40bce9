// Library operations and plans on the first CUDA device, for tests that compare with the CPU.
#pragma once
#include "gpu_plans.h"
#include "runtime/device/device.h"
#include "runtime_calls.h"

namespace coil::runtime {

/// A copy of a one-dimensional tensor on the queue's device.
inline Tensor on_device(Queue& queue, const Tensor& host) {
  Tensor t{queue.allocate(std::max<std::size_t>(static_cast<std::size_t>(host.numel()) * size_of(host.dtype), 1)),
           host.dtype, host.sizes, contiguous_strides(host.sizes), 0};
  if (host.numel() > 0) queue.copy(t, host);
  return t;
}

inline Tensor on_host(Queue& queue, const Tensor& t) {
  Tensor host = Tensor::empty(t.dtype, t.sizes);
  if (host.numel() > 0) queue.copy(host, t);
  queue.wait();
  return host;
}

/// As run_call, on a queue: what `before` says of each output's memory, and 0xff bytes (NaN in floats) where it says
/// nothing. Memory of views that are not aligned begins at an odd address.
inline std::vector<Tensor> run_all_on(Queue& queue, std::string_view op, const Attributes& attributes,
                                      const Operands& in, const std::vector<BoundView>& out,
                                      const Tensor* before = nullptr) {
  const QueueScope scope(queue);
  auto call = queue.make_op(std::string(op), attributes);
  call->prepare(in.views, out);
  std::vector<Storage> memory;
  auto placed = [&](const BoundView& view, const Tensor& host) {
    const std::size_t skipped = view.alignment < kDeviceAlignment ? static_cast<std::size_t>(view.alignment) : 0;
    const Storage& at =
        memory.emplace_back(queue.allocate(static_cast<std::size_t>(host.numel()) * size_of(host.dtype) + skipped + 1));
    return Tensor{at, host.dtype, host.sizes, contiguous_strides(host.sizes),
                  static_cast<std::int64_t>(skipped / size_of(host.dtype))};
  };
  std::vector<const void*> inputs;
  for (std::size_t i = 0; i < in.tensors.size(); ++i) {
    const Tensor t = placed(in.views[i], in.tensors[i]);
    if (t.numel() > 0) queue.copy(t, in.tensors[i]);
    inputs.push_back(t.bytes());
  }
  std::vector<Tensor> results;
  std::vector<void*> outputs;
  for (const BoundView& v : out) {
    Tensor first = Tensor::empty(v.dtype, {std::max<std::int64_t>(layout_span(v.sizes, v.strides), 1)});
    std::memset(first.bytes(), 0xff, static_cast<std::size_t>(first.numel()) * size_of(first.dtype));
    queue.copy(results.emplace_back(placed(v, first)), before ? *before : first);
    queue.wait();
    outputs.push_back(results.back().bytes());
  }
  const Storage workspace = queue.allocate(call->workspace_bytes());
  call->run(inputs, outputs, workspace.data.get());
  for (Tensor& t : results) t = on_host(queue, t);
  return results;
}

/// The elements of the only output.
inline std::vector<double> run_on(Queue& queue, std::string_view op, const Attributes& attributes, const Operands& in,
                                  const BoundView& out, const Tensor* before = nullptr) {
  return numbers(out, run_all_on(queue, op, attributes, in, {out}, before)[0].bytes());
}

struct Gpu : testing::Test {
  std::shared_ptr<DeviceRuntime> device = open_device(kGpu);
  std::unique_ptr<Queue> queue = device->make_queue();
};

}  // namespace coil::runtime
