// NCCL for tests: ranks are processes that exchange files in the folder that COIL_FAKE_NCCL_FOLDER names, in order with
// the work of test/fake_cuda's streams. An exchange with a rank that does not come waits until the communicator is
// ended, as NCCL's own does; that itself waits until no graph is there that may hold an exchange.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

extern "C" int coil_fake_cuda_submit(void* stream, void (*run)(void*), void* what);
extern "C" int coil_fake_cuda_live_graphs();

namespace {

using Bytes = std::vector<char>;
enum Type : int { kI8, kU8, kI32, kU32, kI64, kU64, kF16, kF32, kF64, kBF16 };
constexpr std::size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
constexpr int kDone = 0, kInvalidArgument = 4;

struct Id {
  char bytes[128];
};

struct BF16 {
  std::uint16_t bits;
  BF16() = default;
  explicit BF16(float f) {
    std::uint32_t u = 0;
    std::memcpy(&u, &f, 4);
    bits = static_cast<std::uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
  explicit operator float() const {
    const std::uint32_t u = std::uint32_t{bits} << 16;
    float f = 0;
    std::memcpy(&f, &u, 4);
    return f;
  }
};

}  // namespace

struct ncclComm {
  int rank, ranks;
  std::filesystem::path folder;
  std::uint64_t sequence = 0;  ///< of exchanges that were carried out
  std::atomic<bool> ended{false};

  std::filesystem::path file(std::uint64_t number, int from, int to) const {
    return folder / (std::to_string(number) + "." + std::to_string(from) + "." + std::to_string(to));
  }
  /// To all where `to` is -1.
  void give(const void* data, std::size_t bytes, int to) const {
    const std::filesystem::path made = file(sequence, rank, to), part = made.string() + ".part";
    std::ofstream(part, std::ios::binary).write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    std::filesystem::rename(part, made);
  }
  bool take(void* data, std::size_t bytes, int from, int to) const {
    const std::filesystem::path wanted = file(sequence, from, to);
    while (!std::filesystem::exists(wanted)) {
      if (ended) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    std::ifstream(wanted, std::ios::binary).read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
    return true;
  }
  /// Exchanges of all ranks, in which each rank that has come to this one has read what was given in the one before.
  std::vector<Bytes> all(const void* mine, std::size_t bytes) {
    ++sequence;
    give(mine, bytes, -1);
    std::vector<Bytes> given(static_cast<std::size_t>(ranks), Bytes(bytes));
    for (int r = 0; r < ranks; ++r)
      if (!take(given[static_cast<std::size_t>(r)].data(), bytes, r, -1)) return {};
    std::error_code ignored;
    std::filesystem::remove(file(sequence - 1, rank, -1), ignored);
    return given;
  }
};

namespace {

struct Message {
  void* data;
  std::size_t bytes;
  int peer;
  bool sends;
};
thread_local std::vector<Message> messages;
thread_local int depth = 0;
thread_local ncclComm* message_comm = nullptr;
thread_local void* message_stream = nullptr;

int submit(void* stream, std::function<void()> work) {
  // Never freed: a captured one runs any number of times.
  return coil_fake_cuda_submit(
      stream, [](void* what) { (*static_cast<std::function<void()>*>(what))(); },
      new std::function<void()>(std::move(work)));
}

template <class T, class C = T>
void combine(char* to, const char* from, std::size_t count, int operation) {
  for (std::size_t i = 0; i < count; ++i) {
    T stored[2];
    std::memcpy(&stored[0], to + i * sizeof(T), sizeof(T));
    std::memcpy(&stored[1], from + i * sizeof(T), sizeof(T));
    const C a = static_cast<C>(stored[0]), b = static_cast<C>(stored[1]);
    const C c = operation == 1 ? a * b : operation == 2 ? (a < b ? b : a) : operation == 3 ? (b < a ? b : a) : a + b;
    const T out = static_cast<T>(c);
    std::memcpy(to + i * sizeof(T), &out, sizeof(T));
  }
}

void combine(char* to, const char* from, std::size_t count, int type, int operation) {
  switch (type) {
    case kI8: return combine<std::int8_t, int>(to, from, count, operation);
    case kU8: return combine<std::uint8_t, unsigned>(to, from, count, operation);
    case kI32: return combine<std::int32_t, std::int64_t>(to, from, count, operation);
    case kU32: return combine<std::uint32_t>(to, from, count, operation);
    case kI64: return combine<std::int64_t>(to, from, count, operation);
    case kU64: return combine<std::uint64_t>(to, from, count, operation);
    case kF16: return combine<_Float16, float>(to, from, count, operation);
    case kF32: return combine<float>(to, from, count, operation);
    case kF64: return combine<double>(to, from, count, operation);
    case kBF16: return combine<BF16, float>(to, from, count, operation);
    default: std::abort();
  }
}

template <class T, class C = T>
void divide(char* data, std::size_t count, int ranks) {
  for (std::size_t i = 0; i < count; ++i) {
    T v;
    std::memcpy(&v, data + i * sizeof v, sizeof v);
    v = static_cast<T>(static_cast<C>(v) / static_cast<C>(ranks));
    std::memcpy(data + i * sizeof v, &v, sizeof v);
  }
}

void average(char* data, std::size_t count, int type, int ranks) {
  if (type == kF32) divide<float>(data, count, ranks);
  if (type == kF64) divide<double>(data, count, ranks);
  if (type == kF16) divide<_Float16, float>(data, count, ranks);
  if (type == kBF16) divide<BF16, float>(data, count, ranks);
}

/// Elements `first` to `first + count` of the ranks' values, combined in the order of the ranks.
void reduce(const std::vector<Bytes>& all, std::size_t first, std::size_t count, void* out, int type, int operation) {
  if (all.empty()) return;
  const std::size_t item = kSizes[type];
  Bytes sum(all[0].begin() + static_cast<std::ptrdiff_t>(first * item),
            all[0].begin() + static_cast<std::ptrdiff_t>((first + count) * item));
  for (std::size_t r = 1; r < all.size(); ++r)
    combine(sum.data(), all[r].data() + first * item, count, type, operation);
  if (operation == 4) average(sum.data(), count, type, static_cast<int>(all.size()));
  std::memcpy(out, sum.data(), sum.size());
}

int message(void* data, std::size_t count, int type, int peer, ncclComm* comm, void* stream, bool sends);

}  // namespace

extern "C" {

int ncclGetVersion(int* version) { return *version = 22800, kDone; }
const char* ncclGetErrorString(int) { return "as the test wants"; }
int ncclGetUniqueId(Id* id) {
  std::memset(id, 0, sizeof *id);
  std::random_device random;
  std::snprintf(id->bytes, sizeof id->bytes, "%08x%08x", random(), random());
  return kDone;
}
int ncclCommInitRank(ncclComm** comm, int ranks, Id id, int rank) {
  const char* folder = std::getenv("COIL_FAKE_NCCL_FOLDER");
  if (!folder) return kInvalidArgument;
  auto* made = new ncclComm{rank, ranks, std::filesystem::path(folder) / id.bytes};
  std::filesystem::create_directories(made->folder);
  made->all("", 0);
  return *comm = made, kDone;
}
int ncclCommAbort(ncclComm* comm) {
  comm->ended = true;
  while (coil_fake_cuda_live_graphs() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return kDone;
}
int ncclCommGetAsyncError(ncclComm*, int* error) { return *error = kDone; }

int ncclAllReduce(const void* in, void* out, std::size_t count, int type, int operation, ncclComm* comm, void* stream) {
  return submit(stream, [=] { reduce(comm->all(in, count * kSizes[type]), 0, count, out, type, operation); });
}
int ncclReduceScatter(const void* in, void* out, std::size_t count, int type, int operation, ncclComm* comm,
                      void* stream) {
  return submit(stream, [=] {
    const auto ranks = static_cast<std::size_t>(comm->ranks), rank = static_cast<std::size_t>(comm->rank);
    reduce(comm->all(in, ranks * count * kSizes[type]), rank * count, count, out, type, operation);
  });
}
int ncclAllGather(const void* in, void* out, std::size_t count, int type, ncclComm* comm, void* stream) {
  return submit(stream, [=] {
    const std::size_t bytes = count * kSizes[type];
    std::size_t at = 0;
    for (const Bytes& one : comm->all(in, bytes))
      std::memcpy(static_cast<char*>(out) + bytes * at++, one.data(), bytes);
  });
}
int ncclBroadcast(const void* in, void* out, std::size_t count, int type, int source, ncclComm* comm, void* stream) {
  return submit(stream, [=] {
    const std::vector<Bytes> all = comm->all(in, count * kSizes[type]);
    if (!all.empty()) std::memcpy(out, all[static_cast<std::size_t>(source)].data(), count * kSizes[type]);
  });
}

int ncclGroupStart() { return ++depth, kDone; }
int ncclGroupEnd() {
  if (--depth > 0 || messages.empty()) return kDone;
  return submit(message_stream, [mine = std::move(messages), comm = message_comm] {
    comm->all("", 0);
    for (const Message& m : mine)
      if (m.sends) comm->give(m.data, m.bytes, m.peer);
    for (const Message& m : mine)
      if (!m.sends && comm->take(m.data, m.bytes, m.peer, comm->rank))
        std::filesystem::remove(comm->file(comm->sequence, m.peer, comm->rank));
  });
}
int ncclSend(const void* data, std::size_t count, int type, int peer, ncclComm* comm, void* stream) {
  return message(const_cast<void*>(data), count, type, peer, comm, stream, true);
}
int ncclRecv(void* data, std::size_t count, int type, int peer, ncclComm* comm, void* stream) {
  return message(data, count, type, peer, comm, stream, false);
}
}

namespace {

int message(void* data, std::size_t count, int type, int peer, ncclComm* comm, void* stream, bool sends) {
  ncclGroupStart();
  messages.push_back({data, count * kSizes[type], peer, sends});
  message_comm = comm, message_stream = stream;
  return ncclGroupEnd();
}

}  // namespace
