// Where ranks of one machine tell each other how far they are: a pad for each rank, in shared memory of the host. The
// rank itself writes to its pad, the others read it.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/groups/groups.h"
#include "runtime/groups/peer_process.h"
#include "runtime/groups/symmetric.h"

namespace coil::runtime::groups {

/// Bytes of a pad's segment.
std::size_t pad_bytes();

class SignalPads {
 public:
  /// `own` is this rank's, `peers` those of all ranks, mapped (null in this rank's place). The meeting's store is this
  /// memory's.
  SignalPads(Meeting, std::unique_ptr<Segment> own, std::vector<std::unique_ptr<Segment>> peers);
  /// Tells the others that this rank comes to no barrier any more.
  ~SignalPads();
  SignalPads(const SignalPads&) = delete;
  SignalPads& operator=(const SignalPads&) = delete;

  /// `barrier` and `abandon` are as SymmetricMemory has them.
  void barrier(const Doing&);
  void abandon() noexcept;
  /// Fills a new segment in: done before others map it.
  static void begin(Segment&);

 private:
  struct Pad;
  Pad& pad(int rank) const;
  std::uint64_t call() const { return meeting_.calls ? meeting_.calls->load() : 0; }
  /// False where another rank has failed in an earlier call, so that the ranks are to meet anew.
  bool pass(const Doing&);
  bool wait_for(int rank, std::uint32_t turn, const Doing&);
  void compare(int rank, std::uint32_t turn, const Doing&);
  /// In the next call after one that failed on this rank or another: returns when all ranks are here, and the pads as
  /// new.
  void meet_again(const Doing&);
  void mark_failed() noexcept;
  bool has_come(int rank, std::uint32_t turn) const;
  std::string name_of(int rank) const;
  [[noreturn]] void give_up(const Doing&, const std::string& why);

  Meeting meeting_;
  std::unique_ptr<Segment> own_;
  std::vector<std::unique_ptr<Segment>> peers_;
  std::vector<std::unique_ptr<PeerProcess>> processes_;
  std::uint32_t turn_ = 0;
  std::string broken_;  ///< what failed, in the call `broken_in_`
  std::uint64_t broken_in_ = 0;
  bool is_abandoned_ = false;  ///< the same where it was the run
};

}  // namespace coil::runtime::groups
