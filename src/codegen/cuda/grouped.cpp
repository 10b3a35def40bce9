#include "codegen/cuda/grouped.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/product_kernel.h"
#include "codegen/cuda/streamed_products.h"
#include "codegen/heuristics/products.h"
#include "library_ops/products.h"

namespace coil::codegen {
namespace {

constexpr std::int64_t kFewRows = 8;  // of a run: a matrix is read once for each 8 or 16 of its rows

/// The kernel of one call. A block has some rows of one run and some columns; which run the offsets tell.
class GroupedKernel : public PlainKernel {
 public:
  GroupedKernel(ir::Graph& graph, const ir::Extern& call, const target::Target& target)
      : graph_(graph),
        x_(call.inputs[0]),
        matrices_(call.inputs[1]),
        offsets_(call.inputs[2]),
        y_(call.outputs[0]),
        along_(!matrices_.strides[2].is_constant(1)),
        config_(product_config(facts(target), target.costs)),
        costs_(target.costs) {
    take(x_, "u16", false);
    take(matrices_, "u16", false);
    take(offsets_, offset_type(), false);
    take(y_, "u16", true);
  }

  Kernel print() {
    if (is_streamed(config_)) return print_streamed();
    const bool thin = is_thin(config_);
    const std::string x = fmt::format("c_matrix{{{}, {}}}", at(0, x_), scalar(x_.strides[0])),
                      rows = scalar(x_.sizes[0]), depth = scalar(x_.sizes[1]),
                      w = fmt::format("c_matrix{{{}, {}}}", at(1, matrices_),
                                      scalar(matrices_.strides[along_ ? 2 : 1])),
                      each = scalar(matrices_.strides[0]), columns = scalar(matrices_.sizes[2]), ends = offsets(),
                      y = fmt::format("{}, {}", at(3, y_), scalar(y_.strides[0]));
    const std::string function =
        thin ? fmt::format("c_thin_groups<{}, {}, {}, {}, {}>(shared", x_.dtype == DType::BF16,
                           thin_piece_type(config_, along_), config_.threads / 32, config_.rows / 8, config_.unroll)
             : fmt::format("c_grouped_product<{}, {}, {}, {}, {}>((u16*)shared", x_.dtype == DType::BF16, along_,
                           config_.rows, config_.tile, config_.unroll);
    Kernel kernel = write("coil_grouped_", launch(tiles(config_.rows), config_),
                          fmt::format("  C_DYNAMIC_SHARED(shared);\n  {}, {}, {}, {}, {}, {}, {}, {}, {}, "
                                      "status);\n",
                                      function, x, rows, depth, w, each, columns, ends, y));
    kernel.may_fail = true;
    return kernel;
  }

 private:
  ProductFacts facts(const target::Target& target) const {
    const sym::ShapeEnv& env = graph_.env();
    ProductFacts f{.rows = env.hint_or(x_.sizes[0], 1 << 12),
                   .matrices = env.hint_or(matrices_.sizes[0], 8),
                   .columns = env.hint_or(matrices_.sizes[2], 1024),
                   .along = along_,
                   .warpgroups = target.has(target::Feature::Warpgroups),
                   .mapped = true,
                   .depth = std::max<std::int64_t>(1, env.hint_or(x_.sizes[1], 1024)),
                   .runs = true};
    const std::int64_t rows_each = f.rows / std::max<std::int64_t>(1, f.matrices);
    if (rows_each <= kFewRows) f.most_rows = rows_each <= kFewRows / 2 ? 8 : 16;
    return f;
  }

  /// The kernel whose operands the copy engine fetches.
  Kernel print_streamed() {
    const sym::ShapeEnv& env = graph_.env();
    const std::string rows = scalar(x_.sizes[0]), depth = scalar(x_.sizes[1]), columns = scalar(matrices_.sizes[2]),
                      y = fmt::format("{} + row * {} + column", at(3, y_), scalar(y_.strides[0]));
    const std::string body = fmt::format(
        "  C_DYNAMIC_SHARED(shared);\n"
        "  c_streamed_groups<{}, {}, {}, {}, {}>(shared, m0, m1, {}, {}, {}, {}, [&](i64 row, i64 column) {{ return "
        "{}; "
        "}}, status);\n",
        x_.dtype == DType::BF16, along_, config_.tile, config_.unroll, config_.cluster, rows, depth, columns, offsets(),
        y);
    const std::size_t dense = along_ ? 1 : 2, other = along_ ? 2 : 1;
    SymbolicLaunch how = launch(streamed_blocks(env, tiles(config_.rows * config_.cluster), config_, costs_), config_);
    how.cluster = config_.cluster;
    how.maps = {
        mapped(env, {0, x_.dtype, x_.offset, {1, x_.sizes[0], x_.sizes[1]}, {8, x_.strides[0], 1}}, config_.rows),
        mapped(env,
               {1,
                x_.dtype,
                matrices_.offset,
                {matrices_.sizes[0], matrices_.sizes[other], matrices_.sizes[dense]},
                {matrices_.strides[0], matrices_.strides[other], 1}},
               tile_rows_of_second(config_, along_))};
    Kernel kernel = write("coil_grouped_", std::move(how), body);
    kernel.may_fail = true;
    return kernel;
  }

  /// The most tiles that there are: each run has one tile that is not full, and so have the rows of none; each tile has
  /// a row.
  Expr tiles(std::int64_t rows) const {
    const Expr down = sym::min(x_.sizes[0], sym::floor_div(x_.sizes[0], rows) + matrices_.sizes[0] + 1);
    return graph_.env().simplify(down * sym::ceil_div(matrices_.sizes[2], config_.tile));
  }

  std::string offsets() {
    return fmt::format("c_offsets<{}>{{{}, {}, (int){}}}", offset_type(), at(2, offsets_), scalar(offsets_.strides[0]),
                       scalar(offsets_.sizes[0]));
  }

  std::string_view offset_type() const { return offsets_.dtype == DType::I64 ? "i64" : "i32"; }

  std::string at(int pointer, const ir::BufferView& view) {
    return fmt::format("p{} + {}", pointer, scalar(view.offset));
  }

  ir::Graph& graph_;
  const ir::BufferView &x_, &matrices_, &offsets_, &y_;
  const bool along_;
  const LaunchConfig config_;
  const target::Costs& costs_;
};

}  // namespace

bool is_cuda_grouped(std::string_view op) { return op == library_ops::grouped_matmul::kBlocked; }

Kernel cuda_grouped_product(ir::Graph& graph, const ir::Extern& call, const target::Target& target) {
  return GroupedKernel(graph, call, target).print();
}

}  // namespace coil::codegen
