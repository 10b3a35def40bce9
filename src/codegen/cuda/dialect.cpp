#include "codegen/cuda/dialect.h"

#include <cmath>
#include <limits>

#include "codegen/cuda/kernel_builder.h"

namespace coil::codegen {
namespace {

std::string number(double x, DType d) {
  const bool narrow = d == DType::F32;
  if (std::isnan(x)) return narrow ? "c_f32_of(0x7fc00000u)" : "c_f64_of(0x7ff8000000000000ull)";
  if (std::isinf(x))
    return narrow ? (x < 0 ? "c_f32_of(0xff800000u)" : "c_f32_of(0x7f800000u)")
                  : (x < 0 ? "c_f64_of(0xfff0000000000000ull)" : "c_f64_of(0x7ff0000000000000ull)");
  return narrow ? fmt::format("{:a}f", static_cast<double>(static_cast<float>(x))) : fmt::format("{:a}", x);
}

KernelParts parts(std::span<const DevicePointer> pointers, std::size_t scalars, const SymbolicLaunch& launch) {
  KernelParts out;
  for (const DevicePointer& p : pointers)
    out.parameters.push_back(
        {(p.written ? "" : "const ") + p.type + "*", fmt::format("p{}", out.parameters.size()), !p.shares});
  for (std::size_t i = 0; i < scalars; ++i) out.parameters.push_back({"i64", fmt::format("n{}", i)});
  out.parameters.push_back({"i64*", "status"});
  for (std::size_t i = 0; i < launch.maps.size(); ++i)
    out.parameters.push_back({"const __grid_constant__ c_tile_map", fmt::format("m{}", i)});
  out.qualifiers = launch.resident
                       ? fmt::format("__global__ void __launch_bounds__({}, {})", launch.block, launch.resident)
                       : fmt::format("__global__ void __launch_bounds__({})", launch.block);
  if (launch.cluster > 1) out.qualifiers += fmt::format(" __cluster_dims__({}, 1, 1)", launch.cluster);
  return out;
}

std::string scalar(std::size_t i, std::size_t, std::size_t) { return fmt::format("n{}", i); }

std::string update(const AtomicUpdate& u) {
  const DType d = u.dtype;
  const std::string place = fmt::format("{} + {}", u.buffer, u.index);
  if (u.mode == ir::StoreMode::Add && (d == DType::F32 || d == DType::F64 || d == DType::I32 || d == DType::I64))
    return fmt::format("c_atomic_add({}, {});", place, u.value);
  return fmt::format(
      "c_update(({0}*)({1}), [&]({0} o) {{ return c_bits_as<{0}>(c_put_{2}({3}(c_get_{2}(c_bits_as<{4}>(o)), {5}))); "
      "}});",
      fmt::format("u{}", size_of(d) * 8), place, short_name(d), combining(u.mode), cuda_storage_type(d), u.value);
}

std::optional<std::string> refusal(const ir::Graph&, const LoopNest&) { return std::nullopt; }

}  // namespace

const Dialect& cuda_dialect() {
  static const Dialect dialect{.language = sym::Language::Cuda,
                               .linkage = "extern \"C\" ",
                               .block = "blockIdx.x",
                               .thread = "threadIdx.x",
                               .shared = "__shared__",
                               .wide = "ll",
                               .has_f64 = true,
                               .has_digits = true,
                               .number = number,
                               .parts = parts,
                               .scalar = scalar,
                               .update = update,
                               .emulated = target::emulated_cuda,
                               .refusal = refusal};
  return dialect;
}

const char* combining(ir::StoreMode mode) {
  return mode == ir::StoreMode::Add    ? "c_add"
         : mode == ir::StoreMode::Prod ? "c_mul"
         : mode == ir::StoreMode::Max  ? "c_max"
                                       : "c_min";
}

std::string integer_literal(const Dialect& dialect, std::int64_t x, DType d) {
  if (d == DType::Bool) return x ? "true" : "false";
  const std::string type = cuda_register_type(d);
  if (x == std::numeric_limits<std::int64_t>::min())
    return fmt::format("({})(-9223372036854775807{} - 1)", type, dialect.wide);
  return fmt::format("({}){}{}{}", type, x, d == DType::U64 ? "u" : "", dialect.wide);
}

}  // namespace coil::codegen
