// Each dimension is a product with a matrix of weights, most of them 0: row i holds the filter around the place in the
// input where output i lies.
#include "passes/graph/decompositions/antialiasing.h"

namespace coil::passes {

namespace {

enum class Filter : std::uint8_t { Triangle, Cubic, Lanczos };

class Antialiased {
 public:
  explicit Antialiased(Rewriter& r) : r_(r), type_(compute_dtype(r.dtype(r["self"]))) {
    const std::string& target = r.node->target;
    filter_ = target.find("bilinear") != std::string::npos  ? Filter::Triangle
              : target.find("bicubic") != std::string::npos ? Filter::Cubic
                                                            : Filter::Lanczos;
  }

  Value run() {
    if (!is_floating(r_.dtype(r_["self"]))) r_.refuse("is compiled for floating images");
    const Value x = r_.to(r_["self"], type_);
    const Exprs in = r_.meta(x).sizes, out = r_.result().sizes;
    // Columns first, as eager.
    const Value columns = r_.call("aten.matmul.default", {x, r_.permute(weights(in[3], out[3], "scales_w"), {1, 0})});
    return r_.to(r_.call("aten.matmul.default", {weights(in[2], out[2], "scales_h"), columns}), r_.result().dtype);
  }

 private:
  Value number(const Value& n) { return r_.full({}, n, type_, r_.device()); }
  Value compare(const char* how, const Value& a, const Value& b) { return r_.call(how, {a, b}); }
  Value unary(const char* target, const Value& x) { return r_.call(target, {x}); }

  /// Input elements per output element.
  Value scale(const Expr& in, const Expr& out, std::string_view given) {
    if (r_.flag("align_corners"))
      return out.is_constant(1) ? number(0) : Value(r_.div(number(in - 1), number(out - 1)));
    if (r_.has(given) && r_.real(given) > 0) return number(1.0 / r_.real(given));
    return r_.div(number(in), number(out));
  }

  /// [out, in]
  Value weights(const Expr& in, const Expr& out, std::string_view given) {
    const Value step = scale(in, out, given),
                reach = r_.call("aten.clamp_min.default", {step, 1});  // the filter widens only where the image shrinks
    const Value support = r_.mul(reach, radius());
    const Value center = r_.unsqueeze(r_.mul(r_.add(r_.iota(out, type_), 0.5), step), 1), place = r_.iota(in, type_);
    auto whole = [&](const Value& v) { return unary("aten.trunc.default", r_.add(v, 0.5)); };
    const Value begin = r_.call("aten.clamp_min.default", {whole(r_.sub(center, support)), 0}),
                end = whole(r_.add(center, support));
    const Value inside = r_.call("aten.logical_and.default",
                                 {compare("aten.ge.Tensor", place, begin), compare("aten.lt.Tensor", place, end)});
    const Value distance = r_.div(r_.add(r_.sub(place, center), 0.5), reach);
    const Value weight = r_.where(inside, filtered(unary("aten.abs.default", distance)), number(0));
    return r_.div(weight, r_.sum(weight, {1}, true));
  }

  double radius() const { return filter_ == Filter::Triangle ? 1 : filter_ == Filter::Cubic ? 2 : 3; }

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
        constexpr double a = -0.5;
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
};

}  // namespace

Value decompose_antialiased(Rewriter& r) { return Antialiased(r).run(); }

}  // namespace coil::passes
