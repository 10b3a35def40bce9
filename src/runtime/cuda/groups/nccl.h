// NCCL, opened at run time: the few functions that Coil uses, declared here so that it builds where there is none.
#pragma once
#include <string>

#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/driver/shared_library.h"
#include "tensor/dtype.h"

namespace coil::runtime::cuda {

/// ncclUniqueId: what the ranks of a communicator find one another by.
struct NcclId {
  char bytes[128] = {};
};
using NcclComm = struct ncclComm*;

class Nccl {
 public:
  /// Throws Error when the library is not to be found.
  static const Nccl& get();

  using Status = int;
  static constexpr Status kDone = 0, kInProgress = 7;
  /// Throws Error with the library's own words unless it went well. `what` completes "NCCL cannot ...".
  void check(Status, const char* what) const;
  std::string describe(Status) const;

#define COIL_NCCL(X)                                                                                            \
  X(version, "ncclGetVersion", Status, (int*))                                                                  \
  X(make_id, "ncclGetUniqueId", Status, (NcclId*))                                                              \
  X(join, "ncclCommInitRank", Status, (NcclComm*, int, NcclId, int))                                            \
  X(abort, "ncclCommAbort", Status, (NcclComm))                                                                 \
  X(asynchronous_error, "ncclCommGetAsyncError", Status, (NcclComm, Status*))                                   \
  X(error_string, "ncclGetErrorString", const char*, (Status))                                                  \
  X(all_reduce, "ncclAllReduce", Status, (const void*, void*, std::size_t, int, int, NcclComm, Stream))         \
  X(all_gather, "ncclAllGather", Status, (const void*, void*, std::size_t, int, NcclComm, Stream))              \
  X(reduce_scatter, "ncclReduceScatter", Status, (const void*, void*, std::size_t, int, int, NcclComm, Stream)) \
  X(broadcast, "ncclBroadcast", Status, (const void*, void*, std::size_t, int, int, NcclComm, Stream))          \
  X(send, "ncclSend", Status, (const void*, std::size_t, int, int, NcclComm, Stream))                           \
  X(receive, "ncclRecv", Status, (void*, std::size_t, int, int, NcclComm, Stream))                              \
  X(group_begin, "ncclGroupStart", Status, ())                                                                  \
  X(group_end, "ncclGroupEnd", Status, ())
#define X(name, symbol, result, parameters) result(*name) parameters = nullptr;
  COIL_NCCL(X)
#undef X

 private:
  Nccl();
  SharedLibrary library_;
};

/// How NCCL combines elements: its type (ncclDataType_t), how many of its elements are one of Coil's, its operation
/// (ncclRedOp_t).
struct NcclCombination {
  int dtype = 0, parts = 1, operation = 0;
};
/// Throws Error for what NCCL has no combination of: bits, 16-bit integers, products of complex numbers.
NcclCombination nccl_combination(std::string_view reduce, DType);

}  // namespace coil::runtime::cuda
