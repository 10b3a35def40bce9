#include "runtime/cuda/driver/device.h"

#include "runtime/cuda/driver/modules.h"
#include "runtime/cuda/driver/queue.h"
#include "support/error.h"

namespace coil::runtime::cuda {

CudaDevice::CudaDevice(std::shared_ptr<const Driver> driver, int index) : driver_(std::move(driver)), index_(index) {
  const Driver& d = *driver_;
  int count = 0;
  d.check(d.device_count(&count), "count its devices");
  if (index < 0 || index >= count)
    fail("there is no device cuda:{}: this machine has {}", index,
         count == 1 ? "one, cuda:0" : fmt::format("{}", count));
  d.check(d.device_get(&ordinal_, index), "find the device");
  char name[256] = {};
  d.check(d.device_name(name, sizeof name, ordinal_), "name the device");
  name_ = name;
  int major = 0, minor = 0;
  d.check(d.device_attribute(&major, kAttributeMajor, ordinal_), "tell the device's capability");
  d.check(d.device_attribute(&minor, kAttributeMinor, ordinal_), "tell the device's capability");
  d.check(d.device_attribute(&shared_bytes_, kAttributeSharedOptin, ordinal_), "tell the device's shared memory");
  d.check(d.device_attribute(&cache_bytes_, kAttributeL2, ordinal_), "tell the device's cache");
  capability_ = major * 10 + minor;
  const auto number = [&](int attribute) {
    int value = 0;
    d.check(d.device_attribute(&value, attribute, ordinal_), "tell the device's speed");
    return static_cast<double>(value);
  };
  constexpr double kHertz = 1e3, kBits = 8, kTransfers = 2;  // of a kilohertz, of a byte, of a cycle of the memory
  cycles_per_second_ = number(kAttributeMultiprocessors) * number(kAttributeClock) * kHertz;
  bytes_per_second_ = number(kAttributeMemoryClock) * kHertz * kTransfers * number(kAttributeBusWidth) / kBits;
  d.check(d.context_retain(&context_, ordinal_), "make a context on the device");
}

CudaDevice::~CudaDevice() {
  if (context_) driver_->context_release(ordinal_);
}

std::string CudaDevice::describe() const { return fmt::format("{} ({})", to_string(device()), name_); }

CurrentContext::CurrentContext(const CudaDevice& device) : device_(device) {
  const Driver& d = device.driver();
  d.check(d.context_current(&before_), "tell the current context");
  if (before_ != device.context()) d.check(d.context_set(device.context()), "switch to the device");
}

CurrentContext::~CurrentContext() {
  if (before_ != device_.context()) device_.driver().context_set(before_);
}

namespace {

class CudaRuntime : public DeviceRuntime {
 public:
  explicit CudaRuntime(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}
  Device device() const override { return device_->device(); }
  std::unique_ptr<LoadedKernels> load(const std::string& isa,
                                      std::span<const std::vector<std::byte>> libraries) override {
    return load_modules(device_, isa, libraries);
  }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<CudaQueue>(device_); }

 private:
  std::shared_ptr<const CudaDevice> device_;
};

[[maybe_unused]] const bool kRegistered =
    (register_device(DeviceType::CUDA, [](int index) { return open_cuda(index); }), true);

}  // namespace

std::shared_ptr<DeviceRuntime> open_cuda(int index) { return open_cuda(index, "libcuda.so.1"); }

std::shared_ptr<DeviceRuntime> open_cuda(int index, const std::string& driver_library) {
  return std::make_shared<CudaRuntime>(std::make_shared<const CudaDevice>(Driver::open(driver_library), index));
}

}  // namespace coil::runtime::cuda
