// Conversions between dtypes, and copies.
#include <cmath>
#include <optional>

#include "library_ops/copies.h"
#include "lowering/common.h"

namespace coil::lowering {

namespace {

/// The copy on another device. What changes beside the device (type, layout) does so where the value comes from, as in
/// eager, so that the copy itself moves memory as it lies.
TensorBox copy_to_device(Context& ctx, const TensorBox& box) {
  const sym::TensorMeta& made = ctx.result();
  const auto values = [&] {
    const Element v = element(ctx, box, made.sizes);
    return box.dtype() == made.dtype ? v : v.cast(made.dtype);
  };
  const bool has_memory = box.storage->realized() || box.storage->body->has_loads;
  if (!has_memory) return result(ctx, values());
  const Exprs strides = ir::dense_strides(ctx.graph.env(), made.sizes, made.strides);
  std::optional<BufferView> from = box.dtype() == made.dtype ? box.strided() : std::nullopt;
  if (!from || from->strides != strides) {
    sym::TensorMeta there = made;
    there.device = box.device();
    const TensorBox relaid = result(ctx, values(), there);
    ir::Layout& layout = ctx.graph.buffer(relaid.realize()).layout;
    layout.fixed = true;
    from = BufferView{*relaid.storage->buffer, made.dtype, made.sizes, layout.strides, 0};
  }
  ctx.graph.buffer(from->buffer).layout.fixed = true;
  const auto [copy, to] = library_result(ctx, made.dtype, made.sizes, from->strides);
  ctx.graph.buffer(to.buffer).layout.fixed = true;
  const ops::Operator* op = ctx.node->op;
  const bool has_flag = op && std::ranges::any_of(op->schema.parameters, [](const ops::Parameter& p) {
                          return p.name == library_ops::copies::kNonBlocking.name;
                        });
  const auto* flag = has_flag ? ctx.node->arg(library_ops::copies::kNonBlocking.name).get_if<ops::Bool>() : nullptr;
  library_ops::Attributes attributes;
  if (flag && flag->condition.is_constant(1))
    attributes.emplace(library_ops::copies::kNonBlocking.name, std::int64_t{1});
  add_library_call(ctx, std::string(library_ops::copies::kDeviceCopy), std::move(attributes), {*from}, {to});
  return copy;
}

/// The same values in the recorded dtype and layout. A conversion to a narrow float rounds, also where consumers absorb
/// it: it is there to lose precision.
Lowered copy(Context& ctx, const ops::Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  if (ctx.graph.on_several_devices && box.device() != ctx.result().device) return copy_to_device(ctx, box);
  Element v = element(ctx, box, ctx.result().sizes);
  const DType from = box.dtype(), to = ctx.result().dtype;
  // What an integer or a bool is made of is rounded as it would be stored: in 16 bits, what is almost 1 is 1.
  if (!is_floating(to)) v = as_stored(v, from);
  // A float below zero is made the signed number first, as where eager runs; C++ leaves it open.
  if (to == DType::U64 && is_floating(from)) v = where(lt(v, 0.0), v.cast(DType::I64).cast(to), v.cast(to));
  return result(ctx, from == to ? v : v.cast(to));
}

Element bitcast(Context& ctx, Element v, DType to) { return {&ctx.graph.pool(), ctx.graph.pool().bitcast(v, to)}; }

constexpr double kWord = 4294967295.0;
constexpr double kSpecial = 0x7f800000;  ///< f32's bits from here on are infinity and NaN

/// A float of less than 32 bits, f32 in registers, that is not f32's upper half.
struct Narrow {
  int bits, digits, bias;  ///< digits of the mantissa
  bool has_infinity;       ///< else only the greatest bits of all are NaN
  std::int64_t exponents() const { return (std::int64_t{1} << (bits - 1 - digits)) - 1; }
  std::int64_t fraction() const { return (std::int64_t{1} << digits) - 1; }
  double tiny() const { return std::ldexp(1.0, 1 - bias - digits); }  ///< the least number above 0
};

std::optional<Narrow> narrow(DType d) {
  switch (d) {
    case DType::F16: return Narrow{16, 10, 15, true};
    case DType::F8E5M2: return Narrow{8, 2, 15, true};
    case DType::F8E4M3: return Narrow{8, 3, 7, false};
    default: return {};
  }
}

Element bits_of_f32(Context& ctx, Element v) { return bitcast(ctx, v, DType::I32).cast(DType::I64) & kWord; }

Element bits_of_narrow(Context& ctx, Element v, const Narrow& n) {
  const int shift = 23 - n.digits;
  Element all = bits_of_f32(ctx, v), a = all & 0x7fffffff;
  Element normal = shift_right(a, shift) - static_cast<double>(std::int64_t{127 - n.bias} << n.digits);
  Element small = (abs(v) * (1 / n.tiny())).cast(DType::I64);
  Element special = n.has_infinity ? (shift_right(a, shift) & static_cast<double>(n.fraction())) |
                                         static_cast<double>(n.exponents() << n.digits)
                                   : number(ctx, DType::I64, 0x7f);
  Element made = where(ge(a, kSpecial), special,
                       where(ge(a, static_cast<double>(std::int64_t{128 - n.bias} << 23)), normal, small));
  return made | shift_left(shift_right(all, 31), n.bits - 1);
}

Element narrow_of_bits(Context& ctx, Element bits, const Narrow& n) {
  const int shift = 23 - n.digits;
  Element e = shift_right(bits, n.digits) & static_cast<double>(n.exponents()),
          f = bits & static_cast<double>(n.fraction()), sign = shift_right(bits, n.bits - 1) & 1;
  Element normal = shift_left(e + static_cast<double>(127 - n.bias), 23) | shift_left(f, shift),
          small = bits_of_f32(ctx, f.cast(DType::F32) * n.tiny());
  Element made = where(eq(e, 0), small, normal);
  if (n.has_infinity)
    made = where(eq(e, static_cast<double>(n.exponents())), shift_left(f, shift) | kSpecial, made);
  else
    made = where(eq(bits & 0x7f, 0x7f), number(ctx, DType::I64, 0x7fc00000), made);
  return bitcast(ctx, (made | shift_left(sign, 31)).cast(DType::I32), DType::F32);
}

/// The bits of an element as stored, as a number without sign in I64.
Element bits_of(Context& ctx, Element v, DType stored) {
  if (auto n = narrow(stored)) return bits_of_narrow(ctx, v, *n);
  switch (stored) {
    case DType::F64: return bitcast(ctx, v, DType::I64);
    case DType::F32: return bits_of_f32(ctx, v);
    case DType::BF16: return shift_right(bits_of_f32(ctx, v), 16);  // f32 in registers: the upper half
    default: break;
  }
  if (is_complex(stored)) refuse(ctx, fmt::format("reads the bits of {}", torch_name(stored)));
  v = v.cast(DType::I64);
  return size_of(stored) == 8 ? v : v & static_cast<double>((std::int64_t{1} << (8 * size_of(stored))) - 1);
}

/// The other way round: the lowest bits of an I64 as an element of `to`, in its register type.
Element from_bits(Context& ctx, Element bits, DType to) {
  if (auto n = narrow(to)) return narrow_of_bits(ctx, bits, *n);
  switch (to) {
    case DType::F64: return bitcast(ctx, bits, DType::F64);
    case DType::F32: return bitcast(ctx, bits.cast(DType::I32), DType::F32);
    case DType::BF16: return bitcast(ctx, shift_left(bits, 16).cast(DType::I32), DType::F32);
    case DType::Bool: return ne(bits & 255, 0);
    default: break;
  }
  if (is_complex(to)) refuse(ctx, fmt::format("makes {} of bits", torch_name(to)));
  return bits.cast(to);
}

/// The same bytes as elements of another type; of another width, several elements of the last dimension are one or one
/// is several (lowest first).
Lowered view_dtype(Context& ctx, const ops::Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const DType from = box.dtype(), to = ctx.result().dtype;
  const Exprs& sizes = ctx.result().sizes;
  if (from == to) return box;
  const bool in_registers = register_type(from) == from && register_type(to) == to;
  if (size_of(from) == size_of(to) && in_registers) return result(ctx, bitcast(ctx, element(ctx, box, sizes), to));
  if (size_of(from) == size_of(to))
    return result(ctx, from_bits(ctx, bits_of(ctx, element(ctx, box, sizes), from), to));
  Exprs index = ctx.graph.ivars(sizes.size());
  const auto from_bytes = static_cast<std::int64_t>(size_of(from)), to_bytes = static_cast<std::int64_t>(size_of(to));
  if (from_bytes > to_bytes) {
    const Expr parts = from_bytes / to_bytes, last = index.back();
    index.back() = sym::floor_div(last, parts);
    Element whole = bits_of(ctx, element_at(ctx, box, index, sizes), from);
    return result(ctx,
                  from_bits(ctx, shift_right(whole, index_value(ctx, sym::mod(last, parts) * (8 * to_bytes))), to));
  }
  const Expr last = index.back();
  Element made;
  for (std::int64_t part = 0; part < to_bytes / from_bytes; ++part) {
    index.back() = last * (to_bytes / from_bytes) + part;
    Element bits = bits_of(ctx, element_at(ctx, box, index, sizes), from);
    made = part == 0 ? bits : made | shift_left(bits, static_cast<double>(8 * from_bytes * part));
  }
  return result(ctx, from_bits(ctx, made, to));
}

/// Complex tensors at the border of a program and around what LAPACK does: their memory as pairs of real numbers, and
/// pairs as complex numbers. Elsewhere there are none (passes/graph/split_complex.h).
Lowered copy_parts(Context& ctx, const ops::Values& args) {
  auto [made, window] = library_result(ctx, ctx.result().dtype, ctx.result().sizes, ctx.result().strides);
  add_library_call(ctx, "complex_parts", {}, {library_operand(ctx.tensor(args[0]))}, {window});
  return made;
}

/// The argument itself: what eager does when there is nothing to do, or where only autograd cares.
Lowered same(Context& ctx, const ops::Values& args) { return ctx.tensor(args[0]); }

}  // namespace

void add_casts(Table& t) {
  for (const char* name : {"aten._to_copy.default", "aten.clone.default", "aten.contiguous.default",
                           "aten.lift_fresh_copy.default", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device",
                           "aten.to.other", "aten.type_as.default", "prims.convert_element_type.default"})
    t[name] = copy;
  t["aten.view.dtype"] = view_dtype;
  t["aten.view_as_real.default"] = t["aten.view_as_complex.default"] = copy_parts;
  for (const char* name : {"aten.alias.default", "aten.detach.default", "aten.lift.default"}) t[name] = same;
}

}  // namespace coil::lowering
