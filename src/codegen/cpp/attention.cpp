#include "codegen/cpp/attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/pieces.h"
#include "support/error.h"

namespace coil::codegen {

namespace {

/// The names of AttentionScalar, in a kernel's functions.
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

/// Tiles of at most `rows` columns, nearly equal, that cover the value dims.
struct ValueTiles {
  int count, small, larger;  ///< columns of the smaller ones; how many are larger by one

  ValueTiles(int value_dim, int rows)
      : count((value_dim + rows - 1) / rows), small(value_dim / count), larger(value_dim % count) {}

  /// `line` for each run of equal tiles, with its first column, the column behind it, and the columns of a tile.
  template <class Line>
  std::string text(Line line) const {
    const int middle = larger * (small + 1);
    std::string out;
    if (larger > 0) out += line(0, middle, small + 1);
    if (larger < count) out += line(middle, middle + (count - larger) * small, small);
    return out;
  }
};

/// What multiplies a block's probabilities by all columns of v. `block`: how far tiles are apart, for each column.
std::string values_text(const ValueTiles& tiles, int vectors, std::string_view steps, int block) {
  return tiles.text([&](int from, int to, int columns) {
    return fmt::format(
        "      for (long d = {0}; d < {1}; d += {2}) $s_values<{2}, {4}>(vbuf + d * {5}, (const $E*)s, {3}, o + d * "
        "width, scale);\n",
        from, to, columns, steps, vectors, block);
  });
}

/// What packs v in such tiles.
std::string pack_tiles_text(const ValueTiles& tiles, int value_dim, int block) {
  return tiles.text([&](int from, int to, int columns) {
    return fmt::format(
        "  for (long d = {0}; d < {1}; d += {2}) $s_pack_tile(v + d * dim_stride, stride, dim_stride, keys, {2}, {4} - "
        "d, out + d * {3});\n",
        from, to, columns, block, value_dim);
  });
}

void add_mask_values(const AttentionSpec& spec, int room, device::Values& values) {
  values.emplace("$mask", spec.mask ? "1" : "0");
  if (!spec.mask) {
    values.emplace("$mask_pointer", "0");
    return;
  }
  const std::string m(short_name(*spec.mask));
  const bool boolean = *spec.mask == DType::Bool;
  const std::size_t bytes = size_of(*spec.mask);
  values.merge(device::Values{
      {"$MASKROOM", std::to_string(room)},
      {"$me", bytes == 1   ? "u8"
              : bytes == 2 ? "u16"
              : bytes == 4 ? "f32"
                           : "f64"},
      {"$mask_pointer",
       "(const $s_me*)buffers[3] + b * z[MaskBatchStride] + h * z[MaskHeadStride] + first * z[MaskQueryStride]"},
      {"$mask_vector", boolean ? "c_where(c_loadn_b8v(p, n), f32v{}, c_splat_f32v(-__builtin_inff()))"
                               : fmt::format("c_cast_f32(c_loadn_{}v(p, n))", m)},
      {"$mask_strided", boolean ? "c_load_b8(p + i * key_stride) ? 0.0f : -__builtin_inff()"
                                : fmt::format("(f32)c_load_{}(p + i * key_stride)", m)},
      {"$mask_one", boolean ? "c_load_b8(mask + i * z[MaskKeyStride]) ? 0.0f : -__builtin_inff()"
                            : fmt::format("(f32)c_load_{}(mask + i * z[MaskKeyStride])", m)},
  });
}

void add_log_values(const AttentionSpec& spec, device::Values& values) {
  const int first = static_cast<int>(spec.mask ? AttentionScalar::Count : AttentionScalar::MaskBatchStride);
  values.merge(device::Values{
      {"$log_sums", spec.log_sums ? "1" : "0"},
      {"$log_pointer",
       spec.log_sums ? "(f32*)buffers[$OUT + 1] + b * z[$LOG] + h * z[$LOG + 1] + first * z[$LOG + 2]" : "0"},
      {"$LOG", std::to_string(first)},
  });
}

}  // namespace

int attention_block(const Toolchain& toolchain) { return 2 * toolchain.lanes; }

long attention_extent(const Toolchain& toolchain, long batch, long heads, long queries) {
  long block = attention_block(toolchain);
  return batch * heads * ((queries + block - 1) / block);
}

std::string attention_kernel(const Toolchain& toolchain, const AttentionSpec& spec, std::string_view symbol) {
  COIL_CHECK(spec.dtype == DType::F32 || spec.dtype == DType::BF16 || spec.dtype == DType::F16, "attention in {}",
             short_name(spec.dtype));
  COIL_CHECK(spec.head_dim > 0 && spec.value_dim > 0);
  COIL_CHECK(!spec.mask || *spec.mask == DType::Bool || is_floating(*spec.mask), "a mask in {}",
             short_name(*spec.mask));
  const int lanes = toolchain.lanes;
  const bool pairs = spec.dtype == DType::BF16 && lanes == 16 &&
                     toolchain.isa.find("avx512bf16") != std::string::npos && spec.head_dim % 2 == 0;
  const int tile = lanes == 16 ? 8 : 6;
  auto up = [&](int n) { return (n + lanes - 1) / lanes * lanes; };
  // A block of keys: k and v packed take at most 256 KiB, and there are at least 32.
  const int steps = pairs ? spec.head_dim / 2 : spec.head_dim;
  const int bytes = 4 * (steps + (pairs ? up(spec.value_dim) / 2 : up(spec.value_dim)));
  const int block_keys =
      std::clamp((256 << 10) / bytes / (2 * tile) * (2 * tile), 4 * tile, 256 / (2 * tile) * (2 * tile));
  // Blocks of queries that take turns at a block of keys, of at most 128 KiB.
  const int turns = std::clamp((128 << 10) / (4 * 2 * lanes * (up(steps) + up(spec.value_dim))), 1, 16);

  device::Values values = {
      {"$s", std::string(symbol)},
      {"$d", std::string(short_name(spec.dtype))},
      {"$e", spec.dtype == DType::F32 ? "f32" : "u16"},
      {"$E", pairs ? "u32" : "f32"},
      {"$pairs", pairs ? "1" : "0"},
      {"$causal", spec.causal ? "1" : "0"},
      {"$D", std::to_string(spec.head_dim)},
      {"$DV", std::to_string(spec.value_dim)},
      {"$T", std::to_string(steps)},
      {"$TP", std::to_string(up(steps))},
      {"$KW", std::to_string(steps)},
      {"$VW", std::to_string(up(spec.value_dim))},
      {"$VST", pairs ? "$VW" : "R"},
      {"$VROOM", std::to_string(pairs ? block_keys / 2 * up(spec.value_dim) : block_keys * spec.value_dim + lanes)},
      {"$G", std::to_string(turns)},
      {"$BK", std::to_string(block_keys)},
      {"$BQ", std::to_string(2 * lanes)},
      {"$R", std::to_string(tile)},
      {"$scalef", fmt::format("{:a}f", static_cast<float>(spec.scale))},
      {"$dot0", pairs ? "$s_DOT(acc[i][0], x, y0)" : "c_fma(x, y0, acc[i][0])"},
      {"$dot1", pairs ? "$s_DOT(acc[i][N - 1], x, y1)" : "c_fma(x, y1, acc[i][N - 1])"},
      {"$transpose;", register_transpose_text(lanes)},
      {"$names;", std::string(kScalarNames)},
      {"$OUT", spec.mask ? "4" : "3"},
  };
  const ValueTiles tiles(spec.value_dim, tile);
  const int apart = pairs ? 1 : block_keys;
  for (int n : {1, 2})
    values.emplace(fmt::format("$values{};", n), values_text(tiles, n, pairs ? "(nk + 1) / 2" : "nk", apart));
  values.emplace("$pack_tiles;", pack_tiles_text(tiles, spec.value_dim, apart));
  add_mask_values(spec, up(block_keys), values);
  add_log_values(spec, values);
  // Twice: what stands for placeholders holds some itself.
  return device::fill(device::fill(device::whole("cpp/attention.h"), values), values);
}

}  // namespace coil::codegen
