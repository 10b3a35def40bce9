// A store behind TCP, by the protocol of torch.distributed's TCPStore (torch/csrc/distributed/c10d/TCPStore.cpp): a
// request is one byte that says which, then its arguments. So a program finds its peers at the server that torchrun
// holds, and where nobody holds one, the first rank does.
#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "runtime/groups/socket.h"
#include "runtime/groups/stores.h"
#include "support/error.h"

namespace coil::runtime::groups {
namespace {

// The requests of the protocol that are used here, by their numbers.
enum class Request : std::uint8_t { Validate = 0, Set = 1, Get = 3, Add = 4, Check = 5, Wait = 6, Ping = 13 };
enum class CheckAnswer : std::uint8_t { Ready = 0, NotReady = 1 };
enum class WaitAnswer : std::uint8_t { Stop = 0 };
constexpr std::uint32_t kMagic = 0x3C85F7CE;
/// TCPStore puts it in front of every key.
constexpr const char* kKeys = "/";

/// Serves until the process ends.
class Server {
 public:
  explicit Server(int port) : listening_(Socket::listen(port)) {
    std::thread([this] {
      for (;;) {
        Socket client = listening_.accept();
        if (!client.ok()) return;
        try {
          std::thread([this, c = std::move(client)] { serve(c); }).detach();
        } catch (const std::system_error&) {
          // There are no more threads: this client finds its connection closed, the others are served on.
        }
      }
    }).detach();
  }

 private:
  void serve(const Socket& client) try {
    for (;;) answer(client);
  } catch (const std::exception&) {
    // The client is gone.
  }

  void answer(const Socket& client) {
    switch (client.receive<Request>()) {
      case Request::Validate:
        if (client.receive<std::uint32_t>() != kMagic) fail("a client that speaks another protocol");
        return;
      case Request::Ping: return client.send(client.receive<std::uint32_t>());
      case Request::Set: {
        const std::string key = client.receive_text();
        return set(key, client.receive_text());
      }
      case Request::Get: return client.send_text(wait(client.receive_text()));
      case Request::Add: {
        const std::string key = client.receive_text();
        return client.send(add(key, client.receive<std::int64_t>()));
      }
      case Request::Check: {
        bool all = true;
        for (auto n = client.receive<std::uint64_t>(); n > 0; --n) all = has(client.receive_text()) && all;
        return client.send(all ? CheckAnswer::Ready : CheckAnswer::NotReady);
      }
      case Request::Wait:
        for (auto n = client.receive<std::uint64_t>(); n > 0; --n) wait(client.receive_text());
        return client.send(WaitAnswer::Stop);
    }
    fail("a request that this store does not know");
  }

  void set(const std::string& key, std::string value) {
    const std::lock_guard lock(mutex_);
    values_.insert_or_assign(key, std::move(value));
    changed_.notify_all();
  }

  std::int64_t add(const std::string& key, std::int64_t by) {
    const std::lock_guard lock(mutex_);
    std::string& value = values_[key];
    const std::int64_t sum = (value.empty() ? 0 : std::stoll(value)) + by;
    value = std::to_string(sum);
    changed_.notify_all();
    return sum;
  }

  bool has(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return values_.contains(key);
  }

  std::string wait(const std::string& key) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return values_.contains(key); });
    return values_.at(key);
  }

  Socket listening_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

/// A request, sent as one piece: torch's server, which torchrun holds, now and then closed connections on which
/// requests came piece by piece.
class StoreMessage {
 public:
  explicit StoreMessage(Request request) { add(request); }
  template <class T>
  StoreMessage& add(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  StoreMessage& add_text(const std::string& text) {
    add(std::uint64_t{text.size()});
    bytes_ += text;
    return *this;
  }
  void send(const Socket& to) const { to.send(bytes_.data(), bytes_.size()); }

 private:
  std::string bytes_;
};

class TcpStore final : public Store {
 public:
  TcpStore(const std::string& host, int port, Milliseconds timeout)
      : where_(fmt::format("{}:{}", host, port)), socket_(Socket::connect(host, port, timeout)) {
    constexpr Milliseconds kAnswer{10'000};
    socket_.set_timeout(std::max(timeout, kAnswer));
    StoreMessage(Request::Validate).add(kMagic).send(socket_);
    constexpr std::uint32_t kNonce = 17;
    StoreMessage(Request::Ping).add(kNonce).send(socket_);
    if (socket_.receive<std::uint32_t>() != kNonce) fail("at {} is no store", where_);
  }

  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    StoreMessage(Request::Set).add_text(kKeys + key).add_text(value).send(socket_);
  }

  std::int64_t add(const std::string& key, std::int64_t by) {
    const std::lock_guard lock(mutex_);
    StoreMessage(Request::Add).add_text(kKeys + key).add(by).send(socket_);
    return socket_.receive<std::int64_t>();
  }

  bool has(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    StoreMessage(Request::Check).add(std::uint64_t{1}).add_text(kKeys + key).send(socket_);
    return socket_.receive<CheckAnswer>() == CheckAnswer::Ready;
  }

  std::string get(const std::string& key, Milliseconds timeout) override {
    await_key(*this, key, timeout, "the store at " + where_);
    const std::lock_guard lock(mutex_);
    StoreMessage(Request::Get).add_text(kKeys + key).send(socket_);
    return socket_.receive_text();
  }

  std::string local_address() const override { return socket_.local_address(); }

 private:
  std::string where_;
  std::mutex mutex_;
  Socket socket_;
};

}  // namespace

std::shared_ptr<Store> open_tcp_store(const std::string& host, int port, bool serve, Milliseconds timeout) {
  if (serve) {
    static std::mutex mutex;
    static std::map<int, Server*> servers;  // never destroyed: their threads run until the process ends
    const std::lock_guard lock(mutex);
    try {
      if (!servers.contains(port)) servers[port] = new Server(port);
    } catch (const Error&) {
      // The port is taken: by torch in this process, whose store will do. Anything else does not answer as a store.
    }
  }
  return std::make_shared<TcpStore>(host, port, timeout);
}

std::shared_ptr<Store> open_held_store(const std::string& host, int port, const std::string& run, int rank,
                                       Milliseconds timeout) {
  auto store = std::make_shared<TcpStore>(host, port, timeout);
  const std::int64_t program = store->add(fmt::format("coil/{}/rank {}", run, rank), 1);
  return with_prefix(std::move(store), fmt::format("coil/{}/program {}/", run, program));
}

}  // namespace coil::runtime::groups
