// The functions that generated kernels call: each against the C library or a plain definition, on every instruction set that this machine runs.
#include "codegen/cpp/prelude.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "kernel_library.h"

namespace coil::codegen {
namespace {

using test::Kernel;
using test::KernelLibrary;

class Prelude : public testing::TestWithParam<std::string> {
 protected:
  Toolchain toolchain = find_toolchain("", GetParam());
  std::string with_prelude(const std::string& kernels) const { return prelude(toolchain.lanes, prelude_names(kernels)) + kernels; }
};

struct Function {
  const char* name;
  double (*reference)(double);
  double ulps;      ///< the bound that the prelude states
  double slack = 0;  ///< an absolute error that counts as none
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

const Function kFunctions[] = {
    {"exp", std::exp, 1.0},   {"exp2", std::exp2, 1.0}, {"expm1", std::expm1, 2.0}, {"log", std::log, 1.0},
    {"tanh", std::tanh, 2.0}, {"erf", std::erf, 2.0},   {"sigmoid", sigmoid, 2.0, 3e-39},  // 0 as soon as exp(-x) overflows, as in eager
   
    {"sqrt", std::sqrt, 0.5}, {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 1.5},
};

/// |got - want| in units of the last place of an f32 near `want`.
double ulps_between(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isnan(got)) return INFINITY;
  if (static_cast<float>(want) == got) return std::isinf(got) ? 0 : std::abs(got - want) / std::ldexp(1.0, std::max(std::ilogb(want), -126) - 23);
  double value = std::isinf(got) ? std::copysign(0x1p128, got) : got;
  return std::abs(value - want) / std::ldexp(1.0, std::max(want == 0 ? -126 : std::ilogb(want), -126) - 23);
}

TEST_P(Prelude, FunctionsOfF32StayWithinTheirBounds) {
  std::string text;
  for (const Function& f : kFunctions) {
    text += fmt::format(R"(
extern "C" void {0}_vector(void* const* b, const long*, long begin, long end) {{
  for (long i = begin; i < end; i += COIL_L) c_store_f32((f32*)b[1] + i, c_{0}(c_load_f32v((f32*)b[0] + i)));
}}
extern "C" void {0}_scalar(void* const* b, const long*, long begin, long end) {{
  for (long i = begin; i < end; i++) c_store_f32((f32*)b[1] + i, c_{0}(c_load_f32((f32*)b[0] + i)));
}}
)", f.name);
  }
  KernelLibrary library(toolchain, with_prelude(text));
  // Every 9973rd bit pattern, the specials and their neighbours.
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 9973) x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (float special : {0.0f, 1.0f, 0.9f, 0.5f, 88.72284f, 103.97f, 87.33655f, 0x1p-126f, 0x1p-149f, 127.0f, 128.0f, 149.0f, 150.0f, 3.95f, 9.02f, 16.7f, INFINITY, NAN}) {
    for (float v : {special, std::nextafter(special, 1000.0f), std::nextafter(special, -1000.0f)}) x.insert(x.end(), {v, -v});
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
      RecordProperty(fmt::format("{}_{}_ulps", f.name, shape), std::to_string(worst));
      if (std::getenv("COIL_PRINT_ULPS")) fmt::print("{} {} {}: {:.3f} ulp at {:a}\n", GetParam(), f.name, shape, worst, at);
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

/// By search among the 31744 finite values: the nearest, ties to the even pattern; infinity from half a step past the largest.
std::uint16_t f16_bits(float x) {
  std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  double v = std::abs(x);
  if (v >= 65520) return sign | 0x7c00;
  int low = 0, high = 0x7bff;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (f16_value(static_cast<std::uint16_t>(middle)) <= v) low = middle;
    else high = middle - 1;
  }
  double below = v - f16_value(static_cast<std::uint16_t>(low)), above = (low == 0x7bff ? 65536 : f16_value(static_cast<std::uint16_t>(low + 1))) - v;
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
)", d);
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
        float want = f16 ? static_cast<float>(f16_value(half[i])) : std::bit_cast<float>(static_cast<std::uint32_t>(half[i]) << 16);
        if (std::isnan(want)) ASSERT_TRUE(std::isnan(single[i])) << i;
        else ASSERT_EQ(std::bit_cast<std::uint32_t>(want), std::bit_cast<std::uint32_t>(single[i])) << i;
      }
    }
  }
  // Values on, beside and half way between representable ones, for either type; and a stride through all of f32.
  std::vector<float> x;
  for (std::uint32_t i = 0; i < 0x7f80; ++i) {
    for (std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) x.push_back(std::bit_cast<float>(i << 16 | low));
  }
  for (int i = 0; i < 0x7c00; ++i) {
    double a = f16_value(static_cast<std::uint16_t>(i)), b = i == 0x7bff ? 65536 : f16_value(static_cast<std::uint16_t>(i + 1));
    float tie = static_cast<float>((a + b) / 2);
    x.insert(x.end(), {static_cast<float>(a), tie, std::nextafter(tie, 0.0f), std::nextafter(tie, 1e9f)});
  }
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 49999) x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  std::size_t positive = x.size();
  for (std::size_t i = 0; i < positive; ++i) x.push_back(-x[i]);
  x.resize((x.size() + 15) / 16 * 16);
  std::vector<std::uint16_t> out(x.size());
  for (bool f16 : {true, false}) {
    for (const char* shape : {"", "_scalar"}) {
      void* buffers[] = {x.data(), out.data()};
      library[fmt::format("{}_store{}", f16 ? "f16" : "bf16", shape)](buffers, nullptr, 0, static_cast<long>(x.size()));
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (std::isnan(x[i])) ASSERT_TRUE(f16 ? std::isnan(f16_value(out[i])) : (out[i] & 0x7fff) > 0x7f80) << fmt::format("{:a}", x[i]);
        else ASSERT_EQ(out[i], f16 ? f16_bits(x[i]) : bf16_bits(x[i])) << (f16 ? "f16 " : "bf16 ") << shape << fmt::format(" of {:a}", x[i]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Prelude, testing::ValuesIn(test::runnable_isas()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace coil::codegen
