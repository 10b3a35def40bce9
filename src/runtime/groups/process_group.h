// A group of processes that exchange values: what programs' collectives run on.
//
// Calls start an exchange and return; `Work::wait` returns when it is done. All ranks start the same exchanges in the
// same order, with the same sizes. Memory that is given stays as it is until then, and nobody reads what will be
// written. What goes wrong is an Error on every rank that is left: it names the exchange and the rank.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/groups/transport.h"
#include "tensor/device.h"
#include "tensor/dtype.h"

namespace coil::runtime::groups {

/// An exchange that was started.
class Work {
 public:
  virtual ~Work() = default;
  /// Returns when it is done. Throws Error where it failed, at every call.
  virtual void wait() = 0;
  virtual bool is_done() = 0;
  /// On a device with streams: what is queued on the stream from now on waits for it, and the host does not.
  /// `recorded`: the stream is being recorded.
  virtual void wait_on(void* /*stream*/, bool /*recorded*/) { wait(); }
};
using Started = std::shared_ptr<Work>;

/// `count` elements.
struct Elements {
  DType dtype = DType::F32;
  std::int64_t count = 0;
};

/// One of several exchanges of a kind that start together. `in` and `out` are one for all-reduces; `elements` are those
/// of the smaller side.
struct Share {
  const void* in = nullptr;
  void* out = nullptr;
  Elements elements;
};
enum class SharedKind : std::uint8_t { AllReduce, AllGather, ReduceScatter };

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual const std::string& name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Where the memory lies that it exchanges.
  virtual Device device() const = 0;
  /// On a device with streams: the next exchange begins when what is queued on this one is done. `recorded`: the stream
  /// is being recorded, and the exchange with it.
  virtual void order_behind(void* /*stream*/, bool /*recorded*/) {}

  /// In place, by one of reductions.h.
  virtual Started all_reduce(void* data, Elements, std::string_view reduce) = 0;
  /// `out` has room for `size` times the elements of `in`.
  virtual Started all_gather(const void* in, void* out, Elements) = 0;
  /// `in` has `size` times the elements of `out`.
  virtual Started reduce_scatter(const void* in, void* out, Elements, std::string_view reduce) = 0;
  /// `sent[r]` elements for rank r, `received[r]` from it.
  virtual Started all_to_all(const void* in, std::vector<std::int64_t> sent, void* out,
                             std::vector<std::int64_t> received, DType) = 0;
  virtual Started broadcast(void* data, Elements, int source) = 0;
  /// Messages between two ranks with one tag arrive in order.
  virtual Started send(const void* data, Elements, int to, std::uint32_t tag = 0) = 0;
  virtual Started receive(void* data, Elements, int from, std::uint32_t tag = 0) = 0;
  virtual Started barrier() = 0;
  /// This rank's program has failed: it comes to no more exchanges of this call, which the others are told. Where calls
  /// are counted the ranks meet anew in the next one.
  virtual void abandon() {}

  /// Before a call site starts collectives for the first time: whether all ranks start the same ones together there.
  /// `together`: a hash of what it starts at once; 0: it starts one by itself.
  virtual bool agree_to_start(std::uint64_t together) { return together != 0; }
  /// Several exchanges of one kind and type, in this order. They go at once where all ranks have agreed to that and
  /// have them together, else one after the other as if each had been called by itself.
  virtual Started together(SharedKind, std::span<const Share>, std::string_view reduce, bool agreed) = 0;
};

/// How many calls of programs that exchange values in a group this process has begun. Ranks whose programs are alike
/// are in the same call whenever they exchange something.
using CallCount = std::shared_ptr<std::atomic<std::uint64_t>>;

/// What a group is made of. `ranks` are the members' ranks among all processes, in the order of their ranks in the
/// group.
struct GroupOptions {
  std::string name;
  std::string backend = "gloo";
  Device device;  ///< where the memory lies that is exchanged
  int rank = 0;   ///< in the group
  std::vector<int> ranks;
  std::shared_ptr<Store> store;
  std::string address;  ///< of this machine
  Milliseconds timeout{};
  bool agreed = false;  ///< the ranks have found that their programs start the same exchanges together
  CallCount calls;      ///< null where nobody counts them: an exchange that fails is then the group's last one
  int size() const { return static_cast<int>(ranks.size()); }
};

/// Throws Error when this build or machine lacks what the backend needs, without a look at other processes.
using CheckBackend = std::function<void()>;
/// Returns when all ranks are there.
using JoinBackend = std::function<std::shared_ptr<ProcessGroup>(const GroupOptions&)>;

/// Backends by name; one that is there already is replaced.
void define_backend(std::string name, CheckBackend, JoinBackend);
void check_backend(const std::string& name);
std::shared_ptr<ProcessGroup> join(const GroupOptions&);

/// The backend for values on a device other than the host. Throws Error where there is none.
std::string backend_of(DeviceType);
void define_backend_of(DeviceType, std::string name);

struct DefineBackend {
  DefineBackend(std::string name, CheckBackend check, JoinBackend join) {
    define_backend(std::move(name), std::move(check), std::move(join));
  }
};

}  // namespace coil::runtime::groups
