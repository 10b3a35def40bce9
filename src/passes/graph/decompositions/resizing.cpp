// Images of floats: each dimension is a product with a matrix of weights, most of them 0: row i holds the filter around
// the place in the input where output i lies. Images of bytes: eager's kernels of a CPU weigh them by integers, and
// round each dimension to bytes.
#include "passes/graph/decompositions/resizing.h"

#include <cmath>

namespace coil::passes {

namespace {

enum class Filter : std::uint8_t { Triangle, Cubic, Lanczos };

Filter filter_of(const std::string& target) {
  return target.find("bilinear") != std::string::npos  ? Filter::Triangle
         : target.find("bicubic") != std::string::npos ? Filter::Cubic
                                                       : Filter::Lanczos;
}

/// What weighs an image's elements.
class Resizing {
 public:
  Resizing(Rewriter& r, DType type)
      : r_(r),
        type_(type),
        filter_(filter_of(r.node->target)),
        widens_(r.node->target.find("_aa.") != std::string::npos) {}

 protected:
  Value number(const Value& n) { return r_.full({}, n, type_, r_.device()); }
  Value compare(const char* how, const Value& a, const Value& b) { return r_.call(how, {a, b}); }
  Value unary(const char* target, const Value& x) { return r_.call(target, {x}); }

  Value truncated_half_up(const Value& v) { return unary("aten.trunc.default", r_.add(v, 0.5)); }

  /// Input elements per output element.
  Value scale(const Expr& in, const Expr& out, std::string_view given) {
    if (r_.flag("align_corners")) {  // 0 to one place
      const Value steps = number(out - 1), one = r_.call("aten.clamp.default", {steps, 0, 1});
      return r_.mul(r_.div(number(in - 1), r_.call("aten.clamp_min.default", {steps, 1})), one);
    }
    if (r_.has(given) && r_.real(given) > 0) return number(1.0 / r_.real(given));
    return r_.div(number(in), number(out));
  }

  std::int64_t radius() const { return filter_ == Filter::Triangle ? 1 : filter_ == Filter::Cubic ? 2 : 3; }

  /// Of each output's place the middle among the inputs, and how far the filter reaches for one of radius 1: [out, 1],
  /// []. It widens only where the image shrinks.
  Value center(const Value& step, const Expr& out) {
    return r_.unsqueeze(r_.mul(r_.add(r_.iota(out, type_), 0.5), step), 1);
  }
  Value reach(const Value& step) { return r_.call("aten.clamp_min.default", {step, 1}); }

  /// The filter at a distance, 0 from its radius on.
  Value filtered(const Value& x) {
    auto polynomial = [&](std::initializer_list<double> coefficients) {
      Value made;
      for (double c : coefficients) made = made.is_none() ? number(c) : Value(r_.add(r_.mul(made, x), c));
      return made;
    };
    auto below = [&](double limit, const Value& yes, const Value& no) {
      return r_.where(compare("aten.lt.Scalar", x, limit), yes, no);
    };
    switch (filter_) {
      case Filter::Triangle: return below(1, polynomial({-1, 1}), number(0));
      case Filter::Cubic: {
        const double a = widens_ ? -0.5 : -0.75;
        return below(1, polynomial({a + 2, -(a + 3), 0, 1}),
                     below(2, polynomial({a, -5 * a, 8 * a, -4 * a}), number(0)));
      }
      case Filter::Lanczos:
        return below(3, r_.mul(unary("aten.sinc.default", x), unary("aten.sinc.default", r_.div(x, 3.0))), number(0));
    }
    return {};
  }

  Rewriter& r_;
  DType type_;
  Filter filter_;
  bool widens_;
};

class Antialiased : Resizing {
 public:
  explicit Antialiased(Rewriter& r) : Resizing(r, compute_dtype(r.dtype(r["self"]))) {}

  Value run() {
    if (!is_floating(r_.dtype(r_["self"]))) r_.refuse("is compiled for floating images, and for bytes on a CPU");
    const Value x = r_.to(r_["self"], type_);
    const Exprs in = r_.meta(x).sizes, out = r_.result().sizes;
    // Columns first, as eager.
    const Value columns = r_.call("aten.matmul.default", {x, r_.permute(weights(in[3], out[3], "scales_w"), {1, 0})});
    return r_.to(r_.call("aten.matmul.default", {weights(in[2], out[2], "scales_h"), columns}), r_.result().dtype);
  }

 private:
  /// [out, in]
  Value weights(const Expr& in, const Expr& out, std::string_view given) {
    const Value step = scale(in, out, given), wide = reach(step), support = r_.mul(wide, radius()),
                middle = center(step, out), place = r_.iota(in, type_);
    const Value begin = r_.call("aten.clamp_min.default", {truncated_half_up(r_.sub(middle, support)), 0}),
                end = truncated_half_up(r_.add(middle, support));
    const Value inside = r_.call("aten.logical_and.default",
                                 {compare("aten.ge.Tensor", place, begin), compare("aten.lt.Tensor", place, end)});
    const Value distance = r_.div(r_.add(r_.sub(place, middle), 0.5), wide);
    const Value weight = r_.where(inside, filtered(unary("aten.abs.default", distance)), number(0));
    return r_.div(weight, r_.sum(weight, {1}, true));
  }
};

/// Resizes bytes: each output is a sum over a window of inputs, weighed by integers.
class Bytes : Resizing {
 public:
  explicit Bytes(Rewriter& r) : Resizing(r, DType::F64) {}

  Value run() { return along(along(r_["self"], 3, "scales_w"), 2, "scales_h"); }

 private:
  /// For each output, where its inputs lie, and their weights, [out, width].
  struct Window {
    Value places, weights;
  };

  Value along(const Value& x, std::size_t dim, std::string_view given) {
    const Expr in = r_.meta(x).sizes[dim], out = r_.result().sizes[dim];
    const Window w = widens_ ? widened(in, out, given) : plain(in, out, given);
    const Value bits = precision(w.weights);
    Value weights = r_.to(rounded(r_.mul(w.weights, r_.to(power(bits), type_))), DType::I32);
    Values index(dim + 1, None{});
    index[dim] = r_.to(w.places, DType::I64);
    if (dim == 2) weights = r_.unsqueeze(weights, -1);  // columns are behind the window
    const Value read = r_.to(r_.call("aten.index.Tensor", {x, index}), DType::I32);
    const Value sum = r_.call("aten.sum.dim_IntList", {r_.mul(read, weights), dims_value({static_cast<int>(dim) + 1})},
                              {{"dtype", DType::I32}});
    const Value half = r_.call("aten.bitwise_right_shift.Tensor_Scalar", {power(bits), 1});
    const Value whole = r_.call("aten.bitwise_right_shift.Tensor", {r_.add(sum, half), bits});
    return r_.to(r_.call("aten.clamp.default", {whole, 0, 255}), DType::U8);
  }

  /// 2 to a power, as integers.
  Value power(const Value& bits) {
    return r_.call("aten.bitwise_left_shift.Tensor", {r_.full({}, 1, DType::I32, r_.device()), bits});
  }

  /// How many bits of weights are kept: the most, up to 22, with which the largest weight has 15.
  Value precision(const Value& weights) {
    const Value most = r_.call("aten.amax.default", {weights}),
                doubled = r_.to(power(r_.add(r_.iota(22, DType::I32), 1)), type_);
    const Value fits = r_.call("aten.lt.Scalar", {r_.add(r_.mul(doubled, most), 0.5), 1 << 15});
    return r_.call("aten.sum.dim_IntList", {fits, dims_value({0})}, {{"dtype", DType::I32}});
  }

  /// Rounds to the nearest integer, halves away from 0.
  Value rounded(const Value& x) {
    const Value half = r_.where(compare("aten.ge.Scalar", x, 0), number(0.5), number(-0.5));
    return unary("aten.trunc.default", r_.add(x, half));
  }

  Window widened(const Expr& in, const Expr& out, std::string_view given) {
    const Value step = scale(in, out, given), wide = reach(step), support = r_.mul(wide, radius()),
                middle = center(step, out);
    const Value begin = r_.call("aten.clamp_min.default", {truncated_half_up(r_.sub(middle, support)), 0}),
                end = r_.call("aten.minimum.default", {truncated_half_up(r_.add(middle, support)), number(in)});
    const Value places = r_.add(begin, r_.iota(width(in, out, given), type_));
    const Value distance = r_.div(r_.add(r_.sub(places, middle), 0.5), wide);
    const Value weights =
        r_.where(compare("aten.lt.Tensor", places, end), filtered(unary("aten.abs.default", distance)), number(0));
    return {inside(places, in), r_.div(weights, r_.sum(weights, {1}, true))};
  }

  /// The most inputs that an output has: all, where sizes are free.
  Expr width(const Expr& in, const Expr& out, std::string_view given) {
    if (!in.constant() || !out.constant()) return in;
    const auto n = static_cast<double>(*in.constant()), m = static_cast<double>(*out.constant());
    double step = r_.has(given) && r_.real(given) > 0 ? 1 / r_.real(given) : n / m;
    if (r_.flag("align_corners")) step = m > 1 ? (n - 1) / (m - 1) : 0;
    const double most = 2 * std::ceil(static_cast<double>(radius()) * std::max(step, 1.0)) + 1;
    return static_cast<std::int64_t>(std::min(most, n));
  }

  Window plain(const Expr& in, const Expr& out, std::string_view given) {
    const Value step = scale(in, out, given), at = position(step, out), last = number(in - 1);
    Value base = unary("aten.floor.default", at);
    if (filter_ == Filter::Triangle) base = r_.call("aten.minimum.default", {base, last});
    const Value fraction = r_.call("aten.clamp.default", {r_.sub(at, base), 0, 1});
    const Value offsets = r_.add(r_.iota(2 * radius(), type_), 1 - radius()),
                places = r_.add(r_.unsqueeze(base, 1), offsets);
    const Value weights = filtered(unary("aten.abs.default", r_.sub(offsets, r_.unsqueeze(fraction, 1))));
    return {inside(places, in), at_edges(weights, places, last)};
  }

  Value position(const Value& step, const Expr& out) {
    const Value places = r_.iota(out, type_);
    if (r_.flag("align_corners")) return r_.mul(places, step);
    const Value at = r_.sub(r_.mul(r_.add(places, 0.5), step), 0.5);
    return filter_ == Filter::Triangle ? r_.call("aten.clamp_min.default", {at, 0}) : at;
  }

  /// Weights of what lies outside go to the element at that end.
  Value at_edges(const Value& weights, const Value& places, const Value& last) {
    const Value before = compare("aten.lt.Scalar", places, 0), behind = compare("aten.gt.Tensor", places, last);
    const Value first = r_.sum(r_.where(before, weights, number(0)), {1}, true),
                end = r_.sum(r_.where(behind, weights, number(0)), {1}, true);
    const Value with_first = r_.where(compare("aten.eq.Scalar", places, 0), r_.add(weights, first), weights);
    const Value with_both = r_.where(compare("aten.eq.Tensor", places, last), r_.add(with_first, end), with_first);
    return r_.where(r_.call("aten.logical_or.default", {before, behind}), number(0), with_both);
  }

  Value inside(const Value& places, const Expr& in) {
    return r_.call("aten.minimum.default", {r_.call("aten.clamp_min.default", {places, 0}), number(in - 1)});
  }
};

bool is_of_bytes(Rewriter& r) { return r.dtype(r["self"]) == DType::U8 && r.device().is_host(); }

}  // namespace

Value decompose_antialiased(Rewriter& r) { return is_of_bytes(r) ? Bytes(r).run() : Antialiased(r).run(); }

Value decompose_resized(Rewriter& r) { return is_of_bytes(r) ? Bytes(r).run() : Value(None{}); }

}  // namespace coil::passes
