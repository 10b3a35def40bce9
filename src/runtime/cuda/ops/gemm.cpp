// `linear` and `matmul` by cuBLASLt. It counts in columns, so that y = a @ b is given to it as yᵀ = bᵀ @ aᵀ, whose
// memory is the same.
#include <algorithm>

#include "library_ops/products.h"
#include "runtime/cuda/driver/blas.h"
#include "runtime/cuda/ops/row_parts.h"
#include "runtime/cuda/ops/staging.h"
#include "runtime/device/cached_op.h"
#include "runtime/device/convert.h"
#include "runtime/device/library.h"
#include "runtime/ops/gemm.h"
#include "support/error.h"

namespace coil::runtime::cuda {
namespace {

/// A matrix [batch?, rows, columns] whose rows (or whose columns) lie one after another.
std::optional<BlasMatrix> as_matrix(const BoundView& v, bool may_transpose) {
  const std::size_t r = v.sizes.size();
  const std::int64_t rows = v.sizes[r - 2], columns = v.sizes[r - 1], down = v.strides[r - 2], right = v.strides[r - 1];
  BlasMatrix m;
  m.dtype = v.dtype;
  if (r > 2) m.batch_stride = v.sizes[0] == 1 ? 0 : v.strides[0];
  if ((right == 1 || columns == 1) && (rows == 1 || down >= columns)) {
    m.rows = columns;
    m.columns = rows;
    m.ld = rows == 1 ? columns : down;
    return m;
  }
  if (may_transpose && (down == 1 || rows == 1) && (columns == 1 || right >= rows)) {
    m.transposed = true;
    m.rows = rows;
    m.columns = columns;
    m.ld = columns == 1 ? rows : right;
    return m;
  }
  return std::nullopt;
}

/// What a list of post-operations comes to; nothing when the library cannot do it.
struct Epilogue {
  BlasActivation activation = BlasActivation::None;
  bool adds_operand = false, adds_old = false;
};

std::optional<Epilogue> epilogue_of(const std::vector<PostOp>& post) {
  Epilogue e;
  for (const PostOp& op : post) {
    if (e.activation != BlasActivation::None) return std::nullopt;
    switch (op.kind) {
      case PostOp::Kind::Add:
        if (e.adds_operand || e.adds_old) return std::nullopt;
        e.adds_operand = true;
        break;
      case PostOp::Kind::Sum:
        if (e.adds_operand || e.adds_old) return std::nullopt;
        e.adds_old = true;
        break;
      case PostOp::Kind::Relu: e.activation = BlasActivation::Relu; break;
      case PostOp::Kind::GeluTanh: e.activation = BlasActivation::GeluTanh; break;
      default: return std::nullopt;
    }
  }
  return e;
}

class ProductCall : public PreparedCall {
 public:
  ProductCall(CudaQueue& queue, const GemmProblem& p, int algorithm) : queue_(queue) {
    if (!p.packed_desc.empty()) fail("a weight that was packed for the cpu cannot be used on cuda");
    const DType dtype = p.y.given.dtype;
    const bool widens = dtype == DType::F32 && (p.a.given.dtype == DType::BF16 || p.a.given.dtype == DType::F16);
    if (p.a.given.dtype != p.b.given.dtype || (p.a.given.dtype != dtype && !widens))
      fail("a matrix product of {} and {} to {} does not run on cuda", short_name(p.a.given.dtype),
           short_name(p.b.given.dtype), short_name(dtype));
    const auto epilogue = epilogue_of(p.post);
    if (!epilogue) fail("cuBLASLt cannot do all post-operations of a matrix product");
    BlasProduct product;
    product.batch = p.y.sizes.size() > 2 ? numel(std::span(p.y.sizes).first(p.y.sizes.size() - 2)) : 1;
    product.activation = epilogue->activation;
    product.bias = p.bias.has_value();
    product.tf32 = p.tf32;
    product.adds = epilogue->adds_operand || epilogue->adds_old;
    product.d = result(p, epilogue->adds_old);
    // In the library's order: its first matrix is our second.
    product.a = input(p.b, b_);
    product.b = input(p.a, a_);
    if (p.bias) bias_ = vector(*p.bias, dtype);
    if (epilogue->adds_operand) c_ = addend(p.operands.at(0), product.d, dtype);
    if (p.k > 0) {
      std::size_t scratch = 0;
      const std::vector<ProductPart> parts = row_parts(product);
      for (const ProductPart& part : parts) {
        plans_.push_back({part, std::make_unique<Blas::Plan>(queue.blas(), part.product, algorithm)});
        scratch = std::max(scratch, plans_.back().plan->workspace_bytes());
      }
      scratch_ = staging_.scratch(scratch);
      if (bias_) copy_biases(parts, product.d.rows * static_cast<std::int64_t>(size_of(dtype)));
    } else if (!p.post.empty()) {
      fail("a matrix product over no elements with post-operations does not run on cuda");
    } else {
      empty_ = dense_view(dtype, p.y.given.sizes);
    }
    pointers_.resize(staging_.operands());
  }

  std::size_t workspace_bytes() const override { return staging_.bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    staging_.load(queue_, inputs, outputs, workspace, pointers_);
    for (const auto& [from, to] : biases_.copies())
      queue_.driver().check(
          queue_.driver().copy_on_device(reinterpret_cast<Address>(at(biases_at_, to)),
                                         reinterpret_cast<Address>(at(*bias_, from)),
                                         static_cast<std::size_t>(bias_bytes_ - from), queue_.stream()),
          "copy memory");
    // The library's first matrix is our second.
    for (const PlannedPart& p : plans_)
      p.plan->run(at(b_, p.part.a), at(a_, p.part.b), c_ ? pointers_[*c_] : nullptr, at(y_, p.part.d),
                  bias_ ? bias_of(p.part) : nullptr, pointers_[scratch_]);
    if (plans_.empty()) fill_empty();
    staging_.store(queue_, outputs, pointers_);
  }

 private:
  using Operand = DeviceStaging::Operand;
  struct PlannedPart {
    ProductPart part;
    std::unique_ptr<Blas::Plan> plan;
  };

  void* at(Operand o, std::int64_t bytes) const { return static_cast<std::byte*>(pointers_[o]) + bytes; }

  void copy_biases(std::span<const ProductPart> parts, std::int64_t bytes) {
    bias_bytes_ = bytes;
    biases_ = BiasCopies(parts, bytes);
    biases_at_ = staging_.scratch(biases_.bytes());
  }

  const void* bias_of(const ProductPart& part) const {
    const auto copy = biases_.place(part.bias);
    return copy ? at(biases_at_, *copy) : at(*bias_, part.bias);
  }

  /// A product over no elements is zero, or the bias in each row.
  void fill_empty() {
    if (!bias_)
      return queue_.driver().check(queue_.driver().fill_bytes(reinterpret_cast<Address>(pointers_[y_]), 0,
                                                              dense_bytes(*empty_), queue_.stream()),
                                   "fill memory");
    BoundView rows{empty_->dtype, empty_->sizes, Sizes(empty_->sizes.size(), 0)};
    rows.strides.back() = 1;
    queue_.copy(tensor_at(queue_, pointers_[y_], *empty_), tensor_at(queue_, pointers_[*bias_], rows));
  }

  BlasMatrix input(const GemmOperand& o, Operand& place) {
    if (o.sizes.size() <= 3)
      if (auto v = reshape_view(o.given, o.sizes))
        if (auto m = as_matrix(*v, true)) {
          place = staging_.input(o.index);
          return *m;
        }
    place = staging_.input(o.index, o.given, dense_view(o.given.dtype, o.given.sizes));
    return *as_matrix(dense_view(o.given.dtype, flat(o.sizes)), true);
  }

  BlasMatrix result(const GemmProblem& p, bool old) {
    if (p.y.sizes.size() <= 3 && p.k > 0)
      if (auto v = reshape_view(p.y.given, p.y.sizes))
        if (auto m = as_matrix(*v, false)) {
          y_ = staging_.output(p.y.index);
          return *m;
        }
    y_ = staging_.output(p.y.index, p.y.given, dense_view(p.y.given.dtype, p.y.given.sizes), old);
    return *as_matrix(dense_view(p.y.given.dtype, flat(p.y.sizes)), false);
  }

  Operand vector(const GemmOperand& o, DType dtype) {
    if (o.given.dtype != dtype)
      fail("the bias of a matrix product is {}, but its result {}", short_name(o.given.dtype), short_name(dtype));
    if (o.given.strides.back() == 1 || o.given.sizes.back() == 1) return staging_.input(o.index);
    return staging_.input(o.index, o.given, dense_view(dtype, o.given.sizes));
  }

  /// What is added: it must lie as y does.
  Operand addend(const GemmOperand& o, const BlasMatrix& y, DType dtype) {
    if (o.given.dtype != dtype)
      fail("what is added to a matrix product is {}, but its result {}", short_name(o.given.dtype), short_name(dtype));
    if (o.sizes.size() <= 3)
      if (auto v = reshape_view(o.given, o.sizes))
        if (auto m = as_matrix(*v, false); m && m->ld == y.ld && m->batch_stride == y.batch_stride && !broadcasts(*v))
          return staging_.input(o.index);
    if (y.ld != y.rows) fail("what is added to a matrix product does not lie as its result does");
    return staging_.input(o.index, o.given, dense_view(dtype, o.given.sizes));
  }

  static bool broadcasts(const BoundView& v) {
    for (std::size_t d = 0; d < v.sizes.size(); ++d)
      if (v.strides[d] == 0 && v.sizes[d] != 1) return true;
    return false;
  }

  /// Three dimensions at most.
  static Sizes flat(const Sizes& sizes) {
    if (sizes.size() <= 3) return sizes;
    return {numel(std::span(sizes).first(sizes.size() - 2)), sizes[sizes.size() - 2], sizes[sizes.size() - 1]};
  }

  CudaQueue& queue_;
  DeviceStaging staging_;
  Operand a_ = 0, b_ = 0, y_ = 0, scratch_ = 0;
  std::optional<Operand> bias_, c_;
  Operand biases_at_ = 0;
  BiasCopies biases_;
  std::int64_t bias_bytes_ = 0;
  std::vector<PlannedPart> plans_;
  std::vector<void*> pointers_;
  std::optional<BoundView> empty_;  ///< y, when there is nothing to multiply
};

class ProductOp : public CachedOp {
 public:
  using ProblemFunction = GemmProblem (*)(const Attributes&, std::span<const BoundView>, std::span<const BoundView>);
  ProductOp(const Attributes& attributes, Queue& queue, ProblemFunction problem)
      : attributes_(attributes), queue_(static_cast<CudaQueue&>(queue)), problem_(problem) {}

 protected:
  std::unique_ptr<PreparedCall> make(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    return std::make_unique<ProductCall>(queue_, problem_(attributes_, inputs, outputs), algorithm());
  }

 private:
  /// What was found by measurement (autotune/products.h), if it was found on this device.
  int algorithm() const {
    const std::int64_t number = read(attributes_, library_ops::product::kAlgorithm);
    if (number == 0 || read(attributes_, library_ops::product::kAlgorithmFor) != queue_.blas().identity()) return 0;
    return static_cast<int>(std::clamp<std::int64_t>(number, 0, Blas::kAlgorithms - 1));
  }

  Attributes attributes_;
  CudaQueue& queue_;
  ProblemFunction problem_;
};

std::unique_ptr<LibraryOp> make_linear(const Attributes& attributes, Queue& queue) {
  return std::make_unique<ProductOp>(attributes, queue, linear_problem);
}
std::unique_ptr<LibraryOp> make_matmul(const Attributes& attributes, Queue& queue) {
  return std::make_unique<ProductOp>(attributes, queue, matmul_problem);
}

const DefineLibraryOps kProducts(DeviceType::CUDA, {{library_ops::linear::kName, make_linear},
                                                    {library_ops::matmul::kName, make_matmul}});

}  // namespace

}  // namespace coil::runtime::cuda
