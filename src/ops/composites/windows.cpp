// Windows of signal processing (ATen/native/TensorFactories.cpp) over n points, of a period of n or of n - 1 steps:
// sums of cosines, Bartlett's and Kaiser's.
#include <algorithm>

#include "ops/composites/steps.h"

namespace coil::ops::composites {

namespace {

constexpr double kPi = 3.14159265358979323846;

DType type_of(Steps& s) { return s.has("dtype") ? s["dtype"].as_dtype() : DType::F32; }

bool periodic(Steps& s) {
  for (const Parameter& p : s.op.schema.parameters)
    if (p.name == "periodic") return s.flag("periodic");
  return true;
}

/// `at(i, steps)` for i below the length; of one point, 1.
template <class At>
Value window(Steps& s, const At& at) {
  const std::int64_t n = s.number("window_length");
  const DType type = type_of(s);
  if (n <= 1) return s.full({n}, 1, type);
  return at(s.iota(n, type), static_cast<double>(periodic(s) ? n : n - 1));
}

Value cosines(Steps& s, double a, double b, double c) {
  return window(s, [&](const Value& i, double steps) {
    auto wave = [&](double times, double factor) {
      return s.mul(s.unary("cos", s.mul(i, times * kPi / steps)), factor);
    };
    Value made = s.add(wave(2, -b), a);
    return c == 0 ? made : s.add(made, wave(4, c));
  });
}

Value hann(Steps& s) { return cosines(s, 0.5, 0.5, 0); }
Value blackman(Steps& s) { return cosines(s, 0.42, 0.5, 0.08); }

Value hamming(Steps& s) {
  double alpha = 0.54, beta = 0.46;
  for (const Parameter& p : s.op.schema.parameters) {
    if (p.name == "alpha") alpha = s.real("alpha");
    if (p.name == "beta") beta = s.real("beta");
  }
  return cosines(s, alpha, beta, 0);
}

Value bartlett(Steps& s) {
  return window(s, [&](const Value& i, double steps) {
    Value rise = s.mul(i, 2 / steps);
    return s.call("aten.minimum.default", {rise, s.sub(s.full({}, 2, s.dtype(i)), rise)});
  });
}

/// Bessel functions of half an ellipse.
Value kaiser(Steps& s) {
  double beta = 12;
  for (const Parameter& p : s.op.schema.parameters)
    if (p.name == "beta") beta = s.real("beta");
  return window(s, [&](const Value& i, double steps) {
    const Value across = s.sub(s.mul(i, 2 / steps), 1),
                below = s.sub(s.mul(across, across), 1);  // at most 0, but for rounding
    const Value height = s.unary("sqrt", s.call("aten.clamp.default", {s.unary("neg", below), 0}));
    return s.div(s.unary("i0", s.mul(height, beta)), s.unary("i0", s.full({}, beta, s.dtype(i))));
  });
}

constexpr Composite kWindows[] = {
    {"aten::hann_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor",
     hann},
    {"aten::hann_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     hann},
    {"aten::hamming_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     hamming},
    {"aten::hamming_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     hamming},
    {"aten::hamming_window.periodic_alpha(int window_length, bool periodic, float alpha, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     hamming},
    {"aten::hamming_window.periodic_alpha_beta(int window_length, bool periodic, float alpha, float beta, *, "
     "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     hamming},
    {"aten::blackman_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     blackman},
    {"aten::blackman_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     blackman},
    {"aten::bartlett_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     bartlett},
    {"aten::bartlett_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     bartlett},
    {"aten::kaiser_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     kaiser},
    {"aten::kaiser_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     kaiser},
    {"aten::kaiser_window.beta(int window_length, bool periodic, float beta, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     kaiser},
};

}  // namespace

std::span<const Composite> windows() { return kWindows; }

}  // namespace coil::ops::composites
