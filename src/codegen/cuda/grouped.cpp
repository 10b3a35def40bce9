#include "codegen/cuda/grouped.h"

#include <fmt/format.h>

#include "codegen/cuda/plain_kernel.h"
#include "codegen/heuristics/products.h"
#include "library_ops/products.h"

namespace coil::codegen {
namespace {

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
        config_(product_config({.rows = graph.env().hint_or(x_.sizes[0], 1 << 12),
                                .matrices = graph.env().hint_or(matrices_.sizes[0], 8),
                                .columns = graph.env().hint_or(matrices_.sizes[2], 1024),
                                .along = along_,
                                .warpgroups = target.has(target::Feature::Warpgroups)},
                               target.costs)) {
    take(x_, "u16", false);
    take(matrices_, "u16", false);
    take(offsets_, offset_type(), false);
    take(y_, "u16", true);
  }

  Kernel print() {
    const std::string x = fmt::format("c_matrix{{{}, {}}}", at(0, x_), scalar(x_.strides[0])),
                      rows = scalar(x_.sizes[0]), depth = scalar(x_.sizes[1]),
                      w = fmt::format("c_matrix{{{}, {}}}", at(1, matrices_),
                                      scalar(matrices_.strides[along_ ? 2 : 1])),
                      each = scalar(matrices_.strides[0]), columns = scalar(matrices_.sizes[2]),
                      offsets = fmt::format("c_offsets<{}>{{{}, {}, (int){}}}", offset_type(), at(2, offsets_),
                                            scalar(offsets_.strides[0]), scalar(offsets_.sizes[0])),
                      y = fmt::format("{}, {}", at(3, y_), scalar(y_.strides[0]));
    const std::string function = fmt::format("c_grouped_product<{}, {}, {}, {}, {}>", x_.dtype == DType::BF16, along_,
                                             config_.rows, config_.tile, config_.unroll);
    // Each run has one tile that is not full at most, and so have the rows of none.
    const Expr tiles = sym::floor_div(x_.sizes[0], config_.rows) + matrices_.sizes[0] + 1,
               blocks = graph_.env().simplify(tiles * sym::ceil_div(matrices_.sizes[2], config_.tile));
    Kernel kernel = write("coil_grouped_", launch(blocks, config_),
                          fmt::format("  C_DYNAMIC_SHARED(shared);\n  {}((u16*)shared, {}, {}, {}, {}, {}, {}, {}, {}, "
                                      "status);\n",
                                      function, x, rows, depth, w, each, columns, offsets, y));
    kernel.may_fail = true;
    return kernel;
  }

 private:
  std::string_view offset_type() const { return offsets_.dtype == DType::I64 ? "i64" : "i32"; }

  std::string at(int pointer, const ir::BufferView& view) {
    return fmt::format("p{} + {}", pointer, scalar(view.offset));
  }

  ir::Graph& graph_;
  const ir::BufferView &x_, &matrices_, &offsets_, &y_;
  const bool along_;
  const LaunchConfig config_;
};

}  // namespace

bool is_cuda_grouped(std::string_view op) { return op == library_ops::grouped_matmul::kBlocked; }

Kernel cuda_grouped_product(ir::Graph& graph, const ir::Extern& call, const target::Target& target) {
  return GroupedKernel(graph, call, target).print();
}

}  // namespace coil::codegen
