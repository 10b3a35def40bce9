#include "codegen/cuda/streamed_products.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/product_kernel.h"

namespace coil::codegen {
namespace {

// Values of cuda.h: CU_TENSOR_MAP_DATA_TYPE_FLOAT16 and _BFLOAT16, CU_TENSOR_MAP_SWIZZLE_128B.
constexpr std::uint32_t kF16 = 6, kBf16 = 9, kSwizzled128Bytes = 3;
constexpr std::uint32_t kPiece = 64;
constexpr std::int64_t kBytes = 2;
constexpr std::string_view kMatrix = "t.batch";  // of the tile that a kernel has

class StreamedProduct : public ProductKernel {
 public:
  using ProductKernel::ProductKernel;

  Kernel print(const LaunchConfig& config) {
    const sym::ShapeEnv& env = graph_.env();
    const std::size_t last = tensors_.size() - 1;
    const Expr summed = depth(), across = columns(), down = sym::ceil_div(rows_.size, config.rows * config.cluster),
               tiles = env.simplify(down * sym::ceil_div(across, config.tile));
    Expr all = tiles;
    for (const Dim& d : batch_) all *= d.size;
    const std::string bounds = fmt::format("row < {} && column < {}", scalar(rows_.size), scalar(across)),
                      tile = tile_text(config, env.simplify(all), tiles, summed);
    std::string body = fmt::format(
        "  C_DYNAMIC_SHARED(shared);\n"
        "  c_streamed_product<{}, {}, {}, {}, {}>(shared, m0, m1, [&](i64 n, u32 rank, c_stream_tile& t) {{\n{}  }},\n",
        is_bf16(), along(), config.tile, config.unroll, config.cluster, tile);
    const bool narrow = tensors_.back().dtype != DType::F32;
    const std::vector<std::size_t> eights = read_in_eights(across);
    const std::size_t wide = eights.empty() ? 2 : 8;
    body += fmt::format(
        "  c_make_result<{}, {}>([&](const c_stream_tile& t, i64 row, i64 column) {{\n    c_eights<{}> e = {{}};\n"
        "    if (!({})) return e;\n{}    return e;\n  }},\n"
        "  [&](const c_stream_tile& t, i64 row, i64 first, f32 (&v)[{}], const c_eights<{}>& e) {{\n"
        "    const i64 column = first;\n    if (!({})) return;\n{}{}  }},\n"
        "  [&](const c_stream_tile& t, i64 row, i64 column, const uint4& eight) {{\n",
        narrow, eights.size(), eights.size(), bounds, taken(eights), wide, eights.size(), bounds,
        beginnings(2, narrow ? last : last + 1, kMatrix),
        for_each_pair(wide, post_text(eights) + (narrow ? "" : store())));
    if (narrow)
      body += fmt::format("    if (!({})) return;\n{}    *(uint4*)({}) = eight;\n", bounds,
                          beginnings(last, last + 1, kMatrix), result_at());
    body += "  }), status);\n";
    SymbolicLaunch how = launch(streamed_blocks(env, env.simplify(all), config, target_.costs), config);
    how.cluster = config.cluster;
    how.maps = {mapped(env, rows_operand(summed), config.rows),
                mapped(env, matrix_operand(), tile_rows_of_second(config, along()))};
    return write("coil_product_", std::move(how), body);
  }

 private:
  /// The operands beside the sums that are read eight elements at a time.
  std::vector<std::size_t> read_in_eights(Expr columns) const {
    std::vector<std::size_t> out;
    const bool whole = graph_.env().statically_known_multiple_of(columns, 8);
    for (std::size_t t = 2; whole && t < first_pre_; ++t) {
      const ir::BufferView& v = tensors_[t];
      if (size_of(v.dtype) == 2 && !rows_.strides[t].is_constant(0) && !v.sizes.back().is_constant(1) &&
          v.strides.back().is_constant(1) && begins_on(t, 8))
        out.push_back(t);
    }
    return out;
  }
  std::string taken(const std::vector<std::size_t>& eights) {
    std::string out;
    for (std::size_t k = 0; k < eights.size(); ++k)
      out += fmt::format("{0}    e.of[{1}] = *(const uint4*)(p{2} + at{2} + row * {3} + column);\n",
                         beginnings(eights[k], eights[k] + 1, kMatrix), k, eights[k], scalar(rows_.strides[eights[k]]));
    return out;
  }
  /// The text for two neighbours, p and q, of each pair.
  static std::string for_each_pair(std::size_t wide, std::string_view text) {
    if (wide == 2) return fmt::format("    f32 &p = v[0], &q = v[1];\n{}", text);
    return fmt::format(
        "#pragma unroll\n    for (int k = 0; k < 4; ++k) {{\n    f32 &p = v[2 * k], &q = v[2 * k + 1];\n"
        "    const i64 column = first + 2 * k;\n{}    }}\n",
        text);
  }

  /// Which tile is the n-th of all, for a block of a cluster.
  std::string tile_text(const LaunchConfig& config, Expr all, Expr tiles, Expr summed) {
    std::string out = fmt::format("    if (n >= {}) return false;\n", scalar(all));
    if (!batch_.empty()) out += fmt::format("    t.batch = n / {0};\n    n %= {0};\n", scalar(tiles));
    out += fmt::format(
        "    const c_tile_place at = c_place_tile(n, {}, {});\n    t.row = (at.down * {} + rank) * {};\n"
        "    t.column = at.across * {};\n    t.depth = {};\n    t.a = {};\n    t.b = {};\n    return true;\n",
        scalar(sym::ceil_div(rows_.size, config.rows * config.cluster)),
        scalar(sym::ceil_div(tensors_[1].sizes.back(), config.tile)), config.cluster, config.rows, config.tile,
        scalar(summed), matrix_text(0), matrix_text(1));
    return out;
  }

  /// The one dimension of the batch in which matrices of operand `t` differ; none: the first behind the last.
  std::size_t moving(std::size_t t) const {
    return static_cast<std::size_t>(
        std::ranges::find_if(batch_, [&](const Dim& d) { return !d.strides[t].is_constant(0); }) - batch_.begin());
  }
  std::string matrix_text(std::size_t t) {
    const std::size_t d = moving(t);
    return d == batch_.size() ? "0" : fmt::format("(i32)({})", place_in_batch(d, kMatrix));
  }

  StreamedOperand operand(std::size_t t) const {
    const std::size_t d = moving(t);
    const bool one = d == batch_.size();
    return {t,
            tensors_[t].dtype,
            tensors_[t].offset,
            {one ? Expr(1) : batch_[d].size},
            {one ? Expr(8) : batch_[d].strides[t]}};
  }
  StreamedOperand rows_operand(Expr summed) const {
    StreamedOperand x = operand(0);
    x.sizes.insert(x.sizes.end(), {rows_.size, summed});
    x.strides.insert(x.strides.end(), {rows_.strides[0], 1});
    return x;
  }
  StreamedOperand matrix_operand() const {
    StreamedOperand x = operand(1);
    const ir::BufferView& b = tensors_[1];
    const std::size_t dense = b.sizes.size() - (along() ? 2 : 1), other = b.sizes.size() - (along() ? 1 : 2);
    x.sizes.insert(x.sizes.end(), {b.sizes[other], b.sizes[dense]});
    x.strides.insert(x.strides.end(), {b.strides[other], 1});
    return x;
  }
};

}  // namespace

MappedTensor mapped(const sym::ShapeEnv& env, const StreamedOperand& x, int rows) {
  MappedTensor m{
      .pointer = x.pointer, .offset = env.simplify(x.offset * kBytes), .sizes = {}, .strides = {}, .map = {}};
  // No dimension of a descriptor may be empty; of such an operand nothing is fetched.
  for (Expr size : x.sizes) m.sizes.push_back(env.simplify(sym::max(size, 1)));
  for (Expr stride : x.strides) m.strides.push_back(env.simplify(stride * kBytes));
  m.map = {x.dtype == DType::BF16 ? kBf16 : kF16, kSwizzled128Bytes, {1, static_cast<std::uint32_t>(rows), kPiece}};
  return m;
}

int tile_rows_of_second(const LaunchConfig& config, bool along) {
  return (along ? config.tile : static_cast<int>(kPiece)) / config.cluster;
}

Expr streamed_blocks(const sym::ShapeEnv& env, Expr tiles, const LaunchConfig& config, const target::Costs& costs) {
  const std::int64_t clusters = costs.multiprocessors / config.cluster;
  return env.simplify(sym::min(tiles, clusters) * config.cluster);
}

Kernel streamed_product(ir::Graph& graph, const ir::Extern& call, const target::Target& target,
                        const LaunchConfig& config) {
  return StreamedProduct(graph, call, target).print(config);
}

}  // namespace coil::codegen
