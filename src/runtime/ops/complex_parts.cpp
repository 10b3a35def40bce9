#include "runtime/ops/complex_parts.h"

#include "library_ops/selection.h"
#include "runtime/views/strided_copy.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

BoundView as_real(BoundView v) {
  if (!is_complex(v.dtype)) return v;
  v.dtype = real_type(v.dtype);
  for (auto& s : v.strides) s *= 2;
  v.sizes.push_back(2);
  v.strides.push_back(1);
  return v;
}

class ComplexParts : public LibraryOp {
 public:
  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    views_ = real_views(inputs, outputs);
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void*) override {
    copy_strided(at(views_.to, outputs[0]), at(views_.from, inputs[0]));
  }

 private:
  /// A tensor over memory that it does not own.
  static Tensor at(const BoundView& v, const void* data) {
    Storage borrowed;
    borrowed.data =
        std::shared_ptr<std::byte>(std::shared_ptr<void>(), static_cast<std::byte*>(const_cast<void*>(data)));
    return {std::move(borrowed), v.dtype, v.sizes, v.strides, 0};
  }

  RealViews views_;
};

}  // namespace

RealViews real_views(std::span<const BoundView> inputs, std::span<const BoundView> outputs) {
  if (inputs.size() != 1 || outputs.size() != 1 || !(is_complex(inputs[0].dtype) || is_complex(outputs[0].dtype)))
    fail("complex_parts takes complex numbers, or gives them");
  RealViews views{as_real(inputs[0]), as_real(outputs[0])};
  if (views.from.dtype != views.to.dtype || views.from.sizes != views.to.sizes)
    fail("complex_parts: the result does not hold the numbers of x");
  return views;
}

namespace {

const DefineLibraryOps kComplexParts({{library_ops::selection::kComplexParts, call_site<ComplexParts>}});

}  // namespace

}  // namespace coil::runtime
