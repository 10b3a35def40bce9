// Segments of CUDA devices: memory of one process that others of the machine map by CUDA's own handles. Behind the
// bytes that are asked for lies what the kernels that add up over ranks keep (peer_sums.h).
#include <map>
#include <mutex>

#include "runtime/cuda/groups/peer_sums.h"
#include "runtime/groups/symmetric.h"
#include "support/error.h"

namespace coil::runtime::groups {
namespace {

using cuda::CudaDevice;
using cuda::CurrentContext;
using cuda::Driver;
using cuda::MemoryHandle;

/// Handles are of whole pieces of the driver's: smaller allocations would share one with others.
constexpr std::size_t kPiece = std::size_t{2} << 20;

std::shared_ptr<const CudaDevice> open_device(int index) {
  static std::mutex mutex;
  static std::map<int, std::shared_ptr<const CudaDevice>> open;
  const std::lock_guard lock(mutex);
  auto& device = open[index];
  if (!device) device = std::make_shared<const CudaDevice>(Driver::open(), index);
  return device;
}

class DeviceSegment final : public Segment {
 public:
  DeviceSegment(std::size_t bytes, Device device) : device_(open_device(device.index)), bytes_(bytes) {
    const Driver& d = device_->driver();
    const CurrentContext current(*device_);
    const std::size_t all = (cuda::PeerControl::all_bytes(bytes) + kPiece - 1) / kPiece * kPiece;
    d.check(d.allocate(&address_, all), "allocate memory that ranks share");
    try {
      d.check(d.fill_bytes(address_, 0, all, nullptr), "fill memory");
      d.check(d.stream_wait(nullptr), "fill memory");
    } catch (...) {
      d.release(address_);
      throw;
    }
  }
  ~DeviceSegment() override {
    const CurrentContext current(*device_);
    device_->driver().release(address_);
    if (failure_) device_->driver().host_release(failure_);
  }

  std::byte* data() const override { return reinterpret_cast<std::byte*>(address_); }
  const std::int64_t* failure() const override { return failure_; }

  void connect(std::span<std::byte* const> ranks, int rank, std::chrono::nanoseconds timeout) override {
    if (ranks.size() > cuda::PeerControl::kRanks) return;  // whoever uses it refuses
    const Driver& d = device_->driver();
    const CurrentContext current(*device_);
    void* word = nullptr;
    d.check(d.host_allocate(&word, sizeof *failure_, 0), "allocate page-locked memory");
    failure_ = static_cast<std::int64_t*>(word);
    *failure_ = 0;
    cuda::PeerTable table{.failure = reinterpret_cast<std::uint64_t>(failure_),
                          .timeout = static_cast<std::uint64_t>(timeout.count()),
                          .rank = static_cast<std::uint32_t>(rank),
                          .ranks = static_cast<std::uint32_t>(ranks.size()),
                          .most = cuda::PeerTable::most_sent(static_cast<int>(ranks.size()))};
    for (std::size_t r = 0; r < ranks.size(); ++r)
      table.lines[r] = reinterpret_cast<std::uint64_t>(ranks[r] + cuda::PeerControl::lines_offset(bytes_));
    d.check(d.copy_to_device(address_ + peer_table_offset(bytes_), &table, sizeof table, nullptr),
            "copy to the device");
    d.check(d.stream_wait(nullptr), "copy to the device");
  }

  std::string handle() const override {
    const Driver& d = device_->driver();
    if (!d.share || !d.share_open || !d.share_close) fail("the CUDA driver lets no other process map memory");
    const CurrentContext current(*device_);
    MemoryHandle handle;
    d.check(d.share(&handle, address_), "let other processes map memory");
    std::string text;
    for (char c : handle.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
    return text;
  }

 private:
  std::shared_ptr<const CudaDevice> device_;
  std::size_t bytes_;
  cuda::Address address_ = 0;
  std::int64_t* failure_ = nullptr;
};

/// Another process's.
class MappedSegment final : public Segment {
 public:
  MappedSegment(const std::string& text, Device device) : device_(open_device(device.index)) {
    const Driver& d = device_->driver();
    MemoryHandle handle;
    if (text.size() != 2 * sizeof handle.bytes) fail("another rank's memory has no handle");
    for (std::size_t i = 0; i < sizeof handle.bytes; ++i)
      handle.bytes[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
    const CurrentContext current(*device_);
    d.check(d.share_open(&address_, handle, cuda::kLazyPeerAccess),
            "reach the memory of another rank's device (it needs peer access between the two)");
  }
  ~MappedSegment() override {
    const CurrentContext current(*device_);
    device_->driver().share_close(address_);
  }
  std::byte* data() const override { return reinterpret_cast<std::byte*>(address_); }

 private:
  std::shared_ptr<const CudaDevice> device_;
  cuda::Address address_ = 0;
};

const DefineSegments kCuda(
    DeviceType::CUDA,
    {.allocate = [](std::size_t bytes, Device device) { return std::make_unique<DeviceSegment>(bytes, device); },
     .allocate_alone = [](std::size_t bytes, Device device) { return std::make_unique<DeviceSegment>(bytes, device); },
     .map = [](const std::string& handle, std::size_t,
               Device device) { return std::make_unique<MappedSegment>(handle, device); }});

}  // namespace
}  // namespace coil::runtime::groups
