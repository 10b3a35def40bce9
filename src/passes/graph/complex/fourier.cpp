// The rules of Fourier transforms, which end in Coil's own operators along one dimension, `coil.fourier` and
// `coil.fourier_to_real`.
#include <cmath>

#include "passes/graph/complex/parts.h"

namespace coil::passes {

namespace {

Parts cut(ComplexRewriter& r, const Parts& x, std::int64_t dim, const Expr& end) {
  return on_both(x, [&](const Value& v) { return r.slice(v, dim, 0, end); });
}

Expr half(ComplexRewriter& r, const Expr& n) { return r.module.env->simplify(sym::floor_div(n, 2) + 1); }

Parts transformed(ComplexRewriter& r, const Parts& x, std::int64_t dim, bool forward, bool half = false) {
  fx::Node* both = r.call("coil.fourier.default", {x.re, x.im, dim, !forward, half});
  return {r.item(both, 0), r.item(both, 1)};
}

/// Divides by the number of points (`by` 2) or its root (1).
Parts normalized(ComplexRewriter& r, const Parts& x, const Expr& points, int by) {
  if (by == 0) return x;
  const DType type = r.part_type();
  if (const auto n = points.constant()) {
    const double scale = by == 1 ? 1 / std::sqrt(static_cast<double>(*n)) : 1 / static_cast<double>(*n);
    return on_both(x, [&](const Value& v) { return Value(r.mul(v, scale)); });
  }
  Value n = r.full({}, points, type, r.device());
  if (by == 1) n = r.unary("sqrt", n);
  return on_both(x, [&](const Value& v) { return Value(r.div(v, n)); });
}

/// How eager divides, by the `norm` argument: an inverse does so unless told otherwise.
int division(ComplexRewriter& r, bool forward) {
  const std::string norm = r.has("norm") ? r["norm"].as_string() : "backward";
  if (norm == "ortho") return 1;
  return (norm == "forward") == forward ? 2 : 0;
}

Expr points_of(ComplexRewriter& r, const Parts& x, const std::vector<std::int64_t>& dims) {
  Expr n = 1;
  for (std::int64_t d : dims) n = n * r.meta(x.re).sizes[static_cast<std::size_t>(d)];
  return r.module.env->simplify(n);
}

std::int64_t wrapped(ComplexRewriter& r, const Value& d, std::size_t rank) {
  const auto n = r.integer(d).constant();
  if (!n) r.refuse("wants constant dimensions");
  return *n < 0 ? *n + static_cast<std::int64_t>(rank) : *n;
}

// The operators that eager's decompositions end in.

std::vector<std::int64_t> given_dims(ComplexRewriter& r, std::size_t rank) {
  std::vector<std::int64_t> dims;
  for (const Value& d : r["dim"].as_list()) dims.push_back(wrapped(r, d, rank));
  return dims;
}

Parts complex_to_complex(ComplexRewriter& r, Parts x, const std::vector<std::int64_t>& dims, bool forward, int by) {
  for (auto d = dims.rbegin(); d != dims.rend(); ++d) x = transformed(r, x, *d, forward);
  return normalized(r, x, points_of(r, x, dims), by);
}

Parts real_to_complex(ComplexRewriter& r, Parts x, const std::vector<std::int64_t>& dims, bool onesided, int by) {
  const Expr points = points_of(r, x, dims);
  for (auto d = dims.rbegin(); d != dims.rend(); ++d) x = transformed(r, x, *d, true, onesided && d == dims.rbegin());
  return normalized(r, x, points, by);
}

/// The last of `dims` becomes `n` long and real.
Value complex_to_real(ComplexRewriter& r, Parts x, std::vector<std::int64_t> dims, const Expr& n, int by) {
  if (dims.empty()) r.refuse("transforms along at least one dimension");
  const std::int64_t last = dims.back();
  dims.pop_back();
  const Expr points = r.module.env->simplify(points_of(r, x, dims) * n);
  for (std::int64_t d : dims) x = transformed(r, x, d, false);
  x = cut(r, x, last, half(r, n));
  const Value real = r.call("coil.fourier_to_real.default", {x.re, x.im, last, n});
  return normalized(r, {real, None{}}, points, by).re;
}

int normalization(ComplexRewriter& r) { return static_cast<int>(r.number("normalization")); }

Made c2c(ComplexRewriter& r) {
  return complex_to_complex(r, r.parts(r["self"]), given_dims(r, r.rank(r["self"])), r.flag("forward"),
                            normalization(r));
}
Made r2c(ComplexRewriter& r) {
  return real_to_complex(r, r.parts(r["self"]), given_dims(r, r.rank(r["self"])), r.flag("onesided"), normalization(r));
}
Made c2r(ComplexRewriter& r) {
  return complex_to_real(r, r.parts(r["self"]), given_dims(r, r.rank(r["self"])), r.integer(r["last_dim_size"]),
                         normalization(r));
}

// torch.fft's own.

/// With `zeros` behind it along a dimension.
Parts padded(ComplexRewriter& r, const Parts& x, std::int64_t dim, const Expr& zeros) {
  return on_both(x, [&](const Value& v) {
    Exprs pad(2 * (r.rank(v) - static_cast<std::size_t>(dim)), 0);
    pad.back() = zeros;
    return Value(r.call("aten.constant_pad_nd.default", {v, pad, 0}));
  });
}

/// Cut, or filled up with zeros, to `n` along a dimension.
Parts resized(ComplexRewriter& r, const Parts& x, std::int64_t dim, const Expr& n) {
  const Expr have = r.meta(x.re).sizes[static_cast<std::size_t>(dim)];
  if (r.module.env->statically_known_equal(have, n)) return x;
  if (r.module.env->statically_known_true(sym::le(n, have))) return cut(r, x, dim, n);
  if (!r.module.env->statically_known_true(sym::ge(n, have))) {  // what is there of it, and then zeros
    const Expr kept = r.module.env->simplify(sym::min(n, have));
    return padded(r, cut(r, x, dim, kept), dim, r.module.env->simplify(n - kept));
  }
  return padded(r, x, dim, r.module.env->simplify(n - have));
}

struct Extent {
  std::vector<std::int64_t> dims;
  std::vector<std::optional<Expr>> sizes;  ///< asked for
};

/// The arguments `n` and `dim`, or `s` and `dim`.
Extent extent(ComplexRewriter& r) {
  const std::size_t rank = r.rank(r["self"]);
  Extent e;
  const bool one = r.node->op->schema.parameters[1].name == "n";
  if (one) return {{wrapped(r, r["dim"], rank)}, {r.has("n") ? std::optional(r.integer(r["n"])) : std::nullopt}};
  const Exprs sizes = r.has("s") ? r.ints(r["s"]) : Exprs{};
  if (r.has("dim"))
    e.dims = given_dims(r, rank);
  else
    for (std::size_t d = sizes.empty() ? 0 : rank - sizes.size(); d < rank; ++d)
      e.dims.push_back(static_cast<std::int64_t>(d));
  for (std::size_t i = 0; i < e.dims.size(); ++i) {
    const bool asked = i < sizes.size() && !sizes[i].is_constant(-1);
    e.sizes.push_back(asked ? std::optional(sizes[i]) : std::nullopt);
  }
  return e;
}

Parts fitted(ComplexRewriter& r, Parts x, const Extent& e, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (e.sizes[i]) x = resized(r, x, e.dims[i], *e.sizes[i]);
  return x;
}

template <bool forward>
Made fft(ComplexRewriter& r) {
  const Extent e = extent(r);
  return complex_to_complex(r, fitted(r, r.parts(r["self"]), e, e.dims.size()), e.dims, forward, division(r, forward));
}

Made rfft(ComplexRewriter& r) {
  const Extent e = extent(r);
  return real_to_complex(r, fitted(r, r.parts(r["self"]), e, e.dims.size()), e.dims, true, division(r, true));
}

Value half_to_real(ComplexRewriter& r, Parts x, int by) {
  const Extent e = extent(r);
  if (e.dims.empty()) r.refuse("transforms along at least one dimension");
  const std::size_t last = e.dims.size() - 1;
  x = fitted(r, x, e, last);
  const Expr have = r.meta(x.re).sizes[static_cast<std::size_t>(e.dims[last])];
  const Expr n = e.sizes[last] ? *e.sizes[last] : r.module.env->simplify((have - 1) * 2);
  x = resized(r, x, e.dims[last], half(r, n));
  return complex_to_real(r, x, e.dims, n, by);
}

Made irfft(ComplexRewriter& r) { return half_to_real(r, r.parts(r["self"]), division(r, false)); }
Made hfft(ComplexRewriter& r) { return half_to_real(r, r.conjugate(r.parts(r["self"])), division(r, true)); }

Made ihfft(ComplexRewriter& r) {
  const Extent e = extent(r);
  return r.conjugate(
      real_to_complex(r, fitted(r, r.parts(r["self"]), e, e.dims.size()), e.dims, true, division(r, false)));
}

/// A window of `length` in the middle of n points; ones where there is none.
Parts centered_window(ComplexRewriter& r, std::int64_t n, std::int64_t length, DType type) {
  const Parts window =
      r.has("window") ? r.parts(r["window"], type) : Parts{r.full({length}, 1, type, r.device()), None{}};
  const std::int64_t left = (n - length) / 2;
  return on_both(window, [&](const Value& part) {
    const Value typed = r.to(part, type);
    return length == n ? typed
                       : Value(r.call("aten.constant_pad_nd.default", {typed, Values{left, n - length - left}, 0}));
  });
}

Made stft(ComplexRewriter& r) {
  if (r.has("align_to_window") && r.flag("align_to_window")) r.refuse("align_to_window is not compiled");
  const std::int64_t n = r.number("n_fft"), hop = r.has("hop_length") ? r.number("hop_length") : n / 4,
                     length = r.has("win_length") ? r.number("win_length") : n;
  const DType type = real_type(r.result().dtype);  // a window may be wider than the signal
  const bool batched = r.rank(r["self"]) == 2, centered = r.node->target == "aten.stft.center" && r.flag("center");
  const Parts frames = on_both(r.parts(r["self"]), [&](const Value& part) {
    Value x = batched ? part : Value(r.unsqueeze(part, 0));
    if (centered) x = r.call("aten.pad.default", {x, Values{n / 2, n / 2}, r["pad_mode"]});
    return r.to(r.call("aten.unfold.default", {x, -1, n, hop}), type);
  });
  const Parts seen = r.product(frames, centered_window(r, n, length, type));
  const int by = r.flag("normalized") ? 1 : 0;
  Parts made = seen.im.is_none() ? real_to_complex(r, seen, {2}, !r.has("onesided") || r.flag("onesided"), by)
                                 : complex_to_complex(r, seen, {2}, true, by);
  made = on_both(made, [&](const Value& v) {
    const Value turned = r.call("aten.transpose.int", {v, 1, 2});
    return batched ? turned : Value(r.call("aten.squeeze.dim", {turned, 0}));
  });
  if (is_complex(r.result().dtype)) return made;
  return Value(r.call("aten.stack.default", {Values{made.re, made.im}, -1}));
}

/// Frames added where they overlap, over the sum of the squared windows there. Real signals are made of the first half
/// of the points alone.
Made istft(ComplexRewriter& r) {
  const std::int64_t n = r.number("n_fft"), hop = r.has("hop_length") ? r.number("hop_length") : n / 4,
                     width = r.has("win_length") ? r.number("win_length") : n;
  Parts x = r.whole(r["self"]);
  const bool batched = r.rank(x.re) == 3;
  x = on_both(x, [&](const Value& v) {
    return Value(r.call("aten.transpose.int", {batched ? v : Value(r.unsqueeze(v, 0)), 1, 2}));
  });
  const int by = r.flag("normalized") ? 1 : 2;
  const Parts frames = r.flag("return_complex") ? complex_to_complex(r, x, {2}, false, by)
                                                : Parts{complex_to_real(r, x, {2}, n, by), None{}};
  const DType type = r.dtype(frames.re);
  const Parts both = centered_window(r, n, width, type);
  if (!both.im.is_none()) r.refuse("with a complex window is not compiled");
  const Value& window = both.re;
  const Expr count = r.meta(frames.re).sizes[1], whole = r.module.env->simplify((count - 1) * hop + n);
  auto overlapped = [&](const Value& of, const Expr& batch) {
    return Value(r.call("aten.unfold_backward.default", {of, Exprs{batch, whole}, 1, n, hop}));
  };
  const Value weight = overlapped(r.expand(r.mul(window, window), {1, count, n}), 1);
  const Expr begin = r.flag("center") ? n / 2 : 0;
  Expr end = r.has("length")    ? r.module.env->simplify(begin + r.integer(r["length"]))
             : r.flag("center") ? r.module.env->simplify(whole - n / 2)
                                : whole;
  const Expr covered = r.module.env->statically_known_true(sym::le(end, whole)) ? end : whole;
  const Parts made = on_both(frames, [&](const Value& part) {
    const Value sum = overlapped(r.mul(part, window), r.meta(part).sizes[0]);
    Value signal = r.div(r.slice(sum, 1, begin, covered), r.slice(weight, 1, begin, covered));
    if (covered != end)
      signal = r.call("aten.constant_pad_nd.default", {signal, Exprs{0, r.module.env->simplify(end - covered)}, 0});
    return batched ? signal : Value(r.call("aten.squeeze.dim", {signal, 0}));
  });
  if (made.im.is_none()) return made.re;
  return made;
}

}  // namespace

void add_fourier(ComplexRules& t) {
  t["aten._fft_c2c.default"] = c2c;
  t["aten._fft_r2c.default"] = r2c;
  t["aten._fft_c2r.default"] = c2r;
  for (std::string_view name : {"aten.fft_fft.default", "aten.fft_fft2.default", "aten.fft_fftn.default"})
    t[name] = fft<true>;
  for (std::string_view name : {"aten.fft_ifft.default", "aten.fft_ifft2.default", "aten.fft_ifftn.default"})
    t[name] = fft<false>;
  for (std::string_view name : {"aten.fft_rfft.default", "aten.fft_rfft2.default", "aten.fft_rfftn.default"})
    t[name] = rfft;
  for (std::string_view name : {"aten.fft_irfft.default", "aten.fft_irfft2.default", "aten.fft_irfftn.default"})
    t[name] = irfft;
  for (std::string_view name : {"aten.fft_hfft.default", "aten.fft_hfft2.default", "aten.fft_hfftn.default"})
    t[name] = hfft;
  for (std::string_view name : {"aten.fft_ihfft.default", "aten.fft_ihfft2.default", "aten.fft_ihfftn.default"})
    t[name] = ihfft;
  t["aten.stft.default"] = t["aten.stft.center"] = stft;
  t["aten.istft.default"] = istft;
}

}  // namespace coil::passes
