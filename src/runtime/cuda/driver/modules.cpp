#include "runtime/cuda/driver/modules.h"

#include <charconv>

#include "support/error.h"

namespace coil::runtime::cuda {
namespace {

bool is_elf(std::span<const std::byte> binary) {
  constexpr std::string_view kMagic =
      "\x7f"
      "ELF";
  return std::string_view(reinterpret_cast<const char*>(binary.data()), binary.size()).starts_with(kMagic);
}

class CudaKernels : public LoadedKernels {
 public:
  explicit CudaKernels(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}
  ~CudaKernels() override {
    for (Module m : modules_) device_->driver().module_unload(m);
  }

  const void* find(const std::string& symbol) const override {
    const CurrentContext current(*device_);
    for (Module m : modules_) {
      Function f = nullptr;
      const Result result = device_->driver().module_function(&f, m, symbol.c_str());
      if (result == kSuccess) return f;
      if (result != kNotFound)  // the driver loads a kernel when it is asked for, and may find no memory
        fail("{} cannot load the kernel {}: {}", device_->describe(), symbol, device_->driver().describe(result));
    }
    return nullptr;
  }

  /// Whether it was loaded.
  bool add(std::span<const std::byte> binary) {
    Module module = nullptr;
    std::string log;
    Result result;
    if (!is_elf(binary)) {  // text, in the driver's eyes, which it reads to its end
      std::string text(reinterpret_cast<const char*>(binary.data()), binary.size());
      result = load_module(device_->driver(), text.c_str(), module, log);
    } else {
      result = load_module(device_->driver(), binary.data(), module, log);
    }
    if (result == kNoBinaryForGpu || result == kInvalidImage || result == kUnsupportedPtxVersion) {
      last_ = result;
      return false;
    }
    if (result != kSuccess)
      fail("{} cannot load the kernels: {}{}{}", device_->describe(), device_->driver().describe(result),
           log.empty() ? "" : ": ", log);
    modules_.push_back(module);
    return true;
  }

  Result last() const { return last_; }

 private:
  std::shared_ptr<const CudaDevice> device_;
  std::vector<Module> modules_;
  Result last_ = kSuccess;
};

}  // namespace

bool runs_on(const std::string& isa, int capability) {
  if (!isa.starts_with("sm_")) return true;
  int number = 0;
  const char* end = isa.data() + isa.size();
  const auto [rest, status] = std::from_chars(isa.data() + 3, end, number);
  if (status != std::errc()) return true;
  return rest == end ? number / 10 == capability / 10 && number <= capability : number == capability;
}

Result load_module(const Driver& driver, const void* image, Module& module, std::string& log) {
  char text[4096] = {};
  int options[] = {kJitErrorLog, kJitErrorLogBytes};
  void* values[] = {text, reinterpret_cast<void*>(sizeof text)};
  const Result result = driver.module_load(&module, image, 2, options, values);
  log.assign(text, strnlen(text, sizeof text));
  while (!log.empty() && log.back() == '\n') log.pop_back();
  return result;
}

std::unique_ptr<LoadedKernels> load_modules(std::shared_ptr<const CudaDevice> device, const std::string& isa,
                                            std::span<const std::vector<std::byte>> libraries) {
  const CurrentContext current(*device);
  auto kernels = std::make_unique<CudaKernels>(device);
  bool loaded = libraries.empty();
  if (runs_on(isa, device->capability()))
    for (const auto& binary : libraries) loaded = (is_elf(binary) && kernels->add(binary)) || loaded;
  if (!loaded)
    for (const auto& binary : libraries) loaded = (!is_elf(binary) && kernels->add(binary)) || loaded;
  if (loaded) return kernels;
  if (kernels->last() == kUnsupportedPtxVersion)
    fail(
        "{}: its driver (CUDA {}.{}) is older than the toolkit that the kernels were compiled with; update the driver, "
        "or compile with --set cuda.arch=sm_{}",
        device->describe(), device->driver().version() / 1000, device->driver().version() % 1000 / 10,
        device->capability());
  fail("the kernels are for {}, but {} is sm_{}; compile with --set cuda.arch=sm_{}",
       isa.empty() ? "another device" : isa, device->describe(), device->capability(), device->capability());
}

}  // namespace coil::runtime::cuda
