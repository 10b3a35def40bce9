// What moves bytes between the processes of a group, and what they find one another by. Interfaces without code, so
// that a transport may live in a library of its own that is opened when it is first needed.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace coil::runtime::groups {

using Milliseconds = std::chrono::milliseconds;

/// Keys and values that all processes of a run see. Functions throw std::exception when it cannot be reached.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  virtual bool has(const std::string& key) = 0;
  /// The value; throws when it has not been set within the time.
  virtual std::string get(const std::string& key, Milliseconds timeout) = 0;
  /// This machine's address as the others can reach it; empty where the store does not know.
  virtual std::string local_address() const { return {}; }
};

/// to[i] = to[i] combined with from[i], for a number of elements.
using Combine = std::function<void(void* to, const void* from, std::size_t count)>;

/// Blocking exchanges of one group. One thread at a time calls them, beside it others may send and receive. They throw
/// std::exception when a peer is gone or the time is over; the transport is then of no more use. Sizes are in bytes and
/// equal on all ranks.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Every rank's `data`, combined.
  virtual void all_reduce(void* data, std::size_t count, std::size_t item, const Combine&, std::uint32_t tag) = 0;
  /// `out` has every rank's `bytes` behind one another; `in` may be where this rank's lie there.
  virtual void all_gather(const void* in, void* out, std::size_t bytes, std::uint32_t tag) = 0;
  /// `sent[r]` bytes for rank r lie behind one another in `in`, and `received[r]` come behind one another to `out`.
  virtual void all_to_all(const void* in, const std::vector<std::int64_t>& sent, void* out,
                          const std::vector<std::int64_t>& received, std::uint32_t tag) = 0;
  virtual void broadcast(void* data, std::size_t bytes, int source, std::uint32_t tag) = 0;
  virtual void send(const void* data, std::size_t bytes, int to, std::uint64_t slot) = 0;
  virtual void receive(void* data, std::size_t bytes, int from, std::uint64_t slot) = 0;
  virtual void barrier(std::uint32_t tag) = 0;
};

struct TransportOptions {
  int rank = 0, size = 1;
  std::string address;  ///< of this machine, for the others
  Milliseconds timeout{};
};

/// What a transport's library exports under the name `coil_open_transport`.
using OpenTransport = Transport* (*)(const TransportOptions&, Store&);

}  // namespace coil::runtime::groups
