// Conversions between dtypes, and copies.
#include "lowering/common.h"

namespace coil::lowering {

namespace {

/// The same values in the recorded dtype and layout. A conversion to a narrow float rounds, also where consumers absorb it: it is there to lose precision.
Lowered copy(Context& ctx, const ops::Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  Value v = element(ctx, box, ctx.result().sizes);
  return result(ctx, box.dtype() == ctx.result().dtype ? v : v.cast(ctx.result().dtype));
}

Value bitcast(Context& ctx, Value v, DType to) { return {&ctx.graph.pool(), ctx.graph.pool().bitcast(v, to)}; }

/// The bits of an element as stored, as a number without sign in I64.
Value bits_of(Context& ctx, Value v, DType stored) {
  constexpr double kWord = 4294967295.0;
  switch (stored) {
    case DType::F64: return bitcast(ctx, v, DType::I64);
    case DType::F32: return bitcast(ctx, v, DType::I32).cast(DType::I64) & kWord;
    case DType::BF16: return shift_right(bitcast(ctx, v, DType::I32).cast(DType::I64) & kWord, 16);  // f32 in registers: the upper half
    default: break;
  }
  if (is_floating(stored) || is_complex(stored)) refuse(ctx, fmt::format("reads the bits of {}", torch_name(stored)));
  v = v.cast(DType::I64);
  return size_of(stored) == 8 ? v : v & static_cast<double>((std::int64_t{1} << (8 * size_of(stored))) - 1);
}

/// The other way round: the lowest bits of an I64 as an element of `to`, in its register type.
Value from_bits(Context& ctx, Value bits, DType to) {
  switch (to) {
    case DType::F64: return bitcast(ctx, bits, DType::F64);
    case DType::F32: return bitcast(ctx, bits.cast(DType::I32), DType::F32);
    case DType::BF16: return bitcast(ctx, shift_left(bits, 16).cast(DType::I32), DType::F32);
    case DType::Bool: return ne(bits & 255, 0);
    default: break;
  }
  if (is_floating(to) || is_complex(to)) refuse(ctx, fmt::format("makes {} of bits", torch_name(to)));
  return bits.cast(to);
}

/// The same bytes as elements of another type; of another width, several elements of the last dimension are one or one is several (lowest first).
Lowered view_dtype(Context& ctx, const ops::Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const DType from = box.dtype(), to = ctx.result().dtype;
  const Exprs& sizes = ctx.result().sizes;
  if (from == to) return box;
  const bool in_registers = register_type(from) == from && register_type(to) == to;
  if (size_of(from) == size_of(to) && in_registers) return result(ctx, bitcast(ctx, element(ctx, box, sizes), to));
  if (size_of(from) == size_of(to)) return result(ctx, from_bits(ctx, bits_of(ctx, element(ctx, box, sizes), from), to));
  Exprs index = ctx.graph.ivars(sizes.size());
  const auto from_bytes = static_cast<std::int64_t>(size_of(from)), to_bytes = static_cast<std::int64_t>(size_of(to));
  if (from_bytes > to_bytes) {
    const Expr parts = from_bytes / to_bytes, last = index.back();
    index.back() = sym::floor_div(last, parts);
    Value whole = bits_of(ctx, element_at(ctx, box, index, sizes), from);
    return result(ctx, from_bits(ctx, shift_right(whole, index_value(ctx, sym::mod(last, parts) * (8 * to_bytes))), to));
  }
  const Expr last = index.back();
  Value made;
  for (std::int64_t part = 0; part < to_bytes / from_bytes; ++part) {
    index.back() = last * (to_bytes / from_bytes) + part;
    Value bits = bits_of(ctx, element_at(ctx, box, index, sizes), from);
    made = part == 0 ? bits : made | shift_left(bits, static_cast<double>(8 * from_bytes * part));
  }
  return result(ctx, from_bits(ctx, made, to));
}

/// Complex tensors at the border of a program: their memory as pairs of real numbers, and pairs as complex numbers. In between there are none (passes/split_complex.h).
Lowered copy_parts(Context& ctx, const ops::Values& args) {
  auto [made, window] = library_result(ctx, ctx.result().dtype, ctx.result().sizes, ctx.result().strides);
  add_library_call(ctx, "complex_parts", {}, {library_operand(ctx.tensor(args[0]))}, {window});
  return made;
}

/// The argument itself: what eager does when there is nothing to do, or where only autograd cares.
Lowered same(Context& ctx, const ops::Values& args) { return ctx.tensor(args[0]); }

}  // namespace

void add_casts(Table& t) {
  for (const char* name : {"aten._to_copy.default", "aten.clone.default", "aten.contiguous.default", "aten.lift_fresh_copy.default", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device",
                           "aten.to.other", "aten.type_as.default", "prims.convert_element_type.default"})
    t[name] = copy;
  t["aten.view.dtype"] = view_dtype;
  t["aten.view_as_real.default"] = t["aten.view_as_complex.default"] = copy_parts;
  for (const char* name : {"aten.alias.default", "aten.detach.default", "aten.lift.default"}) t[name] = same;
}

}  // namespace coil::lowering
