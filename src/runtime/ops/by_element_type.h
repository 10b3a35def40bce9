// Operations of the host that are templates over float and double, or over complex numbers of these as well.
#pragma once
#include <complex>
#include <memory>

#include "runtime/device/library.h"
#include "support/error.h"

namespace coil::runtime {

/// What elements an operation takes.
enum class Numbers : std::uint8_t { Real, Complex, Both };

/// The operation for the type of the first input. What it knows stays from one `prepare` to the next, as long as the
/// type does.
template <template <class> class Op, Numbers kNumbers = Numbers::Real>
class ByElementType final : public LibraryOp {
 public:
  explicit ByElementType(const Attributes& attributes) : attributes_(attributes) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    const DType type = inputs.empty() ? DType::I64 : inputs[0].dtype;
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
    if constexpr (kNumbers != Numbers::Complex) {
      if (type == DType::F32) return std::make_unique<Op<float>>(attributes_);
      if (type == DType::F64) return std::make_unique<Op<double>>(attributes_);
    }
    if constexpr (kNumbers != Numbers::Real) {
      if (type == DType::C64) return std::make_unique<Op<std::complex<float>>>(attributes_);
      if (type == DType::C128) return std::make_unique<Op<std::complex<double>>>(attributes_);
    }
    fail("linear algebra and Fourier transforms take float and double, not {}", torch_name(type));
  }

  Attributes attributes_;
  DType type_ = DType::F32;
  std::unique_ptr<LibraryOp> op_;
};

}  // namespace coil::runtime
