// The library operations that the device carries out itself: products of matrices, in f32 and f64. Those of
// other types are the CPU's (target::Target::type_limits in kernels.cpp), as is every operation that is not here.
#include "library_ops/products.h"
#include "runtime/device/convert.h"
#include "toy.h"

namespace toy {
namespace {

using namespace coil;
using runtime::BoundView;

/// y[i..] = sum over k of a[i.., k] b[i.., k], + bias[i..]: strides along the results' dimensions, and along k. A
/// dimension that an operand does not have has a stride of 0.
struct Product {
  Sizes sizes, y, a, b, bias;
  std::int64_t k = 0, a_along_k = 0, b_along_k = 0;
};

template <class T>
void multiply(const Product& p, T* y, const T* a, const T* b, const T* bias) {
  for (std::int64_t result = 0; result < numel(p.sizes); ++result) {
    std::int64_t at_y = 0, at_a = 0, at_b = 0, at_bias = 0, rest = result;
    for (std::size_t d = p.sizes.size(); d-- > 0; rest /= p.sizes[d]) {
      const std::int64_t i = rest % p.sizes[d];
      at_y += i * p.y[d];
      at_a += i * p.a[d];
      at_b += i * p.b[d];
      at_bias += i * p.bias[d];
    }
    double sum = bias ? bias[at_bias] : 0;
    for (std::int64_t k = 0; k < p.k; ++k)
      sum += static_cast<double>(a[at_a + k * p.a_along_k]) * b[at_b + k * p.b_along_k];
    y[at_y] = static_cast<T>(sum);
  }
}

/// A call of `linear`, or of `matmul`.
class ProductCall : public runtime::LibraryOp {
 public:
  ProductCall(bool is_linear, const runtime::Attributes& attributes, runtime::Queue& queue)
      : is_linear_(is_linear), attributes_(attributes), queue_(dynamic_cast<Queue&>(queue)) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    const runtime::BoundCall bound{attributes_, inputs, outputs};
    const library_ops::LinearCall call(bound);
    BoundView b = inputs[1];
    if (is_linear_ && !call.weight_transposed()) {
      std::swap(b.sizes[0], b.sizes[1]);
      std::swap(b.strides[0], b.strides[1]);
    }
    // Products of a single row have a dimension for it, too.
    Sizes sizes = outputs[0].sizes;
    sizes.insert(sizes.begin(), 1);
    const std::size_t rank = sizes.size();
    Sizes a_sizes = sizes, b_sizes = sizes;
    a_sizes[rank - 1] = b_sizes[rank - 2] = inputs[0].sizes.back();
    product_ = {.sizes = sizes,
                .y = expand_view(outputs[0], sizes).strides,
                .a = expand_view(inputs[0], a_sizes).strides,
                .b = expand_view(b, b_sizes).strides,
                .bias = call.has_bias() ? expand_view(inputs[2], sizes).strides : Sizes(rank, 0),
                .k = inputs[0].sizes.back()};
    product_.a_along_k = std::exchange(product_.a[rank - 1], 0);
    product_.b_along_k = std::exchange(product_.b[rank - 2], 0);
    is_wide_ = outputs[0].dtype == DType::F64;
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void*) override {
    is_wide_ ? submit<double>(inputs, outputs[0]) : submit<float>(inputs, outputs[0]);
  }

 private:
  template <class T>
  void submit(std::span<const void* const> inputs, void* output) {
    auto operand = [&](std::size_t i) { return queue_.at(static_cast<const T*>(inputs[i])); };
    queue_.submit([p = product_, y = queue_.at(static_cast<T*>(output)), a = operand(0), b = operand(1),
                   bias = inputs.size() > 2 ? operand(2) : nullptr] { multiply(p, y, a, b, bias); });
  }

  const bool is_linear_;
  const runtime::Attributes attributes_;
  Queue& queue_;
  Product product_;
  bool is_wide_ = false;
};

}  // namespace

std::vector<std::pair<std::string, runtime::QueueLibraryFactory>> operations() {
  auto product = [](bool is_linear) {
    return [is_linear](const runtime::Attributes& attributes, runtime::Queue& queue) {
      return std::make_unique<ProductCall>(is_linear, attributes, queue);
    };
  };
  return {{"linear", product(true)}, {"matmul", product(false)}};
}

}  // namespace toy
