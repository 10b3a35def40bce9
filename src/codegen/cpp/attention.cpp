#include "codegen/cpp/attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cpp/attention_text.h"

namespace coil::codegen {

namespace {

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

std::string attention_kernel(const Toolchain& toolchain, const AttentionSpec& spec, std::string_view symbol) {
  const int lanes = toolchain.lanes;
  const bool pairs = spec.dtype == DType::BF16 && lanes == 16 &&
                     toolchain.isa.find("avx512bf16") != std::string::npos && spec.head_dim % 2 == 0;
  const int tile = lanes == 16 ? 8 : 6;
  const auto up = [&](int n) { return whole_vectors(n, toolchain); };
  // A block of keys: k and v packed take at most 256 KiB, and there are at least 32.
  const int steps = pairs ? spec.head_dim / 2 : spec.head_dim;
  const int bytes = 4 * (steps + (pairs ? up(spec.value_dim) / 2 : up(spec.value_dim)));
  const int block_keys =
      std::clamp((256 << 10) / bytes / (2 * tile) * (2 * tile), 4 * tile, 256 / (2 * tile) * (2 * tile));
  // Blocks of queries that take turns at a block of keys, of at most 128 KiB.
  const int turns = std::clamp((128 << 10) / (4 * 2 * lanes * (up(steps) + up(spec.value_dim))), 1, 16);

  device::Values values = attention_values(toolchain, spec, symbol, pairs);
  values.merge(device::Values{
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
      {"$names;", attention_scalar_names()},
      {"$MASKROOM", std::to_string(up(block_keys))},
      {"$mask_pointer",
       spec.mask
           ? "(const $s_me*)buffers[3] + b * z[MaskBatchStride] + h * z[MaskHeadStride] + first * z[MaskQueryStride]"
           : "0"},
      {"$OUT", spec.mask ? "4" : "3"},
  });
  const ValueTiles tiles(spec.value_dim, tile);
  const int apart = pairs ? 1 : block_keys;
  for (int n : {1, 2})
    values.emplace(fmt::format("$values{};", n), values_text(tiles, n, pairs ? "(nk + 1) / 2" : "nk", apart));
  values.emplace("$pack_tiles;", pack_tiles_text(tiles, spec.value_dim, apart));
  add_log_values(spec, values);
  return attention_text("cpp/attention.h", values);
}

}  // namespace coil::codegen
