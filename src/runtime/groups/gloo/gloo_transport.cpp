// Exchanges over TCP by Gloo: a library of its own, which the runtime opens when a program's group asks for it, so that
// neither the runtime nor a process that has another Gloo in it (torch's) is linked with this one.
#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <cstring>
#include <deque>
#include <stdexcept>

#include "runtime/groups/transport.h"

namespace coil::runtime::groups {
namespace {

/// Gloo's view of the store that the group has.
class Rendezvous final : public gloo::rendezvous::Store {
 public:
  Rendezvous(groups::Store& store, Milliseconds timeout) : store_(store), timeout_(timeout) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    store_.set("gloo/" + key, {data.begin(), data.end()});
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = store_.get("gloo/" + key, timeout_);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const Milliseconds& timeout) override {
    for (const std::string& key : keys) store_.get("gloo/" + key, timeout);
  }

 private:
  groups::Store& store_;
  Milliseconds timeout_;
};

class GlooTransport final : public Transport {
 public:
  GlooTransport(const TransportOptions& options, groups::Store& store) : rank_(options.rank), size_(options.size) {
    gloo::transport::tcp::attr where;
    where.hostname = options.address;
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(where);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank_, size_);
    context->setTimeout(options.timeout);
    Rendezvous rendezvous(store, options.timeout);
    context->connectFullMesh(rendezvous, device);
    context_ = std::move(context);
  }

  ~GlooTransport() override {
    // Neighbours that wait for this rank learn so that it is done.
    context_->closeConnections();
  }

  /// Each rank combines its share, in the order of the ranks, and then gets those of the others.
  void all_reduce(void* data, std::size_t count, std::size_t item, const Combine& combine, std::uint32_t tag) override {
    std::vector<std::int64_t> sent;
    for (int r = 0; r < size_; ++r) sent.push_back(static_cast<std::int64_t>(share_of(count, r) * item));
    const auto mine = static_cast<std::size_t>(sent[static_cast<std::size_t>(rank_)]);
    std::vector<char> came(mine * static_cast<std::size_t>(size_));
    all_to_all(data, sent, came.data(), std::vector<std::int64_t>(sent.size(), static_cast<std::int64_t>(mine)), tag);
    for (std::size_t r = 1; r < sent.size(); ++r) combine(came.data(), came.data() + r * mine, mine / item);
    auto& options = keep<gloo::AllgathervOptions>();
    options.setInput(came.data(), mine);
    options.setOutput(static_cast<char*>(data), std::vector<std::size_t>(sent.begin(), sent.end()));
    options.setTag(tag);
    gloo::allgatherv(options);
  }

  void all_gather(const void* in, void* out, std::size_t bytes, std::uint32_t tag) override {
    if (bytes <= kSmall) return gather_small(in, out, bytes, tag);
    auto& options = keep<gloo::AllgatherOptions>();
    options.setInput(static_cast<char*>(const_cast<void*>(in)), bytes);
    options.setOutput(static_cast<char*>(out), bytes * static_cast<std::size_t>(size_));
    options.setTag(tag);
    gloo::allgather(options);
  }

  void all_to_all(const void* in, const std::vector<std::int64_t>& sent, void* out,
                  const std::vector<std::int64_t>& received, std::uint32_t tag) override {
    auto& options = keep<gloo::AlltoallvOptions>();
    options.setInput(static_cast<char*>(const_cast<void*>(in)), sent);
    options.setOutput(static_cast<char*>(out), received);
    options.setTag(tag);
    gloo::alltoallv(options);
  }

  void broadcast(void* data, std::size_t bytes, int source, std::uint32_t tag) override {
    auto& options = keep<gloo::BroadcastOptions>();
    options.setOutput(static_cast<char*>(data), bytes);
    options.setRoot(source);
    options.setTag(tag);
    gloo::broadcast(options);
  }

  void send(const void* data, std::size_t bytes, int to, std::uint64_t slot) override {
    const auto buffer = context_->createUnboundBuffer(const_cast<void*>(data), bytes);
    buffer->send(to, slot);
    if (!buffer->waitSend(context_->getTimeout())) throw std::runtime_error("the send was given up");
  }

  void receive(void* data, std::size_t bytes, int from, std::uint64_t slot) override {
    const auto buffer = context_->createUnboundBuffer(data, bytes);
    buffer->recv(from, slot);
    if (!buffer->waitRecv(context_->getTimeout())) throw std::runtime_error("the receive was given up");
  }

  void barrier(std::uint32_t tag) override {
    gloo::BarrierOptions options(context_);
    options.setTag(tag);
    gloo::barrier(options);
  }

 private:
  /// Bytes of a rank that go in one message to each of the others.
  static constexpr std::size_t kSmall = 4096;
  /// Gloo's own collectives have others in the highest byte, and messages have none.
  static constexpr std::uint64_t kSmallSlots = std::uint64_t{0x70} << 56;

  /// Memory that messages go from or come to, for as long as the transport lives. What goes away may wait for the
  /// connections' thread, and on a busy machine does so for milliseconds.
  struct Post {
    std::vector<char> memory = std::vector<char>(kSmall);
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
  };

  void gather_small(const void* in, void* out, std::size_t bytes, std::uint32_t tag) {
    if (posts_.empty()) open_posts();
    const std::uint64_t slot = kSmallSlots + tag;
    auto* const all = static_cast<char*>(out);
    const auto at = [&](int rank) { return all + static_cast<std::size_t>(rank) * bytes; };
    Post& mine = posts_[static_cast<std::size_t>(rank_)];
    std::memcpy(mine.memory.data(), in, bytes);
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      posts_[static_cast<std::size_t>(r)].buffer->recv(r, slot, 0, bytes);
      mine.buffer->send(r, slot, 0, bytes);
    }
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      Post& theirs = posts_[static_cast<std::size_t>(r)];
      if (!theirs.buffer->waitRecv(context_->getTimeout())) throw std::runtime_error("the exchange was given up");
      std::memcpy(at(r), theirs.memory.data(), bytes);
      if (!mine.buffer->waitSend(context_->getTimeout())) throw std::runtime_error("the exchange was given up");
    }
    if (at(rank_) != in) std::memcpy(at(rank_), mine.memory.data(), bytes);
  }

  void open_posts() {
    std::vector<Post> posts(static_cast<std::size_t>(size_));
    for (Post& p : posts) p.buffer = context_->createUnboundBuffer(p.memory.data(), kSmall);
    posts_ = std::move(posts);
  }

  /// Elements of a rank's share.
  std::size_t share_of(std::size_t count, int rank) const {
    const auto ranks = static_cast<std::size_t>(size_);
    return count / ranks + (static_cast<std::size_t>(rank) < count % ranks ? 1 : 0);
  }

  /// Options of an exchange, whose buffers stay until some later ones have been made, for the reason that Post has.
  template <class Options>
  Options& keep() {
    constexpr std::size_t kKept = 8;
    auto made = std::make_shared<Options>(context_);
    kept_.push_back(made);
    if (kept_.size() > kKept) kept_.pop_front();
    return *made;
  }

  int rank_, size_;
  std::shared_ptr<gloo::Context> context_;
  std::deque<std::shared_ptr<void>> kept_;
  std::vector<Post> posts_;  ///< for each rank, those of this one go to all others
};

}  // namespace
}  // namespace coil::runtime::groups

extern "C" __attribute__((visibility("default"))) coil::runtime::groups::Transport* coil_open_transport(
    const coil::runtime::groups::TransportOptions& options, coil::runtime::groups::Store& store) {
  return new coil::runtime::groups::GlooTransport(options, store);
}
