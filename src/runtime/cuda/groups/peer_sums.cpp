#include "runtime/cuda/groups/peer_sums.h"

#include <algorithm>
#include <limits>

#include "runtime/cuda/driver/modules.h"
#include "support/error.h"

namespace coil::runtime::cuda {
namespace {

constexpr unsigned kThreads = 512;

/// What the kernels of a type are called by; null where there are none.
const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
    case DType::C64: return "f32";
    case DType::F64:
    case DType::C128: return "f64";
    case DType::F16: return "f16";
    case DType::BF16: return "bf16";
    case DType::Bool: return "bool";
    case DType::I8:
    case DType::U8: return "u8";
    case DType::I32:
    case DType::U32: return "u32";
    case DType::I64:
    case DType::U64: return "u64";
    default: return nullptr;
  }
}

}  // namespace

std::optional<PeerFailure> PeerFailure::of(std::uint64_t word) {
  if (word == 0) return std::nullopt;
  return PeerFailure{.rank = static_cast<int>(word & 255) - 1,
                     .is_at_another = (word >> 8 & 1) != 0,
                     .its_elements = static_cast<std::int64_t>(word >> 16 & 0xffffff),
                     .own_elements = static_cast<std::int64_t>(word >> 40)};
}

PeerMemory::PeerMemory(const groups::SymmetricMemory& memory, const std::int64_t* failure_word,
                       std::uint64_t timeout_nanoseconds)
    : control(PeerControl::offset(memory.bytes())),
      failure(reinterpret_cast<std::uint64_t>(failure_word)),
      timeout(timeout_nanoseconds),
      rank(memory.rank()),
      ranks(memory.size()) {
  for (int r = 0; r < ranks; ++r) base[r] = reinterpret_cast<std::uint64_t>(memory.at(r));
}

PeerSums::PeerSums(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {
  std::string log;
  const Result result = load_module(device_->driver(), ptx(), module_, log);
  if (result != kSuccess)
    fail("{} cannot load the kernels that add up over ranks: {} {}", device_->describe(),
         device_->driver().describe(result), log);
}

PeerSums::~PeerSums() { device_->driver().module_unload(module_); }

bool PeerSums::has(DType dtype) { return name_of(dtype) != nullptr; }

std::size_t PeerSums::one_shot_bytes(int ranks) {
  // Two ranks move as much in one shot as in two. A rank of N reads N - 1 operands in one shot and 2 (N - 1) / N in
  // two, which take a barrier more. Measured on four H200: what two shots take longer for few bytes, and how many bytes
  // that a rank reads more make up for a microsecond of it. For other numbers of ranks this is derived, not measured.
  constexpr double kMicroseconds = 7.6, kBytesOfOne = 163e3;
  if (ranks <= 2) return std::numeric_limits<std::size_t>::max();
  const double n = ranks;
  constexpr std::size_t kAlways = 256 << 10;  // lowering/collectives.cpp: no other form is made for fewer
  return std::max(kAlways, static_cast<std::size_t>(kMicroseconds * kBytesOfOne * n / ((n - 1) * (n - 2))));
}

Function PeerSums::find(const std::string& kernel, DType dtype) {
  const std::string symbol = fmt::format("coil_{}_{}", kernel, name_of(dtype));
  const auto [found, added] = functions_.try_emplace(symbol, nullptr);
  if (added)
    device_->driver().check(device_->driver().module_function(&found->second, module_, symbol.c_str()),
                            "find a kernel");
  return found->second;
}

void PeerSums::one_shot(const PeerMemory& peers, std::size_t offset, void* out, DType dtype, std::int64_t count,
                        Stream stream) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(count) * size_of(dtype);
  if (bytes <= PeerControl::kSentBytes)
    return launch(find("send_sum", dtype), peers, peers.base[peers.rank] + offset, out, bytes, (bytes + 7) / 8,
                  PeerControl::kBlocks, stream);
  launch(find("read_sum", dtype), peers, offset, out, bytes, (bytes + 15) / 16, PeerControl::kBlocks, stream);
}

void PeerSums::two_shot(const PeerMemory& peers, std::size_t offset, void* out, DType dtype, std::int64_t count,
                        Stream stream) {
  if (offset % 16 != 0) fail("a sum in two shots is of values that lie at a multiple of 16 bytes, not at {}", offset);
  const std::uint64_t bytes = static_cast<std::uint64_t>(count) * size_of(dtype), vectors = (bytes + 15) / 16,
                      ranks = static_cast<std::uint64_t>(peers.ranks);
  launch(find("share_sum", dtype), peers, offset, out, bytes, (vectors + ranks - 1) / ranks, PeerControl::kBlocks,
         stream);
}

void PeerSums::launch(Function kernel, const PeerMemory& peers, std::uint64_t operand, void* out, std::uint64_t bytes,
                      std::uint64_t threads, unsigned most_blocks, Stream stream) {
  struct {
    PeerMemory peers;
    std::uint64_t operand, out, bytes;
  } words{peers, operand, reinterpret_cast<std::uint64_t>(out), bytes};
  std::size_t size = sizeof words;
  void* arguments[] = {kLaunchBuffer, &words, kLaunchBufferSize, &size, kLaunchEnd};
  const auto blocks =
      static_cast<unsigned>(std::clamp<std::uint64_t>((threads + kThreads - 1) / kThreads, 1, most_blocks));
  device_->driver().check(device_->driver().launch(kernel, blocks, 1, 1, kThreads, 1, 1, 0, stream, nullptr, arguments),
                          "launch a sum over ranks");
}

}  // namespace coil::runtime::cuda
