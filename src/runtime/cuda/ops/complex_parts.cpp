// `complex_parts` on CUDA: a copy between two views of numbers.
#include "runtime/ops/complex_parts.h"

#include "library_ops/selection.h"
#include "runtime/cuda/ops/staging.h"
#include "runtime/device/library.h"

namespace coil::runtime::cuda {
namespace {

class ComplexPartsOp : public LibraryOp {
 public:
  explicit ComplexPartsOp(Queue& queue) : queue_(static_cast<CudaQueue&>(queue)) {}
  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    views_ = real_views(inputs, outputs);
  }
  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void*) override {
    queue_.copy(tensor_at(queue_, outputs[0], views_.to), tensor_at(queue_, inputs[0], views_.from));
  }

 private:
  CudaQueue& queue_;
  RealViews views_;
};

const DefineLibraryOps kComplexParts(DeviceType::CUDA,
                                     {{library_ops::selection::kComplexParts, call_site_on<ComplexPartsOp>}});

}  // namespace

}  // namespace coil::runtime::cuda
