// Memory, conversions and integer arithmetic of the prelude: each against its plain definition, for vectors, part
// vectors and scalars.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "codegen/cpp/prelude.h"
#include "kernel_library.h"
#include "tensor/dtype.h"

namespace coil::codegen {
namespace {

using test::KernelLibrary;

class PreludeArithmetic : public testing::TestWithParam<std::string> {
 protected:
  Toolchain toolchain = find_toolchain("", GetParam());
  KernelLibrary compile(const std::string& kernels) const {
    return KernelLibrary(toolchain, prelude(toolchain.lanes, prelude_names(kernels)) + kernels);
  }
};

template <class T>
constexpr const char* kName = "";
template <>
constexpr const char* kName<float> = "f32";
template <>
constexpr const char* kName<double> = "f64";
template <>
constexpr const char* kName<std::int8_t> = "i8";
template <>
constexpr const char* kName<std::int16_t> = "i16";
template <>
constexpr const char* kName<std::int32_t> = "i32";
template <>
constexpr const char* kName<std::int64_t> = "i64";
template <>
constexpr const char* kName<std::uint8_t> = "u8";
template <>
constexpr const char* kName<std::uint16_t> = "u16";
template <>
constexpr const char* kName<std::uint32_t> = "u32";
template <>
constexpr const char* kName<std::uint64_t> = "u64";
template <>
constexpr const char* kName<bool> = "b8";

/// Numbers where arithmetic goes wrong: ends of ranges, signs, zeros, and what lies between.
template <class T>
std::vector<T> samples() {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_same_v<T, bool>) {
    return {false, true};
  } else if constexpr (std::is_floating_point_v<T>) {
    std::vector<T> out{0,
                       1,
                       2,
                       3,
                       T(0.5),
                       T(1.5),
                       T(2.5),
                       T(1e-3),
                       T(7.25),
                       100,
                       T(123456.75),
                       T(2147483648.0),
                       T(1e10),
                       T(1e30),
                       Limits::denorm_min(),
                       Limits::min(),
                       Limits::max(),
                       Limits::infinity()};
    for (std::size_t i = 0, n = out.size(); i < n; ++i) out.push_back(-out[i]);
    out.push_back(Limits::quiet_NaN());
    return out;
  } else {
    std::vector<T> out{
        0, 1, 2, 3, 5, 7, 10, 31, 63, 64, 100, Limits::max(), Limits::max() - 1, Limits::min(), T(Limits::min() + 1)};
    if (std::is_signed_v<T>)
      for (int v : {1, 2, 3, 7, 100}) out.push_back(static_cast<T>(-v));
    return out;
  }
}

template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return a == b && std::signbit(a) == std::signbit(b);
  } else {
    return a == b;
  }
}

/// All pairs of samples, in whole vectors.
template <class T>
void pairs(std::vector<T>& x, std::vector<T>& y) {
  for (T a : samples<T>())
    for (T b : samples<T>()) x.push_back(a), y.push_back(b);
  while (x.size() % 16) x.push_back(T(1)), y.push_back(T(1));
}

std::string binary_kernel(const std::string& op, const std::string& d, const std::string& result) {
  return fmt::format(R"(
extern "C" void {0}_{1}_vector(void* const* b, const long*, long begin, long end) {{
  for (long i = begin; i < end; i += COIL_L)
    c_store_{2}((char*)b[2] + i * {4},
                c_{0}(c_load_{1}v((char*)b[0] + i * {3}), c_load_{1}v((char*)b[1] + i * {3})));
}}
extern "C" void {0}_{1}_scalar(void* const* b, const long*, long begin, long end) {{
  for (long i = begin; i < end; i++)
    c_store_{2}((char*)b[2] + i * {4},
                c_{0}(c_load_{1}((char*)b[0] + i * {3}), c_load_{1}((char*)b[1] + i * {3})));
}}
)",
                     op, d, result, size_of(*dtype_from_short_name(d)), size_of(*dtype_from_short_name(result)));
}

template <class T, class R>
struct Binary {
  const char* op;
  R (*reference)(T, T);
};

template <class T, class R>
void check_binary(const KernelLibrary& library, const Binary<T, R>& binary) {
  std::vector<T> x, y;
  std::vector<char> xb, yb;
  if constexpr (std::is_same_v<T, bool>) {
    return;
  } else {
    pairs(x, y);
    for (const char* shape : {"vector", "scalar"}) {
      std::unique_ptr<R[]> out(new R[x.size()]);
      void* buffers[] = {x.data(), y.data(), out.get()};
      library[fmt::format("{}_{}_{}", binary.op, kName<T>, shape)](buffers, nullptr, 0, static_cast<long>(x.size()));
      int wrong = 0;
      for (std::size_t i = 0; i < x.size() && wrong < 4; ++i) {
        R want = binary.reference(x[i], y[i]);
        if (same(out[i], want)) continue;
        ++wrong;
        ADD_FAILURE() << binary.op << " " << kName<T> << " " << shape
                      << fmt::format(": {} and {} give {}, not {}", x[i], y[i], out[i], want);
      }
    }
  }
}

template <class T>
T wrap_add(T a, T b) {
  return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
template <class T>
T wrap_sub(T a, T b) {
  return static_cast<T>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
template <class T>
T wrap_mul(T a, T b) {
  return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
template <class T>
T trunc_div(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return wrap_sub<T>(0, a);
  return static_cast<T>(a / b);
}
template <class T>
T fmod_int(T a, T b) {
  return b == 0 ? T(0) : wrap_sub<T>(a, wrap_mul(trunc_div(a, b), b));
}
template <class T>
T floor_div(T a, T b) {
  return b != 0 && fmod_int(a, b) != 0 && (a < 0) != (b < 0) ? static_cast<T>(trunc_div(a, b) - 1) : trunc_div(a, b);
}
template <class T>
T rem_int(T a, T b) {
  T r = fmod_int(a, b);
  return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
}
template <class T>
T pow_int(T a, T b) {
  if constexpr (std::is_signed_v<T>)
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  T r = 1;
  for (std::uint64_t e = static_cast<std::uint64_t>(b); e; e >>= 1, a = wrap_mul(a, a))
    if (e & 1) r = wrap_mul(r, a);
  return r;
}
template <class T>
T shift_left(T a, T b) {
  if (b < 0 || static_cast<std::uint64_t>(b) >= sizeof(T) * 8) return 0;
  return static_cast<T>(static_cast<std::uint64_t>(a) << b);
}
template <class T>
T shift_right(T a, T b) {
  constexpr int bits = sizeof(T) * 8;
  if (b < 0 || static_cast<std::uint64_t>(b) >= bits)
    return std::is_signed_v<T> ? static_cast<T>(a >> (bits - 1)) : T(0);
  return static_cast<T>(a >> b);
}

template <class T>
class Integers {
 public:
  static constexpr Binary<T, T> kOps[] = {
      {"add", wrap_add<T>},
      {"sub", wrap_sub<T>},
      {"mul", wrap_mul<T>},
      {"truncdiv", trunc_div<T>},
      {"floordiv", floor_div<T>},
      {"fmod", fmod_int<T>},
      {"rem", rem_int<T>},
      {"pow", pow_int<T>},
      {"shl", shift_left<T>},
      {"shr", shift_right<T>},
      {"max", [](T a, T b) { return a > b ? a : b; }},
      {"min", [](T a, T b) { return a < b ? a : b; }},
      {"and", [](T a, T b) { return static_cast<T>(a & b); }},
      {"or", [](T a, T b) { return static_cast<T>(a | b); }},
      {"xor", [](T a, T b) { return static_cast<T>(a ^ b); }},
  };
  static std::string kernels() {
    std::string text;
    for (const auto& op : kOps) text += binary_kernel(op.op, kName<T>, kName<T>);
    return text;
  }
  static void check(const KernelLibrary& library) {
    for (const auto& op : kOps) check_binary(library, op);
  }
};

TEST_P(PreludeArithmetic, Integers) {
  auto small =
      compile(Integers<std::int8_t>::kernels() + Integers<std::int16_t>::kernels() + Integers<std::uint8_t>::kernels());
  Integers<std::int8_t>::check(small);
  Integers<std::int16_t>::check(small);
  Integers<std::uint8_t>::check(small);
  auto large = compile(Integers<std::int32_t>::kernels() + Integers<std::int64_t>::kernels() +
                       Integers<std::uint32_t>::kernels());
  Integers<std::int32_t>::check(large);
  Integers<std::int64_t>::check(large);
  Integers<std::uint32_t>::check(large);
}

// torch.remainder and torch.floor_divide on floats (c10/util/generic_math.h, BinaryOpsKernel.cpp).
template <class T>
T remainder_float(T a, T b) {
  T r = std::fmod(a, b);
  return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}
template <class T>
T floor_divide_float(T a, T b) {
  if (b == 0) return a / b;
  T mod = std::fmod(a, b), div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
  if (div == 0) return std::copysign(T(0), a / b);
  T floor = std::floor(div);
  return div - floor > T(0.5) ? floor + 1 : floor;
}

template <class T>
class Floats {
 public:
  static constexpr Binary<T, T> kOps[] = {
      {"add", [](T a, T b) { return a + b; }},
      {"sub", [](T a, T b) { return a - b; }},
      {"mul", [](T a, T b) { return a * b; }},
      {"div", [](T a, T b) { return a / b; }},
      {"fmod", [](T a, T b) { return std::fmod(a, b); }},
      {"rem", remainder_float<T>},
      {"floordiv", floor_divide_float<T>},
      {"truncdiv", [](T a, T b) { return std::trunc(a / b); }},
      {"copysign", [](T a, T b) { return std::copysign(a, b); }},
      {"nextafter", [](T a, T b) { return std::nextafter(a, b); }},
  };
  // Of two zeros either may come out of max and min.
  static constexpr Binary<T, T> kOrder[] = {
      {"max", [](T a, T b) { return std::isnan(a)   ? a
                                    : std::isnan(b) ? b
                                    : a > b         ? a
                                                    : b; }},
      {"min", [](T a, T b) { return std::isnan(a)   ? a
                                    : std::isnan(b) ? b
                                    : a < b         ? a
                                                    : b; }},
      {"fmax", [](T a, T b) { return std::isnan(a)   ? b
                                     : std::isnan(b) ? a
                                     : a > b         ? a
                                                     : b; }},
      {"fmin", [](T a, T b) { return std::isnan(a)   ? b
                                     : std::isnan(b) ? a
                                     : a < b         ? a
                                                     : b; }},
  };
  static constexpr Binary<T, bool> kCompare[] = {
      {"eq", [](T a, T b) { return a == b; }}, {"ne", [](T a, T b) { return a != b; }},
      {"lt", [](T a, T b) { return a < b; }},  {"le", [](T a, T b) { return a <= b; }},
      {"gt", [](T a, T b) { return a > b; }},  {"ge", [](T a, T b) { return a >= b; }},
  };
};

TEST_P(PreludeArithmetic, Floats) {
  std::string text;
  for (const char* d : {"f32", "f64"}) {
    for (const auto& op : Floats<float>::kOps) text += binary_kernel(op.op, d, d);
    for (const auto& op : Floats<float>::kOrder) text += binary_kernel(op.op, d, d);
    for (const auto& op : Floats<float>::kCompare) text += binary_kernel(op.op, d, "b8");
  }
  auto library = compile(text);
  for (const auto& op : Floats<float>::kOps) check_binary(library, op);
  for (const auto& op : Floats<double>::kOps) check_binary(library, op);
  for (const auto& op : Floats<float>::kOrder) check_binary(library, op);
  for (const auto& op : Floats<double>::kOrder) check_binary(library, op);
  for (const auto& op : Floats<float>::kCompare) check_binary(library, op);
  for (const auto& op : Floats<double>::kCompare) check_binary(library, op);
}

// Unary functions that are exact.
struct Unary {
  const char* op;
  double (*reference)(double);
};

double sign_of(double x) { return std::isnan(x) ? 0 : (x > 0) - (x < 0); }
const Unary kUnary[] = {{"neg", [](double x) { return -x; }},
                        {"abs", std::fabs},
                        {"floor", std::floor},
                        {"ceil", std::ceil},
                        {"trunc", std::trunc},
                        {"round", std::nearbyint},
                        {"sign", sign_of}};

TEST_P(PreludeArithmetic, ExactFunctionsOfFloats) {
  std::string text;
  for (const Unary& f : kUnary) {
    for (auto [d, bytes] : {std::pair{"f32", 4}, {"f64", 8}}) {
      text += fmt::format(R"(
extern "C" void {0}_{1}(void* const* b, const long* z, long begin, long end) {{
  for (long i = begin; i < end; i++) c_store_{1}((char*)b[1] + i * {2}, c_{0}(c_load_{1}((char*)b[0] + i * {2})));
}}
extern "C" void {0}_{1}_vector(void* const* b, const long* z, long begin, long end) {{
  for (long i = begin; i < end; i += COIL_L)
    c_store_{1}((char*)b[1] + i * {2}, c_{0}(c_load_{1}v((char*)b[0] + i * {2})));
}}
)",
                          f.op, d, bytes);
    }
  }
  auto library = compile(text);
  auto run = [&]<class T>(T) {
    std::vector<T> x = samples<T>();
    for (int i = -40; i <= 40; ++i) x.push_back(static_cast<T>(i / 8.0));
    x.resize((x.size() + 15) / 16 * 16);
    std::vector<T> y(x.size());
    for (const Unary& f : kUnary) {
      for (const char* shape : {"", "_vector"}) {
        void* buffers[] = {x.data(), y.data()};
        library[fmt::format("{}_{}{}", f.op, kName<T>, shape)](buffers, nullptr, 0, static_cast<long>(x.size()));
        for (std::size_t i = 0; i < x.size(); ++i) {
          EXPECT_TRUE(same(y[i], static_cast<T>(f.reference(x[i]))))
              << f.op << kName<T> << shape << fmt::format(" of {} is {}, not {}", x[i], y[i], f.reference(x[i]));
        }
      }
    }
  };
  run(0.0f);
  run(0.0);
}

/// What torch's scalar conversion gives; `out` stays as it is where the value does not fit and the result is the
/// machine's own.
template <class To, class From>
void converts(From x, To& out) {
  if constexpr (std::is_same_v<To, bool>) {
    out = x != 0;
  } else if constexpr (std::is_floating_point_v<From> && !std::is_floating_point_v<To>) {
    if (!(x > -9.2e18 && x < 9.2e18)) return;
    if (std::is_signed_v<To> && sizeof(To) == 4 && !(x > -2147483649.0 && x < 2147483648.0)) return;
    if (std::is_same_v<To, std::uint64_t> && x < 0) return;
    // The narrow types wrap, signed ones only from within i32.
    if (sizeof(To) < 4 && !(x > -2147483649.0 && x < 2147483648.0)) return;
    out = static_cast<To>(static_cast<std::int64_t>(x));
  } else {
    out = static_cast<To>(x);
  }
}

template <class From, class To>
void check_cast(const KernelLibrary& library) {
  std::vector<From> values = samples<From>();
  while (values.size() % 16) values.push_back(From(1));
  std::unique_ptr<From[]> x(new From[values.size()]);
  std::unique_ptr<To[]> y(new To[values.size()]);
  std::copy(values.begin(), values.end(), x.get());
  for (const char* shape : {"", "_vector"}) {
    void* buffers[] = {x.get(), y.get()};
    library[fmt::format("{}_{}{}", kName<From>, kName<To>, shape)](buffers, nullptr, 0,
                                                                   static_cast<long>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      To want = y[i];
      converts(x[i], want);
      EXPECT_TRUE(same(y[i], want)) << kName<From> << " to " << kName<To> << shape
                                    << fmt::format(" of {} is {}, not {}", x[i], y[i], want);
    }
  }
}

template <class... Ts>
struct Types {
  template <class From>
  static void check_from(const KernelLibrary& library) {
    (check_cast<From, Ts>(library), ...);
  }
  static void check(const KernelLibrary& library) { (check_from<Ts>(library), ...); }
  static std::vector<std::string> names() { return {kName<Ts>...}; }
};
using AllTypes = Types<float, double, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                       std::uint16_t, std::uint32_t, std::uint64_t, bool>;

TEST_P(PreludeArithmetic, Conversions) {
  std::string text;
  for (const std::string& from : AllTypes::names()) {
    for (const std::string& to : AllTypes::names()) {
      text += fmt::format(R"(
extern "C" void {0}_{1}(void* const* b, const long*, long begin, long end) {{
  for (long i = begin; i < end; i++) c_store_{1}((char*)b[1] + i * {3}, c_cast_{1}(c_load_{0}((char*)b[0] + i * {2})));
}}
extern "C" void {0}_{1}_vector(void* const* b, const long*, long begin, long end) {{
  for (long i = begin; i < end; i += COIL_L)
    c_store_{1}((char*)b[1] + i * {3}, c_cast_{1}(c_load_{0}v((char*)b[0] + i * {2})));
}}
)",
                          from, to, size_of(*dtype_from_short_name(from)), size_of(*dtype_from_short_name(to)));
    }
  }
  AllTypes::check(compile(text));
}

TEST_P(PreludeArithmetic, MemoryInEveryShape) {
  std::string text;
  const std::vector<std::string> dtypes{"f32", "f64", "f16", "bf16", "i8",  "i16", "i32",
                                        "i64", "u8",  "u16", "u32",  "u64", "b8"};
  for (const std::string& d : dtypes) {
    // scalars: n, stride. b: source, index, and a result of 1000 bytes for each way.
    text += fmt::format(R"(
extern "C" void {0}_all(void* const* b, const long* z, long, long) {{
  const long n = z[0], s = z[1];
  const i64v index = c_load_i64v(b[1]);
  c_store_{0}(b[2], c_load_{0}v(b[0]));
  c_store_{0}(b[3], c_loadn_{0}v(b[0], n));
  c_store_{0}(b[4], c_loads_{0}v(b[0], s));
  c_store_{0}(b[5], c_loadsn_{0}v(b[0], s, n));
  c_store_{0}(b[6], c_gather_{0}v(b[0], index));
  c_store_{0}(b[7], c_gathern_{0}v(b[0], index, n));
  c_storen_{0}(b[8], c_load_{0}v(b[0]), n);
  c_stores_{0}(b[9], s, c_load_{0}v(b[0]));
  c_storesn_{0}(b[10], s, c_load_{0}v(b[0]), n);
  c_scatter_{0}(b[11], index, c_load_{0}v(b[0]));
  c_scattern_{0}(b[12], index, c_load_{0}v(b[0]), n);
  c_store_{0}(b[13], c_splat_{0}v(c_load_{0}(b[0])));
}}
)",
                        d);
  }
  auto library = compile(text);
  const long lanes = toolchain.lanes;
  for (const std::string& d : dtypes) {
    const std::size_t size = size_of(*dtype_from_short_name(d));
    std::vector<std::int64_t> index;
    for (long i = 0; i < 16; ++i) index.push_back((i * 7 + 3) % 16);
    for (long n = 0; n <= lanes; ++n) {
      for (long stride : {0l, 1l, 3l}) {
        // Every element has its own small value, which is exact in each dtype's bit pattern.
        std::vector<unsigned char> source(1024);
        for (std::size_t i = 0; i < source.size(); ++i)
          source[i] =
              d == "b8" ? i % 3 == 0 : static_cast<unsigned char>(i % size == size - 1 ? 0x3c : i / size % 61 + 1);
        std::vector<std::vector<unsigned char>> out(14, std::vector<unsigned char>(1024, 0));
        std::vector<void*> buffers{source.data(), index.data()};
        for (int i = 2; i < 14; ++i) buffers.push_back(out[static_cast<std::size_t>(i)].data());
        long z[] = {n, stride};
        library[d + "_all"](buffers.data(), z, 0, 0);
        auto want = [&](int which, auto from, auto to, long count) {
          std::vector<unsigned char> expected(1024, 0);
          for (long i = 0; i < count; ++i)
            std::memcpy(expected.data() + static_cast<std::size_t>(to(i)) * size,
                        source.data() + static_cast<std::size_t>(from(i)) * size, size);
          EXPECT_EQ(out[static_cast<std::size_t>(which)], expected)
              << d << " way " << which << " n " << n << " stride " << stride;
        };
        auto same = [](long i) { return i; };
        auto strided = [&](long i) { return i * stride; };
        auto indexed = [&](long i) { return index[static_cast<std::size_t>(i)]; };
        want(2, same, same, lanes);
        want(3, same, same, n);
        want(4, strided, same, lanes);
        want(5, strided, same, n);
        want(6, indexed, same, lanes);
        want(7, indexed, same, n);
        want(8, same, same, n);
        want(9, same, strided, lanes);
        want(10, same, strided, n);
        want(11, same, indexed, lanes);
        want(12, same, indexed, n);
        want(13, [](long) { return 0; }, same, lanes);
      }
    }
  }
}

TEST_P(PreludeArithmetic, StoresPastTheCacheWriteWhatOthersDo) {
  const std::vector<std::string> dtypes{"f32", "f64", "f16", "bf16", "i16", "i32", "i64", "u16", "u32", "u64"};
  std::string text = R"(
extern "C" void wish(void* const* b, const long* z, long, long) { *(u64*)b[0] = c_past_cache(z[0]); }
)";
  for (const std::string& d : dtypes)
    text += fmt::format(R"(
extern "C" void {0}_past(void* const* b, const long* z, long, long) {{
  c_stream_{0}((char*)b[1] + z[0], c_load_{0}v(b[0]), (u64)z[1]);
  c_stream_end((u64)z[1]);
}}
)",
                        d);
  auto library = compile(text);
  for (const std::string& d : dtypes) {
    const std::size_t size = size_of(*dtype_from_short_name(d)),
                      bytes = size * static_cast<std::size_t>(toolchain.lanes);
    std::vector<unsigned char> source(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      source[i] = static_cast<unsigned char>(i % size == size - 1 ? 0x3c : i / size % 61 + 1);
    for (const long at : {0l, 64l, 2 * static_cast<long>(size), static_cast<long>(size)})
      for (const long past : {0l, -1l}) {
        alignas(64) unsigned char out[256] = {}, expected[256] = {};
        std::memcpy(expected + at, source.data(), bytes);
        void* buffers[] = {source.data(), out};
        const long z[] = {at, past};
        library[d + "_past"](buffers, z, 0, 0);
        EXPECT_EQ(std::memcmp(out, expected, sizeof out), 0) << d << " at " << at << " past " << past;
      }
  }
  std::uint64_t past = 1;
  void* buffers[] = {&past};
  const long small[] = {64};
  library["wish"](buffers, small, 0, 0);
  EXPECT_EQ(past, ~std::uint64_t{0}) << "what the cache holds stays there";
}

TEST_P(PreludeArithmetic, LanesAndMasks) {
  auto library = compile(R"(
extern "C" void lanes(void* const* b, const long* z, long, long) {
  f32v x = c_load_f32v(b[0]);
  i64v y = c_iota_i64v(z[0]);
  f32* f = (f32*)b[1]; i64* r = (i64*)b[2];
  f[0] = c_hsum(x), f[1] = c_hmax(x), f[2] = c_hmin(x), f[3] = c_hprod(x);
  f[4] = c_hmax(c_where(c_firstn(1), c_splat_f32v(__builtin_nanf("")), x));
  r[0] = c_hsum(y), r[1] = c_hmax(y), r[2] = c_hmin(y), r[3] = c_hxor(y), r[4] = c_hsum(c_iota_i32v(3));
  boolv m = c_lt(y, c_splat_i64v(z[0] + 2));
  r[5] = c_hany(m), r[6] = c_hall(m), r[7] = c_hany(c_and(m, c_not(m))), r[8] = c_hall(c_or(m, c_not(m)));
  r[9] = c_hsum(c_where(m, y, c_splat_i64v(0))), r[10] = c_hsum(c_cast_i32(m)), r[11] = c_lane(y, 2);
  r[12] = c_hsum(c_cast_i64(c_firstn(3)));
  f64v w = c_cast_f64(y);
  f[5] = c_hsum(c_where(m, w, c_splat_f64v(0.5)));
  f[6] = c_hsum(c_cast_f32(c_where(m, c_cast_i8(y), c_splat_i8v(1))));
}
)");
  const long n = toolchain.lanes, first = 5;
  std::vector<float> x(16), f(8);
  std::vector<long> r(16);
  float sum = 0, product = 1;
  for (long i = 0; i < n; ++i)
    x[static_cast<std::size_t>(i)] = static_cast<float>(i % 3 + 1), sum += static_cast<float>(i % 3 + 1),
    product *= static_cast<float>(i % 3 + 1);
  void* buffers[] = {x.data(), f.data(), r.data()};
  library["lanes"](buffers, &first, 0, 0);
  EXPECT_EQ(f[0], sum);
  EXPECT_EQ(f[1], 3);
  EXPECT_EQ(f[2], 1);
  EXPECT_EQ(f[3], product);
  EXPECT_TRUE(std::isnan(f[4]));
  EXPECT_EQ(f[5], 5 + 6 + 0.5 * static_cast<double>(n - 2));
  EXPECT_EQ(f[6], static_cast<float>(5 + 6 + n - 2));
  long total = 0, mixed = 0;
  for (long i = 0; i < n; ++i) total += first + i, mixed ^= first + i;
  EXPECT_EQ(r[0], total);
  EXPECT_EQ(r[1], first + n - 1);
  EXPECT_EQ(r[2], first);
  EXPECT_EQ(r[3], mixed);
  EXPECT_EQ(r[4], n * 3 + n * (n - 1) / 2);
  EXPECT_EQ((std::vector<long>(r.begin() + 5, r.begin() + 13)), (std::vector<long>{1, 0, 0, 1, 11, 2, 7, 3}));
}

TEST(PreludeText, IsDeterministicAndRefusesUnknownNames) {
  EXPECT_EQ(prelude(16, {"c_erf", "c_add"}), prelude(16, {"c_add", "c_erf"}));
  EXPECT_THROW(prelude(16, {"c_nothing"}), Error);
  EXPECT_THROW(prelude(5, {}), Error);
  EXPECT_EQ(prelude_names("y = c_add(c_load_f32v(p), my_c_sub(x)); c_unheard_of(y)"),
            (std::set<std::string>{"c_add", "c_load_f32v"}));
}

INSTANTIATE_TEST_SUITE_P(Isa, PreludeArithmetic, testing::ValuesIn(test::tested_isas()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace coil::codegen
