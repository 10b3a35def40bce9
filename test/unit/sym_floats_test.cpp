// Sizes that are made of floats: text, canonical forms, bounds, values and code.
#include <gtest/gtest.h>

#include <cmath>

#include "error_of.h"
#include "frontend/sympy.h"
#include "sym/floats.h"
#include "sym/print.h"

namespace coil::sym {
namespace {

using F = FloatFunction;

struct SymFloats : testing::Test {
  ShapeEnv env;
  Expr s0 = env.add_size("s0", 12, {1, 1000}), s1 = env.add_size("s1", 7, {2, 100});

  Expr read(std::string_view text) {
    return parse(text, [&](std::string_view name) { return *env.context().find(name); });
  }
  Expr scaled(double factor) { return float_call(F::Mul, float_constant(factor), float_call(F::FromInt, s0)); }
  std::int64_t at(Expr e, std::int64_t n, std::int64_t m = 7) {
    return evaluate(e, [&](Expr s) { return s == s0 ? n : m; });
  }
};

TEST_F(SymFloats, TextReadsBackToTheSame) {
  for (const char* text :
       {"TruncToInt(FloatMul(0.3, ToFloat(s0)))", "Max(1, TruncToInt(FloatMul(0.3, ToFloat(s0))))",
        "2*FloorToInt(OpaqueUnaryFn_sqrt(ToFloat(s0))) + 1", "CeilToInt(FloatPow(ToFloat(s0), -0.5))",
        "RoundToInt(FloatAdd(1e+30, ToFloat(s0)))",
        "Ne(FloatLt(FloatMul(0.1, ToFloat(s0)), IntTrueDiv(s0 + 1, s1)), 0)",
        "TruncToInt(FloatMin(3.5, FloatMax(IntTrueDiv(s0, 7), inf)))",
        "CeilToInt(RoundDecimal(FloatMul(0.3, ToFloat(s0)), 1))", "FloorToInt(RoundDecimal(ToFloat(s0), -s1))"})
    EXPECT_EQ(to_string(read(text)), text);
  EXPECT_EQ(to_string(read("TruncToInt(FloatMul(ToFloat(s0), 3.0e-1))")), "TruncToInt(FloatMul(0.3, ToFloat(s0)))");
  EXPECT_EQ(read("TruncToInt(FloatMul(2.5, 3.0))"), Expr(7));
}

TEST_F(SymFloats, FloatsStayAmongFloats) {
  auto refusal = [&](const char* text) { return error_of([&] { read(text); }); };
  for (const char* text :
       {"2 + ToFloat(s0)", "TruncToInt(s0)", "TruncToInt(FloatMul(0.5, s0))", "ToFloat(FloatMul(0.5, 2.0))",
        "TruncToInt(TruncToInt(0.5))", "FloatMul(0.5, 2.0) + s0", "RoundDecimal(0.5, 1)",
        "TruncToInt(RoundDecimal(s0, 1))", "TruncToInt(RoundDecimal(0.5, 1.0))", "TruncToInt((0.5))", "0.5*s0",
        "TruncToInt(FloatMul(0.5)", "TruncToInt(1e999x)"})
    EXPECT_NE(refusal(text).find("cannot read the size expression"), std::string::npos)
        << text << ": " << refusal(text);
  EXPECT_NE(error_of([&] { read("TruncToInt(1e300)"); }).find("does not fit in 64 bits"), std::string::npos);
}

TEST_F(SymFloats, ExactRoundingsAreIntegers) {
  EXPECT_EQ(env.simplify(float_call(F::TruncToInt, scaled(0.75))), floor_div(3 * s0, 4));
  EXPECT_EQ(env.simplify(float_call(F::FloorToInt, scaled(1.5))), floor_div(3 * s0, 2));
  EXPECT_EQ(float_call(F::TruncToInt, float_call(F::FromInt, s0)), s0);
  EXPECT_EQ(float_call(F::CeilToInt, float_call(F::IntTrueDiv, s0, 4)), ceil_div(s0, 4));
  EXPECT_EQ(float_call(F::CeilToInt, float_call(F::Div, scaled(0.5), float_constant(0.25))), 2 * s0);
  EXPECT_EQ(float_call(F::Add, scaled(0.1), float_constant(2)), float_call(F::Add, float_constant(2), scaled(0.1)));
  EXPECT_TRUE(has_float(float_call(F::TruncToInt, scaled(0.3)) + 1));
  EXPECT_FALSE(has_float(floor_div(s0, 3)));
}

/// Integer forms and calls alike have the value of the float arithmetic that they stand for.
TEST_F(SymFloats, ValuesAreThoseOfFloats) {
  const std::pair<F, double (*)(double)> kRoundings[] = {{F::TruncToInt, std::trunc},
                                                         {F::FloorToInt, std::floor},
                                                         {F::CeilToInt, std::ceil},
                                                         {F::RoundToInt, std::nearbyint}};
  for (auto [f, rounded] : kRoundings) {
    for (double factor : {0.75, -0.75, 0.5, -2.5, 1.7, 0.3, 0.1, -0.1, 0.7, 3.0, 0.0009765625, 1e-9})
      for (std::int64_t n = -600; n <= 600; ++n)
        ASSERT_EQ(at(float_call(f, scaled(factor)), n),
                  static_cast<std::int64_t>(rounded(factor * static_cast<double>(n))))
            << factor << "*" << n << ", " << static_cast<int>(f);
    for (std::int64_t m : {1, 2, 3, 4, 6, 7, 10, -3, -4})
      for (std::int64_t n = -100; n <= 100; ++n)
        ASSERT_EQ(at(float_call(f, float_call(F::IntTrueDiv, s0, s1)), n, m),
                  static_cast<std::int64_t>(rounded(static_cast<double>(n) / static_cast<double>(m))))
            << n << "/" << m << ", " << static_cast<int>(f);
  }
  EXPECT_EQ(at(float_call(F::TruncToInt, float_call(F::Mod, float_call(F::FromInt, s0), float_constant(-4))), 7), -1);
  EXPECT_EQ(at(float_call(F::TruncToInt, float_call(F::RoundDecimal, scaled(0.37), -s1)), 999, 1), 370);
  EXPECT_EQ(at(float_call(F::Le, scaled(0.5), float_constant(3.5)), 7), 1);
  EXPECT_EQ(at(float_call(F::Lt, scaled(0.5), float_constant(3.5)), 7), 0);
}

/// As Python 3.11 rounds them.
TEST(RoundDecimal, IsPythons) {
  struct {
    double x;
    std::int64_t digits;
    double rounded;
  } kCases[] = {{2.675, 2, 2.67},
                {0.125, 2, 0.12},
                {0.375, 2, 0.38},
                {1.005, 2, 1.0},
                {-2.5, 0, -2.0},
                {0.5, 0, 0.0},
                {1.5, 0, 2.0},
                {15, -1, 20},
                {25, -1, 20},
                {-35, -1, -40},
                {5, -1, 0},
                {5.0000001, -1, 10},
                {6, -1, 10},
                {49.9, -2, 0},
                {50, -2, 0},
                {50.5, -2, 100},
                {150, -2, 200},
                {250, -2, 200},
                {1234.5678, -2, 1200},
                {1234.5678, 3, 1234.568},
                {1e300, -300, 1e300},
                {1e300, -301, 0},
                {6e300, -301, 1e301},
                {5e-324, 323, 0},
                {5e-324, 324, 5e-324},
                {9.5e22, -23, 1e23},
                {1e23, -23, 1e23},
                {1e23, -24, 0},
                {123456789.123456789, 400, 123456789.123456789},
                {123456789.0, -400, 0},
                {1e16 + 2, 3, 1e16 + 2}};
  for (const auto& c : kCases) EXPECT_EQ(round_decimal(c.x, c.digits), c.rounded) << c.x << ", " << c.digits;
  EXPECT_TRUE(std::signbit(round_decimal(-0.01, 1)) && std::signbit(round_decimal(-3, -1)) &&
              std::isnan(round_decimal(NAN, 1)));
  EXPECT_EQ(round_decimal(-INFINITY, 2), -INFINITY);
}

TEST_F(SymFloats, BoundsHold) {
  EXPECT_EQ(env.bounds(float_call(F::TruncToInt, scaled(0.3))), (Range{0, 300}));
  EXPECT_EQ(env.bounds(float_call(F::CeilToInt, float_call(F::Sqrt, float_call(F::FromInt, s1)))), (Range{2, 10}));
  EXPECT_TRUE(env.statically_known_true(ge(max(1, float_call(F::TruncToInt, scaled(0.3))), 1)));
  const Expr unknown[] = {
      float_call(F::RoundToInt, float_call(F::Log, float_call(F::FromInt, s0))),
      float_call(F::TruncToInt, float_call(F::Div, float_call(F::FromInt, s1), float_call(F::Sin, scaled(1.1))))};
  for (Expr e : unknown) EXPECT_EQ(env.bounds(e), (Range{Range::kMin, Range::kMax}));
  for (double factor : {0.3, -1.7, 12.5})
    for (Expr real : {scaled(factor), float_call(F::Pow, float_call(F::FromInt, s0), float_constant(factor / 8)),
                      float_call(F::Add, scaled(factor), float_constant(2.5)),
                      float_call(F::RoundDecimal, scaled(factor), 1), float_call(F::RoundDecimal, scaled(factor), -2)})
      for (F f : {F::TruncToInt, F::FloorToInt, F::CeilToInt, F::RoundToInt}) {
        const Expr e = float_call(f, real);
        const Range r = env.bounds(e);
        for (std::int64_t n : {1, 2, 3, 10, 99, 512, 999, 1000}) {
          EXPECT_LE(r.low, at(e, n)) << to_string(e);
          EXPECT_GE(r.high, at(e, n)) << to_string(e);
        }
      }
}

TEST_F(SymFloats, TorchWritesThem) {
  auto torch = [&](std::string text) {
    for (std::size_t i; (i = text.find("$")) != text.npos;)
      text.replace(i, 1, "Symbol('s0', positive=True, integer=True)");
    return to_string(frontend::parse_srepr(text, [&](std::string_view name) { return *env.context().find(name); }));
  };
  EXPECT_EQ(torch("Max(Integer(1), TruncToInt(Mul(Float('0.29999999999999999', precision=53), ToFloat($))))"),
            "Max(1, TruncToInt(FloatMul(0.3, ToFloat(s0))))");
  EXPECT_EQ(torch("CeilToInt(FloatTrueDiv(Mul(Integer(-1), Float('0.3', precision=53), ToFloat($)), Float('0.25', "
                  "precision=53)))"),
            "CeilToInt(FloatMul(-1.2, ToFloat(s0)))");
  EXPECT_EQ(torch("TruncToInt(Add(Mul(Float('0.1', precision=53), ToFloat($)), Float('0.5', precision=53)))"),
            "TruncToInt(FloatAdd(0.5, FloatMul(0.1, ToFloat(s0))))");
  EXPECT_EQ(torch("TruncToInt(OpaqueUnaryFn_sqrt(ToFloat($)))"), "TruncToInt(OpaqueUnaryFn_sqrt(ToFloat(s0)))");
  EXPECT_EQ(torch("StrictGreaterThan(Mul(Float('0.3', precision=53), ToFloat($)), Integer(2))"),
            "Ne(FloatLt(2.0, FloatMul(0.3, ToFloat(s0))), 0)");
  EXPECT_EQ(torch("TruncToInt(Max(Float('1.5', precision=53), IntTrueDiv($, Integer(7))))"),
            "TruncToInt(FloatMax(1.5, IntTrueDiv(s0, 7)))");
  EXPECT_EQ(torch("RoundToInt(FloatPow(Float('10000.0', precision=53), IntTrueDiv(Integer(2), $)))"),
            "RoundToInt(FloatPow(10000.0, IntTrueDiv(2, s0)))");
  EXPECT_EQ(torch("TruncToInt(RoundDecimal(Mul(Float('0.37', precision=53), ToFloat($)), Integer(1)))"),
            "TruncToInt(RoundDecimal(FloatMul(0.37, ToFloat(s0)), 1))");
  for (const char* text : {"ToFloat($)", "Add(ToFloat($), Integer(1))", "RoundDecimal(ToFloat($), Integer(1))",
                           "TruncToInt(RoundDecimal(ToFloat($), Float('1.0', precision=53)))",
                           "TruncToInt(Float('half', precision=53))", "FloorDiv(ToFloat($), Integer(2))"})
    EXPECT_NE(error_of([&] { torch(text); }), "no error") << text;
}

TEST_F(SymFloats, Code) {
  const Expr e = 2 * float_call(F::TruncToInt, scaled(0.3)) + s1;
  auto name = [](Expr s) { return std::string(s.name()); };
  EXPECT_EQ(to_python(e, name), "s1 + 2*math.trunc(((0.3) * float(s0)))");
  EXPECT_EQ(
      float_code(Language::Cpp,
                 float_call(F::RoundToInt, float_call(F::Pow, float_constant(-0.5), float_call(F::IntTrueDiv, s0, s1))),
                 name),
      "to_size(std::nearbyint(std::pow((-0x1p-1), (to_float(s0) / to_float(s1)))))");
  const Expr tenths = float_call(F::FloorToInt, float_call(F::RoundDecimal, scaled(0.3), s1));
  EXPECT_EQ(float_code(Language::Cpp, tenths, name),
            "to_size(std::floor(coil_round_decimal(((0x1.3333333333333p-2) * to_float(s0)), int64_t(s1))))");
  EXPECT_EQ(to_python(tenths, name), "math.floor(round(((0.3) * float(s0)), s1))");
  auto given = [&](Expr x) { return x.kind() == Kind::Float ? std::optional<std::string>("t0") : std::nullopt; };
  EXPECT_EQ(to_code(Language::Cuda, e, name, nullptr, IntWidth::Bits64, given), "s1 + 2*t0");
  EXPECT_NE(error_of([&] { to_code(Language::Metal, e, name, nullptr); }).find("is computed before a kernel runs"),
            std::string::npos);
}

}  // namespace
}  // namespace coil::sym
