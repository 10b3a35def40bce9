// The functions of libcuda that Coil's runtime opens, over fake_cuda.h's machine.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "kernels.h"
#include "streams.h"

namespace coil::fake_cuda {
namespace {

using Address = std::uint64_t;

struct FakeContext {
  int device;
};
struct FakeModule {
  std::set<std::string> entries;
};
struct FakeFunction {
  std::string name;
  HostKernel run = nullptr;
  EmulatedKernel emulated = nullptr;
};

struct Driver {
  Machine machine;
  Streams streams{machine};
  std::recursive_mutex mutex;
  std::map<Address, std::pair<std::size_t, int>> memory;  ///< bytes and device of each block
  std::map<int, FakeContext> contexts;
  std::map<std::string, FakeFunction> functions;
};

/// Told to whoever may not wait for the driver.
std::atomic<int> live_graphs{0};

std::unique_ptr<Driver>& held() {
  static std::unique_ptr<Driver> driver = std::make_unique<Driver>();
  return driver;
}
Driver& driver() { return *held(); }
thread_local FakeContext* current = nullptr;

/// The result of a call that a test wants to fail; else nothing.
std::optional<Result> fault(const char* symbol) {
  auto found = driver().machine.faults.find(symbol);
  if (found == driver().machine.faults.end()) return {};
  Fault& f = found->second;
  if (f.skip > 0) return --f.skip, std::nullopt;
  if (f.count <= 0) return {};
  --f.count;
  return f.result;
}

void note(const std::string& what) {
  driver().machine.calls.push_back(what + " on device " + (current ? std::to_string(current->device) : "none"));
}

/// CUipcMemHandle.
struct IpcHandle {
  int process, file;
  std::size_t bytes;
  char rest[48] = {};
};
static_assert(sizeof(IpcHandle) == 64);

/// Memory that other processes may map, where COIL_FAKE_CUDA_SHARES is set: that of large blocks, and what is mapped.
struct SharedBlock {
  int file;
  std::size_t bytes;
};
std::map<Address, SharedBlock>& shared_blocks() {
  static std::map<Address, SharedBlock> blocks;
  return blocks;
}
void* shared_block(std::size_t bytes) {
  constexpr std::size_t kLarge = 2 << 20;
  if (bytes < kLarge || !std::getenv("COIL_FAKE_CUDA_SHARES")) return nullptr;
  const int file = memfd_create("fake_cuda", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (block == MAP_FAILED) return nullptr;
  shared_blocks()[reinterpret_cast<Address>(block)] = {file, bytes};
  return block;
}
bool free_shared_block(Address at) {
  const auto found = shared_blocks().find(at);
  if (found == shared_blocks().end()) return false;
  munmap(reinterpret_cast<void*>(at), found->second.bytes);
  close(found->second.file);
  shared_blocks().erase(found);
  return true;
}

FakeStream& stream_of(void* stream) {
  return stream ? *static_cast<FakeStream*>(stream) : driver().streams.default_stream(current->device);
}

/// A stream of the current context, or why not.
Result usable(void* stream) {
  if (!current) return kInvalidContext;
  if (!stream) return kDone;
  if (!driver().streams.knows(static_cast<FakeStream*>(stream))) return kInvalidHandle;
  return static_cast<FakeStream*>(stream)->device == current->device ? kDone : kInvalidHandle;
}

/// Whether bytes lie in a block that is there.
bool is_live(Address at, std::size_t bytes) {
  auto after = driver().memory.upper_bound(at);
  if (after == driver().memory.begin()) return false;
  const auto& [begin, block] = *std::prev(after);
  return at + bytes <= begin + block.first;
}

Result copy(void* to, const void* from, std::size_t bytes, void* stream) {
  return driver().streams.submit(stream_of(stream), [=] { std::memmove(to, from, bytes); });
}

}  // namespace
}  // namespace coil::fake_cuda

using namespace coil::fake_cuda;

#define ENTER(symbol)                   \
  std::lock_guard lock(driver().mutex); \
  if (auto failed = fault(symbol)) return *failed
#define CHECKED(expression) \
  if (const Result r_ = (expression); r_ != kDone) return r_

extern "C" {

Machine* coil_fake_cuda() { return &driver().machine; }
void coil_fake_cuda_reset() {
  for (auto& [at, block] : driver().memory) std::free(reinterpret_cast<void*>(at));
  held() = std::make_unique<Driver>();
  current = nullptr;
}

/// Work of a library of tests, in order with all other work of the stream.
Result coil_fake_cuda_submit(void* stream, void (*run)(void*), void* what) {
  std::lock_guard lock(driver().mutex);
  CHECKED(usable(stream));
  return driver().streams.submit(stream_of(stream), [=] { run(what); });
}

/// Graphs, and graphs ready to run, that were made and not destroyed.
int coil_fake_cuda_live_graphs() { return live_graphs; }

Result cuInit(unsigned) {
  ENTER("cuInit");
  return driver().machine.devices ? kDone : 100;
}
Result cuDriverGetVersion(int* version) {
  ENTER("cuDriverGetVersion");
  return *version = driver().machine.version, kDone;
}
Result cuGetErrorName(Result r, const char** name) {
  static const std::map<Result, const char*> names = {{1, "CUDA_ERROR_INVALID_VALUE"},
                                                      {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                      {201, "CUDA_ERROR_INVALID_CONTEXT"},
                                                      {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                                      {400, "CUDA_ERROR_INVALID_HANDLE"},
                                                      {500, "CUDA_ERROR_NOT_FOUND"},
                                                      {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                      {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
                                                      {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
                                                      {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"}};
  auto found = names.find(r);
  *name = found == names.end() ? nullptr : found->second;
  return kDone;
}
Result cuGetErrorString(Result, const char** text) { return *text = "as the test wants", kDone; }
Result cuDeviceGetCount(int* count) {
  ENTER("cuDeviceGetCount");
  return *count = driver().machine.devices, kDone;
}
Result cuDeviceGet(int* device, int index) { return *device = index, kDone; }
Result cuDeviceGetName(char* name, int bytes, int) {
  return std::strncpy(name, "Fake GPU", static_cast<std::size_t>(bytes)), kDone;
}
Result cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75   ? driver().machine.capability / 10
           : attribute == 76 ? driver().machine.capability % 10
                             : 227 << 10;
  return kDone;
}
Result cuDevicePrimaryCtxRetain(FakeContext** context, int device) {
  ENTER("cuDevicePrimaryCtxRetain");
  return *context = &driver().contexts.try_emplace(device, FakeContext{device}).first->second, kDone;
}
Result cuDevicePrimaryCtxRelease_v2(int) { return kDone; }
Result cuCtxGetCurrent(FakeContext** context) { return *context = current, kDone; }
Result cuCtxSetCurrent(FakeContext* context) { return current = context, kDone; }

Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  ENTER("cuMemGetInfo_v2");
  if (!current) return kInvalidContext;
  *total = driver().machine.memory;
  *free = *total - driver().machine.used[current->device];
  return kDone;
}
Result cuMemAlloc_v2(Address* at, std::size_t bytes) {
  ENTER("cuMemAlloc_v2");
  if (!current) return kInvalidContext;
  CHECKED(driver().streams.forbidden_in_capture());
  std::size_t& used = driver().machine.used[current->device];
  if (bytes > driver().machine.memory - used) return kMemoryOut;
  used += bytes;
  void* block = shared_block(bytes);
  if (!block) block = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  std::memset(block, 0xff, bytes);
  *at = reinterpret_cast<Address>(block);
  driver().memory[*at] = {bytes, current->device};
  note("cuMemAlloc " + std::to_string(bytes));
  return kDone;
}
Result cuMemFree_v2(Address at) {
  ENTER("cuMemFree_v2");
  if (!current) return kInvalidContext;
  CHECKED(driver().streams.forbidden_in_capture());
  auto found = driver().memory.find(at);
  if (found == driver().memory.end()) return kInvalidValue;
  driver().streams.synchronize_all();
  driver().machine.used[found->second.second] -= found->second.first;
  if (!free_shared_block(at)) std::free(reinterpret_cast<void*>(at));
  driver().memory.erase(found);
  note("cuMemFree");
  return kDone;
}
Result cuIpcGetMemHandle(IpcHandle* handle, Address at) {
  ENTER("cuIpcGetMemHandle");
  const auto found = shared_blocks().find(at);
  if (found == shared_blocks().end()) return kNotSupported;
  *handle = {getpid(), found->second.file, found->second.bytes};
  return kDone;
}
Result cuIpcOpenMemHandle_v2(Address* at, IpcHandle handle, unsigned) {
  ENTER("cuIpcOpenMemHandle_v2");
  const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return kInvalidValue;
  void* block = mmap(nullptr, handle.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (block == MAP_FAILED) return close(file), kInvalidValue;
  *at = reinterpret_cast<Address>(block);
  shared_blocks()[*at] = {file, handle.bytes};
  return kDone;
}
Result cuIpcCloseMemHandle(Address at) {
  ENTER("cuIpcCloseMemHandle");
  return free_shared_block(at) ? kDone : kInvalidValue;
}
Result cuMemHostAlloc(void** at, std::size_t bytes, unsigned) {
  ENTER("cuMemHostAlloc");
  if (!current) return kInvalidContext;
  CHECKED(driver().streams.forbidden_in_capture());
  return *at = std::malloc(bytes), kDone;
}
Result cuMemFreeHost(void* at) { return std::free(at), kDone; }
Result cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, void* stream) {
  ENTER("cuMemcpyHtoDAsync_v2");
  CHECKED(usable(stream));
  if (!is_live(to, bytes)) return kInvalidValue;
  if (stream_of(stream).capture) return stream_of(stream).capture->invalid = true, kCaptureUnsupported;
  // Pageable memory has been read when the call returns.
  auto held =
      std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
  note("cuMemcpyHtoD " + std::to_string(bytes));
  return driver().streams.submit(stream_of(stream),
                                 [=] { std::memcpy(reinterpret_cast<void*>(to), held->data(), bytes); });
}
Result cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, void* stream) {
  ENTER("cuMemcpyDtoHAsync_v2");
  CHECKED(usable(stream));
  if (!is_live(from, bytes)) return kInvalidValue;
  if (stream_of(stream).capture) return stream_of(stream).capture->invalid = true, kCaptureUnsupported;
  note("cuMemcpyDtoH " + std::to_string(bytes));
  return copy(to, reinterpret_cast<const void*>(from), bytes, stream);
}
Result cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, void* stream) {
  ENTER("cuMemcpyDtoDAsync_v2");
  CHECKED(usable(stream));
  if (!is_live(from, bytes) || !is_live(to, bytes)) return kInvalidValue;
  note("cuMemcpyDtoD " + std::to_string(bytes));
  return copy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes, stream);
}
Result cuMemsetD8Async(Address at, unsigned char value, std::size_t bytes, void* stream) {
  ENTER("cuMemsetD8Async");
  CHECKED(usable(stream));
  if (!is_live(at, bytes)) return kInvalidValue;
  return driver().streams.submit(stream_of(stream), [=] { std::memset(reinterpret_cast<void*>(at), value, bytes); });
}

Result cuStreamCreate(void** stream, unsigned flags) {
  ENTER("cuStreamCreate");
  if (!current) return kInvalidContext;
  auto* made = new FakeStream;
  made->device = current->device;
  made->blocking = flags == 0;
  driver().streams.add(made);
  ++driver().machine.live_streams;
  return *stream = made, kDone;
}
Result cuStreamDestroy_v2(void* stream) {
  std::lock_guard lock(driver().mutex);
  CHECKED(usable(stream));
  driver().streams.remove(static_cast<FakeStream*>(stream));
  delete static_cast<FakeStream*>(stream);
  --driver().machine.live_streams;
  return kDone;
}
Result cuStreamSynchronize(void* stream) {
  ENTER("cuStreamSynchronize");
  CHECKED(usable(stream));
  note("cuStreamSynchronize");
  return driver().streams.synchronize(stream_of(stream));
}
/// Has the queued work carried out by another thread, so that whoever asks does not wait for it.
Result cuStreamQuery(void* stream) {
  static std::atomic<bool> working{false};
  std::unique_lock lock(driver().mutex, std::try_to_lock);
  if (!lock.owns_lock() || working) return kNotReady;
  CHECKED(usable(stream));
  FakeStream& s = stream_of(stream);
  if (s.capture) return kCaptureUnsupported;
  if (driver().streams.is_done({s.after, nullptr, {}, 0})) return kDone;
  working = true;
  std::thread([&s] {
    {
      const std::lock_guard at_work(driver().mutex);
      driver().streams.synchronize(s);
    }
    working = false;
  }).detach();
  return kNotReady;
}
Result cuStreamWaitEvent(void* stream, void* event, unsigned) {
  ENTER("cuStreamWaitEvent");
  CHECKED(usable(stream));
  return driver().streams.wait(stream_of(stream), *static_cast<FakeEvent*>(event));
}
Result cuEventCreate(void** event, unsigned) {
  ENTER("cuEventCreate");
  ++driver().machine.live_events;
  return *event = new FakeEvent, kDone;
}
Result cuEventRecord(void* event, void* stream) {
  ENTER("cuEventRecord");
  CHECKED(usable(stream));
  const Result recorded = driver().streams.record(*static_cast<FakeEvent*>(event), stream_of(stream));
  static_cast<FakeEvent*>(event)->at = driver().machine.clock;
  return recorded;
}
Result cuEventQuery(void* event) {
  return driver().streams.is_done(*static_cast<FakeEvent*>(event)) ? kDone : kNotReady;
}
Result cuEventSynchronize(void* event) {
  ENTER("cuEventSynchronize");
  return driver().streams.synchronize(*static_cast<FakeEvent*>(event));
}
Result cuEventElapsedTime(float* milliseconds, void* from, void* to) {
  ENTER("cuEventElapsedTime");
  return *milliseconds = static_cast<float>(static_cast<FakeEvent*>(to)->at - static_cast<FakeEvent*>(from)->at), kDone;
}
Result cuEventDestroy_v2(void* event) {
  std::lock_guard lock(driver().mutex);
  delete static_cast<FakeEvent*>(event);
  --driver().machine.live_events;
  return kDone;
}

Result cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
  ENTER("cuModuleLoadDataEx");
  if (!current) return kInvalidContext;
  const char* text = static_cast<const char*>(image);
  if (std::memcmp(text,
                  "\x7f"
                  "ELF",
                  4) == 0)
    return kNoBinary;
  if (const char* target = std::strstr(text, ".target sm_");
      target && std::atoi(target + 11) > driver().machine.capability)
    return kNoBinary;
  if (const char* version = std::strstr(text, ".version ");
      version && std::atof(version + 9) > driver().machine.version / 1000.0 - 4)
    return kUnsupportedPtx;  // 13.0 takes PTX up to 9.0
  auto made = std::make_unique<FakeModule>();
  for (const char* at = text; (at = std::strstr(at, ".entry ")); ++at)
    made->entries.insert(std::string(at + 7, std::strcspn(at + 7, "( \n")));
  return *module = made.release(), kDone;
}
Result cuModuleUnload(void* module) { return delete static_cast<FakeModule*>(module), kDone; }
Result cuModuleGetFunction(void** function, void* module, const char* name) {
  ENTER("cuModuleGetFunction");
  if (!static_cast<FakeModule*>(module)->entries.contains(name)) return kNotFound;
  const HostKernel kernel = find_kernel(name);
  const EmulatedKernel emulated = find_emulated_kernel(name);
  if (!kernel && !emulated) return kNotFound;
  return *function = &driver().functions.try_emplace(name, FakeFunction{name, kernel, emulated}).first->second, kDone;
}
// What it was told, in the order of the arguments: 8 bytes of the address, one each of the other numbers, then 4 of
// each side of the tile, 8 of each size and 8 of each stride but the first. It refuses what CUDA does.
Result cuTensorMapEncodeTiled(void* map, int element, unsigned rank, void* address, const std::uint64_t* sizes,
                              const std::uint64_t* strides, const unsigned* box, const unsigned* steps, int interleave,
                              int swizzle, int promotion, int fill) {
  ENTER("cuTensorMapEncodeTiled");
  const auto at = reinterpret_cast<std::uint64_t>(address);
  if (reinterpret_cast<std::uint64_t>(map) % 64 || at == 0 || at % 16 || rank < 1 || rank > 5) return kInvalidValue;
  for (unsigned d = 0; d < rank; ++d) {
    if (sizes[d] == 0 || sizes[d] > 1ULL << 32 || box[d] == 0 || box[d] > 256 || steps[d] != 1) return kInvalidValue;
    if (d + 1 < rank && (strides[d] % 16 || strides[d] >= 1ULL << 40)) return kInvalidValue;
  }
  auto* to = static_cast<char*>(map);
  std::memcpy(to, &at, 8);
  const std::uint8_t numbers[8] = {static_cast<std::uint8_t>(element),    static_cast<std::uint8_t>(rank),
                                   static_cast<std::uint8_t>(interleave), static_cast<std::uint8_t>(swizzle),
                                   static_cast<std::uint8_t>(promotion),  static_cast<std::uint8_t>(fill)};
  std::memcpy(to + 8, numbers, 8);
  std::memcpy(to + 16, box, rank * 4);
  std::memcpy(to + 40, sizes, rank * 8);
  std::memcpy(to + 80, strides, (rank - 1) * 8);
  return kDone;
}
Result cuFuncSetAttribute(void*, int, int) { return kDone; }
Result cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned, unsigned,
                      unsigned, void* stream, void**, void** extra) {
  ENTER("cuLaunchKernel");
  CHECKED(usable(stream));
  if (x == 0 || y == 0 || z == 0 || threads == 0 || threads > 1024) return kInvalidValue;
  const auto& f = *static_cast<FakeFunction*>(function);
  std::vector<std::uint64_t> words(*static_cast<std::size_t*>(extra[3]) / 8);
  std::memcpy(words.data(), extra[1], words.size() * 8);
  note("cuLaunchKernel " + f.name);
  if (auto takes = driver().machine.milliseconds.find(f.name); takes != driver().machine.milliseconds.end())
    driver().machine.clock += takes->second;
  if (f.emulated)
    return driver().streams.submit(stream_of(stream),
                                   [run = f.emulated, words, grid = std::array<std::uint64_t, 3>{x, y, z}, threads] {
                                     run(words.data(), grid.data(), threads);
                                   });
  return driver().streams.submit(
      stream_of(stream), [run = f.run, words, count = std::uint64_t{x} * threads] { run(words.data(), count); });
}
struct Config {
  unsigned grid[3], block[3], shared;
  void* stream;
  const int* attributes;
  unsigned count;
};
Result cuLaunchKernelEx(const Config* c, void* function, void** parameters, void** extra) {
  if (c->count != 1 || c->attributes[0] != 6 || c->attributes[2] != 1) return kInvalidValue;
  {
    std::lock_guard lock(driver().mutex);
    note("cuLaunchKernelEx");
  }
  return cuLaunchKernel(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared,
                        c->stream, parameters, extra);
}

Result cuStreamBeginCapture_v2(void* stream, int) {
  ENTER("cuStreamBeginCapture_v2");
  CHECKED(usable(stream));
  note("cuStreamBeginCapture");
  return driver().streams.begin_capture(stream_of(stream));
}
Result cuStreamEndCapture(void* stream, void** graph) {
  std::lock_guard lock(driver().mutex);
  CHECKED(usable(stream));
  std::unique_ptr<FakeGraph> made;
  Result ended = driver().streams.end_capture(stream_of(stream), made);
  if (auto failed = fault("cuStreamEndCapture"); failed && ended == kDone) ended = *failed, made.reset();
  driver().machine.live_graphs += made != nullptr;
  live_graphs += made != nullptr;
  return *graph = made.release(), ended;
}
Result cuStreamIsCapturing(void* stream, int* status) {
  std::lock_guard lock(driver().mutex);
  CHECKED(usable(stream));
  return *status = stream_of(stream).capture ? 1 : 0, kDone;
}
// A node is told by its place, from 1 on.
Result cuStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long*, void** graph, void* const** nodes,
                                 std::size_t* count) {
  std::lock_guard lock(driver().mutex);
  CHECKED(usable(stream));
  FakeStream& s = stream_of(stream);
  *status = s.capture ? 1 : 0;
  if (!s.capture) return kDone;
  s.shown.clear();
  for (std::size_t n : s.frontier) s.shown.push_back(reinterpret_cast<void*>(n + 1));
  return *graph = s.capture.get(), *nodes = s.shown.data(), *count = s.shown.size(), kDone;
}
Result cuGraphAddEmptyNode(void** node, void* graph, void* const* before, std::size_t count) {
  ENTER("cuGraphAddEmptyNode");
  note("cuGraphAddEmptyNode");
  GraphNode added{[] {}, {}};
  for (std::size_t k = 0; k < count; ++k) added.after.insert(reinterpret_cast<std::size_t>(before[k]) - 1);
  auto& nodes = static_cast<Capture*>(graph)->nodes;
  nodes.push_back(std::move(added));
  return *node = reinterpret_cast<void*>(nodes.size()), kDone;
}
Result cuStreamUpdateCaptureDependencies(void* stream, void* const* nodes, std::size_t count, unsigned) {
  ENTER("cuStreamUpdateCaptureDependencies");
  CHECKED(usable(stream));
  FakeStream& s = stream_of(stream);
  if (!s.capture) return kInvalidValue;
  s.frontier.clear();
  for (std::size_t k = 0; k < count; ++k) s.frontier.insert(reinterpret_cast<std::size_t>(nodes[k]) - 1);
  return kDone;
}
Result cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  ENTER("cuGraphInstantiateWithFlags");
  ++driver().machine.live_graphs;
  ++live_graphs;
  return *exec = new FakeGraph(*static_cast<FakeGraph*>(graph)), kDone;
}
Result cuGraphLaunch(void* exec, void* stream) {
  ENTER("cuGraphLaunch");
  CHECKED(usable(stream));
  note("cuGraphLaunch " + std::to_string(static_cast<FakeGraph*>(exec)->nodes.size()));
  return driver().streams.launch(*static_cast<FakeGraph*>(exec), stream_of(stream));
}
Result cuGraphDestroy(void* graph) {
  std::lock_guard lock(driver().mutex);
  --driver().machine.live_graphs;
  --live_graphs;
  return delete static_cast<FakeGraph*>(graph), kDone;
}
Result cuGraphExecDestroy(void* exec) { return cuGraphDestroy(exec); }
}
