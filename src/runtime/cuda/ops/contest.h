// The fastest of several ways to carry out a call, where the first one is far from what the device could do: a
// library's list of engines may begin with one that takes many times as long as the next.
#pragma once
#include <chrono>
#include <memory>

#include "runtime/cuda/driver/queue.h"
#include "runtime/device/cached_op.h"

namespace coil::runtime::cuda {

/// What a call has to do at least.
struct Work {
  double bytes = 0;  ///< read and written
  double multiplications = 0;
  DType dtype = DType::F32;  ///< of the operands
  bool tf32 = false;         ///< f32 operands may be rounded to TF32

  /// Milliseconds by the memory's and the multiprocessors' rates.
  double least(const CudaDevice&) const;
};

/// Runs calls on memory of its own, whose contents are undefined.
class Contest {
 public:
  /// Calls take such operands.
  Contest(CudaQueue&, std::span<const BoundView> inputs, std::span<const BoundView> outputs, const Work&);
  ~Contest();
  Contest(const Contest&) = delete;
  Contest& operator=(const Contest&) = delete;

  /// Whether work may be run and waited for: not while it is recorded, here or by the stream's owner.
  static bool may_be_held(const CudaQueue&);

  /// Keeps the call where it is the first, or clearly faster than the one so far. Null: none.
  void enter(std::unique_ptr<PreparedCall>);
  /// Whether the best call takes several times as long as its work would have to, and what could be gained is worth
  /// more trials: a library may compile for one, a tenth of a second and more.
  bool is_open() const;
  /// Milliseconds of a call, the least of a few after a first one; infinite where there is no memory to run it.
  double milliseconds(PreparedCall&);
  double best() const { return best_; }
  std::unique_ptr<PreparedCall> take() { return std::move(call_); }

 private:
  std::vector<const void*> allocate(std::span<const BoundView>);

  CudaQueue& queue_;
  double least_;
  std::vector<Storage> memory_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  Event begin_ = nullptr, end_ = nullptr;
  std::unique_ptr<PreparedCall> call_;
  double best_ = 0;
  std::chrono::steady_clock::time_point begun_;  ///< when the first call had been timed
};

}  // namespace coil::runtime::cuda
