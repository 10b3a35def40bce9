#include "runtime/ops/panel/batch_invariant.h"

#include "runtime/ops/panel/gemm.h"
#include "support/error.h"

namespace coil::runtime::panels {
namespace {

/// An operand of [B.., rows, columns] that is seen one matrix at a time.
class Matrices {
 public:
  Matrices(const BoundView& all, std::int64_t batch) : all_(all) {
    if (batch == 1) return;
    const std::size_t rank = all.sizes.size();
    one_ = BoundView{
        all.dtype, {all.sizes[rank - 2], all.sizes[rank - 1]}, {all.strides[rank - 2], all.strides[rank - 1]}};
    for (std::int64_t i = 0; i < batch; ++i) offsets_.push_back(offset(i));
  }
  /// How each lies: all of them where there is no batch.
  const BoundView& one() const { return one_ ? *one_ : all_; }
  /// Bytes from the first to matrix `i`.
  std::int64_t bytes(std::int64_t i) const {
    return one_ ? offsets_[static_cast<std::size_t>(i)] * static_cast<std::int64_t>(size_of(all_.dtype)) : 0;
  }

 private:
  std::int64_t offset(std::int64_t i) const {
    std::int64_t at = 0;
    for (std::size_t d = all_.sizes.size() - 2; d-- > 0; i /= all_.sizes[d]) at += i % all_.sizes[d] * all_.strides[d];
    return at;
  }

  BoundView all_;
  std::optional<BoundView> one_;
  std::vector<std::int64_t> offsets_;
};

/// The product of one matrix after another, by panels that are made of b before each.
class RepackedGemm : public PreparedCall {
 public:
  explicit RepackedGemm(const GemmProblem& p)
      : p_(p), a_(p.a.given, p.batch), b_(p.b.given, p.batch), y_(p.y.given, p.batch) {
    const bool batched = p.batch > 1;
    GemmProblem one = p;
    one.batch = 1;
    one.a = {p.a.index, a_.one(), {p.m, p.k}};
    one.y = {p.y.index, y_.one(), {p.m, p.n}};
    if (!batched) {
      one.a.sizes = p.a.sizes;
      one.y.sizes = p.y.sizes;
    }
    one.operands.clear();
    for (const GemmOperand& o : p.operands) {
      operands_.emplace_back(o.given, p.batch);
      one.operands.push_back({o.index, operands_.back().one(), one.y.sizes});
    }
    packed_bytes_ = packed_bytes(p.b.given.dtype, p.n, p.k);
    one.packed_desc = packed_form(p.b.given.dtype);
    one.packed_bytes = packed_bytes_;
    one_b_ = b_.one();
    if (one_b_.sizes.size() > 2) {  // of a batch of one
      one_b_.sizes.erase(one_b_.sizes.begin(), one_b_.sizes.end() - 2);
      one_b_.strides.erase(one_b_.strides.begin(), one_b_.strides.end() - 2);
    }
    product_ = make_gemm(one);
  }

  std::size_t workspace_bytes() const override { return aligned(packed_bytes_) + product_->workspace_bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    std::vector<const void*> in(inputs.begin(), inputs.end());
    std::vector<void*> out(outputs.begin(), outputs.end());
    auto* packed = static_cast<std::byte*>(workspace);
    in[p_.b.index] = packed;
    for (std::int64_t i = 0; i < p_.batch; ++i) {
      const auto at = [&](const void* start, const Matrices& m) {
        return static_cast<const std::byte*>(start) + m.bytes(i);
      };
      if (i == 0 || b_.bytes(i) != b_.bytes(i - 1)) pack(packed, at(inputs[p_.b.index], b_), one_b_);
      // (An operand that comes twice has one place in the call for each time.)
      in[p_.a.index] = at(inputs[p_.a.index], a_);
      for (std::size_t o = 0; o < operands_.size(); ++o)
        in[p_.operands[o].index] = at(inputs[p_.operands[o].index], operands_[o]);
      out[p_.y.index] = static_cast<std::byte*>(outputs[p_.y.index]) + y_.bytes(i);
      product_->run(in, out, packed + aligned(packed_bytes_));
    }
  }

 private:
  static std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

  const GemmProblem p_;
  Matrices a_, b_, y_;
  std::vector<Matrices> operands_;
  BoundView one_b_;
  std::size_t packed_bytes_ = 0;
  std::unique_ptr<PreparedCall> product_;
};

}  // namespace

std::unique_ptr<PreparedCall> make_batch_invariant_gemm(const GemmProblem& p) {
  if (auto call = make_gemm(p)) return call;
  if (!p.packed_desc.empty()) fail("a weight that is packed for another library cannot be multiplied row by row");
  if (p.m > 0 && p.n > 0 && p.k > 0 && p.batch > 0 && multiplies(p)) return std::make_unique<RepackedGemm>(p);
  return make_plain_gemm(p);
}

}  // namespace coil::runtime::panels
