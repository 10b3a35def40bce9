#include "sym/floats.h"

#include <cmath>

#include "sym/node.h"

namespace coil::sym {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_call(Expr e, FloatFunction f) { return e.kind() == Kind::Float && float_function(e) == f; }

bool is_rounding(FloatFunction f) {
  return f == FloatFunction::TruncToInt || f == FloatFunction::FloorToInt || f == FloatFunction::CeilToInt ||
         f == FloatFunction::RoundToInt;
}

bool is_power_of_two(double x) {
  int exponent = 0;
  return std::isnormal(x) && std::fabs(std::frexp(x, &exponent)) == 0.5;
}

/// numerator/denominator rounded to an integer.
Expr rounded(FloatFunction f, Expr numerator, Expr denominator) {
  switch (f) {
    case FloatFunction::FloorToInt: return floor_div(numerator, denominator);
    case FloatFunction::CeilToInt: return ceil_div(numerator, denominator);
    case FloatFunction::TruncToInt:
      return where(ge(numerator * denominator, 0), floor_div(numerator, denominator), ceil_div(numerator, denominator));
    default: break;
  }
  // Half goes to the even one of two.
  const Expr twice = 2 * denominator, nearest = floor_div(2 * numerator + denominator, twice);
  const Expr half = eq(mod(2 * numerator + denominator, twice), 0);
  return where(logical_and(half, eq(mod(nearest, 2), 1)), nearest - 1, nearest);
}

/// A product with a constant of few bits is exact, and so is its rounding.
std::optional<Expr> rounded_product(FloatFunction f, Expr product) {
  if (!is_call(product, FloatFunction::Mul)) return std::nullopt;
  const auto o = float_operands(product);
  if (!o[0].is_constant() || !is_call(o[1], FloatFunction::FromInt)) return std::nullopt;
  double factor = float_of_bits(*o[0].constant());
  std::int64_t denominator = 1;
  while (denominator < 1024 && factor != std::trunc(factor)) factor *= 2, denominator *= 2;
  if (factor != std::trunc(factor) || std::fabs(factor) > 1024) return std::nullopt;
  return rounded(f, Expr(static_cast<std::int64_t>(factor)) * float_operands(o[1])[0], denominator);
}

std::optional<Expr> simplified(FloatFunction f, Expr a, Expr b) {
  if (is_rounding(f)) {
    if (is_call(a, FloatFunction::FromInt)) return float_operands(a)[0];
    if (is_call(a, FloatFunction::IntTrueDiv)) return rounded(f, float_operands(a)[0], float_operands(a)[1]);
    return rounded_product(f, a);
  }
  if (f == FloatFunction::Mul && a.is_constant()) {
    const double x = float_of_bits(*a.constant());
    if (x == 1) return b;
    if (is_call(b, FloatFunction::Mul) && float_operands(b)[0].is_constant()) {
      const double y = float_of_bits(*float_operands(b)[0].constant());
      if ((is_power_of_two(x) || is_power_of_two(y)) && std::isnormal(x * y))
        return float_call(f, float_constant(x * y), float_operands(b)[1]);
    }
  }
  if (f == FloatFunction::Div && b.is_constant())
    if (const double y = float_of_bits(*b.constant()); is_power_of_two(y) && std::isnormal(1 / y))
      return float_call(FloatFunction::Mul, float_constant(1 / y), a);
  return std::nullopt;
}

struct Reals {
  double low = -kInfinity, high = kInfinity;
};

Reals reals(Range r) {
  return {r.low == Range::kMin ? -kInfinity : static_cast<double>(r.low),
          r.high == Range::kMax ? kInfinity : static_cast<double>(r.high)};
}

/// Over the corners of two ranges; unbounded where one of them has no value.
template <class F>
Reals corners(Reals a, Reals b, F&& f) {
  Reals r{kInfinity, -kInfinity};
  for (double x : {a.low, a.high})
    for (double y : {b.low, b.high}) {
      const double v = f(x, y);
      if (std::isnan(v)) return {};
      r = {std::min(r.low, v), std::max(r.high, v)};
    }
  return r;
}

/// What libraries may be off by.
Reals widened(Reals r) { return {std::nextafter(r.low, -kInfinity), std::nextafter(r.high, kInfinity)}; }

Reals bounds(Expr e, const std::function<Range(Expr)>& interval) {
  if (auto c = e.constant()) {
    const double x = float_of_bits(*c);
    return std::isnan(x) ? Reals{} : Reals{x, x};
  }
  const auto o = float_operands(e);
  auto real = [&](std::size_t k) { return bounds(o[k], interval); };
  switch (float_function(e)) {
    case FloatFunction::FromInt: return reals(interval(o[0]));
    case FloatFunction::IntTrueDiv: {
      const Reals b = reals(interval(o[1]));
      return b.low > 0 || b.high < 0 ? corners(
                                           reals(interval(o[0])), b, [](double x, double y) { return x / y; })
                                     : Reals{};
    }
    case FloatFunction::Add: return corners(real(0), real(1), [](double x, double y) { return x + y; });
    case FloatFunction::Mul:
      return corners(real(0), real(1), [](double x, double y) { return x == 0 || y == 0 ? 0 : x * y; });
    case FloatFunction::Div: {
      const Reals b = real(1);
      return b.low > 0 || b.high < 0 ? corners(real(0), b, [](double x, double y) { return x / y; }) : Reals{};
    }
    case FloatFunction::Min: return {std::min(real(0).low, real(1).low), std::min(real(0).high, real(1).high)};
    case FloatFunction::Max: return {std::max(real(0).low, real(1).low), std::max(real(0).high, real(1).high)};
    case FloatFunction::Floor: return {std::floor(real(0).low), std::floor(real(0).high)};
    case FloatFunction::RoundDecimal: {
      const auto digits = o[1].constant();
      if (!digits) return {};
      const Reals a = real(0);
      return {round_decimal(a.low, *digits), round_decimal(a.high, *digits)};
    }
    case FloatFunction::Sqrt: {
      const Reals a = real(0);
      return a.low >= 0 ? Reals{std::sqrt(a.low), std::sqrt(a.high)} : Reals{};
    }
    case FloatFunction::Log2: {
      const Reals a = real(0);
      return a.low > 0 ? widened({std::log2(a.low), std::log2(a.high)}) : Reals{};
    }
    case FloatFunction::Pow: {
      const Reals a = real(0), b = real(1);
      return a.low > 0 ? widened(corners(a, b, [](double x, double y) { return std::pow(x, y); })) : Reals{};
    }
    default: return {};
  }
}

std::int64_t bound(double x, std::int64_t none) { return std::fabs(x) < 0x1p62 ? static_cast<std::int64_t>(x) : none; }

}  // namespace

Expr float_call(FloatFunction f, Expr a, Expr b) {
  const bool two = signature_of(f).takes.size() == 2;
  if (a.is_constant() && (!two || b.is_constant()))
    return apply_float_function(f, *a.constant(), two ? *b.constant() : 0);
  if ((f == FloatFunction::Add || f == FloatFunction::Mul) && before(b, a)) std::swap(a, b);
  if ((f == FloatFunction::OfBits && is_call(a, FloatFunction::ToBits)) ||
      (f == FloatFunction::ToBits && is_call(a, FloatFunction::OfBits)))
    return float_operands(a)[0];
  if (auto simpler = simplified(f, a, b)) return *simpler;
  const Expr operands[] = {static_cast<int>(f), a, b};
  return intern(Kind::Float, std::span(operands).first(two ? 3 : 2));
}

FloatFunction float_function(Expr call) { return static_cast<FloatFunction>(*call.operands()[0].constant()); }
std::span<const Expr> float_operands(Expr call) { return call.operands().subspan(1); }
bool is_float(Expr e) { return e.kind() == Kind::Float && signature_of(float_function(e)).gives == 'f'; }

Range float_interval(Expr call, const std::function<Range(Expr)>& interval) {
  const FloatFunction f = float_function(call);
  if (!is_rounding(f)) return signature_of(f).gives == 'i' ? Range{0, 1} : Range{};
  const Reals r = bounds(float_operands(call)[0], interval);
  auto integer = [&](double x) {
    switch (f) {
      case FloatFunction::TruncToInt: return std::trunc(x);
      case FloatFunction::FloorToInt: return std::floor(x);
      case FloatFunction::CeilToInt: return std::ceil(x);
      default: return std::nearbyint(x);
    }
  };
  return {bound(integer(r.low), Range::kMin), bound(integer(r.high), Range::kMax)};
}

bool has_float(Expr e) {
  bool found = false;
  rewrite(e, [&](Expr x) -> std::optional<Expr> {
    found = found || x.kind() == Kind::Float;
    return found ? std::optional(x) : std::nullopt;
  });
  return found;
}

std::string float_text(double x) {
  std::string text = fmt::format("{}", x);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

}  // namespace coil::sym
