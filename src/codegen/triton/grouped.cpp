#include "codegen/triton/grouped.h"

#include "codegen/heuristics/blocks.h"
#include "codegen/triton/template.h"

namespace coil::codegen {
namespace {

/// The kernel of one call: a program has some rows of one run and some columns; which run the offsets tell.
class GroupedInTriton : public TritonTemplate {
 public:
  using TritonTemplate::TritonTemplate;

  Kernel print(const ir::Extern& call) {
    const ir::BufferView &x = call.inputs[0], &matrices = call.inputs[1], &ends = call.inputs[2], &y = call.outputs[0];
    const BlockShape block = product_block();
    const std::string left = start(x) + ", " + number(x.strides[0]),
                      right = fmt::format("{}, {}, {}, {}", start(matrices), number(matrices.strides[0]),
                                          number(matrices.strides[1]), number(matrices.strides[2])),
                      runs = fmt::format("{}, {}, {}", start(ends), number(ends.strides[0]), number(ends.sizes[0])),
                      result = start(y, true) + ", " + number(y.strides[0]);
    line("c_grouped_product({}, {}, {}, {}, {}, {}, {}, {}, ROWS, COLUMNS, DEPTH)", left, right, runs, result,
         number(x.sizes[0]), number(x.sizes[1]), number(matrices.sizes[2]), status());
    // At most: each run has one tile that is not full, and so have the rows of none.
    const Expr down = sym::floor_div(x.sizes[0], block.x) + matrices.sizes[0] + 1;
    return finish("coil_grouped_", {down * sym::ceil_div(matrices.sizes[2], block.r), 1, 1}, block.warps,
                  {{"ROWS", block.x}, {"COLUMNS", block.r}, {"DEPTH", kProductDepth}});
  }

 private:
  std::string start(const ir::BufferView& v, bool writes = false) {
    const std::string p = pointer(v, writes);
    return v.offset.is_constant(0) ? p : p + " + " + number(v.offset);
  }
};

}  // namespace

std::variant<Kernel, std::string> triton_grouped_product(ir::Graph& graph, const ir::Extern& call) {
  if (auto why = reads_as_another_type(graph, call)) return *why;
  return GroupedInTriton(graph).print(call);
}

}  // namespace coil::codegen
