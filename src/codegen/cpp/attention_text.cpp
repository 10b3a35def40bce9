#include "codegen/cpp/attention_text.h"

#include <fmt/format.h>

#include "support/error.h"

namespace coil::codegen {
namespace {

constexpr std::string_view kScalarNames =
    "  enum { Batch, Heads, KeyHeads, Queries, Keys, QueryBatchStride, QueryHeadStride, QueryStride, QueryDimStride, "
    "KeyBatchStride, KeyHeadStride, KeyStride,\n"
    "         KeyDimStride, ValueBatchStride, ValueHeadStride, ValueStride, ValueDimStride, OutBatchStride, "
    "OutHeadStride, OutStride, OutDimStride,\n"
    "         MaskBatchStride, MaskHeadStride, MaskQueryStride, MaskKeyStride };\n";

/// Log2 L rounds in which pairs of vectors exchange halves, written out.
std::string register_transpose_text(int lanes) {
  std::string out;
  for (int i = 0; i < lanes; ++i) out += fmt::format("  f32v r{0} = in[{0}];\n", i);
  out += "  f32v t;\n";
  for (int h = lanes / 2; h; h /= 2) {
    std::string low, high;
    for (int lane = 0; lane < lanes; ++lane) {
      low += fmt::format(", {}", lane & h ? lane - h + lanes : lane);
      high += fmt::format(", {}", lane & h ? lane + lanes : lane + h);
    }
    for (int i = 0; i < lanes; ++i) {
      if (i & h) continue;
      out += fmt::format(
          "  t = __builtin_shufflevector(r{0}, r{1}{2}); r{1} = __builtin_shufflevector(r{0}, r{1}{3}); r{0} = t;\n", i,
          i + h, low, high);
    }
  }
  for (int i = 0; i < lanes; ++i) out += fmt::format("  c_store_f32(out + {0} * stride, r{0});\n", i);
  return out;
}

void add_mask_values(DType mask, device::Values& values) {
  const std::string m(short_name(mask));
  const bool boolean = mask == DType::Bool;
  const std::size_t bytes = size_of(mask);
  values.merge(device::Values{
      {"$me", bytes == 1   ? "u8"
              : bytes == 2 ? "u16"
              : bytes == 4 ? "f32"
                           : "f64"},
      {"$mask_vector", boolean ? "c_where(c_loadn_b8v(p, n), f32v{}, c_splat_f32v(-__builtin_inff()))"
                               : fmt::format("c_cast_f32(c_loadn_{}v(p, n))", m)},
      {"$mask_strided", boolean ? "c_load_b8(p + i * key_stride) ? 0.0f : -__builtin_inff()"
                                : fmt::format("(f32)c_load_{}(p + i * key_stride)", m)},
      {"$mask_one", boolean ? "c_load_b8(mask + i * z[MaskKeyStride]) ? 0.0f : -__builtin_inff()"
                            : fmt::format("(f32)c_load_{}(mask + i * z[MaskKeyStride])", m)},
  });
}

}  // namespace

device::Values attention_values(const Toolchain& toolchain, const AttentionSpec& spec, std::string_view symbol,
                                bool pairs) {
  COIL_CHECK(spec.dtype == DType::F32 || spec.dtype == DType::BF16 || spec.dtype == DType::F16, "attention in {}",
             short_name(spec.dtype));
  COIL_CHECK(spec.head_dim > 0 && spec.value_dim > 0);
  COIL_CHECK(!spec.mask || *spec.mask == DType::Bool || is_floating(*spec.mask), "a mask in {}",
             short_name(*spec.mask));
  device::Values values{
      {"$s", std::string(symbol)},
      {"$d", std::string(short_name(spec.dtype))},
      {"$e", spec.dtype == DType::F32 ? "f32" : "u16"},
      {"$E", pairs ? "u32" : "f32"},
      {"$pairs", pairs ? "1" : "0"},
      {"$causal", spec.causal ? "1" : "0"},
      {"$mask", spec.mask ? "1" : "0"},
      {"$D", std::to_string(spec.head_dim)},
      {"$DV", std::to_string(spec.value_dim)},
      {"$scalef", fmt::format("{:a}f", static_cast<float>(spec.scale))},
      {"$dot0", pairs ? "$s_DOT(acc[i][0], x, y0)" : "c_fma(x, y0, acc[i][0])"},
      {"$dot1", pairs ? "$s_DOT(acc[i][N - 1], x, y1)" : "c_fma(x, y1, acc[i][N - 1])"},
      {"$transpose;", register_transpose_text(toolchain.lanes)},
  };
  if (spec.mask) add_mask_values(*spec.mask, values);
  return values;
}

int whole_vectors(int dims, const Toolchain& toolchain) {
  return (dims + toolchain.lanes - 1) / toolchain.lanes * toolchain.lanes;
}

std::string attention_scalar_names() { return std::string(kScalarNames); }

std::string attention_text(std::string_view file, const device::Values& values) {
  // Twice: what stands for placeholders holds some itself.
  return device::fill(device::fill(device::whole("cpp/attention_parts.h") + device::whole(file), values), values);
}

}  // namespace coil::codegen
