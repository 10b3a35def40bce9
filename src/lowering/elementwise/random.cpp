#include "lowering/elementwise/random.h"

#include <cmath>

#include "support/error.h"

namespace coil::lowering {

namespace {

constexpr std::int64_t kWords = 4;  // that one operator may draw for an element
/// Operators that are given their seed and their number (coil.draw) come behind all that the program numbers itself.
constexpr std::int64_t kGiven = std::int64_t{1} << 30, kMostGiven = std::int64_t{1} << 28;

/// Elements are counted as they lie in memory, so that kernels, which follow memory, draw neighbours together.
Expr place(Context& ctx, const sym::TensorMeta& meta) {
  const Exprs strides = ir::dense_strides(ctx.graph.env(), meta.sizes, meta.strides);
  Expr at = 0;
  for (std::size_t d = 0; d < meta.sizes.size(); ++d)
    if (!meta.sizes[d].is_constant(1)) at += ctx.graph.ivar(d) * strides[d];
  return at;
}

}  // namespace

Draw::Draw(Context& ctx, const sym::TensorMeta& meta) : Draw(ctx, place(ctx, meta)) {}

Draw::Draw(Context& ctx, Expr element)
    : ctx_(ctx), seed_(ctx.graph.seed()), salt_(ctx.graph.new_salts(kWords)), element_(element) {}

Draw::Draw(Context& ctx, const sym::TensorMeta& meta, Scalar seed, std::int64_t number)
    : ctx_(ctx), seed_(seed), salt_(kGiven + kWords * number), element_(place(ctx, meta)) {
  if (number < 0 || number >= kMostGiven) refuse(ctx, fmt::format("has no numbers for operator {}", number));
}

Element Draw::bits(int word) const {
  COIL_CHECK(word < kWords);
  return {&ctx_.graph.pool(), ctx_.graph.pool().random(seed_, salt_ + word, element_)};
}

Element Draw::wide_bits(int word) const {
  return shift_left(bits(word).cast(DType::U64), 32.0) | bits(word + 1).cast(DType::U64);
}

Element Draw::uniform(DType storage, int word) const {
  auto& pool = ctx_.graph.pool();
  // Few enough bits for a signed number, which machines convert faster.
  auto high_bits = [&](int count, int at) {
    return Element{&pool, pool.bitcast(shift_right(bits(at), 32.0 - count), DType::I32)};
  };
  if (storage == DType::F64)
    return (high_bits(27, word).cast(DType::F64) * 0x1p26 + high_bits(26, word + 1).cast(DType::F64)) * 0x1p-53;
  const int count = storage == DType::F16 ? 11 : storage == DType::BF16 ? 8 : 24;
  return high_bits(count, word).cast(DType::F32) * std::ldexp(1.0, -count);
}

Element Draw::open_uniform(DType t, int word) const {
  if (t == DType::F64) return minimum(uniform(t, word) + 0x1p-54, 1 - 0x1p-53);
  return minimum(bits(word).cast(DType::F32) * 0x1p-32 + 0x1p-33, 1 - 0x1p-24);
}

Element Draw::normal(DType t) const { return sqrt(log(open_uniform(t, 0)) * -2.0) * cos(uniform(t, 2) * (2 * M_PI)); }

Element Draw::bernoulli(double p) const {
  auto& pool = ctx_.graph.pool();
  if (!(p > 0) || p >= 1) return {&pool, pool.constant_int(DType::Bool, p >= 1)};
  return lt(bits(),
            Element{&pool, pool.constant_int(DType::U32, static_cast<std::int64_t>(std::min(
                                                             std::max(std::round(p * 0x1p32), 1.0), 0x1p32 - 1)))});
}

Element Draw::bernoulli(Element p) const { return lt(uniform(p.dtype()), p); }

Element Draw::integer(Expr low, Expr high) const {
  constexpr std::int64_t kNarrow = std::int64_t{1} << 31;
  const auto first = low.constant(), end = high.constant();
  const Element start = index_value(ctx_, low);
  if (first && end) {
    const std::uint64_t count = static_cast<std::uint64_t>(*end) - static_cast<std::uint64_t>(*first);
    if (count == 0) return wide_bits().cast(DType::I64);
    // The high word of the product: as even as can be, without a division.
    if (count < kNarrow) return shift_right(bits().cast(DType::I64) * static_cast<double>(count), 32.0) + start;
  }
  auto& pool = ctx_.graph.pool();
  const Element count =
      first && end
          ? Element{&pool, pool.constant_int(DType::U64, static_cast<std::int64_t>(static_cast<std::uint64_t>(*end) -
                                                                                   static_cast<std::uint64_t>(*first)))}
          : index_value(ctx_, high - low).cast(DType::U64);
  return remainder(wide_bits(), count).cast(DType::I64) + start;
}

namespace {

/// A result of the node from the body that `f` draws for it.
LoweringFunction drawn(std::function<Element(Context&, const Draw&, const ops::Values& args)> f) {
  return [f = std::move(f)](Context& ctx, const ops::Values& args) -> Lowered {
    return result(ctx, f(ctx, Draw(ctx, ctx.result()), args));
  };
}

double real(const Context& ctx, const ops::Value& v) {
  if (auto* d = v.get_if<double>()) return *d;
  const Expr e = ctx.integer(v);
  const auto c = e.constant();
  if (!c) refuse(ctx, "takes parameters that are known when it is compiled");
  return static_cast<double>(*c);
}

/// The type that a result is computed in: integers of continuous distributions are cut as eager cuts them.
DType float_register(const Context& ctx) {
  const DType t = ctx.result().dtype;
  return is_floating(t) ? register_type(t) : DType::F64;
}

Element from_to(Context& ctx, const Draw& draw, double from, double to) {
  Element u = draw.uniform(ctx.result().dtype);
  return from == 0 && to == 1 ? u : u * (to - from) + from;
}

Lowered normal_of(Context& ctx, const ops::Value& mean, const ops::Value& deviation) {
  if (auto* d = deviation.get_if<double>(); d && !(*d >= 0)) refuse(ctx, "takes a deviation of at least 0");
  const DType t = register_type(ctx.result().dtype);
  return result(ctx, Draw(ctx, ctx.result()).normal(t) * operand(ctx, deviation, ctx.result().sizes, t) +
                         operand(ctx, mean, ctx.result().sizes, t));
}

/// normal.Tensor_float(mean, std) and its kin, normal.float_float(mean, std, size)
Lowered normal_with(Context& ctx, const ops::Values& args) { return normal_of(ctx, args[0], args[1]); }
/// normal_functional(self, mean, std), normal.out-like
Lowered normal_like(Context& ctx, const ops::Values& args) { return normal_of(ctx, args[1], args[2]); }

/// Integers in all of a type's range; of floats those that it tells apart (at::Tensor.random_).
Element any_integer(Context& ctx, const Draw& draw, Expr from) {
  switch (ctx.result().dtype) {
    case DType::Bool: return draw.integer(from, 2);
    case DType::U8: return draw.integer(from, 256);
    case DType::I8: return draw.integer(from, 128);
    case DType::I16: return draw.integer(from, 1 << 15);
    case DType::I32: return draw.integer(from, std::int64_t{1} << 31);
    case DType::F16: return draw.integer(from, (1 << 11) + 1);
    case DType::BF16: return draw.integer(from, (1 << 8) + 1);
    case DType::F32: return draw.integer(from, (1 << 24) + 1);
    case DType::F64: return draw.integer(from, (std::int64_t{1} << 53) + 1);
    case DType::I64: {
      // Up to the greatest: what lies past it wraps.
      auto& pool = ctx.graph.pool();
      const auto first = from.constant();
      if (!first) refuse(ctx, "takes a bound that is known when it is compiled");
      const std::uint64_t count = (std::uint64_t{1} << 63) - static_cast<std::uint64_t>(*first);
      const Element bits = draw.wide_bits();
      const Element below =
          count == 0 ? bits
                     : remainder(bits, Element{&pool, pool.constant_int(DType::U64, static_cast<std::int64_t>(count))});
      return below.cast(DType::I64) + index_value(ctx, from);
    }
    default: refuse(ctx, fmt::format("draws no {}", torch_name(ctx.result().dtype)));
  }
}

void check_probability(const Context& ctx, double p) {
  if (!(p >= 0 && p <= 1)) refuse(ctx, fmt::format("takes a probability between 0 and 1, not {}", p));
}

/// bernoulli(self) and bernoulli.Tensor(self, p): each element has a probability of its own.
LoweringFunction bernoulli_of(std::size_t argument) {
  return [argument](Context& ctx, const ops::Values& args) -> Lowered {
    const TensorBox p = ctx.tensor(args[argument]);
    const DType t = is_floating(p.dtype()) ? register_type(p.dtype()) : DType::F32;
    return result(ctx, Draw(ctx, ctx.result()).bernoulli(element(ctx, p, ctx.result().sizes).cast(t)));
  };
}

/// A count or a number that is data decides by: parameters in f64, one of `args` each.
Element parameter(Context& ctx, const ops::Value& arg) {
  return element(ctx, ctx.tensor(arg), ctx.result().sizes).cast(DType::F64);
}
Element stored(Context& ctx, Element drawn) { return drawn.cast(register_type(ctx.result().dtype)); }

/// A number of the gamma distribution of shape `a` and scale 1. Below 1 the shape is raised by one and the number
/// multiplied by a power of another (Marsaglia and Tsang, 2000), so that it may be as near to 0 as it should.
Element standard_gamma(Context& ctx, const Draw& draw, const ops::Values& args) {
  const Element a = parameter(ctx, args[0]), small = lt(a, 1.0);
  const Element above = apply(ScalarOp::GammaQuantile, where(small, a + 1.0, a), draw.open_uniform(DType::F64));
  const Element g = where(small, above * exp(log(draw.open_uniform(DType::F64, 2)) / a), above);
  const DType t = ctx.result().dtype;
  return stored(ctx, maximum(g, t == DType::F64 ? 0x1p-1022 : t == DType::F16 ? 0x1p-14 : 0x1p-126));
}

/// draw_seed(device): the seed of this call, for draws that another program is to repeat.
Lowered draw_seed(Context& ctx, const ops::Values&) {
  return result(ctx, Element{&ctx.graph.pool(), ctx.graph.seed()});
}

/// draw(seed, size, physical_layout, kind, a, b, number): numbers that follow from the arguments alone.
Lowered draw(Context& ctx, const ops::Values& args) {
  const sym::TensorMeta& meta = ctx.result();
  const Draw draw(ctx, meta, element(ctx, ctx.tensor(args[0]), meta.sizes), *ctx.integer(args[6]).constant());
  const std::string& kind = args[3].as_string();
  const double a = real(ctx, args[4]), b = real(ctx, args[5]);
  if (kind == "bernoulli") {
    check_probability(ctx, a);
    return result(ctx, draw.bernoulli(a));
  }
  if (kind == "uniform") return result(ctx, from_to(ctx, draw, a, b));
  if (kind != "normal") refuse(ctx, fmt::format("has no kind {}", kind));
  const DType t = register_type(meta.dtype);
  return result(ctx, draw.normal(t) * number(ctx, t, b) + number(ctx, t, a));
}

// ---- Dropout ----

/// The draw of a mask: one for each element, or, for features, one for each of the first two dimensions.
Draw mask_of(Context& ctx, const sym::TensorMeta& meta, bool features) {
  if (!features) return Draw(ctx, meta);
  if (meta.rank() < 2) refuse(ctx, "drops features, which are the second of at least two dimensions");
  return Draw(ctx, ctx.graph.ivar(0) * meta.sizes[1] + ctx.graph.ivar(1));
}

/// dropout(input, p, train): what is kept is scaled by a number of the input's type, and NaN that is dropped stays NaN,
/// as in eager.
LoweringFunction dropout(bool features) {
  return [features](Context& ctx, const ops::Values& args) -> Lowered {
    const double p = real(ctx, args[1]);
    check_probability(ctx, p);
    const sym::TensorMeta& meta = ctx.result();
    const DType t = register_type(meta.dtype);
    const Element x = element(ctx, ctx.tensor(args[0]), meta.sizes);
    if (p == 1) return result(ctx, x * 0.0);
    const Element scale = (number(ctx, t, 1) / number(ctx, t, 1 - p)).cast(meta.dtype);
    return result(ctx, x * where(mask_of(ctx, meta, features).bernoulli(1 - p), scale, number(ctx, t, 0)));
  };
}

/// alpha_dropout(input, p, train): what is dropped becomes SELU's limit, and mean and variance stay.
LoweringFunction alpha_dropout(bool features) {
  return [features](Context& ctx, const ops::Values& args) -> Lowered {
    constexpr double kAlpha = 1.7580993408473766;
    const double p = real(ctx, args[1]);
    check_probability(ctx, p);
    const sym::TensorMeta& meta = ctx.result();
    const DType t = register_type(meta.dtype);
    const Element x = element(ctx, ctx.tensor(args[0]), meta.sizes);
    if (p == 1) return result(ctx, x * 0.0);
    const double a = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p)), shift = kAlpha * a * p;
    const Element keep = mask_of(ctx, meta, features).bernoulli(1 - p);
    return result(ctx, x * where(keep, number(ctx, t, a), number(ctx, t, 0)) +
                           where(keep, number(ctx, t, shift), number(ctx, t, shift - kAlpha * a)));
  };
}

/// native_dropout(input, p, train) to the output and the mask of what was kept.
Lowered native_dropout(Context& ctx, const ops::Values& args) {
  const double p = real(ctx, args[1]);
  check_probability(ctx, p);
  const sym::TensorMeta &meta = ctx.result(0), &mask_meta = ctx.result(1);
  const DType t = register_type(meta.dtype);
  const Element x = element(ctx, ctx.tensor(args[0]), meta.sizes), keep = Draw(ctx, meta).bernoulli(1 - p);
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  return std::vector<TensorBox>{result(ctx, x * where(keep, number(ctx, t, scale), number(ctx, t, 0)), meta),
                                result(ctx, keep, mask_meta)};
}

/// rrelu_with_noise_functional(self, noise, lower, upper, training) to the output and the slopes, which are 1 where the
/// input is positive.
Lowered rrelu_with_noise(Context& ctx, const ops::Values& args) {
  const sym::TensorMeta& meta = ctx.result(0);
  const DType t = register_type(meta.dtype);
  const double lower = real(ctx, args[2]), upper = real(ctx, args[3]);
  const Element x = element(ctx, ctx.tensor(args[0]), meta.sizes);
  const auto* training = args[4].get_if<ops::Bool>();
  if (!training || training->condition.is_constant(0))
    return std::vector<TensorBox>{result(ctx, where(le(x, 0.0), x * ((lower + upper) / 2), x), meta),
                                  result(ctx, element(ctx, ctx.tensor(args[1]), meta.sizes), ctx.result(1))};
  const Element slope = (Draw(ctx, meta).uniform(meta.dtype) * (upper - lower) + lower).cast(meta.dtype);
  const Element sloped = where(le(x, 0.0), slope, number(ctx, t, 1));
  return std::vector<TensorBox>{result(ctx, x * sloped, meta), result(ctx, sloped, ctx.result(1))};
}

}  // namespace

void add_random(Table& t) {
  for (const char* name :
       {"aten.rand.default", "aten.rand.generator", "aten.rand_like.default", "aten.rand_like.generator"})
    t[name] =
        drawn([](Context& ctx, const Draw& draw, const ops::Values&) { return draw.uniform(ctx.result().dtype); });
  for (const char* name :
       {"aten.randn.default", "aten.randn.generator", "aten.randn_like.default", "aten.randn_like.generator"})
    t[name] = drawn([](Context& ctx, const Draw& draw, const ops::Values&) {
      return draw.normal(register_type(ctx.result().dtype));
    });
  for (const char* name : {"aten.randint.default", "aten.randint.generator"})
    t[name] = drawn(
        [](Context& ctx, const Draw& draw, const ops::Values& args) { return draw.integer(0, ctx.integer(args[0])); });
  for (const char* name : {"aten.randint.low", "aten.randint.low_generator"})
    t[name] = drawn([](Context& ctx, const Draw& draw, const ops::Values& args) {
      return draw.integer(ctx.integer(args[0]), ctx.integer(args[1]));
    });
  t["aten.randint_like.default"] = drawn(
      [](Context& ctx, const Draw& draw, const ops::Values& args) { return draw.integer(0, ctx.integer(args[1])); });
  t["aten.randint_like.low_dtype"] = drawn([](Context& ctx, const Draw& draw, const ops::Values& args) {
    return draw.integer(ctx.integer(args[1]), ctx.integer(args[2]));
  });
  t["aten.random.default"] =
      drawn([](Context& ctx, const Draw& draw, const ops::Values&) { return any_integer(ctx, draw, 0); });
  t["aten.random.to"] = drawn(
      [](Context& ctx, const Draw& draw, const ops::Values& args) { return draw.integer(0, ctx.integer(args[1])); });
  t["aten.random.from"] = drawn([](Context& ctx, const Draw& draw, const ops::Values& args) {
    return args[2].is_none() ? any_integer(ctx, draw, ctx.integer(args[1]))
                             : draw.integer(ctx.integer(args[1]), ctx.integer(args[2]));
  });
  t["aten.uniform.default"] = drawn([](Context& ctx, const Draw& draw, const ops::Values& args) {
    return from_to(ctx, draw, real(ctx, args[1]), real(ctx, args[2]));
  });
  for (const char* name :
       {"aten.normal.Tensor_float", "aten.normal.float_Tensor", "aten.normal.Tensor_Tensor", "aten.normal.float_float"})
    t[name] = normal_with;
  t["aten.normal_functional.default"] = normal_like;
  t["aten.log_normal.default"] = drawn([](Context& ctx, const Draw& draw, const ops::Values& args) {
    return exp(draw.normal(float_register(ctx)) * real(ctx, args[2]) + real(ctx, args[1]));
  });
  t["aten.exponential.default"] = drawn([](Context& ctx, const Draw& draw, const ops::Values& args) {
    return log(draw.open_uniform(float_register(ctx))) * (-1 / real(ctx, args[1]));
  });
  t["aten.geometric.default"] = drawn([](Context& ctx, const Draw& draw, const ops::Values& args) {
    return ceil(log(draw.open_uniform(float_register(ctx))) /
                number(ctx, float_register(ctx), std::log1p(-real(ctx, args[1]))));
  });
  t["aten.cauchy.default"] = drawn([](Context& ctx, const Draw& draw, const ops::Values& args) {
    return tan((draw.open_uniform(float_register(ctx)) - 0.5) * M_PI) * real(ctx, args[2]) + real(ctx, args[1]);
  });
  t["aten.poisson.default"] = drawn([](Context& ctx, const Draw& draw, const ops::Values& args) {
    return stored(ctx, apply(ScalarOp::PoissonDraw, parameter(ctx, args[0]), draw.uniform(DType::F64)));
  });
  t["aten.binomial.default"] = drawn([](Context& ctx, const Draw& draw, const ops::Values& args) {
    return stored(
        ctx, apply(ScalarOp::BinomialDraw, parameter(ctx, args[0]), parameter(ctx, args[1]), draw.uniform(DType::F64)));
  });
  t["aten._standard_gamma.default"] = drawn(standard_gamma);
  t["aten.bernoulli.default"] = bernoulli_of(0);
  t["aten.bernoulli.Tensor"] = bernoulli_of(1);
  t["aten.bernoulli.p"] = drawn([](Context& ctx, const Draw& draw, const ops::Values& args) {
    check_probability(ctx, real(ctx, args[1]));
    return draw.bernoulli(real(ctx, args[1]));
  });
  t["coil.draw_seed.default"] = draw_seed;
  t["coil.draw.default"] = draw;
  t["aten.dropout.default"] = dropout(false);
  t["aten.feature_dropout.default"] = dropout(true);
  t["aten.alpha_dropout.default"] = alpha_dropout(false);
  t["aten.feature_alpha_dropout.default"] = alpha_dropout(true);
  t["aten.native_dropout.default"] = native_dropout;
  t["aten.rrelu_with_noise_functional.default"] = rrelu_with_noise;
}

}  // namespace coil::lowering
