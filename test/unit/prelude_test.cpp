// The functions that generated kernels call: each against the C library or a plain definition, on every instruction set
// that this machine runs.
#include "codegen/cpp/prelude.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numbers>

#include "kernel_library.h"

namespace coil::codegen {
namespace {

using test::Kernel;
using test::KernelLibrary;

class Prelude : public testing::TestWithParam<std::string> {
 protected:
  Toolchain toolchain = find_toolchain("", GetParam());
  std::string with_prelude(const std::string& kernels) const {
    return prelude(toolchain.lanes, prelude_names(kernels)) + kernels;
  }
};

struct Function {
  const char* name;
  double (*reference)(double);
  double ulps;       ///< the bound that the prelude states
  double slack = 0;  ///< an absolute error that counts as none
};

double digamma(double x) {
  // psi(x) = psi(x + 1) - 1 / x up to 40, then the series in long double.
  if (x == 0) return std::copysign(INFINITY, -x);
  long double r = 0, y = x;
  if (x < 0) {
    long double q = y - std::trunc(y);
    if (q == 0 || std::isinf(x)) return NAN;
    r = -std::numbers::pi_v<long double> / std::tan(std::numbers::pi_v<long double> * q);
    y = 1 - y;
  }
  for (; y < 40; y += 1) r -= 1 / y;
  long double z = 1 / (y * y);
  return static_cast<double>(r + std::log(y) - 0.5L / y - z * (1 / 12.0L - z * (1 / 120.0L - z / 252)));
}

/// By bisection, on erfc where erf is flat.
double erfinv(double y) {
  double a = std::abs(y), low = 0, high = 30;
  if (!(a < 1)) return a == 1 ? std::copysign(INFINITY, y) : NAN;
  if (a < 1e-10) return y * std::sqrt(std::numbers::pi) / 2;
  for (int i = 0; i < 100; ++i) {
    double middle = (low + high) / 2;
    (a < 0.5 ? std::erf(middle) < a : std::erfc(middle) > 1 - a) ? low = middle : high = middle;
  }
  return std::copysign(low, y);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double one_plus_erf(double x) { return std::erfc(-x); }
double one_plus_tanh(double x) { return 2 * sigmoid(2 * x); }

const Function kFunctions[] = {
    {"exp", std::exp, 1.1},
    {"exp2", std::exp2, 1.5},
    {"expm1", std::expm1, 2.0},
    {"log", std::log, 1.0},
    {"coarse_tanh", std::tanh, 6.0},
    {"coarse_erf", std::erf, 15.0},
    {"coarse_exp", std::exp, 128.0},
    {"coarse_sigmoid", sigmoid, 128.0, 3e-39},  // for results in f16 and bf16
    {"coarse_one_plus_erf", one_plus_erf, 1024.0, 3e-38},
    {"coarse_one_plus_tanh", one_plus_tanh, 256.0, 6e-39},
    {"tanh", std::tanh, 2.0},
    {"erf", std::erf, 2.0},
    {"sigmoid", sigmoid, 2.5, 3e-39},  // 0 as soon as exp(-x) overflows, as in eager

    {"sqrt", std::sqrt, 0.5},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 1.5},
    {"log2", std::log2, 2.0},
    {"log10", std::log10, 2.0},
    {"log1p", std::log1p, 2.0},
    {"sin", std::sin, 2.0},
    {"cos", std::cos, 2.0},
    {"tan", std::tan, 2.5},
    {"asin", std::asin, 1.75},
    {"acos", std::acos, 1.25},
    {"atan", std::atan, 1.25},
    {"sinh", std::sinh, 2.5},
    {"cosh", std::cosh, 2.0},
    {"asinh", std::asinh, 2.0},
    {"acosh", std::acosh, 2.0},
    {"atanh", std::atanh, 2.0},
    {"erfc", std::erfc, 4.0},
    {"lgamma", std::lgamma, 8.0, 1e-6},
    {"digamma", digamma, 1.0, 1e-6},
    {"erfinv", erfinv, 1.0},
};

/// |got - want| in units of the last place of an f32 near `want`.
double ulps_between(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isnan(got)) return INFINITY;
  if (static_cast<float>(want) == got)
    return std::isinf(got) ? 0 : std::abs(got - want) / std::ldexp(1.0, std::max(std::ilogb(want), -126) - 23);
  double value = std::isinf(got) ? std::copysign(0x1p128, got) : got;
  return std::abs(value - want) / std::ldexp(1.0, std::max(want == 0 ? -126 : std::ilogb(want), -126) - 23);
}

/// Kernels NAME_vector and NAME_scalar that apply each function to buffer 0.
std::string function_kernels() {
  std::string text;
  for (const Function& f : kFunctions) {
    text += fmt::format(R"(
extern "C" void {0}_vector(void* const* b, const long*, long begin, long end) {{
  for (long i = begin; i < end; i += COIL_L) c_store_f32((f32*)b[1] + i, c_{0}(c_load_f32v((f32*)b[0] + i)));
}}
extern "C" void {0}_scalar(void* const* b, const long*, long begin, long end) {{
  for (long i = begin; i < end; i++) c_store_f32((f32*)b[1] + i, c_{0}(c_load_f32((f32*)b[0] + i)));
}}
)",
                        f.name);
  }
  return text;
}

/// Each function against its bound, by kernels compiled with this toolchain.
void check_functions(const Toolchain& toolchain, const std::string& kernels) {
  KernelLibrary library(toolchain, kernels);
  // Every 19997th bit pattern, the specials and their neighbours.
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 19997)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (float special : {0.0f, 1.0f, 0.9f, 0.5f, 88.72284f, 103.97f, 87.33655f, 0x1p-126f, 0x1p-149f, 127.0f, 128.0f,
                        149.0f, 150.0f, 3.95f, 9.02f, 16.7f, INFINITY, NAN}) {
    for (float v : {special, std::nextafter(special, 1000.0f), std::nextafter(special, -1000.0f)})
      x.insert(x.end(), {v, -v});
  }
  x.resize((x.size() + 15) / 16 * 16);
  std::vector<float> y(x.size());
  void* buffers[] = {x.data(), y.data()};
  for (const Function& f : kFunctions) {
    for (const char* shape : {"vector", "scalar"}) {
      library[fmt::format("{}_{}", f.name, shape)](buffers, nullptr, 0, static_cast<long>(x.size()));
      double worst = 0;
      float at = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        double error = ulps_between(y[i], f.reference(x[i]));
        if (error > worst && !(std::abs(y[i] - f.reference(x[i])) < f.slack)) worst = error, at = x[i];
      }
      EXPECT_LE(worst, f.ulps) << f.name << " (" << shape << ") at " << fmt::format("{:a} = {}", at, at);
      testing::Test::RecordProperty(fmt::format("{}_{}_ulps", f.name, shape), std::to_string(worst));
      if (std::getenv("COIL_PRINT_ULPS"))
        fmt::print("{} {} {}: {:.3f} ulp at {:a}\n", toolchain.isa, f.name, shape, worst, at);
    }
  }
}

TEST_P(Prelude, FunctionsOfF32StayWithinTheirBounds) { check_functions(toolchain, with_prelude(function_kernels())); }

// As what is computed once, at compile time, is compiled: no product and sum become one instruction.
TEST_P(Prelude, FunctionsOfF32StayWithinTheirBoundsWhereLittleIsOptimized) {
  optimize_less(toolchain);
  check_functions(toolchain, with_prelude(function_kernels()));
}

// All 2^32 inputs, minutes for each function: COIL_TEST_SWEEP names the functions, such as "exp,tanh,erf,log,sigmoid".
TEST_P(Prelude, EveryInput) {
  const char* wish = std::getenv("COIL_TEST_SWEEP");
  if (!wish) GTEST_SKIP() << "COIL_TEST_SWEEP is not set";
  std::string wanted = fmt::format(",{},", wish);
  KernelLibrary library(toolchain, with_prelude(function_kernels()));
  std::vector<float> x(1 << 16), y(x.size());
  for (const Function& f : kFunctions) {
    if (wanted.find(fmt::format(",{},", f.name)) == std::string::npos) continue;
    Kernel kernel = library[fmt::format("{}_vector", f.name)];
    double worst = 0;
    float at = 0;
    for (std::uint64_t base = 0; base < (1ull << 32); base += x.size()) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(base + i));
      void* buffers[] = {x.data(), y.data()};
      kernel(buffers, nullptr, 0, static_cast<long>(x.size()));
      for (std::size_t i = 0; i < x.size(); ++i) {
        double want = f.reference(x[i]), error = ulps_between(y[i], want);
        if (error > worst && !(std::abs(y[i] - want) < f.slack)) worst = error, at = x[i];
      }
    }
    EXPECT_LE(worst, f.ulps) << f.name << " at " << fmt::format("{:a}", at);
    fmt::print("{} {}: at most {:.4f} ulp, at {:a}\n", GetParam(), f.name, worst, at);
  }
}

TEST_P(Prelude, PowersKeepTheirSpecialCases) {
  KernelLibrary library(toolchain, with_prelude(R"(
extern "C" void vector(void* const* b, const long*, long begin, long end) {
  for (long i = begin; i < end; i += COIL_L)
    c_store_f32((f32*)b[2] + i, c_pow(c_load_f32v((f32*)b[0] + i), c_load_f32v((f32*)b[1] + i)));
}
extern "C" void scalar(void* const* b, const long*, long begin, long end) {
  for (long i = begin; i < end; i++)
    c_store_f32((f32*)b[2] + i, c_pow(c_load_f32((f32*)b[0] + i), c_load_f32((f32*)b[1] + i)));
}
)"));
  std::vector<float> x, y,
      values{0,     1,     2,     3,         4,         0.5f,    1.5f,    0.99999994f, 1.0000001f, 10,     33,
             1e-3f, 1e10f, 1e38f, 0x1p-126f, 0x1p-149f, 0x1p23f, 0x1p24f, 16777213,    0x1p25f,    127.5f, INFINITY};
  for (std::size_t i = 0, n = values.size(); i < n; ++i) values.push_back(-values[i]);
  values.push_back(NAN);
  for (float a : values)
    for (float b : values) x.push_back(a), y.push_back(b);
  for (std::uint32_t i = 0; i < 200000; ++i) {
    x.push_back(std::bit_cast<float>(i * 2654435761u));
    y.push_back(std::bit_cast<float>((0x3a000000u + (i * 40503u) % 0x0a000000u) | (i & 1) << 31));
  }
  x.resize((x.size() + 15) / 16 * 16), y.resize(x.size());
  std::vector<float> z(x.size());
  for (const char* shape : {"vector", "scalar"}) {
    void* buffers[] = {x.data(), y.data(), z.data()};
    library[shape](buffers, nullptr, 0, static_cast<long>(x.size()));
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      double want = std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]));
      double error = ulps_between(z[i], want);
      EXPECT_LE(error, 1.0) << shape << fmt::format(": {:a} to the {:a} is {:a}, not {:a}", x[i], y[i], z[i], want);
      EXPECT_TRUE(want != 0 || std::signbit(z[i]) == std::signbit(want)) << shape << x[i] << " " << y[i];
      worst = std::max(worst, error);
      if (error > 1.0 && HasFailure()) break;
    }
    if (std::getenv("COIL_PRINT_ULPS")) fmt::print("{} pow {}: {:.3f} ulp\n", GetParam(), shape, worst);
  }
}

TEST_P(Prelude, QuotientsByOneDivisor) {
  KernelLibrary library(toolchain, with_prelude(R"(
extern "C" void exact(void* const* b, const long*, long begin, long end) {
  for (long i = begin; i < end; i += COIL_L)
    c_store_f32((f32*)b[2] + i, c_div_by(c_load_f32v((f32*)b[0] + i), c_load_f32((f32*)b[1])));
}
extern "C" void coarse(void* const* b, const long*, long begin, long end) {
  for (long i = begin; i < end; i += COIL_L)
    c_store_f32((f32*)b[2] + i, c_coarse_div_by(c_load_f32v((f32*)b[0] + i), c_load_f32((f32*)b[1])));
}
)"));
  std::vector<float> x{0, 1, 2, 3, 7, 0x1.fffffep127f, 0x1p-126f, 0x1p-149f, INFINITY, NAN};
  for (std::size_t i = 0, n = x.size(); i < n; ++i) x.push_back(-x[i]);
  for (std::uint32_t i = 0; i < 100000; ++i) x.push_back(std::bit_cast<float>(i * 2654435761u));
  x.resize((x.size() + 15) / 16 * 16);
  std::vector<float> z(x.size());
  for (float y : {1.0f, 3.0f, -7.0f, 0.1f, 1e-3f, 4096.0f, 0x1.fffffep3f, 1e18f, 1e-18f, 1e30f, 1e-30f, 0x1p-149f,
                  0x1.fffffep127f, 0.0f, -0.0f, INFINITY, NAN})
    for (const auto& [name, ulps] : {std::pair{"exact", 0.5}, std::pair{"coarse", 1.5}}) {
      void* buffers[] = {x.data(), &y, z.data()};
      library[name](buffers, nullptr, 0, static_cast<long>(x.size()));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double want = static_cast<double>(x[i]) / static_cast<double>(y);
        const bool small = std::abs(want) < 0x1p-100 || std::abs(x[i]) < 0x1p-100f;  // residuals are rounded there
        ASSERT_LE(ulps_between(z[i], want), small ? 1.5 : ulps)
            << name << fmt::format(": {:a} / {:a} is {:a}", x[i], y, z[i]);
        ASSERT_TRUE(want != want || std::signbit(z[i]) == std::signbit(want))
            << name << fmt::format(": {:a} / {:a} is {:a}", x[i], y, z[i]);
      }
    }
}

/// The f32 nearest to x among those with `drop` fewer bits below, ties to even, by arithmetic on integers.
std::uint16_t bf16_bits(float x) {
  std::uint64_t u = std::bit_cast<std::uint32_t>(x), kept = u >> 16, rest = u & 0xffff;
  if (std::isnan(x)) return 0x7fc0;
  return static_cast<std::uint16_t>(kept + (rest > 0x8000 || (rest == 0x8000 && (kept & 1))));
}

double f16_value(std::uint16_t h) {
  int e = (h >> 10) & 31, m = h & 1023;
  double v = e == 31 ? (m ? NAN : INFINITY) : e ? std::ldexp(1024 + m, e - 25) : std::ldexp(m, -24);
  return h & 0x8000 ? -v : v;
}

/// By search among the 31744 finite values: the nearest, ties to the even pattern; infinity from half a step past the
/// largest.
std::uint16_t f16_bits(float x) {
  std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  double v = std::abs(x);
  if (v >= 65520) return sign | 0x7c00;
  int low = 0, high = 0x7bff;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (f16_value(static_cast<std::uint16_t>(middle)) <= v)
      low = middle;
    else
      high = middle - 1;
  }
  double below = v - f16_value(static_cast<std::uint16_t>(low)),
         above = (low == 0x7bff ? 65536 : f16_value(static_cast<std::uint16_t>(low + 1))) - v;
  return static_cast<std::uint16_t>(sign | (above < below || (above == below && (low & 1)) ? low + 1 : low));
}

TEST_P(Prelude, HalfTypesLoadExactlyAndStoreToNearestEven) {
  std::string text;
  for (const char* d : {"f16", "bf16"}) {
    text += fmt::format(R"(
extern "C" void {0}_load(void* const* b, const long*, long begin, long end) {{
  for (long i = begin; i < end; i += COIL_L) c_store_f32((f32*)b[1] + i, c_load_{0}v((u16*)b[0] + i));
}}
extern "C" void {0}_load_scalar(void* const* b, const long*, long begin, long end) {{
  for (long i = begin; i < end; i++) c_store_f32((f32*)b[1] + i, c_load_{0}((u16*)b[0] + i));
}}
extern "C" void {0}_store(void* const* b, const long*, long begin, long end) {{
  for (long i = begin; i < end; i += COIL_L) c_store_{0}((u16*)b[1] + i, c_load_f32v((f32*)b[0] + i));
}}
extern "C" void {0}_store_scalar(void* const* b, const long*, long begin, long end) {{
  for (long i = begin; i < end; i++) c_store_{0}((u16*)b[1] + i, c_load_f32((f32*)b[0] + i));
}}
)",
                        d);
  }
  KernelLibrary library(toolchain, with_prelude(text));
  std::vector<std::uint16_t> half(65536);
  std::vector<float> single(65536);
  for (std::size_t i = 0; i < half.size(); ++i) half[i] = static_cast<std::uint16_t>(i);
  for (bool f16 : {true, false}) {
    for (const char* shape : {"", "_scalar"}) {
      void* buffers[] = {half.data(), single.data()};
      library[fmt::format("{}_load{}", f16 ? "f16" : "bf16", shape)](buffers, nullptr, 0, 65536);
      for (std::size_t i = 0; i < half.size(); ++i) {
        float want = f16 ? static_cast<float>(f16_value(half[i]))
                         : std::bit_cast<float>(static_cast<std::uint32_t>(half[i]) << 16);
        if (std::isnan(want))
          ASSERT_TRUE(std::isnan(single[i])) << i;
        else
          ASSERT_EQ(std::bit_cast<std::uint32_t>(want), std::bit_cast<std::uint32_t>(single[i])) << i;
      }
    }
  }
  // Values on, beside and half way between representable ones, for either type; and a stride through all of f32.
  std::vector<float> x;
  for (std::uint32_t i = 0; i < 0x7f80; ++i) {
    for (std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      x.push_back(std::bit_cast<float>(i << 16 | low));
  }
  for (int i = 0; i < 0x7c00; ++i) {
    double a = f16_value(static_cast<std::uint16_t>(i)),
           b = i == 0x7bff ? 65536 : f16_value(static_cast<std::uint16_t>(i + 1));
    float tie = static_cast<float>((a + b) / 2);
    x.insert(x.end(), {static_cast<float>(a), tie, std::nextafter(tie, 0.0f), std::nextafter(tie, 1e9f)});
  }
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 49999)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  std::size_t positive = x.size();
  for (std::size_t i = 0; i < positive; ++i) x.push_back(-x[i]);
  x.resize((x.size() + 15) / 16 * 16);
  std::vector<std::uint16_t> out(x.size());
  for (bool f16 : {true, false}) {
    for (const char* shape : {"", "_scalar"}) {
      void* buffers[] = {x.data(), out.data()};
      library[fmt::format("{}_store{}", f16 ? "f16" : "bf16", shape)](buffers, nullptr, 0, static_cast<long>(x.size()));
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (std::isnan(x[i]))
          ASSERT_TRUE(f16 ? std::isnan(f16_value(out[i])) : (out[i] & 0x7fff) > 0x7f80) << fmt::format("{:a}", x[i]);
        else
          ASSERT_EQ(out[i], f16 ? f16_bits(x[i]) : bf16_bits(x[i]))
              << (f16 ? "f16 " : "bf16 ") << shape << fmt::format(" of {:a}", x[i]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Prelude, testing::ValuesIn(test::tested_isas()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace coil::codegen
