// The backend `nccl`: process groups of CUDA devices. Exchanges go on a stream of the group: behind the program's
// stream where they start, and the program's behind them where it waits. The host waits for none of them.
//
// An exchange with a rank that is gone never ends by itself. A thread of the group looks at what is under way: when a
// rank's process has ended, NCCL tells of an error, or the time is over, it ends the communicator, which ends the
// exchange on the device, and whoever waits for the device then gets an Error. Nobody waits for that without an end.
// NCCL ends a communicator only when the graphs that hold its exchanges are gone: the thread stays there, and a graph
// is not launched again.
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/cuda/driver/device.h"
#include "runtime/cuda/groups/nccl.h"
#include "runtime/device/device.h"
#include "runtime/groups/peer_process.h"
#include "runtime/groups/process_group.h"
#include "runtime/groups/stores.h"
#include "support/error.h"

namespace coil::runtime::groups {
namespace {

using cuda::CudaDevice;
using cuda::CurrentContext;
using cuda::Event;
using cuda::Nccl;
using cuda::NcclComm;
using cuda::NcclId;
using cuda::Stream;
using Clock = std::chrono::steady_clock;

/// How long a rank whose exchange failed waits to hear of the others, and how often it is looked at what is under way.
constexpr Milliseconds kRollCall{2000}, kLook{20};

/// How long a recorded run may take when a rank has ended, which may have had its part of the exchanges; and how long
/// an exchange may stay on the device when its communicator was ended.
constexpr Milliseconds kRestOfRun{5000}, kToLeave{3000};
constexpr std::chrono::microseconds kPause{50};

std::string to_digits(const NcclId& id) {
  std::string text;
  for (char c : id.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

NcclId from_digits(const std::string& text) {
  NcclId id;
  if (text.size() != 2 * sizeof id.bytes) fail("the store has no NCCL id under its key");
  for (std::size_t i = 0; i < sizeof id.bytes; ++i)
    id.bytes[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

/// Events that nobody needs any more are recorded anew.
class Events : public std::enable_shared_from_this<Events> {
 public:
  explicit Events(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}
  using Held = std::shared_ptr<std::remove_pointer_t<Event>>;
  Held take() {
    Event event = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) event = free_.back(), free_.pop_back();
    }
    if (!event) device_->driver().check(device_->driver().event_create(&event, cuda::kEventNoTiming), "make an event");
    return {event, [self = shared_from_this()](Event e) {
              const std::lock_guard lock(self->mutex_);
              self->free_.push_back(e);
            }};
  }

 private:
  std::shared_ptr<const CudaDevice> device_;
  std::mutex mutex_;
  std::vector<Event> free_;
};

/// What is under way on the device.
struct UnderWay {
  std::string what;
  Events::Held done;  ///< null: the call that puts it there has not returned
  Clock::time_point begun;
  bool is_exchange = true;  ///< nothing else than an exchange: it ends only with the other ranks
};

class NcclGroup final : public ProcessGroup, public QueueWatcher, public std::enable_shared_from_this<NcclGroup> {
 public:
  explicit NcclGroup(const GroupOptions& options)
      : options_(options),
        nccl_(Nccl::get()),
        store_(with_prefix(options.store, "coil/nccl/" + options.name + "/")),
        device_(std::make_shared<const CudaDevice>(cuda::Driver::open(), options.device.index)),
        events_(std::make_shared<Events>(device_)) {
    gather_members();
    connect();
    const CurrentContext current(*device_);
    const cuda::Driver& d = device_->driver();
    d.check(d.stream_create(&stream_, cuda::kStreamNonBlocking), "make a stream");
  }

  ~NcclGroup() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  void begin() {
    thread_ = std::thread([this] { watch(); });
  }

  const std::string& name() const override { return options_.name; }
  int rank() const override { return options_.rank; }
  int size() const override { return options_.size(); }
  Device device() const override { return options_.device; }

  void order_behind(void* stream, bool recorded) override {
    if (recorded != recorded_) begin_messages();
    const Events::Held here = events_->take();
    const cuda::Driver& d = device_->driver();
    d.check(d.event_record(here.get(), static_cast<Stream>(stream)), "mark where an exchange begins");
    d.check(d.stream_wait_event(stream_, here.get(), 0), "put an exchange behind other work");
    recorded_ = recorded;
  }

  Started all_reduce(void* data, Elements e, std::string_view reduce) override {
    const cuda::NcclCombination c = cuda::nccl_combination(reduce, e.dtype);
    return collective(describe("all_reduce", e, reduce), e.count,
                      [&] { return nccl_.all_reduce(data, data, count(e, c), c.dtype, c.operation, comm_, stream_); });
  }

  Started all_gather(const void* in, void* out, Elements e) override {
    return collective(describe("all_gather", e), e.count,
                      [&] { return nccl_.all_gather(in, out, bytes(e), kBytes, comm_, stream_); });
  }

  Started reduce_scatter(const void* in, void* out, Elements e, std::string_view reduce) override {
    const cuda::NcclCombination c = cuda::nccl_combination(reduce, e.dtype);
    return collective(describe("reduce_scatter", e, reduce), e.count,
                      [&] { return nccl_.reduce_scatter(in, out, count(e, c), c.dtype, c.operation, comm_, stream_); });
  }

  Started all_to_all(const void* in, std::vector<std::int64_t> sent, void* out, std::vector<std::int64_t> received,
                     DType dtype) override {
    if (sent.size() != static_cast<std::size_t>(size()) || received.size() != sent.size())
      fail("all_to_all: {} and {} split sizes, but process group '{}' has {} ranks", sent.size(), received.size(),
           name(), size());
    for (const auto* list : {&sent, &received})
      if (std::ranges::any_of(*list, [](std::int64_t n) { return n < 0; })) fail("all_to_all: a split size below 0");
    const std::size_t item = size_of(dtype);
    return collective(fmt::format("all_to_all of {}", torch_name(dtype)), 1, [&] {
      Nccl::Status status = nccl_.group_begin();
      const auto* from = static_cast<const char*>(in);
      auto* to = static_cast<char*>(out);
      for (std::size_t r = 0; r < sent.size() && status == Nccl::kDone; ++r) {
        const std::size_t goes = static_cast<std::size_t>(sent[r]) * item,
                          comes = static_cast<std::size_t>(received[r]) * item;
        if (goes > 0) status = nccl_.send(from, goes, kBytes, static_cast<int>(r), comm_, stream_);
        if (comes > 0 && status == Nccl::kDone)
          status = nccl_.receive(to, comes, kBytes, static_cast<int>(r), comm_, stream_);
        from += goes, to += comes;
      }
      const Nccl::Status ended = nccl_.group_end();
      return status == Nccl::kDone ? ended : status;
    });
  }

  Started broadcast(void* data, Elements e, int source) override {
    check_rank(source);
    return collective(fmt::format("{} from rank {}", describe("broadcast", e), source), e.count,
                      [&] { return nccl_.broadcast(data, data, bytes(e), kBytes, source, comm_, stream_); });
  }

  /// What ranks start together, under the number of the first of these collectives: those that start it by itself tell
  /// it too, and wait for nobody.
  bool agree_to_start(std::uint64_t together) override {
    if (size() == 1 || options_.agreed) return together != 0;
    begin_messages();
    const std::string key = fmt::format("starts/{}", collectives_ + 1);
    store_->set(fmt::format("{}/{}", key, rank()), std::to_string(together));
    if (together == 0) return false;
    std::vector<std::string> missing;
    const std::vector<std::string> all = hear(key, options_.timeout, missing);
    if (!missing.empty())
      fail("{} did not come to collective {} of process group '{}' within {} s", fmt::join(missing, ", "),
           collectives_ + 1, name(), seconds());
    return std::ranges::all_of(all, [&](const std::string& theirs) { return theirs == std::to_string(together); });
  }

  Started together(SharedKind kind, std::span<const Share> shares, std::string_view reduce, bool agreed) override {
    Started last;
    if (!agreed) {
      for (const Share& s : shares)
        if (Started work = alone(kind, s, reduce); !last || s.elements.count > 0) last = std::move(work);
      return last;
    }
    std::int64_t elements = 0;
    for (const Share& s : shares) elements += s.elements.count;
    const std::uint64_t before = collectives_;
    last = collective(fmt::format("{} exchanges together, {} elements", shares.size(), elements), elements, [&] {
      Nccl::Status status = nccl_.group_begin();
      for (std::size_t k = 0; k < shares.size() && status == Nccl::kDone; ++k)
        if (shares[k].elements.count > 0) status = issue(kind, shares[k], reduce);
      const Nccl::Status ended = nccl_.group_end();
      return status == Nccl::kDone ? ended : status;
    });
    collectives_ = before + shares.size();
    return last;
  }

  Started send(const void* data, Elements e, int to, std::uint32_t) override {
    check_rank(to);
    return message(fmt::format("{} to rank {}", describe("send", e), to), e.count,
                   [=, this] { return nccl_.send(data, bytes(e), kBytes, to, comm_, stream_); });
  }

  Started receive(void* data, Elements e, int from, std::uint32_t) override {
    check_rank(from);
    return message(fmt::format("{} from rank {}", describe("receive", e), from), e.count,
                   [=, this] { return nccl_.receive(data, bytes(e), kBytes, from, comm_, stream_); });
  }

  Started barrier() override { fail("process groups of CUDA devices have no barrier of the host"); }

  void end_recording(void* stream) override {
    begin_messages();
    const Events::Held all = events_->take();
    const cuda::Driver& d = device_->driver();
    d.check(d.event_record(all.get(), stream_), "mark where recorded exchanges end");
    d.check(d.stream_wait_event(static_cast<Stream>(stream), all.get(), 0), "end a recording behind its exchanges");
    ++recording_;
  }

  void before_launch(void* stream) override {
    check();
    begin_messages();
    const Events::Held last = std::move(last_);
    if (!last) return;
    const cuda::Driver& d = device_->driver();
    d.check(d.stream_wait_event(static_cast<Stream>(stream), last.get(), 0), "put recorded work behind exchanges");
  }

  void launched(void* stream) override {
    const Events::Held done = events_->take();
    device_->driver().check(device_->driver().event_record(done.get(), static_cast<Stream>(stream)), "mark a run");
    const std::lock_guard lock(mutex_);
    under_way_.push_back({"a recorded run with exchanges", done, Clock::now(), false});
    changed_.notify_all();
  }

  void check() override {
    if (const std::string why = failure(); !why.empty()) throw Error(why);
  }

 private:
  static constexpr int kBytes = 1;  // ncclUint8

  /// Sends and receives that begin together. A stream is in order: two ranks that each sent before they received would
  /// wait for one another.
  struct Messages {
    std::string what;
    std::vector<std::function<Nccl::Status()>> calls;
    Events::Held done;  ///< null: they have not begun
  };

  class Exchange final : public Work {
   public:
    Exchange(std::shared_ptr<NcclGroup> group, Events::Held done, bool recorded)
        : group_(std::move(group)), done_(std::move(done)), recorded_(recorded), recording_(group_->recording_) {}
    Exchange(const std::shared_ptr<NcclGroup>& group, std::shared_ptr<Messages> messages, bool recorded)
        : Exchange(group, Events::Held(), recorded) {
      messages_ = std::move(messages);
    }
    /// Null where nothing is exchanged.
    const Events::Held& done() {
      if (messages_ && !messages_->done) group_->begin_messages();
      return messages_ ? messages_->done : done_;
    }
    void wait() override {
      std::optional<Clock::time_point> failed;
      while (!is_done()) {
        if (!failed && !group_->failure().empty()) failed = Clock::now();
        if (failed && Clock::now() - *failed > kToLeave) break;
        std::this_thread::sleep_for(kPause);
      }
      group_->check();
    }
    bool is_done() override {
      return recorded_ || !done() || group_->device_->driver().event_query(done().get()) != cuda::kNotReady;
    }
    void wait_on(void* stream, bool recorded) override {
      if (!done()) return;
      // A recording ends behind its exchanges, and is launched behind all others: nothing is left to be waited for.
      if (recorded != recorded_ || (recorded && recording_ != group_->recording_)) return;
      const cuda::Driver& d = group_->device_->driver();
      d.check(d.stream_wait_event(static_cast<Stream>(stream), done().get(), 0), "wait for an exchange");
    }

   private:
    std::shared_ptr<NcclGroup> group_;
    Events::Held done_;
    std::shared_ptr<Messages> messages_;
    bool recorded_;
    std::uint64_t recording_;  ///< the number of the one that it is in
  };

  static std::size_t bytes(Elements e) { return static_cast<std::size_t>(e.count) * size_of(e.dtype); }
  static std::size_t count(Elements e, const cuda::NcclCombination& c) {
    return static_cast<std::size_t>(e.count) * static_cast<std::size_t>(c.parts);
  }

  static std::string describe(std::string_view op, Elements e, std::string_view reduce = {}) {
    return fmt::format("{}{} of {} {}", op, reduce.empty() ? "" : fmt::format(" ({})", reduce), e.count,
                       torch_name(e.dtype));
  }

  void check_rank(int rank) const {
    if (rank < 0 || rank >= size()) fail("process group '{}' has no rank {}: it has {}", name(), rank, size());
  }

  std::string global(int rank) const {
    const int all = options_.ranks[static_cast<std::size_t>(rank)];
    return all == rank ? fmt::format("rank {}", rank) : fmt::format("rank {} (rank {} of all)", rank, all);
  }

  double seconds() const { return std::chrono::duration<double>(options_.timeout).count(); }

  /// What each rank has set under `WORD/RANK`; those that have not when the time is over are in `missing`.
  std::vector<std::string> hear(std::string_view word, Milliseconds timeout, std::vector<std::string>& missing) {
    const auto deadline = Clock::now() + timeout;
    std::vector<std::string> all;
    for (int r = 0; r < size(); ++r) {
      const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
      try {
        all.push_back(store_->get(fmt::format("{}/{}", word, r), std::max(left, Milliseconds{1})));
      } catch (const std::exception&) {
        missing.push_back(global(r));
        all.emplace_back();
      }
    }
    return all;
  }

  /// All ranks are there, or are named.
  void gather_members() {
    store_->set(fmt::format("joined/{}", rank()), fmt::format("{} {}", ::getpid(), process_namespace()));
    std::vector<std::string> missing;
    const std::vector<std::string> all = hear("joined", options_.timeout, missing);
    if (!missing.empty())
      fail("{} did not join process group '{}' of {} ranks within {} s", fmt::join(missing, ", "), name(), size(),
           seconds());
    for (const std::string& text : all) {
      const std::size_t space = text.find(' ');
      processes_.push_back(std::make_unique<PeerProcess>(std::atoll(text.c_str()), text.substr(space + 1)));
    }
  }

  struct Joining {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    Nccl::Status status = Nccl::kDone;
    NcclComm comm = nullptr;
  };

  /// Joining waits for all ranks inside of NCCL: a thread does it, so that one that dies meanwhile is an error here.
  void connect() {
    NcclId id;
    const CurrentContext current(*device_);
    if (rank() == 0) {
      nccl_.check(nccl_.make_id(&id), "make an id of a communicator");
      store_->set("id", to_digits(id));
    } else {
      id = from_digits(store_->get("id", options_.timeout));
    }
    auto joining = std::make_shared<Joining>();
    std::thread([joining, id, &nccl = nccl_, device = device_, ranks = size(), rank = rank()] {
      const CurrentContext its(*device);
      NcclComm comm = nullptr;
      const Nccl::Status status = nccl.join(&comm, ranks, id, rank);
      const std::lock_guard lock(joining->mutex);
      joining->comm = comm, joining->status = status, joining->done = true;
      joining->changed.notify_all();
    }).detach();
    std::unique_lock lock(joining->mutex);
    if (!joining->changed.wait_for(lock, options_.timeout, [&] { return joining->done; }))
      fail("rank {} cannot connect to the others of process group '{}' over NCCL within {} s", rank(), name(),
           seconds());
    if (joining->status != Nccl::kDone)
      fail("rank {} cannot connect to the others of process group '{}' over NCCL: {}", rank(), name(),
           nccl_.describe(joining->status));
    comm_ = joining->comm;
  }

  Started alone(SharedKind kind, const Share& s, std::string_view reduce) {
    if (kind == SharedKind::AllReduce) return all_reduce(s.out, s.elements, reduce);
    if (kind == SharedKind::AllGather) return all_gather(s.in, s.out, s.elements);
    return reduce_scatter(s.in, s.out, s.elements, reduce);
  }

  Nccl::Status issue(SharedKind kind, const Share& s, std::string_view reduce) {
    const Elements e = s.elements;
    if (kind == SharedKind::AllGather) return nccl_.all_gather(s.in, s.out, bytes(e), kBytes, comm_, stream_);
    const cuda::NcclCombination c = cuda::nccl_combination(reduce, e.dtype);
    if (kind == SharedKind::AllReduce)
      return nccl_.all_reduce(s.out, s.out, count(e, c), c.dtype, c.operation, comm_, stream_);
    return nccl_.reduce_scatter(s.in, s.out, count(e, c), c.dtype, c.operation, comm_, stream_);
  }

  /// An exchange that all ranks take part in.
  template <class Issue>
  Started collective(std::string what, std::int64_t elements, Issue issue) {
    ++collectives_;
    return exchange(std::move(what), elements, std::move(issue));
  }

  /// `issue` puts an exchange of `elements` on the group's stream; nothing is exchanged where there are none.
  template <class Issue>
  std::shared_ptr<Exchange> exchange(std::string what, std::int64_t elements, Issue issue) {
    begin_messages();
    const std::lock_guard one_at_a_time(issuing_);
    what += fmt::format(", collective {}", ++sequence_);
    if (elements == 0) return std::make_shared<Exchange>(shared_from_this(), Events::Held(), recorded_);
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !failing_ || !broken_.empty(); });  // what becomes of it is found out
      if (!broken_.empty()) fail("process group '{}' is of no use any more: {}", name(), broken_);
      now_ = {what, nullptr, Clock::now()};
      changed_.notify_all();
    }
    const Nccl::Status status = issue();
    const Events::Held done = events_->take();
    const cuda::Driver& d = device_->driver();
    d.check(d.event_record(done.get(), stream_), "mark where an exchange ends");
    const std::lock_guard lock(mutex_);
    now_.reset();
    if (!broken_.empty()) throw Error(broken_);
    if (status != Nccl::kDone && status != Nccl::kInProgress)
      fail("{} in process group '{}' failed on rank {}: {}", what, name(), rank(), nccl_.describe(status));
    if (!recorded_) {
      under_way_.push_back({std::move(what), done, Clock::now()});
      last_ = done;
    }
    return std::make_shared<Exchange>(shared_from_this(), done, recorded_);
  }

  /// The message begins with those before and behind it, when something else is exchanged or one of them is waited for.
  Started message(std::string what, std::int64_t elements, std::function<Nccl::Status()> issue) {
    const std::lock_guard lock(issuing_);
    if (elements == 0) return std::make_shared<Exchange>(shared_from_this(), Events::Held(), recorded_);
    if (!messages_) messages_ = std::make_shared<Messages>();
    messages_->what += (messages_->what.empty() ? "" : ", ") + what;
    messages_->calls.push_back(std::move(issue));
    return std::make_shared<Exchange>(shared_from_this(), messages_, recorded_);
  }

  void begin_messages() {
    std::shared_ptr<Messages> all;
    {
      const std::lock_guard lock(issuing_);
      all = std::move(messages_);
    }
    if (!all) return;
    const auto begun = exchange(all->what, 1, [&] {
      Nccl::Status status = nccl_.group_begin();
      for (std::size_t k = 0; k < all->calls.size() && status == Nccl::kDone; ++k) status = all->calls[k]();
      const Nccl::Status ended = nccl_.group_end();
      return status == Nccl::kDone ? ended : status;
    });
    all->done = begun->done();
  }

  /// The group's thread.
  void watch() {
    const CurrentContext current(*device_);
    std::unique_lock lock(mutex_);
    while (!closing_ && broken_.empty()) {
      while (!under_way_.empty() && device_->driver().event_query(under_way_.front().done.get()) == cuda::kSuccess)
        under_way_.pop_front();
      const UnderWay* oldest = !under_way_.empty() ? &under_way_.front() : now_ ? &*now_ : nullptr;
      if (!oldest) {
        changed_.wait(lock);
        continue;
      }
      const std::string why = trouble(*oldest);
      if (why.empty()) {
        changed_.wait_for(lock, kLook, [this] { return closing_; });
        continue;
      }
      const std::string what = oldest->what;
      failing_ = true;
      lock.unlock();
      const std::string more = tell_others(what);
      lock.lock();
      broken_ = fmt::format("{} in process group '{}' failed on rank {}: {}{}", what, name(), rank(), why, more);
      changed_.notify_all();
      lock.unlock();
      nccl_.abort(comm_);  // ends what is on the device
      return;
    }
  }

  /// Why something will not end; empty where it may.
  std::string trouble(const UnderWay& work) {
    for (int r = 0; r < size(); ++r) {
      if (r == rank() || !processes_[static_cast<std::size_t>(r)]->has_ended()) continue;
      if (!seen_gone_) seen_gone_ = Clock::now();
      if (work.is_exchange || Clock::now() - std::max(*seen_gone_, work.begun) >= kRestOfRun)
        return global(r) + " is gone";
    }
    Nccl::Status status = Nccl::kDone;
    if (nccl_.asynchronous_error(comm_, &status) == Nccl::kDone && status != Nccl::kDone && status != Nccl::kInProgress)
      return nccl_.describe(status);
    if (Clock::now() - work.begun >= options_.timeout) return fmt::format("it did not end within {} s", seconds());
    return {};
  }

  /// Why no more exchanges are possible; empty where they are.
  std::string failure() {
    const std::lock_guard lock(mutex_);
    return broken_;
  }

  /// Says in the store where this rank is, and returns what the others say.
  std::string tell_others(const std::string& what) {
    try {
      store_->set(fmt::format("left/{}", rank()), what);
      std::vector<std::string> missing;
      const std::vector<std::string> all = hear("left", std::min(kRollCall, options_.timeout), missing);
      std::string text;
      if (!missing.empty()) text = fmt::format(" ({} gone or late)", fmt::join(missing, ", "));
      for (int r = 0; r < size(); ++r)
        if (const std::string& theirs = all[static_cast<std::size_t>(r)]; !theirs.empty() && theirs != what)
          text += fmt::format(" ({} is in {})", global(r), theirs);
      return text;
    } catch (const std::exception& e) {
      return fmt::format(" (the process that holds the group's store is gone too: {})", e.what());
    }
  }

  GroupOptions options_;
  const Nccl& nccl_;
  std::shared_ptr<Store> store_;
  std::shared_ptr<const CudaDevice> device_;
  std::shared_ptr<Events> events_;
  std::vector<std::unique_ptr<PeerProcess>> processes_;
  NcclComm comm_ = nullptr;
  Stream stream_ = nullptr;
  // Used by whoever starts exchanges.
  std::mutex issuing_;
  std::uint64_t sequence_ = 0, recording_ = 0;  ///< exchanges, and recordings that ended
  std::uint64_t collectives_ = 0;               ///< exchanges but for messages, by which all ranks count alike
  bool recorded_ = false;
  std::shared_ptr<Messages> messages_;  ///< that have not begun
  Events::Held last_;                   ///< the end of the last exchange that is not recorded
  // Shared with the group's thread.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<UnderWay> under_way_;
  std::optional<UnderWay> now_;
  std::string broken_;
  bool closing_ = false, failing_ = false;  ///< failing_: an exchange has failed, and the others are being asked
  std::optional<Clock::time_point> seen_gone_;
  std::thread thread_;
};

const DefineBackend kNccl(
    "nccl", [] { Nccl::get(); },
    [](const GroupOptions& options) -> std::shared_ptr<ProcessGroup> {
      if (options.device.type != DeviceType::CUDA)
        fail("the backend nccl exchanges values on CUDA devices, not on {}", to_string(options.device));
      auto group = std::make_shared<NcclGroup>(options);
      group->begin();
      return group;
    });

[[maybe_unused]] const bool kOfCuda = (define_backend_of(DeviceType::CUDA, "nccl"), true);

}  // namespace
}  // namespace coil::runtime::groups
