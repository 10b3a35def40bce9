// Programs on Metal: memory that host and GPU share, and a command buffer that takes kernels until somebody waits.
#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>

#include "runtime/device/device.h"
#include "runtime/metal/gpu.h"
#include "runtime/views/strided_copy.h"
#include "support/error.h"

namespace coil::runtime::metal {
namespace {

constexpr std::string_view kArchitecture = "metal3";

/// A kernel that is ready, and how many of its arguments are buffers.
struct Kernel {
  void* pipeline = nullptr;
  std::size_t buffers = 0;
};

/// How many parameters of a kernel point to buffers of the program, by the signature that Coil gave it; nothing where
/// the source has no such kernel.
std::optional<std::size_t> buffers_of(std::string_view source, const std::string& symbol) {
  const std::size_t begin = source.find("kernel void " + symbol + "(");
  if (begin == source.npos) return std::nullopt;
  const std::string_view signature = source.substr(begin, source.find(')', source.find("uint3", begin)) - begin);
  std::size_t count = 0;
  for (std::size_t at = signature.find("* p"); at != signature.npos; at = signature.find("* p", at + 1)) ++count;
  return count;
}

class Kernels : public LoadedKernels {
 public:
  Kernels(std::shared_ptr<Gpu> gpu, std::span<const std::vector<std::byte>> sources) : gpu_(std::move(gpu)) {
    for (const auto& bytes : sources) {
      sources_.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      void* const library = gpu_->f.compile(gpu_->handle(), sources_.back().data(), sources_.back().size());
      if (!library) fail("Metal does not compile the program's kernels: {}", gpu_->f.error());
      libraries_.push_back(library);
    }
  }
  ~Kernels() override {
    for (void* library : libraries_) gpu_->f.free_library(library);
  }
  const void* find(const std::string& symbol) const override {
    std::lock_guard lock(mutex_);
    for (std::size_t k = 0; k < libraries_.size(); ++k) {
      const auto buffers = buffers_of(sources_[k], symbol);
      if (!buffers) continue;
      Kernel& kernel = kernels_[symbol];
      if (!kernel.pipeline) kernel = {gpu_->f.find(libraries_[k], symbol.c_str()), *buffers};
      if (!kernel.pipeline) fail("Metal has no kernel {}: {}", symbol, gpu_->f.error());
      return &kernel;
    }
    return nullptr;
  }

 private:
  std::shared_ptr<Gpu> gpu_;
  std::vector<std::string> sources_;
  std::vector<void*> libraries_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Kernel> kernels_;
};

class MetalQueue : public Queue {
 public:
  explicit MetalQueue(std::shared_ptr<Gpu> gpu)
      : gpu_(std::move(gpu)), pool_(std::make_shared<Pool>(gpu_)), handle_(gpu_->f.make_queue(gpu_->handle())) {
    if (!handle_) fail("{}: {}", to_string(device()), gpu_->f.error());
    failed_ = allocate(sizeof(std::int64_t));
    *failed_word() = 0;
  }
  ~MetalQueue() override {
    gpu_->f.finish(handle_);
    gpu_->f.free_queue(handle_);
  }

  Device device() const override { return metal_device(gpu_->index); }

  Storage allocate(std::size_t bytes) override {
    std::shared_ptr<std::byte> memory = pool_->allocate(bytes);
    if (!memory) {
      finish();  // commands keep the buffers that they use
      pool_->trim();
      memory = pool_->allocate(bytes);
    }
    if (!memory) fail_for_memory(bytes);
    return {std::move(memory), bytes, device()};
  }
  void copy(const Tensor& to, const Tensor& from) override {
    finish();
    copy_strided(to, from);
  }
  bool runs_ahead() const override { return true; }
  void wait() override { finish(); }

  void launch(const Launch& l, void* const* words) override {
    const Functions& f = gpu_->f;
    const auto& kernel = *static_cast<const Kernel*>(l.kernel);
    const std::size_t buffers = kernel.buffers, numbers = l.word_count - buffers - 1;
    void* const* const begin = words + l.words;
    f.use(handle_, kernel.pipeline);
    std::uint32_t at = 0;
    auto set = [&](const void* address) {
      if (address) {
        const auto [buffer, offset] = gpu_->place(address);
        f.set_buffer(handle_, at, buffer, offset);
      }
      ++at;
    };
    for (std::size_t i = 0; i < buffers; ++i) set(begin[i]);
    const bool packed = packs_numbers(buffers, numbers);
    if (packed) f.set_bytes(handle_, at++, begin + buffers, 8 * numbers);
    for (std::size_t i = 0; !packed && i < numbers; ++i) f.set_bytes(handle_, at++, begin + buffers + i, 8);
    set(failed_.data.get());
    const std::int64_t site = site_of(begin[l.word_count - 1]);
    f.set_bytes(handle_, at, &site, sizeof site);
    if (f.dispatch(handle_, l.grid, l.block)) fail("{}: {}", to_string(device()), f.error());
  }

 private:
  std::int64_t* failed_word() const { return reinterpret_cast<std::int64_t*>(failed_.data.get()); }

  /// The number of a call that may fail: a place in the list of the words that the host looks at (runtime/plan/plan.h,
  /// KernelCall).
  std::int64_t site_of(const void* status) {
    if (!status) return 0;
    std::int64_t* const told = static_cast<const FailureStatus*>(status)->host_word;
    const auto found = std::find(told_.begin(), told_.end(), told);
    if (found == told_.end()) return told_.push_back(told), static_cast<std::int64_t>(told_.size()) - 1;
    return found - told_.begin();
  }

  void finish() {
    if (gpu_->f.finish(handle_)) fail("{}: {}", to_string(device()), gpu_->f.error());
    std::int64_t& word = *failed_word();
    if (!word) return;
    const auto site = static_cast<std::size_t>(word & ~kFailed);
    word = 0;
    if (site < told_.size()) *told_[site] = 1;
  }

  std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<Pool> pool_;
  void* handle_;
  Storage failed_;
  std::vector<std::int64_t*> told_;
};

class Runtime : public DeviceRuntime {
 public:
  explicit Runtime(int index) : gpu_(Gpu::open(index)) {}
  Device device() const override { return metal_device(gpu_->index); }
  std::unique_ptr<LoadedKernels> load(const std::string& isa,
                                      std::span<const std::vector<std::byte>> libraries) override {
    if (isa != kArchitecture) fail("kernels for '{}' do not run on {}", isa, to_string(device()));
    return std::make_unique<Kernels>(gpu_, libraries);
  }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<MetalQueue>(gpu_); }

 private:
  std::shared_ptr<Gpu> gpu_;
};

[[maybe_unused]] const bool kRegistered =
    (register_device(DeviceType::register_kind("metal"), [](int index) { return std::make_shared<Runtime>(index); }),
     true);

}  // namespace
}  // namespace coil::runtime::metal
