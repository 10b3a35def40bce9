// Checks on tensors that a program makes of its own values when it was asked to: they read, write nothing, and fail the
// run.
#include <cmath>
#include <cstring>

#include "library_ops/checks.h"
#include "runtime/device/library.h"
#include "runtime/views/half.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

template <class T>
double real_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(static_cast<float>(value));
}
template <>
double real_at<double>(const std::byte* at) {
  double value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

using ReadReal = double (*)(const std::byte*);

/// How an element (each part of a complex one) is read.
ReadReal reader_of(DType d) {
  switch (real_type(d)) {
    case DType::F32: return real_at<float>;
    case DType::F64: return real_at<double>;
    case DType::F16: return real_at<F16>;
    case DType::BF16: return real_at<BF16>;
    default: fail("assert_finite does not take {}", torch_name(d));
  }
}

class AssertFinite : public LibraryOp {
 public:
  explicit AssertFinite(const Attributes& a)
      : name_(read(a, library_ops::checks::kWhat)),
        nan_(read(a, library_ops::checks::kNoNan)),
        inf_(read(a, library_ops::checks::kNoInfinity)) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    if (inputs.size() != 1 || !outputs.empty()) fail("assert_finite takes one tensor and gives none");
    x_ = inputs[0];
    read_ = reader_of(x_.dtype);
    count_ = numel(x_.sizes);
  }

  void run(std::span<const void* const> inputs, std::span<void* const>, void*) override {
    const auto* data = static_cast<const std::byte*>(inputs[0]);
    const auto item = static_cast<std::int64_t>(size_of(x_.dtype)), part = is_complex(x_.dtype) ? item / 2 : item;
    const std::size_t rank = x_.sizes.size();
    Sizes index(rank, 0);
    for (std::int64_t i = 0, offset = 0; i < count_; ++i) {
      for (std::int64_t p = 0; p < item; p += part) {
        const double value = read_(data + offset * item + p);
        if (nan_ && std::isnan(value)) fail("{} holds NaN at [{}]", name_, fmt::join(index, ", "));
        if (inf_ && std::isinf(value)) fail("{} holds an infinity at [{}]", name_, fmt::join(index, ", "));
      }
      for (std::size_t d = rank; d-- > 0;) {
        offset += x_.strides[d];
        if (++index[d] < x_.sizes[d]) break;
        offset -= x_.strides[d] * index[d];
        index[d] = 0;
      }
    }
  }

 private:
  std::string name_;
  bool nan_, inf_;
  BoundView x_;
  ReadReal read_ = nullptr;
  std::int64_t count_ = 0;
};

class AssertAligned : public LibraryOp {
 public:
  explicit AssertAligned(const Attributes& a)
      : name_(read(a, library_ops::checks::kWhat)), bytes_(read(a, library_ops::checks::kBytes)) {
    if (bytes_ < 1) fail("assert_aligned: an alignment of {} bytes", bytes_);
  }
  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    if (inputs.size() != 1 || !outputs.empty()) fail("assert_aligned takes one tensor and gives none");
    empty_ = numel(inputs[0].sizes) == 0;
  }
  void run(std::span<const void* const> inputs, std::span<void* const>, void*) override {
    if (!empty_ && reinterpret_cast<std::uintptr_t>(inputs[0]) % static_cast<std::uintptr_t>(bytes_) != 0)
      fail("{} lies at an address that is no multiple of {}", name_, bytes_);
  }

 private:
  std::string name_;
  std::int64_t bytes_;
  bool empty_ = false;
};

const DefineLibraryOps kAssertions({{library_ops::checks::kFinite, call_site<AssertFinite>},
                                    {library_ops::checks::kAligned, call_site<AssertAligned>}});

}  // namespace

}  // namespace coil::runtime
