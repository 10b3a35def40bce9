#include "codegen/cuda/row_kernel.h"

#include "codegen/cuda/kernel_builder.h"
#include "ir/radix_state.h"
#include "library_ops/sorting.h"

namespace coil::codegen {

std::size_t row_dimension(const ir::Extern& call) {
  const std::int64_t given = read(call.attributes, library_ops::sorting::kDim),
                     rank = static_cast<std::int64_t>(call.inputs[0].sizes.size());
  return static_cast<std::size_t>(given < 0 ? given + rank : given);
}

Expr row_length(const ir::Extern& call, const ir::BufferView& view) {
  return view.sizes.empty() ? Expr(1) : view.sizes[row_dimension(call)];
}

RowKernel::RowKernel(const Dialect& dialect, ir::Graph& graph, const ir::Extern& call,
                     const std::vector<const ir::BufferView*>& views, std::size_t inputs, Expr per_row,
                     const ir::BufferView* words, const std::string& block)
    : PlainKernel(dialect), graph_(graph), blocks_(per_row) {
  const ir::BufferView& x = *views[0];
  const std::size_t rank = x.sizes.size(), dim = row_dimension(call);
  for (std::size_t v = 0; v < views.size(); ++v) {
    buffers_.push_back(views[v]->buffer);
    written_.push_back(v >= inputs);
    head_ += fmt::format("  i64 o{} = {};\n", v, scalar(views[v]->offset));
  }
  if (words) buffers_.push_back(words->buffer), written_.push_back(true);
  head_ += fmt::format("  i64 w = {}, r;\n", block.empty() ? dialect.block : block);
  if (!per_row.is_constant(1))
    head_ += fmt::format("  const i64 part = w % {0}; w /= {0};\n", scalar(per_row));
  else if (words)
    head_ += "  const i64 part = 0;\n";
  if (words) head_ += "  const i64 row = w;\n";
  for (std::size_t d = rank; d-- > 0;) {
    if (d == dim) continue;
    const std::string size = scalar(x.sizes[d]);
    head_ += fmt::format("  r = w % {0}; w /= {0};\n", size);
    for (std::size_t v = 0; v < views.size(); ++v)
      head_ += fmt::format("  o{} += r * {};\n", v, scalar(views[v]->strides[d]));
    blocks_ *= x.sizes[d];
  }
  for (const ir::BufferView* v : views) steps.push_back(rank ? scalar(v->strides[dim]) : "1");
  const bool as_key = x.dtype == DType::F64 && !dialect.has_f64;
  element = cuda_storage_type(x.dtype);
  const std::string name(short_name(x.dtype)), value = as_key ? "u64" : cuda_register_type(ir::register_type(x.dtype));
  getter_ = fmt::format(
      "  struct Get {{\n    typedef {0} element;\n    static C_METHOD {1} get({0} e) {{ return c_{2}_{3}(e); }}\n",
      element, value, as_key ? "key" : "get", name);
  if (ir::has_digits(x.dtype))
    getter_ += fmt::format("    static C_METHOD {} key({} e) {{ return c_key_{}(e); }}\n",
                           size_of(x.dtype) == 8 ? "u64" : "u32", element, name);
  getter_ += "  };\n";
}

Kernel RowKernel::finish(const std::vector<std::string>& pointers, const std::string& shared, const std::string& body,
                         int threads) {
  for (std::size_t v = 0; v < pointers.size(); ++v) take(buffers_[v], pointers[v], written_[v]);
  // A row of no elements has nothing to do.
  return write("coil_", {.grid = {graph_.env().simplify(blocks_), 1, 1}, .block = threads},
               shared + getter_ + head_ + body);
}

}  // namespace coil::codegen
