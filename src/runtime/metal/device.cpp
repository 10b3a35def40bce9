// Programs on Metal: memory that host and GPU share, and a command buffer that takes kernels until somebody waits.
#include <algorithm>
#include <map>
#include <mutex>
#include <string_view>

#include "runtime/device/device.h"
#include "runtime/metal/machine.h"
#include "runtime/views/strided_copy.h"
#include "support/error.h"

namespace coil::runtime::metal {
namespace {

constexpr std::string_view kArchitecture = "metal3";

Device metal_device(int index) { return {DeviceType::register_kind("metal"), index}; }

/// A GPU, and whose memory lies where in the host's addresses.
class Gpu {
 public:
  explicit Gpu(int index) : index(index), handle_(f.open(index)) {
    if (!handle_) fail("{}: {}", to_string(metal_device(index)), f.error());
  }
  Gpu(const Gpu&) = delete;
  ~Gpu() { f.close(handle_); }

  void* handle() const { return handle_; }

  std::byte* allocate(std::size_t bytes) {
    void* contents = nullptr;
    void* const buffer = f.allocate(handle_, bytes, &contents);
    if (!buffer) return nullptr;
    std::lock_guard lock(mutex_);
    buffers_[static_cast<std::byte*>(contents)] = buffer;
    return static_cast<std::byte*>(contents);
  }
  void release(std::byte* contents) {
    void* buffer = nullptr;
    {
      std::lock_guard lock(mutex_);
      const auto found = buffers_.find(contents);
      buffer = found->second;
      buffers_.erase(found);
    }
    f.release(buffer);
  }
  /// The buffer that holds an address, and how far behind its beginning.
  std::pair<void*, std::size_t> place(const void* address) {
    std::lock_guard lock(mutex_);
    auto after = buffers_.upper_bound(const_cast<std::byte*>(static_cast<const std::byte*>(address)));
    COIL_CHECK(after != buffers_.begin(), "no buffer of Metal's is at this address");
    const auto& [begin, buffer] = *std::prev(after);
    return {buffer, static_cast<std::size_t>(static_cast<const std::byte*>(address) - begin)};
  }

  const Functions& f = functions();
  const int index;

 private:
  void* handle_;
  std::mutex mutex_;
  std::map<std::byte*, void*> buffers_;
};

class Kernels : public LoadedKernels {
 public:
  Kernels(std::shared_ptr<Gpu> gpu, std::span<const std::vector<std::byte>> sources) : gpu_(std::move(gpu)) {
    for (const auto& source : sources) {
      void* const library =
          gpu_->f.compile(gpu_->handle(), reinterpret_cast<const char*>(source.data()), source.size());
      if (!library) fail("Metal does not compile the program's kernels: {}", gpu_->f.error());
      libraries_.push_back(library);
    }
  }
  ~Kernels() override {
    for (void* library : libraries_) gpu_->f.free_library(library);
  }
  const void* find(const std::string& symbol) const override {
    for (void* library : libraries_)
      if (const void* kernel = gpu_->f.find(library, symbol.c_str())) return kernel;
    return nullptr;
  }

 private:
  std::shared_ptr<Gpu> gpu_;
  std::vector<void*> libraries_;
};

class MetalQueue : public Queue {
 public:
  explicit MetalQueue(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)), handle_(gpu_->f.make_queue(gpu_->handle())) {
    if (!handle_) fail("{}: {}", to_string(device()), gpu_->f.error());
    failed_ = allocate(sizeof(std::int64_t));
    *failed_word() = 0;
  }
  ~MetalQueue() override {
    gpu_->f.finish(handle_);
    gpu_->f.free_queue(handle_);
  }

  Device device() const override { return metal_device(gpu_->index); }
  void begin() override {}
  void end() noexcept override {}

  Storage allocate(std::size_t bytes) override {
    std::byte* const address = gpu_->allocate(std::max<std::size_t>(bytes, 1));
    if (!address)
      fail("out of memory on {}: {} bytes were asked for; the program's planned peak is {}", to_string(device()), bytes,
           planned_bytes);
    // What is encoded keeps its buffers, so that memory may go back before the commands are done.
    return {std::shared_ptr<std::byte>(address, [gpu = gpu_](std::byte* p) { gpu->release(p); }), bytes, device()};
  }
  std::span<std::int64_t> shared_words(std::size_t count) override {
    words_.assign(count, 0);
    return words_;
  }
  void copy(const Tensor& to, const Tensor& from) override {
    finish();
    copy_strided(to, from);
  }
  std::unique_ptr<LibraryOp> make_op(const std::string& op, const Attributes& attributes) override {
    return make_library_op(*this, op, attributes);
  }
  bool runs_ahead() const override { return true; }
  void wait() override { finish(); }

  void launch(const Launch& l, void* const* words) override {
    const Functions& f = gpu_->f;
    const std::size_t numbers = l.word_count - l.buffer_count - 1;
    void* const* const begin = words + l.words;
    f.use(handle_, const_cast<void*>(l.kernel));
    std::uint32_t at = 0;
    auto set = [&](const void* address) {
      if (address) {
        const auto [buffer, offset] = gpu_->place(address);
        f.set_buffer(handle_, at, buffer, offset);
      }
      ++at;
    };
    for (std::size_t i = 0; i < l.buffer_count; ++i) set(begin[i]);
    const bool packed = packs_numbers(l.buffer_count, numbers);
    if (packed) f.set_bytes(handle_, at++, begin + l.buffer_count, 8 * numbers);
    for (std::size_t i = 0; !packed && i < numbers; ++i) f.set_bytes(handle_, at++, begin + l.buffer_count + i, 8);
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
    auto* const told = reinterpret_cast<std::int64_t*>(static_cast<const std::int64_t*>(status)[1]);
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
  void* handle_;
  Storage failed_;
  std::vector<std::int64_t> words_;
  std::vector<std::int64_t*> told_;
};

class Runtime : public DeviceRuntime {
 public:
  explicit Runtime(int index) : gpu_(std::make_shared<Gpu>(index)) {}
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
