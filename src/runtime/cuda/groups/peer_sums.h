// Sums over the ranks of a group by kernels that read and write one another's memory (peer_sums.cu).
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "library_ops/collectives.h"
#include "runtime/cuda/driver/device.h"
#include "runtime/groups/symmetric.h"
#include "runtime/plan/plan.h"
#include "tensor/dtype.h"

namespace coil::runtime::cuda {

/// What the kernels keep behind the bytes of an allocation, zero at first.
struct PeerControl {
  static constexpr int kRanks = 8, kBlocks = 128;
  static constexpr std::size_t kSentBytes = 256 << 10,  ///< the largest operand that ranks send one another
      kNoticeBytes = 16, kControlBytes = 8192, kLineBytes = 2 * kSentBytes,  ///< half of a line tells that it has come
      kBytes = kControlBytes + 2 * kRanks * kLineBytes;
  /// Where it begins in an allocation of so many bytes, behind a PeerTable.
  static constexpr std::size_t offset(std::size_t bytes) { return peer_table_offset(bytes) + kPeerTableBytes; }
  /// Where the lines lie, as many again and a notice of each rank, that a program's own kernels send.
  static constexpr std::size_t lines_offset(std::size_t bytes) { return offset(bytes) + kBytes; }
  static constexpr std::size_t all_bytes(std::size_t bytes) {
    return lines_offset(bytes) + 2 * kRanks * (kLineBytes + kNoticeBytes);
  }
};

/// How a sum over ranks failed, as the kernel that found it out writes it to a word that the host sees.
struct PeerFailure {
  int rank = 0;  ///< that did not come, or is at another sum
  bool is_at_another = false;
  std::int64_t its_elements = 0, own_elements = 0;  ///< of the two sums

  /// The failure that a word tells; nothing for a word of zeros.
  static std::optional<PeerFailure> of(std::uint64_t word);
};

/// What kernels of a program's own find at peer_table_offset (src/device/cuda/peer_sums.cuh: c_peer_table).
struct PeerTable {
  std::uint64_t lines[PeerControl::kRanks] = {}, failure = 0, timeout = 0;
  std::uint32_t rank = 0, ranks = 0, epoch = 0, ticket = 0, broken = 0, most = 0;

  /// The largest operand, in bytes, that kernels send by themselves in a group of so many ranks. They send it twice as
  /// large to each of the others: over four ranks a sum in front of them is faster from 72 KiB on
  /// (docs/distribution.md).
  static constexpr std::uint32_t most_sent(int ranks) {
    return ranks <= 2 ? PeerControl::kSentBytes : PeerControl::kSentBytes / 4;
  }
};

static_assert(sizeof(PeerTable) <= kPeerTableBytes &&
              PeerControl::kSentBytes == library_ops::collectives::kPeerSumBytes);

/// The parameter that all kernels take first (Peers).
struct PeerMemory {
  std::uint64_t base[PeerControl::kRanks] = {}, control = 0, failure = 0, timeout = 0;
  std::int32_t rank = 0, ranks = 0;

  /// `failure`: a word that host and device see.
  PeerMemory(const groups::SymmetricMemory&, const std::int64_t* failure, std::uint64_t timeout_nanoseconds);
};

class PeerSums {
 public:
  /// Throws Error when the driver cannot compile the kernels.
  explicit PeerSums(std::shared_ptr<const CudaDevice>);
  ~PeerSums();
  PeerSums(const PeerSums&) = delete;
  PeerSums& operator=(const PeerSums&) = delete;

  static bool has(DType);
  /// The largest operands, in bytes, for which one shot takes no longer than two shots in a group of so many ranks.
  static std::size_t one_shot_bytes(int ranks);
  /// Queues the sum of `count` elements, more than none, that lie `offset` into each rank's allocation. In two shots
  /// the operand is written over, and the offset is a multiple of 16. In one shot, of PeerControl::kSentBytes at most,
  /// `out` may be the operand.
  void one_shot(const PeerMemory&, std::size_t offset, void* out, DType, std::int64_t count, Stream);
  void two_shot(const PeerMemory&, std::size_t offset, void* out, DType, std::int64_t count, Stream);

  /// The kernels' text.
  static const char* ptx();

 private:
  Function find(const std::string& kernel, DType);
  void launch(Function, const PeerMemory&, std::uint64_t operand, void* out, std::uint64_t bytes, std::uint64_t threads,
              unsigned most_blocks, Stream);

  std::shared_ptr<const CudaDevice> device_;
  Module module_ = nullptr;
  std::map<std::string, Function> functions_;
};

}  // namespace coil::runtime::cuda
