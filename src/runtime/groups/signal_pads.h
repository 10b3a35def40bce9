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
  /// `own` is this rank's, `peers` those of all ranks, mapped (null in this rank's place).
  SignalPads(Meeting, std::unique_ptr<Segment> own, std::vector<std::unique_ptr<Segment>> peers);
  /// Tells the others that this rank comes to no barrier any more.
  ~SignalPads();
  SignalPads(const SignalPads&) = delete;
  SignalPads& operator=(const SignalPads&) = delete;

  /// As SymmetricMemory has them.
  void barrier(const Doing&);
  void abandon() noexcept;
  /// Fills a new segment in: done before others map it.
  static void begin(Segment&);

 private:
  struct Pad;
  Pad& pad(int rank) const;
  void wait_for(int rank, std::uint32_t turn, const Doing&);
  void compare(int rank, std::uint32_t turn, const Doing&);
  bool has_come(int rank, std::uint32_t turn) const;
  std::string name_of(int rank) const;
  [[noreturn]] void give_up(const Doing&, const std::string& why);

  Meeting meeting_;
  std::unique_ptr<Segment> own_;
  std::vector<std::unique_ptr<Segment>> peers_;
  std::vector<std::unique_ptr<PeerProcess>> processes_;
  std::uint32_t turn_ = 0;
  std::string broken_;
  bool is_abandoned_ = false;
};

}  // namespace coil::runtime::groups
