#include "codegen/cuda/products.h"

#include <fmt/format.h>

#include "codegen/cuda/kernel_builder.h"
#include "codegen/cuda/point_function.h"
#include "codegen/cuda/product_kernel.h"
#include "codegen/cuda/streamed_products.h"
#include "codegen/heuristics/products.h"
#include "ir/point_function.h"
#include "ir/vectors.h"
#include "library_ops/products.h"

namespace coil::codegen {
namespace {

/// The kernel whose threads fetch the operands, and make what `pre` makes of them.
class BlockedProduct : public ProductKernel {
 public:
  using ProductKernel::ProductKernel;

  Kernel print(const LaunchConfig& config) {
    const Expr tiles =
        graph_.env().simplify(sym::ceil_div(rows_.size, config.rows) * sym::ceil_div(columns(), config.tile));
    Expr blocks = tiles * config.cluster;
    for (const Dim& d : batch_) blocks *= d.size;
    std::string body = "  C_DYNAMIC_SHARED(shared);\n";
    // All blocks of a cluster go on, though the run may have failed: they wait for one another.
    if (config.cluster > 1) body += "  c_begin();\n";
    body += tile_of_block(tiles, config.cluster);
    if (!pre_.empty()) body += making_of_a();
    const std::string multiplied = operands();
    body += fmt::format("  {}, {}, [&](i64 row, i64 column, f32 p, f32 q) {{\n{}  }});\n", function(config), multiplied,
                        epilogue());
    SymbolicLaunch how = launch(graph_.env().simplify(blocks), config);
    how.cluster = config.cluster;
    return write("coil_product_", std::move(how), body);
  }

 private:
  /// The function of the device's library, up to the tile that it is given.
  std::string function(const LaunchConfig& config) const {
    if (!is_thin(config))
      return fmt::format("c_blocked_product<{}, {}, {}, {}, {}>((u16*)shared, tile", is_bf16(), along(), config.rows,
                         config.tile, config.unroll);
    const int turns = config.rows / 8;
    return fmt::format("c_thin_product<{}, {}, {}, {}, {}, {}>(shared, tile, {}", is_bf16(),
                       thin_piece_type(config, along()), config.threads / 32, turns, config.unroll, config.cluster,
                       config.cluster > 1 ? fmt::format("blockIdx.x % {}", config.cluster) : "0");
  }

  /// Both operands, rows, columns, and elements of a sum.
  std::string operands() {
    const ir::BufferView& b = tensors_[1];
    const std::size_t rank = b.sizes.size();
    const std::string a = pre_.empty() ? fmt::format("c_matrix{{p0 + at0, {}}}", scalar(rows_.strides[0]))
                                       : std::string("c_made_by(make)"),
                      b_row = scalar(b.strides[along() ? rank - 1 : rank - 2]), rows = scalar(rows_.size),
                      across = scalar(columns()), summed = scalar(depth());
    return fmt::format("{}, c_matrix{{p1 + at1, {}}}, {}, {}, {}", a, b_row, rows, across, summed);
  }

  /// Which tile of which matrix a block has, and where that matrix begins in each tensor.
  std::string tile_of_block(Expr tiles, int cluster) {
    const std::string block = cluster == 1 ? "blockIdx.x" : fmt::format("blockIdx.x / {}", cluster);
    const std::string which =
        batch_.empty() ? fmt::format("    const i64 tile = {};\n", block)
                       : fmt::format("    const i64 tile = {0} % {1}, matrix = {0} / {1};\n", block, scalar(tiles));
    return which + beginnings(0, tensors_.size(), "matrix");
  }

  /// `make(row, k, to)`: eight neighbouring elements of a as `pre` says, stored side by side.
  std::string making_of_a() {
    std::vector<std::size_t> places{0};
    for (std::size_t t = first_pre_; t + 1 < tensors_.size(); ++t) places.push_back(t);
    std::string out = "  const auto make = [&](i64 row, i64 k, u16* to) {\n";
    std::vector<std::string> operands;
    std::vector<DType> types;
    for (std::size_t t : places) {
      operands.push_back(element_along(t, out));
      types.push_back(tensors_[t].dtype);
    }
    const PointValue made =
        point_value(dialect_, ir::read_point_function(graph_.pool(), pre_, types), operands, "      ");
    return out + fmt::format(
                     "    f32 v[8];\n#pragma unroll\n    for (int i = 0; i < 8; ++i) {{\n{}      v[i] = {};\n    }}\n"
                     "    c_write<8>(to, c_packed_{}(v));\n  }};\n",
                     made.lines, made.value, is_bf16() ? "bf16" : "f16");
  }

  /// Element i of eight neighbours along a row of a, of an operand; what is read once for all goes into `lines`.
  std::string element_along(std::size_t t, std::string& lines) {
    const ir::BufferView& v = tensors_[t];
    const Expr row = rows_.strides[t], step = v.sizes.back().is_constant(1) ? Expr(0) : v.strides.back();
    std::string at = fmt::format("p{} + at{}", t, t);
    if (!row.is_constant(0)) at += fmt::format(" + row * {}", scalar(row));
    const std::string get = fmt::format("c_get_{}", short_name(v.dtype));
    if (step.is_constant(0)) {
      lines +=
          fmt::format("    const {} x{} = {}(*({}));\n", cuda_register_type(ir::register_type(v.dtype)), t, get, at);
      return fmt::format("x{}", t);
    }
    if (ir::lies_in_vectors(graph_.env(), v, v.sizes.size() - 1)) {
      lines += fmt::format("    const auto x{} = c_read<8>({} + k);\n", t, at);
      return fmt::format("{}(x{}.e[i])", get, t);
    }
    return fmt::format("{}(*({} + (k + i) * {}))", get, at, scalar(step));
  }

  /// What becomes of two neighbouring sums, p and q.
  std::string epilogue() { return post_text() + store(); }
};

}  // namespace

bool is_cuda_product(std::string_view op) { return op == library_ops::matmul::kBlocked; }

Kernel cuda_product(ir::Graph& graph, const ir::Extern& call, const target::Target& target) {
  BlockedProduct blocked(graph, call, target);
  const LaunchConfig config = blocked.config();
  return is_streamed(config) ? streamed_product(graph, call, target, config) : blocked.print(config);
}

bool has_product_kernel(std::string_view kernels) {
  return kernels.find(" c_grouped") != std::string_view::npos ||
         kernels.find(" c_blocked_product") != std::string_view::npos;
}

bool needs_family(std::string_view kernels) { return kernels.find(" c_streamed_") != std::string_view::npos; }

}  // namespace coil::codegen
