#include "codegen/metal/dialect.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "device/pieces.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

using ir::Scalar;
using ir::ScalarOp;

std::string number(double x, DType d) {
  if (d == DType::F64) return fmt::format("c_f64_of(0x{:x}ul)", std::bit_cast<std::uint64_t>(x));
  if (std::isnan(x)) return "c_f32_of(0x7fc00000u)";
  if (std::isinf(x)) return x < 0 ? "c_f32_of(0xff800000u)" : "c_f32_of(0x7f800000u)";
  const std::string digits = fmt::format("{}", static_cast<float>(x));
  return digits + (digits.find_first_of(".e") == digits.npos ? ".0f" : "f");
}

KernelParts parts(std::span<const DevicePointer> pointers, std::size_t scalars, const SymbolicLaunch& launch) {
  KernelParts out;
  auto add = [&](std::string type, std::string name) {
    const std::size_t at = out.parameters.size();
    out.parameters.push_back({std::move(type), std::move(name), false, fmt::format("[[buffer({})]]", at)});
  };
  for (std::size_t i = 0; i < pointers.size(); ++i)
    add((pointers[i].written ? "device " : "device const ") + pointers[i].type + "*", fmt::format("p{}", i));
  if (metal_packs_numbers(pointers.size(), scalars)) {
    add(fmt::format("constant c_numbers<{}>&", scalars), "numbers");
  } else {
    for (std::size_t i = 0; i < scalars; ++i) add("constant long&", fmt::format("n{}", i));
  }
  add("device i64*", "failed");
  add("constant long&", "site");
  out.body = "  const c_status status = {failed, site};\n";
  if (out.parameters.size() > kMetalArguments)
    fail("a kernel with {} buffers: one of Metal takes at most {}", pointers.size(), kMetalArguments - 3);
  out.parameters.push_back({"uint3", "group_index", false, "[[threadgroup_position_in_grid]]"});
  out.parameters.push_back({"uint3", "thread_index", false, "[[thread_position_in_threadgroup]]"});
  out.qualifiers = fmt::format("[[max_total_threads_per_threadgroup({})]] kernel void", launch.block);
  return out;
}

std::string scalar(std::size_t i, std::size_t pointers, std::size_t scalars) {
  return fmt::format(fmt::runtime(metal_packs_numbers(pointers, scalars) ? "numbers.n[{}]" : "n{}"), i);
}

/// The function of two values that combines those of a place.
const char* functor(ir::StoreMode mode) {
  return mode == ir::StoreMode::Add    ? "c_op_add()"
         : mode == ir::StoreMode::Prod ? "c_op_mul()"
         : mode == ir::StoreMode::Max  ? "c_op_max()"
                                       : "c_op_min()";
}

std::string update(const AtomicUpdate& u) {
  const DType d = u.dtype;
  if (u.mode == ir::StoreMode::Add && (d == DType::F32 || d == DType::I32 || d == DType::I64))
    return fmt::format("c_atomic_add({} + {}, {});", u.buffer, u.index, u.value);
  return fmt::format("c_update_{}({}, {}, {}, {});", short_name(d), u.buffer, u.index, u.value, functor(u.mode));
}

/// Functions that are computed in f64, for f32 as well: those of C's library, and draws whose results are whole
/// numbers, which would come out otherwise than on other machines.
bool needs_f64(ScalarOp op) {
  static const std::vector<device::Piece> special = device::pieces("shared/special.h");
  const std::string function = "c_" + std::string(ir::name_of(op));
  return std::ranges::any_of(special, [&](const device::Piece& p) {
    return p.names[0] == function && (function.ends_with("_draw") || p.text.find("COIL_FROM_C") != std::string::npos);
  });
}

/// Floats of 64 bits are read, made of other types, chosen from and stored, and no more.
bool moves_f64(Scalar n) {
  switch (n->op) {
    case ScalarOp::LinearLoad:
    case ScalarOp::Constant:
    case ScalarOp::Where: return true;
    case ScalarOp::Cast: return n->args[0]->dtype != DType::U64;
    default: return false;
  }
}

std::optional<std::string> refusal_of(const ir::Graph& graph, const Statement& s) {
  const bool moves = std::holds_alternative<ir::Pointwise>(s.op->node);
  for (ir::BufferId b : s.op->outs)
    if (graph.buffer(b).layout.dtype == DType::F64 && !moves) return "gives f64, which Metal does not have";
  if (s.body->dtype == DType::F64 && !moves) return "computes in f64, which Metal does not have";
  std::vector<Scalar> roots = s.indirect;
  roots.push_back(s.body);
  for (Scalar n : ir::topological(roots)) {
    const bool takes = std::ranges::any_of(n->args, [](Scalar a) { return a->dtype == DType::F64; });
    if (n->dtype == DType::F64 ? !moves_f64(n) : takes && !(n->op == ScalarOp::Cast && n->dtype == DType::F32))
      return "computes in f64, which Metal does not have";
    if (n->op > ScalarOp::Random && needs_f64(n->op))
      return fmt::format("computes {}, for which Coil has no function without f64, which Metal does not have",
                         ir::name_of(n->op));
  }
  const auto* scatter = std::get_if<ir::Scatter>(&s.op->node);
  if (!scatter || scatter->sorted || scatter->mode == ir::StoreMode::Assign) return std::nullopt;
  const DType d = graph.buffer(s.op->outs[0]).layout.dtype;
  if (size_of(d) == 8 && !(d == DType::I64 && scatter->mode == ir::StoreMode::Add))
    return fmt::format("updates {} by several threads, which Metal has no atomic operation for", short_name(d));
  return std::nullopt;
}

std::optional<std::string> refusal(const ir::Graph& graph, const LoopNest& nest) {
  for (const Statement& s : nest.statements)
    if (const auto why = refusal_of(graph, s))
      return fmt::format("{}{} {}", fmt::join(s.op->origins, ", "),
                         s.op->where.empty() ? "" : fmt::format(" ({})", s.op->where), *why);
  return std::nullopt;
}

}  // namespace

bool metal_packs_numbers(std::size_t pointers, std::size_t scalars) { return pointers + scalars + 2 > kMetalArguments; }

const Dialect& metal_dialect() {
  static const Dialect dialect{.language = sym::Language::Metal,
                               .linkage = "",
                               .block = "group_index.x",
                               .thread = "thread_index.x",
                               .shared = "threadgroup",
                               .wide = "l",
                               .has_f64 = false,
                               .has_digits = false,
                               .number = number,
                               .parts = parts,
                               .scalar = scalar,
                               .update = update,
                               .emulated = target::emulated_metal,
                               .refusal = refusal};
  return dialect;
}

}  // namespace coil::codegen
