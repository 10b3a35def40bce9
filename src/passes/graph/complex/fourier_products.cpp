// Fourier transforms for devices that have no library for them, or a short one. Lengths of which the device has a
// kernel stay, or become transforms along the last dimension; others go as products with matrices of cosines and sines,
// in two steps where they have factors (Cooley and Tukey 1965), so that 4096 points cost 128 products each, not 4096; a
// long length without factors is a convolution by a chirp, with transforms of twice its length (Bluestein 1970).
#include <bit>
#include <cmath>

#include "library_ops/fourier.h"
#include "passes/graph/complex/parts.h"
#include "passes/graph/decompositions/replace.h"

namespace coil::passes {

namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr std::int64_t kShort = 32;     // what no library is asked for
constexpr std::int64_t kWhole = 64;     // lengths up to here are transformed by one matrix
constexpr std::int64_t kLongest = 256;  // a length without factors needs a matrix of its square

/// cos and sin of 2 pi j k / n, for j below `rows` and k below `columns`: products are reduced before they are scaled,
/// so that angles are exact.
Parts waves(ComplexRewriter& r, const Expr& n, const Expr& rows, const Expr& columns, DType type) {
  const Value turns = r.mul(r.unsqueeze(r.iota(rows), 1), r.iota(columns));
  const Value angle =
      r.call("aten.div.Tensor",
             {r.mul(r.to(r.call("aten.remainder.Tensor", {turns, r.full({}, n, DType::I64, r.device())}), r.widest()),
                    2 * kPi),
              r.full({}, n, r.widest(), r.device())});
  return {r.to(r.unary("cos", angle), type), r.to(r.unary("sin", angle), type)};
}

Value matmul(ComplexRewriter& r, const Value& x, const Value& matrix) {
  // As one product of matrices, whatever the number of dimensions before the last.
  Exprs sizes = r.meta(x).sizes;
  const Expr n = sizes.back();
  Exprs lead(sizes.begin(), sizes.end() - 1);
  sizes.back() = r.meta(matrix).sizes[1];
  return r.reshape(r.call("aten.mm.default", {r.reshape(x, {r.module.env->simplify(sym::product(lead)), n}), matrix}),
                   sizes);
}

/// x times e^(-i angle) when forward, e^(i angle) when not; `times` is a product with a table.
Parts turned(ComplexRewriter& r, const Parts& x, const Parts& wave, bool forward,
             Value (*times)(ComplexRewriter&, const Value&, const Value&)) {
  auto by = [&](const Value& part, const Value& table) {
    return part.is_none() ? Value(None{}) : times(r, part, table);
  };
  const Value rc = by(x.re, wave.re), rs = by(x.re, wave.im), ic = by(x.im, wave.re), is = by(x.im, wave.im);
  return forward ? Parts{r.plus(rc, is), r.minus(ic, rs)} : Parts{r.minus(rc, is), r.plus(ic, rs)};
}

/// A factor of n nearest below its root; 1 when there is none.
std::int64_t middle_factor(std::int64_t n) {
  for (auto f = static_cast<std::int64_t>(std::sqrt(static_cast<double>(n))); f > 1; --f)
    if (n % f == 0) return f;
  return 1;
}

/// Whether the device has a kernel for transforms of `n` points of what x is made of.
bool has_kernel(const Rewriter& r, const Value& x, const Expr& n) {
  const DType type = r.dtype(x);
  const auto known = n.constant();
  return known && r.has_on_device(x, target::Feature::FourierKernels) && (type == DType::F32 || type == DType::F64) &&
         library_ops::fourier::has_kernel(*known, size_of(type));
}

Parts transform(ComplexRewriter&, const Parts&, bool forward, const Expr& kept);

/// In two steps of a and of n / a points: x[b' + b a'] -> X[k + a l], over a' for every b', a turn by b' k / n, then
/// over b' for every k.
Parts in_two_steps(ComplexRewriter& r, const Parts& x, bool forward, const Expr& kept, std::int64_t n, std::int64_t a) {
  const Exprs sizes = r.meta(x.re).sizes;
  const std::int64_t b = n / a;
  Exprs split(sizes.begin(), sizes.end() - 1);
  split.insert(split.end(), {a, b});
  const auto rank = static_cast<std::int64_t>(split.size());
  auto swapped = [&](const Value& v) { return Value(r.call("aten.transpose.int", {v, rank - 2, rank - 1})); };
  Parts y = on_both(x, [&](const Value& v) { return swapped(r.reshape(v, split)); });  // [.., b', a']
  y = transform(r, y, forward, a);                                                     // [.., b', k]
  y = turned(r, y, waves(r, n, b, a, r.dtype(x.re)), forward,
             [](ComplexRewriter& s, const Value& v, const Value& table) { return Value(s.mul(v, table)); });
  y = on_both(y, swapped);          // [.., k, b']
  y = transform(r, y, forward, b);  // [.., k, l]
  y = on_both(y, [&](const Value& v) { return r.reshape(swapped(v), sizes); });
  if (kept == Expr(n)) return y;
  return on_both(y, [&](const Value& v) { return r.slice(v, static_cast<std::int64_t>(sizes.size()) - 1, 0, kept); });
}

/// cos and sin of pi j^2 / n, for `count` points of which j is the distance from the nearer end; zeros where that is n
/// or more.
Parts chirp(ComplexRewriter& r, std::int64_t n, std::int64_t count, DType type) {
  Value j = r.iota(count);
  if (count != n)
    j = r.call("aten.minimum.default", {j, r.call("aten.sub.Tensor", {r.full({}, count, DType::I64, r.device()), j})});
  const Value turns = r.call("aten.remainder.Scalar", {r.mul(j, j), 2 * n});
  const Value angle = r.mul(r.to(turns, r.widest()), kPi / static_cast<double>(n));
  Parts wave{r.to(r.unary("cos", angle), type), r.to(r.unary("sin", angle), type)};
  if (count == n) return wave;
  const Value there = r.call("aten.lt.Scalar", {j, n}), zero = r.full({}, 0, type, r.device());
  return on_both(wave, [&](const Value& v) { return Value(r.where(there, v, zero)); });
}

/// The transform by j k = (j^2 + k^2 - (k - j)^2) / 2: turned by a chirp, put together with its inverse, and turned
/// again.
Parts by_chirp(ComplexRewriter& r, const Parts& x, bool forward, const Expr& kept, std::int64_t n) {
  const auto last = static_cast<std::int64_t>(r.rank(x.re)) - 1;
  const auto m = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(2 * n - 1)));
  const auto wave = [&](std::int64_t count, bool conjugate) {
    const Parts w = chirp(r, n, count, r.dtype(x.re));
    return conjugate ? r.conjugate(w) : w;
  };
  const Parts turn = wave(n, forward), inverse = transform(r, wave(m, !forward), true, m);
  Parts y = on_both(r.product(x, turn), [&](const Value& v) {
    return Value(r.call("aten.constant_pad_nd.default", {v, Values{0, m - n}, 0}));
  });
  y = transform(r, r.product(transform(r, y, true, m), inverse), false, m);
  y = on_both(y, [&](const Value& v) { return r.mul(r.slice(v, last, 0, kept), 1.0 / static_cast<double>(m)); });
  return r.product(y, on_both(turn, [&](const Value& v) { return r.slice(v, 0, 0, kept); }));
}

/// The first `kept` points along the last dimension.
Parts transform(ComplexRewriter& r, const Parts& x, bool forward, const Expr& kept) {
  const Expr n = r.meta(x.re).sizes.back();
  if (has_kernel(r, x.re, n)) {
    const auto last = static_cast<std::int64_t>(r.rank(x.re)) - 1;
    const bool half = x.im.is_none() && kept != n;
    fx::Node* both = r.call("coil.fourier.default", {x.re, x.im, last, !forward, half});
    return {r.item(both, 0), r.item(both, 1)};
  }
  const auto known = n.constant();
  const std::int64_t a = known && *known > kWhole ? middle_factor(*known) : 1;
  if (a != 1) return in_two_steps(r, x, forward, kept, *known, a);
  if (known && *known > kLongest) return by_chirp(r, x, forward, kept, *known);
  return turned(r, x, waves(r, n, n, kept, r.dtype(x.re)), forward, matmul);
}

Parts along(ComplexRewriter& r, const Parts& x, std::int64_t dim, const std::function<Parts(const Parts&)>& f) {
  const auto last = static_cast<std::int64_t>(r.rank(x.re)) - 1;
  auto swapped = [&](const Value& v) { return dim == last ? v : Value(r.call("aten.transpose.int", {v, dim, last})); };
  return on_both(f(on_both(x, swapped)), swapped);
}

/// Real values of length n whose transform's first half is x, times n: every point but the first (and the middle of an
/// even length) stands for two.
Value real_inverse(ComplexRewriter& r, const Parts& x, const Expr& n) {
  const DType type = r.dtype(x.re);
  const Expr m = r.meta(x.re).sizes.back();
  const auto known = n.constant();
  if (known && (*known > kLongest || (*known > kWhole && middle_factor(*known) > 1))) {
    // The other half is the first one conjugate, backwards.
    const auto last = static_cast<std::int64_t>(r.rank(x.re)) - 1;
    auto mirrored = [&](const Value& v) {
      return Value(r.call("aten.flip.default", {r.slice(v, last, 1, *known - *known / 2), Values{last}}));
    };
    auto whole = [&](const Value& v, bool negate) {
      if (v.is_none()) return v;
      const Value tail = mirrored(v);
      return Value(r.call("aten.cat.default", {Values{v, negate ? r.negated(tail) : tail}, last}));
    };
    return transform(r, {whole(x.re, false), whole(x.im, true)}, false, n).re;
  }
  const Value k = r.iota(m),
              twice = r.call("aten.logical_and.default",
                             {r.call("aten.gt.Scalar", {k, 0}),
                              r.call("aten.ne.Tensor", {r.mul(k, 2), r.full({}, n, DType::I64, r.device())})});
  const Value weight = r.where(twice, r.full({}, 2, type, r.device()), r.full({}, 1, type, r.device()));
  const Parts wave = waves(r, n, m, n, type);
  // The first point's imaginary part, and the middle one's, meet a sine of 0.
  const Parts weighted = r.scaled(x, weight);
  return r.minus(matmul(r, weighted.re, wave.re),
                 weighted.im.is_none() ? weighted.im : matmul(r, weighted.im, wave.im));
}

/// Whether the device's library transforms this, or a kernel.
bool stays(Rewriter& r, const Expr& n) {
  if (has_kernel(r, r["re"], n)) return true;
  const DType type = r.dtype(r["re"]);
  if (!r.has_on_device(r["re"], target::Feature::FourierTransforms)) return false;
  if (type != DType::F32 && type != DType::F64) return false;
  const auto known = n.constant();
  return !known || *known > kShort;
}

/// The node with its parts, in which the rules above are written.
struct OfParts {
  explicit OfParts(Rewriter& r) : rewriter(r.module, r.node, known, r.target), x{r["re"], r.optional("im")} {
    known.widest = r.target.has(target::Feature::NarrowFloats) ? DType::F32 : DType::F64;
  }
  PartsOf known;
  ComplexRewriter rewriter;
  Parts x;
};

Value fourier(Rewriter& r) {
  const std::int64_t dim = r.number("dim");
  const Expr n = r.meta(r["re"]).sizes[static_cast<std::size_t>(dim)];
  if (stays(r, n)) return None{};
  OfParts of(r);
  const Expr kept = r.result(0).sizes[static_cast<std::size_t>(dim)];
  const bool forward = !r.flag("backwards");
  const Parts made =
      along(of.rewriter, of.x, dim, [&](const Parts& y) { return transform(of.rewriter, y, forward, kept); });
  return Values{made.re, made.im};
}

Value fourier_to_real(Rewriter& r) {
  const Expr n = r.integer(r["size"]);
  if (stays(r, n)) return None{};
  OfParts of(r);
  return along(of.rewriter, of.x, r.number("dim"),
               [&](const Parts& y) { return Parts{real_inverse(of.rewriter, y, n), None{}}; })
      .re;
}

}  // namespace

void decompose_fourier(DecompositionTable& t) {
  t["coil.fourier.default"] = fourier;
  t["coil.fourier_to_real.default"] = fourier_to_real;
}

}  // namespace coil::passes
