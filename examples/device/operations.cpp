// The library operations that the device carries out itself: products of matrices, in f32 and f64. Those of
// other types are the CPU's (target::Target::type_limits in kernels.cpp), as is every operation that is not here.
#include "library_ops/products.h"
#include "support/error.h"
#include "toy.h"

namespace toy {
namespace {

using namespace coil;
using runtime::BoundView;

/// The strides of a view by the last `rank` dimensions of a larger one that it is broadcast to.
Sizes broadcast(const BoundView& view, std::size_t rank) {
  Sizes strides(rank, 0);
  for (std::size_t d = 0; d < view.sizes.size() && d < rank; ++d)
    if (view.sizes[view.sizes.size() - 1 - d] != 1) strides[rank - 1 - d] = view.strides[view.sizes.size() - 1 - d];
  return strides;
}

/// y[rows.., n] = sum over k of a[rows.., k] b[rows.., k, n], + bias[rows.., n]. Strides of the rows come first.
struct Product {
  Sizes rows;
  Sizes a, b, y, bias;
  std::int64_t n = 0, k = 0, b_along_k = 0;
  bool has_bias = false;
};

template <class T>
void multiply(const Product& p, const T* a, const T* b, const T* bias, T* y) {
  const std::size_t rank = p.rows.size();
  for (std::int64_t row = 0; row < numel(p.rows); ++row) {
    std::int64_t at_a = 0, at_b = 0, at_y = 0, at_bias = 0, rest = row;
    for (std::size_t d = rank; d-- > 0; rest /= p.rows[d]) {
      const std::int64_t i = rest % p.rows[d];
      at_a += i * p.a[d];
      at_b += i * p.b[d];
      at_y += i * p.y[d];
      if (p.has_bias) at_bias += i * p.bias[d];
    }
    for (std::int64_t n = 0; n < p.n; ++n) {
      double sum = p.has_bias ? bias[at_bias + n * p.bias[rank]] : 0;
      for (std::int64_t k = 0; k < p.k; ++k)
        sum += static_cast<double>(a[at_a + k * p.a[rank]]) * b[at_b + k * p.b_along_k + n * p.b[rank]];
      y[at_y + n * p.y[rank]] = static_cast<T>(sum);
    }
  }
}

/// A call of `linear`, or of `matmul`.
class ProductCall : public runtime::LibraryOp {
 public:
  ProductCall(bool is_linear, const runtime::Attributes& attributes, Queue& queue)
      : is_linear_(is_linear), attributes_(attributes), queue_(queue) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    const DType type = outputs[0].dtype;
    if (type != DType::F32 && type != DType::F64) fail("toy has no products of {}", torch_name(type));
    wide_ = type == DType::F64;
    const BoundView &a = inputs[0], &b = inputs[1], &y = outputs[0];
    const std::size_t rank = y.sizes.size(), rows = rank - 1;
    product_ = {.rows = Sizes(y.sizes.begin(), y.sizes.end() - 1),
                .a = broadcast(a, rank),
                .y = y.strides,
                .n = y.sizes.back(),
                .k = a.sizes.back()};
    const runtime::BoundCall call{attributes_, inputs, outputs};
    const bool has_k_first = !is_linear_ || library_ops::LinearCall(call).weight_transposed();
    const std::size_t along_k = b.sizes.size() - (has_k_first ? 2 : 1),
                      along_n = b.sizes.size() - (has_k_first ? 1 : 2);
    product_.b = is_linear_ ? Sizes(rank, 0) : broadcast(b, rank);
    if (rows > 0) product_.b[rows - 1] = 0;
    product_.b[rows] = b.strides[along_n];
    product_.b_along_k = b.strides[along_k];
    product_.has_bias = library_ops::LinearCall(call).has_bias();
    if (product_.has_bias) product_.bias = broadcast(inputs[2], rank);
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void*) override {
    std::vector<const void*> in;
    for (const void* p : inputs) in.push_back(queue_.at(static_cast<const std::byte*>(p)));
    void* const out = queue_.at(static_cast<std::byte*>(outputs[0]));
    queue_.submit([p = product_, wide = wide_, in = std::move(in), out] {
      auto multiply_as = [&]<class T>(T* y) {
        multiply<T>(p, static_cast<const T*>(in[0]), static_cast<const T*>(in[1]),
                    p.has_bias ? static_cast<const T*>(in[2]) : nullptr, y);
      };
      wide ? multiply_as(static_cast<double*>(out)) : multiply_as(static_cast<float*>(out));
    });
  }

 private:
  const bool is_linear_;
  const runtime::Attributes attributes_;
  Queue& queue_;
  Product product_;
  bool wide_ = false;
};

runtime::QueueLibraryFactory product(bool is_linear) {
  return [is_linear](const runtime::Attributes& attributes, runtime::Queue& queue) {
    return std::make_unique<ProductCall>(is_linear, attributes, dynamic_cast<Queue&>(queue));
  };
}

}  // namespace

std::vector<std::pair<std::string, runtime::QueueLibraryFactory>> operations() {
  return {{"linear", product(true)}, {"matmul", product(false)}};
}

}  // namespace toy
