// Random numbers in loop bodies: bits, uniform and normal numbers of one operator.
#pragma once
#include "lowering/common.h"

namespace coil::lowering {

/// The draws of one operator, of which each element has a few. Numbers are as fine as torch's: f16, bf16, f32 and f64
/// have 11, 8, 24 and 53 bits.
class Draw {
 public:
  /// One draw for each element of a tensor with this metadata, over i0, i1, …
  Draw(Context&, const sym::TensorMeta&);
  /// One for each element of a nest of `sizes`, which is at `element`.
  Draw(Context&, Expr element);
  /// Draws like the first constructor's, but by another seed than the call's, of the operator that has this number
  /// among those of that seed.
  Draw(Context&, const sym::TensorMeta&, Scalar seed, std::int64_t number);

  /// 32 random bits (U32); `word` counts the draws of an element.
  Element bits(int word = 0) const;
  /// 64 random bits (U64), of two words.
  Element wide_bits(int word = 0) const;
  /// In [0, 1), every number with the dtype's bits equally often; F64 takes two words.
  Element uniform(DType storage, int word = 0) const;
  /// In (0, 1), finer near 0, in a register type: what logarithms may be taken of.
  Element open_uniform(DType register_type, int word = 0) const;
  /// A normally distributed number of mean 0 and deviation 1, by Box and Muller (1958).
  Element normal(DType register_type) const;
  /// True with this probability.
  Element bernoulli(double probability) const;
  /// The same for probabilities that are data, of a float register type.
  Element bernoulli(Element probability) const;
  /// An I64 from `low` to `high` - 1; where both are 0, of all 64 bits.
  Element integer(Expr low, Expr high) const;

 private:
  Element number(DType register_type, double v) const {
    return {&ctx_.graph.pool(), ctx_.graph.pool().constant(register_type, v)};
  }
  Context& ctx_;
  Scalar seed_;
  std::int64_t salt_;
  Expr element_;
};

}  // namespace coil::lowering
