// CUDA's driver, opened at run time: the few types and functions that Coil uses, declared here so that it builds where
// no CUDA is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace coil::runtime::cuda {

using Result = int;             ///< CUresult
using Ordinal = int;            ///< CUdevice
using Address = std::uint64_t;  ///< CUdeviceptr
using ContextHandle = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Graph = struct CUgraph_st*;
using GraphNode = struct CUgraphNode_st*;
using GraphExec = struct CUgraphExec_st*;

// Values of cuda.h.
inline constexpr Result kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100, kInvalidImage = 200, kNoBinaryForGpu = 209,
                        kUnsupportedPtxVersion = 222, kNotFound = 500, kNotReady = 600;
inline constexpr unsigned kStreamDefault = 0, kStreamNonBlocking = 1, kHostAllocPortable = 1, kHostAllocMapped = 2,
                          kEventNoTiming = 2;
inline constexpr int kCaptureThreadLocal = 1, kCaptureActive = 1;
inline constexpr unsigned kSetCaptureDependencies = 1;
inline constexpr int kAttributeMajor = 75, kAttributeMinor = 76, kAttributeSharedOptin = 97, kAttributeL2 = 38,
                     kAttributeClock = 13, kAttributeMultiprocessors = 16, kAttributeMemoryClock = 36,
                     kAttributeBusWidth = 37;  // clocks in kHz, the width in bits
inline constexpr int kFunctionMaxDynamicShared = 8;
inline constexpr int kJitErrorLog = 5, kJitErrorLogBytes = 6;
inline constexpr int kLaunchEarly = 6;  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
inline void* const kLaunchEnd = nullptr;
inline void* const kLaunchBuffer = reinterpret_cast<void*>(1);
inline void* const kLaunchBufferSize = reinterpret_cast<void*>(2);

/// CUipcMemHandle.
struct MemoryHandle {
  char bytes[64] = {};
};
inline constexpr unsigned kLazyPeerAccess = 1;  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

/// CUlaunchAttribute.
struct LaunchAttribute {
  alignas(8) int id = 0;
  alignas(8) int value = 0;
  char rest[60] = {};
};
/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3] = {}, block[3] = {}, shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

// X(name here, symbol in libcuda, parameters)
#define COIL_CUDA_DRIVER(X)                                                                                   \
  X(init, "cuInit", (unsigned))                                                                               \
  X(driver_version, "cuDriverGetVersion", (int*))                                                             \
  X(error_name, "cuGetErrorName", (Result, const char**))                                                     \
  X(error_string, "cuGetErrorString", (Result, const char**))                                                 \
  X(device_count, "cuDeviceGetCount", (int*))                                                                 \
  X(device_get, "cuDeviceGet", (Ordinal*, int))                                                               \
  X(device_name, "cuDeviceGetName", (char*, int, Ordinal))                                                    \
  X(device_attribute, "cuDeviceGetAttribute", (int*, int, Ordinal))                                           \
  X(context_retain, "cuDevicePrimaryCtxRetain", (ContextHandle*, Ordinal))                                    \
  X(context_release, "cuDevicePrimaryCtxRelease_v2", (Ordinal))                                               \
  X(context_current, "cuCtxGetCurrent", (ContextHandle*))                                                     \
  X(context_set, "cuCtxSetCurrent", (ContextHandle))                                                          \
  X(memory_info, "cuMemGetInfo_v2", (std::size_t*, std::size_t*))                                             \
  X(allocate, "cuMemAlloc_v2", (Address*, std::size_t))                                                       \
  X(release, "cuMemFree_v2", (Address))                                                                       \
  X(host_allocate, "cuMemHostAlloc", (void**, std::size_t, unsigned))                                         \
  X(host_release, "cuMemFreeHost", (void*))                                                                   \
  X(copy_to_device, "cuMemcpyHtoDAsync_v2", (Address, const void*, std::size_t, Stream))                      \
  X(copy_to_host, "cuMemcpyDtoHAsync_v2", (void*, Address, std::size_t, Stream))                              \
  X(copy_on_device, "cuMemcpyDtoDAsync_v2", (Address, Address, std::size_t, Stream))                          \
  X(fill_bytes, "cuMemsetD8Async", (Address, unsigned char, std::size_t, Stream))                             \
  X(stream_create, "cuStreamCreate", (Stream*, unsigned))                                                     \
  X(stream_destroy, "cuStreamDestroy_v2", (Stream))                                                           \
  X(stream_wait, "cuStreamSynchronize", (Stream))                                                             \
  X(stream_query, "cuStreamQuery", (Stream))                                                                  \
  X(stream_wait_event, "cuStreamWaitEvent", (Stream, Event, unsigned))                                        \
  X(event_create, "cuEventCreate", (Event*, unsigned))                                                        \
  X(event_record, "cuEventRecord", (Event, Stream))                                                           \
  X(event_query, "cuEventQuery", (Event))                                                                     \
  X(event_wait, "cuEventSynchronize", (Event))                                                                \
  X(event_elapsed, "cuEventElapsedTime", (float*, Event, Event))                                              \
  X(event_destroy, "cuEventDestroy_v2", (Event))                                                              \
  X(module_load, "cuModuleLoadDataEx", (Module*, const void*, unsigned, int*, void**))                        \
  X(module_unload, "cuModuleUnload", (Module))                                                                \
  X(module_function, "cuModuleGetFunction", (Function*, Module, const char*))                                 \
  X(function_set, "cuFuncSetAttribute", (Function, int, int))                                                 \
  X(launch, "cuLaunchKernel",                                                                                 \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, void**)) \
  X(launch_with, "cuLaunchKernelEx", (const LaunchConfig*, Function, void**, void**))                         \
  X(capture_begin, "cuStreamBeginCapture_v2", (Stream, int))                                                  \
  X(capture_end, "cuStreamEndCapture", (Stream, Graph*))                                                      \
  X(capture_status, "cuStreamIsCapturing", (Stream, int*))                                                    \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", (GraphExec*, Graph, unsigned long long))                \
  X(graph_launch, "cuGraphLaunch", (GraphExec, Stream))                                                       \
  X(graph_destroy, "cuGraphDestroy", (Graph))                                                                 \
  X(graph_exec_destroy, "cuGraphExecDestroy", (GraphExec))

/// Functions that few programs need; null where the driver has none.
#define COIL_CUDA_DRIVER_OPTIONAL(X)                                                                                 \
  X(share, "cuIpcGetMemHandle", (MemoryHandle*, Address))                                                            \
  X(share_open, "cuIpcOpenMemHandle_v2", (Address*, MemoryHandle, unsigned))                                         \
  X(share_close, "cuIpcCloseMemHandle", (Address))                                                                   \
  X(capture_info, "cuStreamGetCaptureInfo_v2",                                                                       \
    (Stream, int*, std::uint64_t*, Graph*, const GraphNode**, std::size_t*))                                         \
  X(capture_behind, "cuStreamUpdateCaptureDependencies", (Stream, GraphNode*, std::size_t, unsigned))                \
  X(graph_add_empty, "cuGraphAddEmptyNode", (GraphNode*, Graph, const GraphNode*, std::size_t))                      \
  X(function_parameter, "cuFuncGetParamInfo", (Function, std::size_t, std::size_t*, std::size_t*))                   \
  X(tensor_map, "cuTensorMapEncodeTiled",                                                                            \
    (void*, int, unsigned, void*, const std::uint64_t*, const std::uint64_t*, const unsigned*, const unsigned*, int, \
     int, int, int))

/// The driver's functions. Immutable once open; stays open for as long as anything uses it.
class Driver {
 public:
  /// Opens the library and initialises it. Throws Error: no driver, no device, a driver that lacks a function.
  static std::shared_ptr<const Driver> open(const std::string& library = "libcuda.so.1");
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

#define X(name, symbol, parameters) Result(*name) parameters = nullptr;
  COIL_CUDA_DRIVER(X)
  COIL_CUDA_DRIVER_OPTIONAL(X)
#undef X

  /// Throws Error with the driver's own words unless `result` is success. `what` completes "CUDA cannot …".
  void check(Result result, const char* what) const {
    if (result != kSuccess) [[unlikely]]
      refuse(result, what);
  }
  [[noreturn]] void refuse(Result, const char* what) const;
  /// `CUDA_ERROR_OUT_OF_MEMORY: out of memory`.
  std::string describe(Result) const;
  int version() const { return version_; }  ///< of CUDA that the driver supports: 13000 is 13.0

 private:
  Driver() = default;
  void* library_ = nullptr;
  int version_ = 0;
};

}  // namespace coil::runtime::cuda
