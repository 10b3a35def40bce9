#include "passes/graph/decompositions/grid_sampling.h"

namespace coil::passes {

namespace {

enum Interpolation { kLinear, kNearest, kCubic };
enum Padding { kZeros, kBorder, kReflection };

class GridSampler {
 public:
  explicit GridSampler(Rewriter& r)
      : r_(r),
        input_(r.widened(r["input"])),
        grid_(r.widened(r["grid"])),
        type_(r.dtype(input_)),
        spatial_(r.rank(input_) - 2),
        interpolation_(static_cast<Interpolation>(r.number("interpolation_mode"))),
        padding_(static_cast<Padding>(r.number("padding_mode"))),
        corners_(r.flag("align_corners")) {}

  Value run() {
    if (interpolation_ == kCubic && spatial_ != 2) r_.refuse("cubic interpolation is of images");
    for (std::size_t d = 0; d < spatial_; ++d) axes_.push_back(axis(d));
    const Exprs& sizes = r_.meta(input_).sizes;
    Expr pixels = 1;
    for (std::size_t d = 0; d < spatial_; ++d) pixels = pixels * sizes[d + 2];
    flat_ = r_.reshape(input_, {sizes[0], sizes[1], r_.module.env->simplify(pixels)});
    const Exprs& at = r_.meta(grid_).sizes;
    Exprs points(at.begin() + 1, at.end() - 1);
    count_ = r_.module.env->simplify(sym::product(points));
    add_taps(0, None{}, None{}, None{});
    points.insert(points.begin(), {sizes[0], sizes[1]});
    return r_.to(r_.reshape(sum_, points), r_.dtype(r_["input"]));
  }

 private:
  struct Tap {
    Value at;      ///< a whole number, as a float
    Value weight;  ///< None for one
  };

  /// On a CPU eager computes images of narrow floats in their own type, positions and weights included: each step is
  /// rounded, and what lies between two pixels may move by a good part of one. On a GPU it computes in 32 bits.
  Value rounded(const Value& x) {
    const DType narrow = r_.dtype(r_["input"]);
    return narrow == type_ || !r_.device().is_host() ? x : r_.to(r_.to(x, narrow), type_);
  }
  Value add(const Value& a, const Value& b) { return rounded(r_.add(a, b)); }
  Value sub(const Value& a, const Value& b) { return rounded(r_.sub(a, b)); }
  Value mul(const Value& a, const Value& b) { return rounded(r_.mul(a, b)); }
  Value div(const Value& a, const Value& b) { return rounded(r_.div(a, b)); }
  Value number(const Value& n) { return r_.full({}, n, type_, r_.device()); }
  Value unary(const char* name, const Value& x) { return r_.call(std::string("aten.") + name + ".default", {x}); }
  Value size(std::size_t d) { return number(r_.meta(input_).sizes[d + 2]); }
  Value clipped(const Value& x, std::size_t d) {
    return r_.call("aten.minimum.default", {r_.call("aten.clamp_min.default", {x, 0}), r_.sub(size(d), 1)});
  }

  /// Back and forth between the first and the last pixel, or between their outer edges.
  Value reflected(const Value& x, std::size_t d) {
    const double low = corners_ ? 0 : -0.5;
    const Value span = corners_ ? Value(sub(size(d), 1)) : size(d);
    const Value from = unary("abs", sub(x, low)), flips = unary("floor", div(from, span)),
                rest = r_.call("aten.fmod.Tensor", {from, span});
    const Value even = r_.call("aten.eq.Scalar", {r_.call("aten.remainder.Scalar", {flips, 2}), 0});
    const Value made = r_.where(even, add(rest, low), add(sub(span, rest), low));
    // One pixel reflects onto itself.
    return r_.where(r_.call("aten.gt.Scalar", {span, 0}), made, number(0));
  }

  Value padded(const Value& x, std::size_t d) {
    if (padding_ == kZeros) return x;
    return clipped(padding_ == kReflection ? reflected(x, d) : x, d);
  }

  std::vector<Tap> axis(std::size_t d) {
    // The last coordinate is of the first dimension.
    const Value given = r_.call("aten.select.int", {grid_, -1, static_cast<std::int64_t>(spatial_ - 1 - d)});
    Value x = add(given, 1);
    x = corners_ ? mul(mul(x, 0.5), sub(size(d), 1)) : mul(sub(mul(x, size(d)), 1), 0.5);
    if (interpolation_ == kNearest) return {{unary("round", padded(x, d)), None{}}};
    if (interpolation_ == kLinear) {
      x = padded(x, d);
      const Value left = unary("floor", x), t = sub(x, left);
      return {{left, sub(number(1), t)}, {add(left, 1), t}};
    }
    const Value left = unary("floor", x), t = sub(x, left);
    std::vector<Tap> taps;
    for (int i = -1; i <= 2; ++i)
      taps.push_back({padded(add(left, i), d), cubic(unary("abs", sub(t, i)), i == 0 || i == 1)});
    return taps;
  }

  /// Keys' kernel with a = -0.75, within one pixel or two.
  Value cubic(const Value& x, bool near) {
    constexpr double a = -0.75;
    auto polynomial = [&](std::initializer_list<double> coefficients) {
      Value made;
      for (double c : coefficients) made = made.is_none() ? number(c) : Value(add(mul(made, x), c));
      return made;
    };
    return near ? polynomial({a + 2, -(a + 3), 0, 1}) : polynomial({a, -5 * a, 8 * a, -4 * a});
  }

  /// Every combination of taps along the dimensions from `d` on, at the flat index so far.
  void add_taps(std::size_t d, const Value& index, const Value& weight, const Value& inside) {
    if (d == spatial_) return add_tap(index, weight, inside);
    const Expr n = r_.meta(input_).sizes[d + 2];
    for (const Tap& tap : axes_[d]) {
      const Value here = r_.to(clipped(tap.at, d), DType::I64);
      const Value next =
          index.is_none() ? here : Value(r_.add(r_.mul(index, r_.full({}, n, DType::I64, r_.device())), here));
      const Value by = weight.is_none() ? tap.weight : tap.weight.is_none() ? weight : Value(mul(weight, tap.weight));
      const Value in = r_.call("aten.logical_and.default",
                               {r_.call("aten.ge.Scalar", {tap.at, 0}), r_.call("aten.lt.Tensor", {tap.at, size(d)})});
      add_taps(d + 1, next, by, inside.is_none() ? in : Value(r_.call("aten.logical_and.default", {inside, in})));
    }
  }

  void add_tap(const Value& index, const Value& weight, const Value& inside) {
    const Exprs& sizes = r_.meta(input_).sizes;
    auto of_points = [&](const Value& v) { return r_.reshape(v, {sizes[0], 1, count_}); };
    const Value at = r_.expand(of_points(index), {sizes[0], sizes[1], count_});
    Value value = r_.call("aten.gather.default", {flat_, 2, at});
    value = r_.where(of_points(inside), value, number(0));
    if (!weight.is_none()) value = mul(value, of_points(weight));
    sum_ = sum_.is_none() ? value : Value(add(sum_, value));
  }

  Rewriter& r_;
  Value input_, grid_;
  DType type_;
  std::size_t spatial_;
  Interpolation interpolation_;
  Padding padding_;
  bool corners_;
  std::vector<std::vector<Tap>> axes_;
  Value flat_, sum_;
  Expr count_ = 1;
};

}  // namespace

Value decompose_grid_sampler(Rewriter& r) { return GridSampler(r).run(); }

}  // namespace coil::passes
