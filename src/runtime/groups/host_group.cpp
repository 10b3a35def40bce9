#include "runtime/groups/host_group.h"

#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <tuple>
#include <utility>

#include "runtime/groups/next_call.h"
#include "runtime/groups/reductions.h"
#include "runtime/groups/stores.h"
#include "support/error.h"
#include "support/hash.h"

namespace coil::runtime::groups {
namespace {

/// How long a rank whose exchange failed waits to hear of the others.
constexpr Milliseconds kRollCall{2000};

/// Bytes up to which ranks combine values on their own, from those of all.
constexpr std::size_t kSmall = 4096;

/// A place of next_call.h.
constexpr const char* kComes = "call";

/// Keeps SIGPIPE from this thread, and for good from threads that it starts meanwhile. A rank that is gone is an error
/// then and not the end of this process: Gloo writes to its sockets without asking that no signal come of it.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const timespec at_once{};
    while (::sigtimedwait(&pipe_, nullptr, &at_once) == SIGPIPE) continue;  // one that came meanwhile is not delivered
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
};

class Task final : public Work {
 public:
  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    if (!error_.empty()) throw Error(error_);
  }
  bool is_done() override {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  void finish(std::string error) {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    done_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::string error_;
};

/// Work in order, done by a thread of its own.
class Lane {
 public:
  /// Does some work and returns what went wrong; empty where nothing did.
  using CarryOut =
      std::function<std::string(const std::string& what, std::uint64_t call, const std::function<void()>& run)>;
  explicit Lane(CarryOut carry_out) : carry_out_(std::move(carry_out)), thread_([this] { work(); }) {}
  /// Returns when all is done.
  ~Lane() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  Started add(std::string what, std::uint64_t call, std::function<void()> run) {
    auto task = std::make_shared<Task>();
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(what), call, std::move(run), task});
    changed_.notify_all();
    return task;
  }

 private:
  struct Entry {
    std::string what;
    std::uint64_t call = 0;
    std::function<void()> run;
    std::shared_ptr<Task> task;
  };

  void work() {
    for (;;) {
      Entry entry;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
        if (queue_.empty()) return;
        entry = std::move(queue_.front());
        queue_.pop_front();
      }
      entry.task->finish(carry_out_(entry.what, entry.call, entry.run));
    }
  }

  CarryOut carry_out_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> queue_;
  bool closing_ = false;
  std::thread thread_;  ///< the last, since it uses all the others
};

enum class Kind : std::int32_t { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Barrier };
constexpr const char* kKinds[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "barrier"};

/// What a rank is about to do, as it tells the others.
struct Announcement {
  std::uint64_t sequence = 0;
  Kind kind = Kind::Barrier;
  std::int32_t dtype = 0, source = 0;
  char reduce[8] = {};
  std::int64_t count = 0;  ///< elements; of all_to_all nothing, since ranks have different numbers
  /// A hash of this one and all that the rank would do together with it; 0: it does it by itself. Ranks may differ.
  std::uint64_t together = 0;
  std::uint64_t call = 0;  ///< of the program; 0: nobody counts them
  bool operator==(const Announcement&) const = default;
};

std::string describe(const Announcement& a) {
  std::string text = kKinds[static_cast<std::size_t>(a.kind)];
  if (a.kind == Kind::Barrier) return text;
  if (a.reduce[0] != 0) text += fmt::format(" ({})", std::string_view(a.reduce, strnlen(a.reduce, sizeof a.reduce)));
  const std::string_view dtype = torch_name(static_cast<DType>(a.dtype));
  text += a.kind == Kind::AllToAll ? fmt::format(" of {}", dtype) : fmt::format(" of {} {}", a.count, dtype);
  if (a.kind == Kind::Broadcast) text += fmt::format(" from rank {}", a.source);
  return text;
}

/// A group that an exchange cannot be tried in.
class Unusable : public Error {
 public:
  using Error::Error;
};

class HostGroup final : public ProcessGroup {
 public:
  HostGroup(const GroupOptions& options, OpenTransport open)
      : options_(options),
        open_(open),
        first_store_(with_prefix(options.store, "coil/" + options.name + "/")),
        store_(first_store_),
        rank_(options.rank),
        size_(options.size()) {
    const WithoutSigpipe quiet;  // the connections' thread and this group's begin here
    connect();
    collectives_ = make_lane();
  }

  ~HostGroup() override {
    collectives_.reset();
    messages_.clear();
  }

  const std::string& name() const override { return options_.name; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Device device() const override { return {}; }

  Started all_reduce(void* data, Elements e, std::string_view reduce) override {
    Combine combine = combination(reduce, e.dtype);
    const bool averages = reduce == "avg";
    return collective(announce(Kind::AllReduce, e, reduce),
                      [=, this](std::uint32_t tag) { all_reduce_now(data, e, combine, averages, tag); });
  }

  Started all_gather(const void* in, void* out, Elements e) override {
    return collective(announce(Kind::AllGather, e), [=, this](std::uint32_t tag) {
      if (e.count > 0) transport()->all_gather(in, out, bytes(e), tag);
    });
  }

  /// Each rank gets the shares of all, and adds them up in the order of the ranks.
  Started reduce_scatter(const void* in, void* out, Elements e, std::string_view reduce) override {
    Combine combine = combination(reduce, e.dtype);
    const bool averages = reduce == "avg";
    return collective(announce(Kind::ReduceScatter, e, reduce),
                      [=, this](std::uint32_t tag) { reduce_scatter_now(in, out, e, combine, averages, tag); });
  }

  Started together(SharedKind kind, std::span<const Share> given, std::string_view reduce, bool) override {
    if (kind != SharedKind::AllGather) combination(reduce, given[0].elements.dtype);  // where there is none, now
    const std::uint64_t call = call_now();
    return collectives_->add(
        "", call,
        [this, kind, call, shares = std::vector<Share>(given.begin(), given.end()), reduce = std::string(reduce)] {
          std::span<const Share> left = shares;
          while (!left.empty()) left = left.subspan(start_some(kind, left, reduce, call));
        });
  }

  Started all_to_all(const void* in, std::vector<std::int64_t> sent, void* out, std::vector<std::int64_t> received,
                     DType dtype) override {
    if (sent.size() != static_cast<std::size_t>(size_) || received.size() != sent.size())
      fail("all_to_all: {} and {} split sizes, but process group '{}' has {} ranks", sent.size(), received.size(),
           name(), size_);
    for (const auto* list : {&sent, &received})
      for (std::int64_t n : *list)
        if (n < 0) fail("all_to_all: a split size of {}", n);
    return collective(announce(Kind::AllToAll, {dtype, 0}),
                      [=, this, sent = std::move(sent), received = std::move(received)](std::uint32_t tag) mutable {
                        check_splits(sent, received, tag);
                        for (auto* list : {&sent, &received})
                          for (std::int64_t& n : *list) n *= static_cast<std::int64_t>(size_of(dtype));
                        transport()->all_to_all(in, sent, out, received, tag);
                      });
  }

  Started broadcast(void* data, Elements e, int source) override {
    check_rank(source);
    Announcement what = announce(Kind::Broadcast, e);
    what.source = source;
    return collective(what, [=, this](std::uint32_t tag) {
      if (e.count > 0) transport()->broadcast(data, bytes(e), source, tag);
    });
  }

  Started barrier() override {
    return collective(announce(Kind::Barrier, {}), [this](std::uint32_t tag) { transport()->barrier(tag); });
  }

  void abandon() override {
    if (!options_.calls) return;
    {
      const std::lock_guard lock(mutex_);
      if (!broken_.empty()) return pass_by(kComes, *first_store_, rank_, call_now());
    }
    // The run has waited for what it had started, so that no thread is in an exchange.
    const std::string why = run_failed(rank_);
    mark_broken(why, call_now());
    leave(call_now(), why);
    pass_by(kComes, *first_store_, rank_, call_now());
  }

  // A message is its number of bytes, then the bytes.
  Started send(const void* data, Elements e, int to, std::uint32_t tag) override {
    check_rank(to);
    return message({to, true, tag}, fmt::format("send to rank {}", to), [=, this] {
      const std::uint64_t size = bytes(e);
      transport()->send(&size, sizeof size, to, slot(tag));
      if (size > 0) transport()->send(data, size, to, slot(tag) + 1);
    });
  }

  Started receive(void* data, Elements e, int from, std::uint32_t tag) override {
    check_rank(from);
    return message({from, false, tag}, fmt::format("receive from rank {}", from), [=, this] {
      std::uint64_t size = 0;
      transport()->receive(&size, sizeof size, from, slot(tag));
      if (size != bytes(e)) fail("rank {} sends {} bytes, but {} are expected", from, size, bytes(e));
      if (size > 0) transport()->receive(data, size, from, slot(tag) + 1);
    });
  }

 private:
  /// The key of a lane for messages: the other rank, whether this one sends, the tag.
  using MessageKey = std::tuple<int, bool, std::uint32_t>;

  static std::size_t count(Elements e) { return static_cast<std::size_t>(e.count); }
  static std::size_t bytes(Elements e) { return count(e) * size_of(e.dtype); }
  /// The first of a message's two slots in the transport. Slots of Gloo's own collectives have the highest byte set.
  static std::uint64_t slot(std::uint32_t tag) { return std::uint64_t{tag} * 2; }

  void check_rank(int rank) const {
    if (rank < 0 || rank >= size_) fail("process group '{}' has no rank {}: it has {}", name(), rank, size_);
  }

  std::string global(int rank) const {
    const int all = options_.ranks[static_cast<std::size_t>(rank)];
    return all == rank ? fmt::format("rank {}", rank) : fmt::format("rank {} (rank {} of all)", rank, all);
  }

  /// The ranks that have not set their `WORD/RANK` in the store when the time is over.
  std::vector<std::string> without(std::string_view word, Milliseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    std::vector<std::string> missing;
    for (int r = 0; r < size_; ++r) {
      const auto left = std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
      try {
        store_->get(fmt::format("{}/{}", word, r), std::max(left, Milliseconds{1}));
      } catch (const std::exception&) {
        missing.push_back(global(r));
      }
    }
    return missing;
  }

  void connect() {
    gather_members();
    try {
      const std::lock_guard lock(mutex_);
      transport_.reset(open_({rank_, size_, options_.address, options_.timeout}, *store_));
    } catch (const std::exception& e) {
      fail("rank {} cannot connect to the others of process group '{}': {}", rank_, options_.name, e.what());
    }
  }

  /// All ranks are there, or are named.
  void gather_members() {
    store_->set(fmt::format("joined/{}", rank_), "1");
    const std::vector<std::string> missing = without("joined", options_.timeout);
    if (!missing.empty())
      fail("{} did not join process group '{}' of {} ranks within {} s", fmt::join(missing, ", "), options_.name, size_,
           seconds());
  }

  void all_reduce_now(void* data, Elements e, const Combine& combine, bool averages, std::uint32_t tag) {
    if (e.count == 0) return;
    if (bytes(e) <= kSmall)
      combine_all(data, e, combine, tag);
    else
      transport()->all_reduce(data, count(e), size_of(e.dtype), combine, tag);
    if (averages) average(data, count(e), e.dtype, size_);
  }

  /// In one step instead of several: each rank gets the operands of all.
  void combine_all(void* data, Elements e, const Combine& combine, std::uint32_t tag) {
    std::vector<char> all(bytes(e) * static_cast<std::size_t>(size_));
    transport()->all_gather(data, all.data(), bytes(e), tag);
    std::memcpy(data, all.data(), bytes(e));
    for (std::size_t r = 1; r < static_cast<std::size_t>(size_); ++r)
      combine(data, all.data() + r * bytes(e), count(e));
  }

  void reduce_scatter_now(const void* in, void* out, Elements e, const Combine& combine, bool averages,
                          std::uint32_t tag) {
    if (e.count == 0) return;
    const std::vector<std::int64_t> shares(static_cast<std::size_t>(size_), static_cast<std::int64_t>(bytes(e)));
    std::vector<char> came(bytes(e) * shares.size());
    transport()->all_to_all(in, shares, came.data(), shares, tag);
    std::memcpy(out, came.data(), bytes(e));
    for (std::size_t r = 1; r < shares.size(); ++r) combine(out, came.data() + r * bytes(e), count(e));
    if (averages) average(out, count(e), e.dtype, size_);
  }

  // ---- Several at once: as one, in memory where they lie behind one another ----

  /// All of them where every rank has the same together, else the first. Returns how many.
  std::size_t start_some(SharedKind kind, std::span<const Share> shares, std::string_view reduce, std::uint64_t call) {
    static constexpr Kind kAlone[] = {Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter};
    Announcement what = announce(kAlone[static_cast<std::size_t>(kind)], shares[0].elements, reduce);
    std::string counts;
    for (const Share& s : shares) counts += fmt::format("{} ", s.elements.count);
    if (shares.size() > 1) what.together = hash(counts).low | 1;
    what.call = call;
    what.sequence = ++sequence_;
    now_ = fmt::format("{}, collective {}", describe(what), sequence_);
    const std::size_t goes = agree(what) ? shares.size() : 1;
    const auto tag = static_cast<std::uint32_t>(sequence_ * 4);
    exchange_packed(kind, shares.first(goes), reduce, tag);
    sequence_ += goes - 1;
    return goes;
  }

  void exchange_packed(SharedKind kind, std::span<const Share> shares, std::string_view reduce, std::uint32_t tag) {
    Elements all{shares[0].elements.dtype, 0};
    for (const Share& s : shares) all.count += s.elements.count;
    const auto ranks = static_cast<std::size_t>(size_);
    const bool gathers = kind == SharedKind::AllGather, scatters = kind == SharedKind::ReduceScatter;
    const Combine combine = gathers ? Combine() : combination(reduce, all.dtype);
    // Rank by rank, and for each of them share by share.
    std::vector<char> in(bytes(all) * (scatters ? ranks : 1)), out(bytes(all) * (gathers ? ranks : 1));
    each_part(shares, scatters ? ranks : 1, [&](const Share& s, std::size_t r, std::size_t packed) {
      std::memcpy(in.data() + packed, static_cast<const char*>(s.in) + r * bytes(s.elements), bytes(s.elements));
    });
    if (gathers && all.count > 0) transport()->all_gather(in.data(), out.data(), bytes(all), tag);
    if (scatters) reduce_scatter_now(in.data(), out.data(), all, combine, reduce == "avg", tag);
    if (!gathers && !scatters) all_reduce_now(in.data(), all, combine, reduce == "avg", tag);
    const std::vector<char>& came = gathers || scatters ? out : in;
    each_part(shares, gathers ? ranks : 1, [&](const Share& s, std::size_t r, std::size_t packed) {
      std::memcpy(static_cast<char*>(s.out) + r * bytes(s.elements), came.data() + packed, bytes(s.elements));
    });
  }

  /// Calls `part(share, rank, offset)` for what lies at an offset where shares lie behind one another for each rank.
  template <class Part>
  static void each_part(std::span<const Share> shares, std::size_t ranks, Part part) {
    std::size_t offset = 0;
    for (std::size_t r = 0; r < ranks; ++r)
      for (const Share& s : shares) {
        if (s.elements.count > 0) part(s, r, offset);
        offset += bytes(s.elements);
      }
  }

  double seconds() const { return std::chrono::duration<double>(options_.timeout).count(); }

  Announcement announce(Kind kind, Elements e, std::string_view reduce = {}) {
    Announcement a;
    a.kind = kind;
    a.dtype = static_cast<std::int32_t>(e.dtype);
    a.count = e.count;
    std::copy_n(reduce.begin(), std::min(reduce.size(), sizeof a.reduce), a.reduce);
    return a;
  }

  Started collective(Announcement what, std::function<void(std::uint32_t tag)> run) {
    what.call = call_now();
    return collectives_->add("", what.call, [this, what, run = std::move(run)]() mutable {
      what.sequence = ++sequence_;
      now_ = fmt::format("{}, collective {}", describe(what), sequence_);
      agree(what);
      run(static_cast<std::uint32_t>(sequence_ * 4));
    });
  }

  /// All ranks are about to do the same. Returns whether they do more together with it.
  bool agree(const Announcement& mine) {
    std::vector<Announcement> all(static_cast<std::size_t>(size_));
    // Byte by byte the same where they are equal, as padding is 0 in each.
    transport()->all_gather(&mine, all.data(), sizeof mine, static_cast<std::uint32_t>(sequence_ * 4 + 1));
    bool together = mine.together != 0;
    for (int r = 0; r < size_; ++r) {
      Announcement other = all[static_cast<std::size_t>(r)];
      together = std::exchange(other.together, mine.together) == mine.together && together;
      if (!(other == mine))
        fail(
            "rank {} is in {}, but {} is in {} (collective {}{}); all ranks must run the same program on tensors of "
            "the same sizes",
            rank_, describe(mine), global(r), describe(other), other.sequence,
            other.call == mine.call ? "" : fmt::format(", in call {} and not {}", other.call, mine.call));
    }
    return together;
  }

  void check_splits(const std::vector<std::int64_t>& sent, const std::vector<std::int64_t>& received,
                    std::uint32_t tag) {
    // Every rank looks at what the others expect as well, so that all of them fail.
    const auto n = sent.size();
    std::vector<std::int64_t> mine = sent, all(2 * n * n);
    mine.insert(mine.end(), received.begin(), received.end());
    transport()->all_gather(mine.data(), all.data(), mine.size() * sizeof(std::int64_t), tag + 2);
    for (std::size_t from = 0; from < n; ++from)
      for (std::size_t to = 0; to < n; ++to)
        if (const std::int64_t goes = all[2 * n * from + to], expected = all[2 * n * to + n + from]; goes != expected)
          fail("rank {} sends {} elements to rank {}, which expects {}", from, goes, to, expected);
  }

  std::unique_ptr<Lane> make_lane() {
    return std::make_unique<Lane>([this](const std::string& what, std::uint64_t call,
                                         const std::function<void()>& run) { return carry_out(what, call, run); });
  }

  /// Messages wait for the other rank, and for nothing else: a rank may send before it receives, as the other does.
  Started message(const MessageKey& key, std::string what, std::function<void()> run) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Lane>& lane = messages_[key];
    if (!lane) {
      const WithoutSigpipe quiet;
      lane = make_lane();
    }
    return lane->add(std::move(what), call_now(), std::move(run));
  }

  std::shared_ptr<Transport> transport() {
    const std::lock_guard lock(mutex_);
    if (!transport_) fail("its connections are closed");
    return transport_;
  }

  std::uint64_t call_now() const { return options_.calls ? options_.calls->load() : 0; }

  /// What went wrong; empty where nothing did. Collectives say in `now_` what they are.
  std::string carry_out(const std::string& what, std::uint64_t call, const std::function<void()>& run) try {
    for (bool is_first = true;; is_first = false) {
      connect_again(call);
      std::string why;
      try {
        run();
        return {};
      } catch (const std::exception& e) {
        why = e.what();
      }
      leave(call, why);
      const RollCall roll = call_the_roll(call);
      if (is_first && roll.left_before) {
        // A rank failed in an earlier call, when this one had no more exchanges in it. It comes to the first one of
        // this call as all ranks do, over new connections; nothing has been exchanged in it yet.
        mark_broken(why, call - 1);
        continue;
      }
      if (call > 0) pass_by(kComes, *first_store_, rank_, call);
      lacks_ranks_ = !roll.missing.empty();
      const std::string text = fmt::format("{} in process group '{}' failed on rank {}: {}", what.empty() ? now_ : what,
                                           name(), rank_, explain(why, roll));
      mark_broken(text, call);
      return text;
    }
  } catch (const Unusable& e) {
    return e.what();
  }

  void mark_broken(const std::string& why, std::uint64_t call) {
    const std::lock_guard lock(mutex_);
    if (!broken_.empty()) return;
    broken_ = why;
    broken_in_ = call;
  }

  /// Where an exchange of an earlier call failed, the ranks connect anew. Throws Unusable where that is not so, or
  /// where they cannot.
  void connect_again(std::uint64_t call) {
    {
      const std::lock_guard lock(mutex_);
      if (broken_.empty()) return;
      if (call <= broken_in_)
        throw Unusable(fmt::format("process group '{}' is of no use any more: {}", name(), broken_));
      broken_in_ = call;
    }
    const WithoutSigpipe quiet;
    try {
      // Ranks that were found to be gone are not waited for another time.
      const Milliseconds patience = lacks_ranks_ ? std::min(kRollCall, options_.timeout) : options_.timeout;
      come_to(kComes, {*first_store_, rank_, size_, call, patience, [this](int r) { return global(r); }});
      store_ = with_prefix(first_store_, fmt::format("call {}/", call));
      connect();
    } catch (const std::exception& e) {
      pass_by(kComes, *first_store_, rank_, call);
      throw Unusable(fmt::format("after an exchange that failed ({}): {}", broken_, e.what()));
    }
    sequence_ = 0;
    lacks_ranks_ = false;
    const std::lock_guard lock(mutex_);
    broken_.clear();
  }

  /// Closes the connections. The others find in the store in which call, and why.
  void leave(std::uint64_t call, const std::string& why) {
    {
      const std::lock_guard lock(mutex_);
      transport_.reset();
    }
    try {
      store_->set(fmt::format("left/{}", rank_), fmt::format("{} {}", call, why));
    } catch (const std::exception&) {
      // Whoever looks for it finds that the store is gone.
    }
  }

  /// What the store says of the ranks after an exchange has failed.
  struct RollCall {
    std::vector<std::string> missing;  ///< they have not left the group
    std::string cause;                 ///< a run that has failed; the others lost their connections to it
    bool left_before = false;          ///< some rank did, in an earlier call
    std::string store;                 ///< why it cannot be asked
  };

  RollCall call_the_roll(std::uint64_t call) {
    RollCall roll;
    const auto deadline = std::chrono::steady_clock::now() + std::min(kRollCall, options_.timeout);
    const auto said = [&](int rank) {
      const auto left = std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
      return store_->get(fmt::format("left/{}", rank), std::max(left, Milliseconds{1}));
    };
    try {
      said(rank_);
    } catch (const std::exception& e) {
      roll.store = e.what();
      return roll;
    }
    for (int r = 0; r < size_; ++r) try {
        const std::string theirs = said(r);
        if (std::stoull(theirs) < call) roll.left_before = true;
        if (theirs.ends_with(run_failed(r))) roll.cause = run_failed(r);
      } catch (const std::exception&) {
        roll.missing.push_back(global(r));
      }
    return roll;
  }

  static std::string run_failed(int rank) { return fmt::format("a run on rank {} has failed", rank); }

  std::string explain(const std::string& why, const RollCall& roll) const {
    if (!roll.store.empty())
      return fmt::format("{}; the process that holds the group's store is gone too ({})", why, roll.store);
    if (roll.missing.empty()) return roll.cause.empty() ? why : roll.cause;
    return fmt::format("{} {} gone, or more than {} s late ({})", fmt::join(roll.missing, ", "),
                       roll.missing.size() == 1 ? "is" : "are", seconds(), why);
  }

  GroupOptions options_;
  OpenTransport open_;
  std::shared_ptr<Store> first_store_, store_;  ///< of the group, of these connections
  int rank_, size_;
  // Used by the thread that carries out collectives.
  std::uint64_t sequence_ = 0;
  bool lacks_ranks_ = false;  ///< some did not say anything after an exchange that failed
  std::string now_;
  // Shared with the lanes' threads.
  std::mutex mutex_;
  std::shared_ptr<Transport> transport_;
  std::string broken_;
  std::uint64_t broken_in_ = 0;  ///< the call
  std::unique_ptr<Lane> collectives_;
  std::map<MessageKey, std::unique_ptr<Lane>> messages_;
};

}  // namespace

std::shared_ptr<ProcessGroup> join_host_group(const GroupOptions& options, OpenTransport open) {
  return std::make_shared<HostGroup>(options, open);
}

}  // namespace coil::runtime::groups
