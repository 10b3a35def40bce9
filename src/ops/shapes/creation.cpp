// Tensors made from sizes and numbers.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"
#include "sym/floats.h"

namespace coil::ops::shapes {

namespace {

constexpr std::string_view kOfSize = R"(
aten::empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None)
    -> Tensor
aten::ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None)
    -> Tensor
aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None) -> Tensor
)";

constexpr std::string_view kLike = R"(
aten::empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
aten::zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
aten::ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None,
    MemoryFormat? memory_format=None) -> Tensor
aten::full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
)";

constexpr std::string_view kRandomLike = R"(
aten::rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None,
    MemoryFormat? memory_format=None) -> Tensor
aten::rand_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None,
    Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
aten::randn_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
aten::randn_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None,
    Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
aten::randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
aten::randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, Layout? layout=None,
    Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
aten::bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor
aten::normal_functional(Tensor self, float mean=0.0, float std=1.0, *, Generator? generator=None) -> Tensor
aten::uniform(Tensor self, float from=0.0, float to=1.0, *, Generator? generator=None) -> Tensor
aten::exponential(Tensor self, float lambd=1.0, *, Generator? generator=None) -> Tensor
aten::geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor
aten::cauchy(Tensor self, float median=0.0, float sigma=1.0, *, Generator? generator=None) -> Tensor
aten::log_normal(Tensor self, float mean=1.0, float std=2.0, *, Generator? generator=None) -> Tensor
aten::random(Tensor self, *, Generator? generator=None) -> Tensor
aten::random.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor
aten::random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor
)";

// As `kRandomLike`, but dense however the tensor lies.
constexpr std::string_view kRandomDense = R"(
aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor
aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor
aten::normal.Tensor_float(Tensor mean, float std=1.0, *, Generator? generator=None) -> Tensor
)";

constexpr std::string_view kNormals = R"(
aten::normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor
aten::normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor
)";

constexpr std::string_view kRandomOfSize = R"(
aten::rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None)
    -> Tensor
aten::rand.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None,
    Device? device=None, bool? pin_memory=None) -> Tensor
aten::randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None)
    -> Tensor
aten::randn.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None,
    Device? device=None, bool? pin_memory=None) -> Tensor
aten::normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, ScalarType? dtype=None,
    Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
)";

// The default type of these is i64.
constexpr std::string_view kRandomIntegers = R"(
aten::randint(SymInt high, SymInt[] size, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None,
    bool? pin_memory=None) -> Tensor
aten::randint.generator(SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=long,
    Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
aten::randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=long, Layout? layout=None,
    Device? device=None, bool? pin_memory=None) -> Tensor
aten::randint.low_generator(SymInt low, SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=long,
    Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
)";

constexpr std::string_view kNew = R"(
aten::new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None) -> Tensor
aten::new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None) -> Tensor
aten::new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None) -> Tensor
aten::new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None,
    Device? device=None, bool? pin_memory=None) -> Tensor
)";

constexpr std::string_view kRanges = R"(
aten::arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None)
    -> Tensor
aten::arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None) -> Tensor
aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None,
    Device? device=None, bool? pin_memory=None) -> Tensor
)";

constexpr std::string_view kSpaced = R"(
aten::linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None) -> Tensor
)";

constexpr std::string_view kTriangles = R"(
aten::tril(Tensor self, SymInt diagonal=0) -> Tensor
aten::triu(Tensor self, SymInt diagonal=0) -> Tensor
)";

Device given_device(const Call& call, Device fallback = {}) {
  const Value* value = given(call, "device");
  const Device* device = value ? value->get_if<Device>() : nullptr;
  return device ? *device : fallback;
}

Exprs sizes_argument(const Call& call) {
  Exprs sizes = call["size"].as_ints();
  for (Expr size : sizes)
    if (size.is_constant() && *size.constant() < 0) refuse(call, "negative size in {}", show(sizes));
  return sizes;
}

/// A new tensor; the type is `dtype`, else that of the value it is filled with, else `fallback`.
TensorMeta create(const Call& call, Exprs sizes, DType fallback) {
  if (const Value* fill = given(call, "fill_value")) {
    const auto* held = fill->get_if<TensorMeta>();  // a complex number is a constant without dimensions
    fallback = held ? held->dtype : number_type(*fill).value_or(fallback);
  }
  TensorMeta made = dense(call.env, given_dtype(call).value_or(fallback), given_device(call), std::move(sizes));
  auto format = given_format(call);
  if (format && *format != MemoryFormat::Preserve) made.strides = format_strides(call.env, made.sizes, *format);
  return made;
}

Value of_size(const Call& call) { return create(call, sizes_argument(call), DType::F32); }
Value integers_of_size(const Call& call) { return create(call, sizes_argument(call), DType::I64); }

Value like(const Call& call) {
  TensorMeta made = call.tensor(0);
  made.dtype = given_dtype(call).value_or(made.dtype);
  made.device = given_device(call, made.device);
  return like_in_format(call.env, made, given_format(call));
}

Value of_new(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  return dense(call.env, given_dtype(call).value_or(self.dtype), given_device(call, self.device), sizes_argument(call));
}

Value strided(const Call& call) {
  bool is_new = call[0].is<TensorMeta>();
  TensorMeta made{DType::F32, {}, call["size"].as_ints(), call["stride"].as_ints(), 0};
  if (made.sizes.size() != made.strides.size()) refuse(call, "sizes and strides differ in number");
  if (is_new) made.dtype = call.tensor(0).dtype, made.device = call.tensor(0).device;
  made.dtype = given_dtype(call).value_or(made.dtype);
  made.device = given_device(call, made.device);
  return made;
}

Value permuted(const Call& call) {
  TensorMeta made = create(call, sizes_argument(call), DType::F32);
  auto order = dims_argument(call, made.rank(), "physical_layout");
  if (order.size() != made.rank()) refuse(call, "the layout does not name every dimension");
  made.strides = permuted_strides(call.env, made.sizes, order);
  return made;
}

/// Numbers that lie where the seed does.
Value drawn(const Call& call) {
  TensorMeta made =
      dense(call.env, given_dtype(call).value_or(DType::F32), call.tensor(0).device, sizes_argument(call));
  auto order = dims_argument(call, made.rank(), "physical_layout");
  if (order.size() != made.rank()) refuse(call, "the layout does not name every dimension");
  made.strides = permuted_strides(call.env, made.sizes, order);
  return made;
}

/// ceil((end - start) / step), exactly for integers, in double for floats as in ATen/native/RangeFactories.cpp.
std::optional<double> known(const Value& v) {
  if (const auto* d = v.get_if<double>()) return *d;
  if (const auto* e = v.get_if<Expr>(); e && e->is_constant()) return static_cast<double>(*e->constant());
  return std::nullopt;
}

/// Whether a step leads away from the end, even where less than one step fits between.
bool runs_backwards(const Value& start, const Value& end, const Value& step) {
  const auto from = known(start), to = known(end), by = known(step);
  return from && to && by && (*to - *from) * *by < 0;
}

/// As eager has it for i64 alone: bounds and step without their fractions.
Value without_fraction(const Value& v) {
  const auto number = known(v);
  if (!number || !std::isfinite(*number) || std::abs(*number) >= 0x1p62) return v;
  return Expr(static_cast<std::int64_t>(*number));
}

Value range(const Call& call) {
  auto part = [&](std::string_view name, int fallback) {
    const Value* value = given(call, name);
    const Bool* truth = value ? value->get_if<Bool>() : nullptr;
    if (truth && truth->condition.is_constant()) return Value(truth->condition.is_constant(1) ? 1 : 0);
    return value ? *value : Value(fallback);
  };
  Value start = part("start", 0), end = part("end", 0), step = part("step", 1);
  if (runs_backwards(start, end, step)) refuse(call, "the bounds do not agree with the sign of the step");
  if (given_dtype(call) == DType::I64)
    for (Value* v : {&start, &end, &step}) *v = without_fraction(*v);
  bool whole = start.is<Expr>() && end.is<Expr>() && step.is<Expr>();
  DType dtype = given_dtype(call).value_or(whole ? DType::I64 : DType::F32);
  if (!whole) {
    const auto from = float_of(start), to = float_of(end), by = float_of(step);
    if (!from || !to || !by) refuse(call, "the bounds are floats that only data tell");
    const Expr length = from->is_constant(0)
                            ? *to
                            : sym::float_call(FloatFunction::Add, *to,
                                              sym::float_call(FloatFunction::Mul, sym::float_constant(-1), *from));
    const Expr n = sym::float_call(FloatFunction::CeilToInt, sym::float_call(FloatFunction::Div, length, *by));
    if (n.is_constant() && *n.constant() < 0) refuse(call, "the bounds do not agree with the sign of the step");
    return create(call, {call.env.simplify(n)}, dtype);
  }
  Expr length = end.as_int() - start.as_int(), by = step.as_int();
  if (by.is_constant(0)) refuse(call, "the step is 0");
  if (by.is_constant() && *by.constant() < 0) length = -length, by = -by;
  Expr n = sym::ceil_div(length, by);
  if (n.is_constant() && *n.constant() < 0) refuse(call, "the bounds do not agree with the sign of the step");
  return create(call, {call.env.simplify(n)}, dtype);
}

Value spaced(const Call& call) { return create(call, {call["steps"].as_int()}, DType::F32); }

Value scalar(const Call& call) { return create(call, {}, DType::F32); }

Value eye(const Call& call) {
  const Value* columns = given(call, "m");
  for (const Value* n : {&call[0], columns})
    if (n && n->is<Expr>() && call.env.statically_known_lt(n->as_int(), 0))
      refuse(call, "takes no negative number of rows or columns: {}", to_string(*n));
  return create(call, {call[0].as_int(), columns ? columns->as_int() : call[0].as_int()}, DType::F32);
}

Value permutation(const Call& call) { return create(call, {call["n"].as_int()}, DType::I64); }

/// A result like the first tensor and another of its sizes: bytes that tell what was kept, or the slopes.
Value random_pair(const Call& call) {
  TensorMeta made = like_in_format(call.env, call.tensor(0), MemoryFormat::Preserve), other = made;
  if (call.op.schema.target == "aten._fused_dropout.default")
    other.dtype = DType::U8;
  else
    other = like_in_format(call.env, call.tensor(1), MemoryFormat::Preserve);
  return Values{made, other};
}

Value sampled(const Call& call) {
  TensorMeta made = call.tensor(0);
  if (made.rank() != 1 && made.rank() != 2) refuse(call, "takes weights of one or two dimensions, not {}", made.rank());
  made.sizes.back() = call["num_samples"].as_int();
  return dense(call.env, DType::I64, made.device, made.sizes);
}

Value triangle(const Call& call) {
  if (call.tensor(0).rank() < 2) refuse(call, "takes a matrix or a batch of them");
  return dense(call.env, call.tensor(0), call.tensor(0).sizes);
}

/// How many elements lie below a diagonal, `offset` above the main one, or on it.
std::int64_t count_of_lower(std::int64_t rows, std::int64_t columns, std::int64_t offset) {
  // Rows with none of them, then rows with one more each, then whole rows. Beyond the matrix all offsets are alike.
  offset = std::clamp(offset, -rows - 1, columns);
  const std::int64_t none = std::clamp<std::int64_t>(-offset, 0, rows),
                     rest = std::clamp<std::int64_t>(columns - offset, none, rows);
  const std::int64_t first = std::clamp<std::int64_t>(none + offset + 1, 0, columns), growing = rest - none;
  const std::int64_t last = first + growing - 1;
  const std::int64_t slope = growing % 2 == 0 ? growing / 2 * (first + last) : (first + last) / 2 * growing;
  return slope + (rows - rest) * columns;
}

Value triangle_indices(const Call& call) {
  const std::int64_t rows = std::max<std::int64_t>(number(call, "row"), 0),
                     columns = std::max<std::int64_t>(number(call, "col"), 0), offset = number(call, "offset");
  std::int64_t all = 0;
  if (__builtin_mul_overflow(rows, columns, &all) || __builtin_mul_overflow(all, 16, &all) ||
      rows == std::numeric_limits<std::int64_t>::max())
    refuse(call, "makes a tensor of a matrix of {} by {}, which no memory holds", rows, columns);
  const bool upper = call.op.schema.target.starts_with("aten.triu");
  const std::int64_t below = upper && offset == std::numeric_limits<std::int64_t>::min()
                                 ? 0
                                 : count_of_lower(rows, columns, upper ? offset - 1 : offset);
  return create(call, {2, upper ? rows * columns - below : below}, DType::I64);
}

}  // namespace

void register_creation() {
  constexpr Traits kRandom{.random = true};
  define_each(kOfSize, of_size);
  define_each(kLike, like);
  define_each(kNew, of_new);
  define_each(kRanges, range);
  define_each(kSpaced, spaced);
  define_with_twins(kTriangles, triangle);
  define_each(kRandomLike, like, kRandom);
  define_each(
      kRandomDense, [](const Call& call) -> Value { return dense(call.env, call.tensor(0), call.tensor(0).sizes); },
      kRandom);
  define_each(
      kNormals,
      [](const Call& call) -> Value { return elementwise(call, tensors(call), tensors(call).front()->dtype); },
      kRandom);
  define_each(R"(
aten::_fused_dropout(Tensor self, float p, Generator? generator=None) -> (Tensor, Tensor)
aten::rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar upper=0.33333333333333331,
    bool training=False, Generator? generator=None) -> (Tensor, Tensor noise_out)
)",
              random_pair, kRandom);
  define_each(
      R"(
aten::poisson(Tensor self, Generator? generator=None) -> Tensor
aten::binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor
aten::_standard_gamma(Tensor self, Generator? generator=None) -> Tensor
aten::_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor
)",
      [](const Call& call) -> Value { return dense(call.env, call.tensor(0), call.tensor(0).sizes); }, kRandom);
  define_each(
      "aten::multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> "
      "Tensor",
      sampled, kRandom);
  define_each(kRandomOfSize, of_size, kRandom);
  // What training graphs draw from, so that the backward one may draw again (python/coil/draws.py).
  define_each(
      "coil::draw_seed(*, Device? device=None) -> Tensor",
      [](const Call& call) -> Value { return create(call, {}, DType::I64); }, kRandom);
  define_each(R"(
coil::draw(Tensor seed, SymInt[] size, int[] physical_layout, str kind, float a, float b, int number, *,
    ScalarType? dtype=None) -> Tensor
)",
              drawn);
  define_each(kRandomIntegers, integers_of_size, kRandom);
  define_each(R"(
aten::empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None) -> Tensor
aten::new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None,
    Device? device=None, bool? pin_memory=None) -> Tensor
)",
              strided);
  define_each(R"(
aten::empty_permuted(SymInt[] size, int[] physical_layout, *, ScalarType? dtype=None, Layout? layout=None,
    Device? device=None, bool? pin_memory=None) -> Tensor
)",
              permuted);
  define_each(R"(
aten::scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None) -> Tensor
)",
              scalar);
  define_each(R"(
aten::eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None)
    -> Tensor
aten::eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None) -> Tensor
)",
              eye);
  define_each(R"(
aten::randperm(SymInt n, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None, bool? pin_memory=None)
    -> Tensor
aten::randperm.generator(SymInt n, *, Generator? generator, ScalarType? dtype=long, Layout? layout=None,
    Device? device=None, bool? pin_memory=None) -> Tensor
)",
              permutation, kRandom);
  define_each(R"(
aten::tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None,
    bool? pin_memory=None) -> Tensor
aten::triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None,
    bool? pin_memory=None) -> Tensor
)",
              triangle_indices);
}

}  // namespace coil::ops::shapes
