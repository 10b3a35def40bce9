// A machine whose GPUs are those of test/fake_cuda, for tests of the runtime's CUDA side.
#pragma once
#include <dlfcn.h>

#include "../fake_cuda/fake_cuda.h"
#include "gpu_plans.h"
#include "runtime/cuda/driver/device.h"
#include "runtime/device/messages.h"

namespace coil::runtime {

inline std::string fake_driver() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib/fake_cuda/libcuda.so.1")
      .string();
}

/// The machine of test/fake_cuda, as new; from then on it is what the runtime finds as libcuda.so.1.
struct FakeCuda : testing::Test {
  FakeCuda() {
    void* handle = dlopen(fake_driver().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw std::runtime_error(dlerror());
    reset = reinterpret_cast<void (*)()>(dlsym(handle, "coil_fake_cuda_reset"));
    reset();
    machine = reinterpret_cast<fake_cuda::Machine* (*)()>(dlsym(handle, "coil_fake_cuda"))();
    create_stream = reinterpret_cast<int (*)(void**, unsigned)>(dlsym(handle, "cuStreamCreate"));
    set_current = reinterpret_cast<int (*)(void*)>(dlsym(handle, "cuCtxSetCurrent"));
    get_current = reinterpret_cast<int (*)(void**)>(dlsym(handle, "cuCtxGetCurrent"));
    retain = reinterpret_cast<int (*)(void**, int)>(dlsym(handle, "cuDevicePrimaryCtxRetain"));
  }
  ~FakeCuda() override { set_listener({}); }

  std::shared_ptr<DeviceRuntime> open(int index = 0) const { return cuda::open_cuda(index, fake_driver()); }
  std::shared_ptr<const Model> load(StoredProgram p, int index = 0) const {
    p.plan.device = {DeviceType::CUDA, index};
    return Model::load(std::move(p), open(index));
  }

  fake_cuda::Machine* machine = nullptr;
  void (*reset)() = nullptr;
  int (*create_stream)(void**, unsigned) = nullptr;
  int (*set_current)(void*) = nullptr;
  int (*get_current)(void**) = nullptr;
  int (*retain)(void**, int) = nullptr;
};

/// A tensor on the model's device.
inline Tensor on_device(Queue& queue, const std::vector<float>& values) {
  const QueueScope scope(queue);
  Tensor host = tensor_of(values, {static_cast<std::int64_t>(values.size())}), t = host;
  t.storage = queue.allocate(std::max<std::size_t>(4 * values.size(), 1));
  if (!values.empty()) queue.copy(t, host);
  queue.wait();
  return t;
}

inline void write(Queue& queue, const Tensor& t, const std::vector<float>& values) {
  const QueueScope scope(queue);
  queue.copy(t, tensor_of(values, t.sizes));
  queue.wait();
}

}  // namespace coil::runtime
