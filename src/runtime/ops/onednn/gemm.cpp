// Matrix products by oneDNN's matmul primitive. Measured against inner_product on AVX-512 (2 threads, M 1 to 1024, K
// and N 768 and 3072, f32 and bf16) the two are equal when weights are packed, but matmul's packed form does not depend
// on M, so that one packed weight serves every batch size.
#include "runtime/ops/onednn/onednn.h"
#include "runtime/ops/onednn/primitive.h"

#ifdef COIL_HAVE_ONEDNN
#include <algorithm>

#include "runtime/ops/nan_guard.h"
#include "runtime/views/view_layout.h"
#include "support/error.h"

namespace coil::runtime::onednn {
namespace {

bool is_dense(const BoundView& v) { return v.strides == contiguous_strides(v.sizes); }

/// One stride of the matrix is 1, the other steps over at least a row (or column); sizes of 1 have any stride.
bool is_matrix(const BoundView& v) {
  const std::size_t r = v.sizes.size();
  const std::int64_t rows = v.sizes[r - 2], columns = v.sizes[r - 1], down = v.strides[r - 2], right = v.strides[r - 1];
  const bool by_rows = (right == 1 || columns == 1) && (rows == 1 || down >= columns);
  const bool by_columns = (down == 1 || rows == 1) && (columns == 1 || right >= rows);
  return by_rows || by_columns;
}

/// Rows that lie one after another: what a result must be.
bool is_row_major(const BoundView& v) {
  const std::size_t r = v.sizes.size();
  return !has_zero_stride(v) && (v.strides[r - 1] == 1 || v.sizes[r - 1] == 1) &&
         (v.sizes[r - 2] == 1 || v.strides[r - 2] >= v.sizes[r - 1]);
}

/// Strides of dimensions of size 1 as a dense tensor has them, where oneDNN could misread them.
BoundView settle(BoundView v) {
  for (std::size_t d = v.sizes.size(), dense = 1; d-- > 0;) {
    if (v.sizes[d] == 1) v.strides[d] = static_cast<std::int64_t>(dense);
    dense = std::max(dense, static_cast<std::size_t>(v.strides[d] * v.sizes[d]));
  }
  return v;
}

class GemmBuilder {
 public:
  /// Computes on `dtype`; `dense` copies both matrices into dense ones first.
  GemmBuilder(const GemmProblem& p, DType dtype, bool dense) : p_(p), dtype_(dtype), dense_(dense) {}

  std::unique_ptr<PreparedCall> build() {
    describe_operands();
    const dnnl::matmul::primitive_desc pd = make(weights_);
    return finish(pd);
  }

  /// What the primitive would like b to be.
  dnnl::memory::desc preferred_weight() {
    describe_operands();
    const dnnl::memory::desc wanted = make(any_weight()).weights_desc();
    return is_plain(wanted) ? off_page_weight() : wanted;
  }

  bool reference() const { return reference_; }

 private:
  struct Seen {
    BoundView view;
    Staging::Operand operand;
  };

  template <class Accept>
  Seen input(const GemmOperand& o, DType dtype, Accept accept) {
    if (o.given.dtype == dtype)
      if (auto v = reshape_view(o.given, o.sizes); v && accept(*v)) return {settle(*v), staging_.input(o.index)};
    const Staging::Operand staged = staging_.input(o.index, o.given, dense_view(dtype, o.given.sizes));
    return {dense_view(dtype, o.sizes), staged};
  }

  void describe_operands() {
    a_ = input(p_.a, dtype_, [&](const BoundView& v) { return !dense_ && is_matrix(v); });
    describe_weight();
    describe_result();
    for (const GemmOperand& o : p_.operands) operands_.push_back(post_operand(o));
    if (p_.bias) {
      const DType type = dtype_ == DType::BF16 && p_.bias->given.dtype == DType::BF16 ? DType::BF16 : DType::F32;
      bias_ = input(*p_.bias, type, [](const BoundView& v) { return is_dense(v); });
      Sizes sizes(p_.y.sizes.size(), 1);
      sizes.back() = p_.n;
      bias_->view = dense_view(type, sizes);
    }
  }

  void describe_weight() {
    if (!p_.packed_desc.empty()) {
      weights_ = desc_from_text(p_.packed_desc);
      const bool fits = weights_.data.ndims == 2 && weights_.dims() == dnnl::memory::dims{p_.k, p_.n} &&
                        weights_.get_size() <= p_.packed_bytes;
      if (!fits) fail("a packed weight does not have the form that its description says");
      b_.operand = staging_.input(p_.b.index);
      return;
    }
    b_ = input(p_.b, dtype_, [&](const BoundView& v) { return !dense_ && is_matrix(v); });
    weights_ = describe(b_.view);
  }

  void describe_result() {
    const DType type = p_.y.given.dtype == DType::BF16 && dtype_ == DType::BF16 ? DType::BF16 : DType::F32;
    bool full = false;  // an operand that is not broadcast is read in y's own layout, so both are made dense
    for (const GemmOperand& o : p_.operands) full = full || !broadcasts(o);
    const bool old =
        std::any_of(p_.post.begin(), p_.post.end(), [](const PostOp& op) { return op.kind == PostOp::Kind::Sum; });
    const auto v = reshape_view(p_.y.given, p_.y.sizes);
    if (p_.y.given.dtype == type && v && is_row_major(*v) && (!full || is_dense(settle(*v)))) {
      y_ = {settle(*v), staging_.output(p_.y.index)};
    } else {
      y_ = {dense_view(type, p_.y.sizes),
            staging_.output(p_.y.index, p_.y.given, dense_view(type, p_.y.given.sizes), old)};
    }
  }

  /// Only along the last dimension, or along none.
  static bool broadcasts(const GemmOperand& o) {
    for (std::size_t d = 0; d + 1 < o.given.sizes.size(); ++d)
      if (o.given.strides[d] != 0 && o.given.sizes[d] != 1) return false;
    return true;
  }

  Seen post_operand(const GemmOperand& o) {
    const DType type = o.given.dtype == DType::BF16 && dtype_ == DType::BF16 ? DType::BF16 : DType::F32;
    if (broadcasts(o)) {
      // One row (or one number) for all of y: seen with its leading dimensions of size 1.
      BoundView row = o.given;
      for (std::size_t d = 0; d + 1 < row.sizes.size(); ++d) row.sizes[d] = 1;
      if (row.strides.back() == 0) row.sizes.back() = 1;
      Sizes sizes(o.sizes.size(), 1);
      sizes.back() = row.sizes.back();
      return input({o.index, row, sizes}, type, [](const BoundView& v) { return is_dense(settle(v)); });
    }
    return input(o, type, [](const BoundView& v) { return !has_zero_stride(v) && is_dense(settle(v)); });
  }

  dnnl::memory::desc any_weight() const {
    Sizes sizes = p_.b.sizes;
    return {sizes, data_type(dtype_), dnnl::memory::format_tag::any};
  }

  static bool is_plain(const dnnl::memory::desc& d) {
    return d.data.format_kind == dnnl_blocked && d.data.format_desc.blocking.inner_nblks == 0;
  }

  /// b for oneDNN's GEMM, which takes plain matrices (machines without AVX-512): rows, or for a single row of a
  /// columns, an odd number of cache lines apart, since lines a multiple of a page apart share a few sets of the cache.
  /// Zen 3, 2 threads, f32, GFLOP/s of dense rows and of these: M 128, 768x3072 88 and 133, 1024x4096 82 and 127,
  /// 768x768 126 and 131; M 1, 4096x1024 38 by rows, 53 by columns.
  dnnl::memory::desc off_page_weight() const {
    constexpr std::int64_t line = 64;
    const std::int64_t width = static_cast<std::int64_t>(size_of(dtype_)), along = p_.m == 1 ? p_.k : p_.n;
    const std::int64_t step = ((along * width + line - 1) / line | 1) * line / width;
    return {p_.b.sizes, data_type(dtype_), p_.m == 1 ? dnnl::memory::dims{1, step} : dnnl::memory::dims{step, 1}};
  }

  dnnl::matmul::primitive_desc make(const dnnl::memory::desc& weights) {
    std::vector<dnnl::memory::desc> operands;
    for (const Seen& s : operands_) operands.push_back(describe(s.view));
    const dnnl::memory::desc a = describe(a_.view), y = describe(y_.view);
    const dnnl::matmul::desc d =
        bias_ ? dnnl::matmul::desc(a, weights, describe(bias_->view), y) : dnnl::matmul::desc(a, weights, y);
    dnnl::matmul::primitive_desc pd(d, attributes(p_.post, operands), engine());
    reference_ = is_reference(pd.impl_info_str());
    return pd;
  }

  std::unique_ptr<PreparedCall> finish(dnnl::matmul::primitive_desc pd) {
    bool repack = false;
    if (!p_.packed_desc.empty() && reference_) {  // packed for another kind of machine
      pd = make(any_weight());
      repack = true;
    }
    const Staging::Operand scratchpad = staging_.scratch(pd.scratchpad_desc().get_size());
    auto call = std::make_unique<PrimitiveCall>(dnnl::matmul(pd), staging_);
    call->add(DNNL_ARG_SRC, pd.src_desc(), a_.operand);
    if (repack)
      call->add_repacked(DNNL_ARG_WEIGHTS, weights_, pd.weights_desc(), b_.operand);
    else
      call->add(DNNL_ARG_WEIGHTS, pd.weights_desc(), b_.operand);
    if (bias_) call->add(DNNL_ARG_BIAS, describe(bias_->view), bias_->operand);
    const std::vector<int> arguments = operand_arguments(p_.post);
    for (std::size_t i = 0; i < operands_.size(); ++i)
      call->add(arguments[i], describe(operands_[i].view), operands_[i].operand);
    call->add(DNNL_ARG_DST, pd.dst_desc(), y_.operand);
    call->add(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc(), scratchpad);
    return call;
  }

  const GemmProblem& p_;
  DType dtype_;
  bool dense_, reference_ = false;
  Staging staging_;
  Seen a_, b_, y_;
  std::optional<Seen> bias_;
  std::vector<Seen> operands_;
  dnnl::memory::desc weights_;
};

/// The type to compute on; matrices of another one are converted on the way.
std::optional<DType> compute_type(const GemmProblem& p) {
  if (!is_float16_or_32(p.a.given.dtype) || !is_float16_or_32(p.y.given.dtype) || p.k == 0) return std::nullopt;
  if (!p.packed_desc.empty())
    return desc_from_text(p.packed_desc).data_type() == dnnl::memory::data_type::bf16 ? DType::BF16 : DType::F32;
  if (!is_float16_or_32(p.b.given.dtype)) return std::nullopt;
  for (const GemmOperand& o : p.operands)
    if (!is_float16_or_32(o.given.dtype)) return std::nullopt;
  return product_type(p.a.given.dtype, p.b.given.dtype);
}

struct Built {
  std::unique_ptr<PreparedCall> call;
  bool reference = false;  ///< oneDNN has no other implementation
};

/// Builds the call for operands as they lie, or copied dense where only the reference implementation takes them as they
/// lie.
Built build_whole(const GemmProblem& p, DType dtype) {
  GemmBuilder natural(p, dtype, false);
  auto call = natural.build();
  if (!natural.reference() || !p.packed_desc.empty()) return {std::move(call), natural.reference()};
  GemmBuilder dense(p, dtype, true);
  auto copied = dense.build();
  if (!dense.reference()) return {std::move(copied), false};
  return {std::move(call), true};
}

/// Builds the call with as many post-operations as an implementation other than the reference takes (without AVX-512,
/// no sum behind another one). Loops of our own carry out the others.
std::unique_ptr<PreparedCall> build(const GemmProblem& p, DType dtype) {
  Built whole = build_whole(p, dtype);
  if (!whole.reference) return std::move(whole.call);
  for (std::size_t count = p.post.size(); count-- > 0;) {
    const GemmProblem head = with_post(p, count);
    Built built = build_whole(head, dtype);
    if (built.reference) continue;
    std::vector<EpilogueOperand> operands;
    for (std::size_t i = head.operands.size(); i < p.operands.size(); ++i)
      operands.push_back({p.operands[i].index, p.operands[i].given});
    return make_finished(std::move(built.call), {p.post.begin() + static_cast<std::ptrdiff_t>(count), p.post.end()},
                         p.y.given, operands);
  }
  return std::move(whole.call);
}

}  // namespace

bool has_gemm_kernel(const GemmProblem& p) {
  const auto dtype = compute_type(p);
  if (!dtype) return false;
  try {
    return !build_whole(p, *dtype).reference;
  } catch (const dnnl::error&) {
    return false;
  }
}

std::unique_ptr<PreparedCall> make_gemm(const GemmProblem& p) {
  const auto dtype = compute_type(p);
  return dtype ? attempt(*dtype, !p.packed_desc.empty(), [&](DType d) { return build(p, d); }) : nullptr;
}

namespace {

/// `weight` has the type to compute on; nothing where it lies as the primitive likes it, unless it was `converted`.
std::optional<Packed> pack_alike(const GemmProblem& p, const Tensor& weight, bool converted) {
  const dnnl::memory::desc plain = describe(p.b.given), wanted = GemmBuilder(p, weight.dtype, false).preferred_weight();
  if (plain == wanted && !converted) return std::nullopt;
  return pack(weight, plain, wanted);
}

}  // namespace

std::optional<Packed> pack_gemm(const GemmProblem& p, const Tensor& weight) {
  const auto dtype = compute_type(p);
  if (!dtype || !is_float16_or_32(weight.dtype) || p.k == 0 || p.n == 0) return std::nullopt;
  try {
    if (weight.dtype == *dtype) return pack_alike(p, weight, false);
    if (weight.dtype == DType::F32) return std::nullopt;
    GemmProblem wide = p;
    wide.a.given.dtype = wide.b.given.dtype = DType::F32;
    return pack_alike(wide, widened(weight), true);
  } catch (const dnnl::error&) {
    return std::nullopt;
  }
}

}  // namespace coil::runtime::onednn
#else

namespace coil::runtime::onednn {

std::unique_ptr<PreparedCall> make_gemm(const GemmProblem&) { return nullptr; }
bool has_gemm_kernel(const GemmProblem&) { return false; }
std::optional<Packed> pack_gemm(const GemmProblem&, const Tensor&) { return std::nullopt; }

}  // namespace coil::runtime::onednn
#endif
