#include "runtime/groups/signal_pads.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>

#include "runtime/groups/next_call.h"
#include "support/error.h"

namespace coil::runtime::groups {
namespace {

using Word = std::atomic<std::uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == sizeof(std::uint32_t));

enum State : std::uint32_t { kAtWork, kFailed, kLeft };

/// Places of next_call.h.
constexpr const char *kComesAgain = "call", *kReady = "ready";

constexpr std::size_t kPadBytes = 4096, kTextBytes = 192, kNamespaceBytes = 64;
/// Looks at a word before the system is asked to sleep: a rank that runs on another core comes within microseconds.
constexpr int kLooks = 400;
/// How long to sleep before looking whether the other process is still there.
constexpr auto kNap = std::chrono::milliseconds(20);

void put(char* to, std::size_t room, std::string_view text) {
  const std::size_t n = std::min(text.size(), room - 1);
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
}

/// The word lies in a page that processes share, so the futex is not a private one.
void sleep_while(Word& word, std::uint32_t value, std::chrono::milliseconds most) {
  const timespec time{most.count() / 1000, most.count() % 1000 * 1'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}
void wake_all(Word& word) { ::syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0); }

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

/// Zeros are a valid one. Texts are double: a rank may be one turn ahead of those that still read the last one's.
struct SignalPads::Pad {
  alignas(64) Word turn;                 ///< barriers that the rank has come to
  Word sleepers, state;                  ///< who waits for it; a State
  std::atomic<std::uint64_t> failed_in;  ///< the call, where it has
  std::int64_t process;
  char where[kNamespaceBytes];
  std::uint64_t call[2];
  char doing[2][kTextBytes];
};

std::size_t pad_bytes() { return kPadBytes; }

SignalPads::Pad& SignalPads::pad(int rank) const {
  static_assert(sizeof(Pad) <= kPadBytes && std::is_trivially_destructible_v<Pad>);
  const Segment& s = rank == meeting_.rank ? *own_ : *peers_[static_cast<std::size_t>(rank)];
  return *reinterpret_cast<Pad*>(s.data());
}

void SignalPads::begin(Segment& segment) {
  Pad* pad = new (segment.data()) Pad{};
  pad->process = ::getpid();
  put(pad->where, kNamespaceBytes, process_namespace());
}

SignalPads::SignalPads(Meeting meeting, std::unique_ptr<Segment> own, std::vector<std::unique_ptr<Segment>> peers)
    : meeting_(std::move(meeting)), own_(std::move(own)), peers_(std::move(peers)) {
  for (int r = 0; r < meeting_.size(); ++r)
    processes_.push_back(r == meeting_.rank ? nullptr : std::make_unique<PeerProcess>(pad(r).process, pad(r).where));
}

SignalPads::~SignalPads() {
  Pad& mine = pad(meeting_.rank);
  std::uint32_t at_work = kAtWork;
  mine.state.compare_exchange_strong(at_work, kLeft);
  wake_all(mine.turn);
}

std::string SignalPads::name_of(int rank) const {
  const int all = meeting_.ranks[static_cast<std::size_t>(rank)];
  return all == rank ? fmt::format("rank {}", rank) : fmt::format("rank {} (rank {} of all)", rank, all);
}

void SignalPads::mark_failed() noexcept {
  Pad& mine = pad(meeting_.rank);
  broken_in_ = call();
  mine.failed_in = broken_in_;
  mine.state = kFailed;
  wake_all(mine.turn);
  if (!meeting_.calls) return;
  for (const char* word : {kComesAgain, kReady}) pass_by(word, *meeting_.store, meeting_.rank, broken_in_);
}

void SignalPads::abandon() noexcept {
  mark_failed();
  is_abandoned_ = true;
}

void SignalPads::give_up(const Doing& doing, const std::string& why) {
  mark_failed();
  broken_ =
      fmt::format("{} in process group '{}' failed on rank {}: {}", doing.what, meeting_.name, meeting_.rank, why);
  throw Error(broken_);
}

/// Turns wrap around; no rank is ever two ahead of another.
bool SignalPads::has_come(int rank, std::uint32_t turn) const {
  return static_cast<std::int32_t>(pad(rank).turn.load(std::memory_order_acquire) - turn) >= 0;
}

void SignalPads::barrier(const Doing& doing) {
  if (!broken_.empty() || is_abandoned_) {
    if (call() <= broken_in_)
      fail("the shared memory of process group '{}' is of no use any more: {}", meeting_.name,
           broken_.empty() ? fmt::format("a run on rank {} has failed", meeting_.rank) : broken_);
    meet_again(doing);
  }
  while (!pass(doing)) meet_again(doing);
}

bool SignalPads::pass(const Doing& doing) {
  Pad& mine = pad(meeting_.rank);
  const std::uint32_t turn = ++turn_;
  mine.call[turn % 2] = call();
  put(mine.doing[turn % 2], kTextBytes, doing.what);
  mine.turn.store(turn, std::memory_order_seq_cst);
  if (mine.sleepers.load(std::memory_order_seq_cst) > 0) wake_all(mine.turn);
  for (int r = 0; r < meeting_.size(); ++r)
    if (r != meeting_.rank && !wait_for(r, turn, doing)) return false;
  for (int r = 0; r < meeting_.size(); ++r)
    if (r != meeting_.rank) compare(r, turn, doing);
  return true;
}

bool SignalPads::wait_for(int rank, std::uint32_t turn, const Doing& doing) {
  for (int look = 0; look < kLooks; ++look, pause())
    if (has_come(rank, turn)) return true;
  Pad& other = pad(rank);
  const auto deadline = std::chrono::steady_clock::now() + meeting_.timeout;
  while (!has_come(rank, turn)) {
    other.sleepers.fetch_add(1);
    const std::uint32_t seen = other.turn.load();
    if (static_cast<std::int32_t>(seen - turn) < 0 && other.state == kAtWork) sleep_while(other.turn, seen, kNap);
    other.sleepers.fetch_sub(1);
    if (has_come(rank, turn)) return true;
    if (other.state == kFailed && other.failed_in < call()) return false;
    const std::string who = name_of(rank);
    if (other.state == kFailed) give_up(doing, who + " has failed");
    if (other.state == kLeft) give_up(doing, who + " has let go of the memory that is exchanged in");
    if (processes_[static_cast<std::size_t>(rank)]->has_ended()) give_up(doing, who + " is gone");
    if (std::chrono::steady_clock::now() >= deadline)
      give_up(doing, fmt::format("{} is gone, or more than {} s late", who,
                                 std::chrono::duration<double>(meeting_.timeout).count()));
  }
  return true;
}

void SignalPads::meet_again(const Doing& doing) try {
  const NextCall next{*meeting_.store,
                      meeting_.rank,
                      meeting_.size(),
                      call(),
                      meeting_.timeout,
                      [this](int r) { return name_of(r); },
                      [this](int r) { return processes_[static_cast<std::size_t>(r)]->has_ended(); }};
  come_to(kComesAgain, next);
  Pad& mine = pad(meeting_.rank);  // nobody waits for a turn of it now
  mine.turn = turn_ = 0;
  mine.state = kAtWork;
  come_to(kReady, next);
  broken_.clear();
  is_abandoned_ = false;
} catch (const std::exception& e) {
  give_up(doing, e.what());
}

void SignalPads::compare(int rank, std::uint32_t turn, const Doing& doing) {
  const char* theirs = pad(rank).doing[turn % 2];
  char mine[kTextBytes];
  put(mine, kTextBytes, doing.what);
  const std::uint64_t my_call = pad(meeting_.rank).call[turn % 2], their_call = pad(rank).call[turn % 2];
  if (my_call == their_call && std::strncmp(mine, theirs, kTextBytes) == 0) return;
  const std::string calls =
      my_call == their_call ? ""
                            : fmt::format(" in call {}, and rank {} in call {}", their_call, meeting_.rank, my_call);
  give_up(doing, fmt::format("{} is in {}{}; all ranks must run the same program on tensors of the same sizes",
                             name_of(rank), theirs, calls));
}

}  // namespace coil::runtime::groups
