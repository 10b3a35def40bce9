#include "runtime/plan/shape_program.h"

#include <algorithm>
#include <cstring>

#include "support/error.h"
#include "support/float_functions.h"

namespace coil::runtime {
namespace {

[[noreturn]] void overflow() { fail("the sizes of this call overflow 64 bits"); }

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  if (b == 0) fail("the sizes of this call lead to a division by zero");
  if (b == -1) {
    if (a == INT64_MIN) overflow();
    return -a;
  }
  const std::int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) fail("the sizes of this call lead to a negative power");
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow();
  }
  return result;
}

std::int64_t shift(std::int64_t value, std::int64_t by, bool left) {
  if (by < 0 || by > 63) fail("the sizes of this call lead to a shift by {}", by);
  if (!left) return value >> by;
  const auto shifted = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << by);
  if (shifted >> by != value) overflow();
  return shifted;
}

std::int64_t dimension(std::span<const Tensor> inputs, const ShapeInstruction& in, bool stride) {
  const Tensor& t = inputs[static_cast<std::size_t>(in.a)];
  const Sizes& of = stride ? t.strides : t.sizes;
  if (in.b < 0 || static_cast<std::size_t>(in.b) >= of.size())
    fail("input {} has {} dimensions, too few", in.a, of.size());
  return of[static_cast<std::size_t>(in.b)];
}

inline std::int64_t evaluate(const ShapeInstruction& in, std::span<const Tensor> inputs, const std::int64_t* slots) {
  auto a = [&] { return slots[in.a]; };
  auto b = [&] { return slots[in.b]; };
  std::int64_t r = 0;
  switch (in.op) {
    case ShapeOp::Constant: return in.a;
    case ShapeOp::InputSize: return dimension(inputs, in, false);
    case ShapeOp::InputStride: return dimension(inputs, in, true);
    case ShapeOp::InputValue: return integer_value(inputs[static_cast<std::size_t>(in.a)]);
    case ShapeOp::Add:
      if (__builtin_add_overflow(a(), b(), &r)) overflow();
      return r;
    case ShapeOp::Sub:
      if (__builtin_sub_overflow(a(), b(), &r)) overflow();
      return r;
    case ShapeOp::Mul:
      if (__builtin_mul_overflow(a(), b(), &r)) overflow();
      return r;
    case ShapeOp::FloorDiv: return floor_div(a(), b());
    case ShapeOp::CeilDiv: {
      const std::int64_t q = floor_div(a(), b());
      return q + (b() != -1 && a() % b() != 0);
    }
    case ShapeOp::Mod: return b() == -1 ? 0 : a() - floor_div(a(), b()) * b();
    case ShapeOp::Min: return std::min(a(), b());
    case ShapeOp::Max: return std::max(a(), b());
    case ShapeOp::Pow: return power(a(), b());
    case ShapeOp::Where: return a() ? b() : slots[in.c];
    case ShapeOp::Eq: return a() == b();
    case ShapeOp::Ne: return a() != b();
    case ShapeOp::Lt: return a() < b();
    case ShapeOp::Le: return a() <= b();
    case ShapeOp::And: return a() && b();
    case ShapeOp::Or: return a() || b();
    case ShapeOp::Not: return !a();
    case ShapeOp::BitAnd: return a() & b();
    case ShapeOp::BitOr: return a() | b();
    case ShapeOp::BitXor: return a() ^ b();
    case ShapeOp::ShiftLeft: return shift(a(), b(), true);
    case ShapeOp::ShiftRight: return shift(a(), b(), false);
    case ShapeOp::Float: return apply_float_function(static_cast<FloatFunction>(in.c), a(), b());
    case ShapeOp::RunTime: break;
  }
  fail("unknown shape instruction {}", static_cast<int>(in.op));
}

}  // namespace

std::int64_t integer_value(const Tensor& t) {
  auto read = [&]<class T>(T) {
    T value;
    std::memcpy(&value, t.bytes(), sizeof value);
    return static_cast<std::int64_t>(value);
  };
  if (!t.storage.data || t.numel() != 1) fail("a tensor with one element was expected where a number is read");
  switch (t.dtype) {
    case DType::I64:
    case DType::U64: return read(std::int64_t{});
    case DType::I32: return read(std::int32_t{});
    case DType::U32: return read(std::uint32_t{});
    case DType::I16: return read(std::int16_t{});
    case DType::U16: return read(std::uint16_t{});
    case DType::I8: return read(std::int8_t{});
    case DType::U8: return read(std::uint8_t{});
    case DType::Bool: return read(std::uint8_t{}) != 0;
    default: fail("a {} tensor was given where an integer is read", torch_name(t.dtype));
  }
}

int slot_operands(ShapeOp op) {
  switch (op) {
    case ShapeOp::Constant:
    case ShapeOp::InputSize:
    case ShapeOp::InputStride:
    case ShapeOp::InputValue:
    case ShapeOp::RunTime: return 0;
    case ShapeOp::Not: return 1;
    case ShapeOp::Where: return 3;
    default: return 2;
  }
}

ShapeStages::ShapeStages(std::span<const ShapeInstruction> program) : after(1) {
  for (std::size_t i = 0; i < program.size(); ++i) {
    const ShapeInstruction& in = program[i];
    std::uint32_t stage = 0;
    if (in.op == ShapeOp::RunTime) {
      stage = static_cast<std::uint32_t>(in.a) + 1;
    } else {
      const std::int64_t operands[] = {in.a, in.b, in.c};
      for (int k = 0; k < slot_operands(in.op); ++k) stage = std::max(stage, of[static_cast<std::size_t>(operands[k])]);
    }
    of.push_back(stage);
    if (after.size() <= stage) after.resize(stage + 1);
    if (in.op != ShapeOp::RunTime) after[stage].push_back(static_cast<Slot>(i));
  }
}

void run_shape_program(std::span<const ShapeInstruction> program, std::span<const Slot> which,
                       std::span<const Tensor> inputs, std::span<std::int64_t> slots) {
  for (Slot i : which) slots[i] = evaluate(program[i], inputs, slots.data());
}

void run_shape_program(std::span<const ShapeInstruction> program, std::span<const Tensor> inputs,
                       std::span<std::int64_t> slots) {
  for (std::size_t i = 0; i < program.size(); ++i) slots[i] = evaluate(program[i], inputs, slots.data());
}

void run_late_shape_program(std::span<const ShapeInstruction> program, std::span<const Slot> which,
                            std::span<std::int64_t> slots, std::vector<bool>& undefined) {
  for (Slot i : which) {
    const ShapeInstruction& in = program[i];
    const std::int64_t operands[] = {in.a, in.b, in.c};
    auto missing = [&](int k) -> bool { return undefined[static_cast<std::size_t>(operands[k])]; };
    bool lost = false;
    if (in.op == ShapeOp::Where) {
      lost = missing(0) || missing(slots[static_cast<std::size_t>(in.a)] ? 1 : 2);
    } else {
      for (int k = 0; k < slot_operands(in.op); ++k) lost = lost || missing(k);
    }
    if (!lost) {
      try {
        slots[i] = evaluate(in, {}, slots.data());
      } catch (const Error&) {
        lost = true;
      }
    }
    undefined[i] = lost;
  }
}

}  // namespace coil::runtime
