// Operations of the host that are templates over float and double, or over complex numbers of these as well.
#pragma once
#include <complex>
#include <memory>

#include "runtime/device/library.h"
#include "support/error.h"

namespace coil::runtime {

/// The operation for the type of input `kDecides`: float, double or, where `kComplex`, complex numbers of them. What an
/// operation knows stays from one `prepare` to the next, as long as the type does.
template <template <class> class Op, std::size_t kDecides = 0, bool kComplex = false>
class ByElementType final : public LibraryOp {
 public:
  explicit ByElementType(const Attributes& attributes) : attributes_(attributes) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    const DType type = inputs.size() > kDecides ? inputs[kDecides].dtype : DType::I64;
    if (!op_ || type != type_) op_ = make(type);
    type_ = type;
    op_->prepare(inputs, outputs);
  }
  std::size_t workspace_bytes() const override { return op_->workspace_bytes(); }
  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    op_->run(inputs, outputs, workspace);
  }

 private:
  std::unique_ptr<LibraryOp> make(DType type) const {
    if (type == DType::F32) return std::make_unique<Op<float>>(attributes_);
    if (type == DType::F64) return std::make_unique<Op<double>>(attributes_);
    if constexpr (kComplex) {
      if (type == DType::C64) return std::make_unique<Op<std::complex<float>>>(attributes_);
      if (type == DType::C128) return std::make_unique<Op<std::complex<double>>>(attributes_);
    }
    fail("linear algebra and Fourier transforms take float and double, not {}", torch_name(type));
  }

  Attributes attributes_;
  DType type_ = DType::F32;
  std::unique_ptr<LibraryOp> op_;
};

/// The same for an operation that takes complex numbers too.
template <template <class> class Op>
using ByNumberType = ByElementType<Op, 0, true>;

}  // namespace coil::runtime
