// Library operations called from tests: operands of any layout with random values, results as doubles.
#pragma once
#include <cmath>
#include <random>

#include "runtime/device/convert.h"
#include "runtime/device/library.h"
#include "runtime/views/strided_copy.h"

namespace coil::runtime {

inline void for_each_index(const Sizes& sizes, const std::function<void(const Sizes&)>& body) {
  Sizes at(sizes.size(), 0);
  const std::int64_t n = numel(sizes);
  for (std::int64_t i = 0; i < n; ++i) {
    body(at);
    for (std::size_t d = sizes.size(); d-- > 0;) {
      if (++at[d] < sizes[d]) break;
      at[d] = 0;
    }
  }
}

/// Elements as doubles, in row-major order.
inline std::vector<double> numbers(const BoundView& view, const void* data) {
  const DType loop = loop_dtype(view.dtype);
  const BoundView dense = dense_view(loop, view.sizes);
  std::vector<double> wide(static_cast<std::size_t>(numel(view.sizes)) + 1);
  convert(dense, wide.data(), view, data);
  std::vector<double> result;
  for (std::int64_t i = 0; i < numel(view.sizes); ++i)
    result.push_back(loop == DType::F64   ? wide[static_cast<std::size_t>(i)]
                     : loop == DType::F32 ? reinterpret_cast<const float*>(wide.data())[i]
                                          : static_cast<double>(reinterpret_cast<const std::int64_t*>(wide.data())[i]));
  return result;
}

/// A 1-d tensor whose memory holds `view`, with random small values (integers for integer types, exact in 16 bits for
/// floats).
inline Tensor random_memory(const BoundView& view, std::mt19937& random) {
  Tensor t = Tensor::empty(view.dtype, {std::max<std::int64_t>(layout_span(view.sizes, view.strides), 1)});
  const DType loop = loop_dtype(view.dtype);
  Tensor wide = Tensor::empty(loop, t.sizes);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const int step = static_cast<int>(random() % 17) - 8;
    if (loop == DType::I64)
      wide.data<std::int64_t>()[i] = is_signed(view.dtype) ? step : std::abs(step);
    else if (loop == DType::F64)
      wide.data<double>()[i] = step / 8.0;
    else
      wide.data<float>()[i] = static_cast<float>(step) / 8;
  }
  convert({view.dtype, t.sizes, {1}}, t.bytes(), {loop, t.sizes, {1}}, wide.bytes());
  return t;
}

struct Operands {
  std::vector<BoundView> views;
  std::vector<Tensor> tensors;
  std::mt19937 random{7};

  void add(const BoundView& view) { use(view, random_memory(view, random)); }
  void use(const BoundView& view, const Tensor& memory) {
    views.push_back(view);
    tensors.push_back(memory);
  }
  void use(const BoundView& view, const Tensor& memory, std::size_t at) {
    views[at] = view;
    tensors[at] = memory;
    decoded.clear();
  }
  double value(std::size_t operand, const Sizes& at) const {
    std::size_t offset = 0;
    for (std::size_t d = 0; d < at.size(); ++d) offset += static_cast<std::size_t>(at[d] * views[operand].strides[d]);
    decoded.resize(views.size());
    std::vector<double>& all = decoded[operand];
    if (all.empty()) all = numbers({views[operand].dtype, tensors[operand].sizes, {1}}, tensors[operand].bytes());
    return all.at(offset);
  }

 private:
  mutable std::vector<std::vector<double>> decoded;  // each tensor's elements, since a test asks for them one by one
};

/// The outputs' memory after one call; every element holds `fill` before.
inline std::vector<Tensor> run_call(std::string_view op, const Attributes& attributes, const Operands& in,
                                    const std::vector<BoundView>& out, double fill = 0) {
  auto call = make_library_op(op, attributes);
  call->prepare(in.views, out);
  std::vector<const void*> inputs;
  for (const Tensor& t : in.tensors) inputs.push_back(t.bytes());
  std::vector<Tensor> memory;
  std::vector<void*> outputs;
  for (const BoundView& v : out) {
    memory.push_back(Tensor::empty(v.dtype, {std::max<std::int64_t>(layout_span(v.sizes, v.strides), 1)}));
    const DType loop = loop_dtype(v.dtype);
    const Tensor wide = Tensor::empty(loop, {1});
    if (loop == DType::I64)
      *wide.data<std::int64_t>() = static_cast<std::int64_t>(fill);
    else if (loop == DType::F64)
      *wide.data<double>() = fill;
    else
      *wide.data<float>() = static_cast<float>(fill);
    convert({v.dtype, memory.back().sizes, {1}}, memory.back().bytes(), {loop, memory.back().sizes, {0}}, wide.bytes());
    outputs.push_back(memory.back().bytes());
  }
  const Storage workspace = Storage::allocate(call->workspace_bytes());
  call->run(inputs, outputs, workspace.data.get());
  return memory;
}

inline std::vector<double> run(std::string_view op, const Attributes& attributes, const Operands& in,
                               const BoundView& out, double fill = 0) {
  return numbers(out, run_call(op, attributes, in, {out}, fill)[0].bytes());
}

/// Rounding of sums of a few dozen products of numbers up to 1.
inline double tolerance(DType dtype) {
  return dtype == DType::BF16 ? 0.05 : dtype == DType::F16 ? 0.01 : dtype == DType::F32 ? 2e-5 : 1e-12;
}

inline void expect_near(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    if (!(std::abs(actual[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i]))))
      FAIL() << "element " << i << ": " << actual[i] << ", expected " << expected[i];
}

}  // namespace coil::runtime
