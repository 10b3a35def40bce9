#include "codegen/metal/products.h"

#include <fmt/ranges.h>

#include "codegen/cuda/kernel_builder.h"
#include "codegen/cuda/plain_kernel.h"
#include "codegen/metal/dialect.h"
#include "library_ops/convolutions.h"
#include "library_ops/epilogue.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

constexpr int kSide = 32, kThreads = 256;

/// A kernel of views: pointers p0, p1, … of which the last is written, numbers n0, n1, …, and where the threadgroup's
/// matrices begin (o0, o1, …).
class ProductKernel : public PlainKernel {
 public:
  ProductKernel(ir::Graph& graph, const ir::Extern& call) : PlainKernel(metal_dialect()), graph_(graph) {
    for (const ir::BufferView& v : call.inputs) views_.push_back(&v);
    views_.push_back(&call.outputs[0]);
    if (!read(call.attributes, library_ops::kPost).empty()) fail("{} on metal takes no post-operations", call.op);
    for (const ir::BufferView* v : views_) {
      const bool counts = call.op == library_ops::grouped_matmul::kBlocked && v == &call.inputs[2];
      if (v->dtype != DType::F32 && v->dtype != DType::F16 && v->dtype != DType::BF16 && !counts)
        fail("{} of {} has no kernel on metal", call.op, short_name(v->dtype));
      take(*v, cuda_storage_type(v->dtype), v == views_.back());
    }
  }

  const ir::BufferView& view(std::size_t v) const { return *views_[v]; }
  std::size_t result() const { return views_.size() - 1; }
  std::string number(Expr e) {
    e = graph_.env().simplify(e);
    if (e.is_constant()) return fmt::format("{}l", *e.constant());
    const std::string key = sym::to_string(e);
    for (std::size_t i = 0; i < k_.scalars.size(); ++i)
      if (sym::to_string(k_.scalars[i]) == key) return fmt::format("n{}", i);
    return scalar(e);
  }
  /// One of the operands' templates with its type, and how its elements are read: `c_matrix<c_stored_bf16>`.
  std::string of(std::string_view name, std::size_t v) const {
    return fmt::format("{}<c_stored_{}>", name, short_name(view(v).dtype));
  }
  std::string at(std::size_t v) const { return fmt::format("p{0} + o{0}", v); }
  /// The threadgroup's matrices are those at place `group_index.z` of these dimensions: of each view the stride there.
  void batch(const Exprs& sizes, const std::vector<Exprs>& strides) {
    for (std::size_t d = sizes.size(); d-- > 0;) {
      line("const i64 b{} = w % {}; w /= {};", d, number(sizes[d]), number(sizes[d]));
      for (std::size_t v = 0; v < strides.size(); ++v)
        if (!strides[v][d].is_constant(0)) line("o{} += b{} * {};", v, d, number(strides[v][d]));
      batches_ *= sizes[d];
    }
  }
  /// So many threadgroups along z, whatever they do.
  void batches(Expr count) { batches_ *= count; }
  template <class... A>
  void line(fmt::format_string<A...> format, A&&... a) {
    body_ += "  " + fmt::format(format, std::forward<A>(a)...) + "\n";
  }

  Kernel finish(const std::string& a, const std::string& b, const std::string& bias, const std::string& y, Expr rows,
                Expr columns, Expr depth) {
    return finish({a, b, bias, y, number(rows), number(columns), number(depth)}, rows, columns);
  }
  /// `arguments` of c_product, up to the depth; threadgroups for so many rows and columns.
  Kernel finish(const std::vector<std::string>& arguments, Expr rows, Expr columns) {
    line("c_product({}, group_index, thread_index.x, left, right);", fmt::join(arguments, ", "));
    std::string head = "  threadgroup f32 left[16 * 33], right[16 * 33];\n";
    for (std::size_t v = 0; v < views_.size(); ++v) head += fmt::format("  i64 o{} = {};\n", v, number(view(v).offset));
    SymbolicLaunch launch{.grid = {sym::ceil_div(columns, kSide), sym::ceil_div(rows, kSide), batches_},
                          .block = kThreads};
    for (Expr& e : launch.grid) e = graph_.env().simplify(e);
    return write("coil_product_", std::move(launch), head + "  i64 w = group_index.z;\n" + body_);
  }

 private:
  ir::Graph& graph_;
  std::vector<const ir::BufferView*> views_;
  std::string body_;
  Expr batches_ = 1;
};

/// Strides of a view's leading dimensions, where it may have fewer dimensions than the result, or one element for many.
Exprs broadcast(const ir::BufferView& v, std::size_t rank) {
  Exprs out(rank - v.sizes.size(), Expr(0));
  for (std::size_t d = 0; d < v.sizes.size(); ++d) out.push_back(v.sizes[d].is_constant(1) ? Expr(0) : v.strides[d]);
  return out;
}

std::string matrix(ProductKernel& k, std::string_view kind, std::size_t v, Expr down, Expr across) {
  const std::string rows = k.number(down), columns = k.number(across);
  return fmt::format("{}{{{}, {}, {}}}", k.of(kind, v), k.at(v), rows, columns);
}

/// linear and matmul: y = a b + bias, with the leading dimensions of y as a batch. Of linear b is one matrix for all.
Kernel matrices(ir::Graph& graph, const ir::Extern& call) {
  ProductKernel k(graph, call);
  const bool linear = call.op == library_ops::linear::kName, biased = read(call.attributes, library_ops::kHasBias);
  const std::size_t y = k.result(), rank = k.view(y).sizes.size();
  if (rank == 0 || k.view(0).sizes.empty()) fail("{} of numbers has no kernel on metal", call.op);
  // A vector is one row.
  std::vector<Exprs> strides;
  for (std::size_t v = 0; v <= y; ++v) {
    const bool weight = linear && v == 1;
    strides.push_back(weight ? Exprs(rank, Expr(0)) : broadcast(k.view(v), rank));
  }
  const std::size_t leading = rank < 2 ? 0 : rank - 2;
  auto head = [&](Exprs all) { return all.resize(leading), all; };
  std::vector<Exprs> batches;
  for (const Exprs& s : strides) batches.push_back(head(s));
  k.batch(head(k.view(y).sizes), batches);
  auto row = [&](const Exprs& s) { return rank < 2 ? Expr(0) : s[rank - 2]; };
  const Expr rows = rank < 2 ? Expr(1) : k.view(y).sizes[rank - 2], columns = k.view(y).sizes.back();
  const ir::BufferView& second = k.view(1);
  const bool turned = linear && !read(call.attributes, library_ops::linear::kWeightTransposed);
  const std::size_t last = second.sizes.size() - 1;
  const std::string a = matrix(k, "c_matrix", 0, row(strides[0]), k.view(0).strides.back());
  const std::string b =
      matrix(k, "c_matrix", 1, second.strides[turned ? last : last - 1], second.strides[turned ? last - 1 : last]);
  const std::string bias = biased ? matrix(k, "c_matrix", 2, row(strides[2]), strides[2].back()) : "c_nothing{}";
  const std::string result = matrix(k, "c_rows_of", y, row(strides[y]), strides[y].back());
  return k.finish(a, b, bias, result, rows, columns, k.view(0).sizes.back());
}

/// Runs of rows, each times its matrix: run by run along z, behind them the rows of none.
Kernel grouped(ir::Graph& graph, const ir::Extern& call) {
  const ir::BufferView &x = call.inputs[0], &matrices = call.inputs[1], &ends = call.inputs[2], &y = call.outputs[0];
  ProductKernel k(graph, call);
  const std::string count = k.number(matrices.sizes[0]), rows = k.number(x.sizes[0]);
  k.line("const c_run run = c_run_of(p2 + o2, {}, {}, {}, group_index.z);", k.number(ends.strides[0]), count, rows);
  k.line("if (run.end < run.begin) return c_fail(status);");
  k.line("o0 += run.begin * {}; o3 += run.begin * {};", k.number(x.strides[0]), k.number(y.strides[0]));
  k.line("if (w < {}) o1 += w * {};", count, k.number(matrices.strides[0]));
  k.batches(matrices.sizes[0] + 1);
  const std::string a = matrix(k, "c_matrix", 0, x.strides[0], x.strides[1]),
                    b = matrix(k, "c_matrix", 1, matrices.strides[1], matrices.strides[2]),
                    to = matrix(k, "c_rows_of", 3, y.strides[0], y.strides[1]);
  const std::string depth = fmt::format("w < {} ? {} : 0l", count, k.number(x.sizes[1]));
  Kernel kernel = k.finish({a, b, "c_nothing{}", to, "run.end - run.begin", k.number(matrices.sizes[2]), depth},
                           x.sizes[0], matrices.sizes[2]);
  kernel.may_fail = true;
  return kernel;
}

/// What a convolution says of its dimensions, as a variable of the kernel: three, of which the first may be of one
/// place.
struct WindowSizes {
  Expr places = 1, window = 1;
};
WindowSizes name_window(ProductKernel& k, const ir::BufferView& x, const ir::BufferView& weight,
                        const ir::BufferView& y, const std::vector<std::int64_t>& step,
                        const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& apart) {
  const std::size_t spatial = step.size();
  if (spatial < 1 || spatial > 3) fail("a convolution over {} dimensions has no kernel on metal", spatial);
  std::vector<std::string> dims(3 - spatial, "1l, 1l, 1l, 1l, 0l, 1l, 0l, 0l, 0l");
  WindowSizes sizes;
  for (std::size_t d = 0; d < spatial; ++d) {
    std::vector<std::string> fields;
    for (const Expr& e : {x.sizes[d + 2], weight.sizes[d + 2], y.sizes[d + 2], Expr(step[d]), Expr(before[d]),
                          Expr(apart[d]), x.strides[d + 2], weight.strides[d + 2], y.strides[d + 2]})
      fields.push_back(k.number(e));
    dims.push_back(fmt::format("{}", fmt::join(fields, ", ")));
    sizes.places *= y.sizes[d + 2];
    sizes.window *= weight.sizes[d + 2];
  }
  k.line("const c_window window = {{{}}};", fmt::join(dims, ",\n                           "));
  return sizes;
}

/// An operand of a convolution: a template, the view, and two numbers or words behind the window.
std::string windowed(ProductKernel& k, std::string_view kind, std::size_t v, std::initializer_list<std::string> rest) {
  return fmt::format("{}{{{}, window, {}}}", k.of(kind, v), k.at(v), fmt::join(rest, ", "));
}

/// A convolution: for each image and group, places by channels of windows and filters.
Kernel convolved(ir::Graph& graph, const ir::Extern& call) {
  const library_ops::ConvolutionCall c(call);
  ProductKernel k(graph, call);
  const std::size_t y = k.result(), spatial = c.x().sizes.size() - 2;
  const std::int64_t groups = c.groups();
  const bool turned = c.transposed();
  const auto &x = c.x(), &weight = c.weight(), &result = c.result();
  const std::size_t of_results = turned ? 1 : 0;
  const Expr channels = graph.env().simplify(sym::floor_div(x.sizes[1], groups)),
             results = graph.env().simplify(sym::floor_div(result.sizes[1], groups));
  const Expr zero = 0;
  // Each group has its channels, filters and results.
  std::vector<Exprs> batches{{x.strides[0], x.strides[1] * channels},
                             {zero, weight.strides[0] * (turned ? channels : results)}};
  if (c.has_bias()) batches.push_back({zero, c.bias().strides[0] * results});
  batches.push_back({result.strides[0], result.strides[1] * results});
  k.batch({x.sizes[0], Expr(groups)}, batches);
  const WindowSizes sizes =
      name_window(k, x, weight, result, c.stride(spatial), c.padding(spatial), c.dilation(spatial));
  const std::string a = windowed(k, "c_windows", 0, {k.number(x.strides[1]), "0l", turned ? "true" : "false"});
  const std::string b =
      windowed(k, "c_filters", 1, {k.number(weight.strides[1 - of_results]), k.number(weight.strides[of_results])});
  const std::string bias = c.has_bias() ? matrix(k, "c_matrix", 2, zero, c.bias().strides[0]) : "c_nothing{}";
  const std::string to = windowed(k, "c_places", y, {k.number(result.strides[1])});
  return k.finish(a, b, bias, to, sizes.places, results, channels * sizes.window);
}

/// The gradient of a convolution's weight: for each group, channels of the results by windows, over all places.
Kernel convolution_weights(ir::Graph& graph, const ir::Extern& call) {
  const library_ops::ConvolutionWeightsCall c(call);
  ProductKernel k(graph, call);
  const auto &x = c.x(), &dy = c.dy(), &dw = c.dw();
  const std::size_t spatial = x.sizes.size() - 2;
  const std::int64_t groups = c.groups();
  const Expr channels = graph.env().simplify(sym::floor_div(x.sizes[1], groups)),
             results = graph.env().simplify(sym::floor_div(dy.sizes[1], groups));
  k.batch({Expr(groups)}, {{x.strides[1] * channels}, {dy.strides[1] * results}, {dw.strides[0] * results}});
  const WindowSizes sizes = name_window(k, x, dw, dy, c.stride(spatial), c.padding(spatial), c.dilation(spatial));
  const std::string a = windowed(k, "c_slopes", 1, {k.number(dy.strides[1]), k.number(dy.strides[0])});
  const std::string b = windowed(k, "c_windows", 0, {k.number(x.strides[1]), k.number(x.strides[0]), "false"});
  const std::string to = windowed(k, "c_filters_of", k.result(), {k.number(dw.strides[0]), k.number(dw.strides[1])});
  return k.finish(a, b, "c_nothing{}", to, results, channels * sizes.window, x.sizes[0] * sizes.places);
}

}  // namespace

bool is_metal_product(std::string_view op) {
  return op == library_ops::linear::kName || op == library_ops::matmul::kName ||
         op == library_ops::grouped_matmul::kBlocked || op == library_ops::convolution::kName ||
         op == library_ops::convolution_weights::kName;
}

Kernel metal_product(ir::Graph& graph, const ir::Extern& call) {
  if (call.op == library_ops::convolution::kName) return convolved(graph, call);
  if (call.op == library_ops::grouped_matmul::kBlocked) return grouped(graph, call);
  return call.op == library_ops::convolution_weights::kName ? convolution_weights(graph, call) : matrices(graph, call);
}

}  // namespace coil::codegen
