#include "codegen/cuda/fourier.h"

#include <algorithm>

#include "codegen/cuda/kernel_builder.h"
#include "codegen/cuda/plain_kernel.h"
#include "codegen/heuristics/transforms.h"
#include "support/error.h"

namespace coil::codegen {

namespace {

namespace fourier = library_ops::fourier;

/// Real sequences go in twos, as the parts of complex ones: the second is as many sequences behind the first as the
/// block has.
class FourierKernel : public PlainKernel {
 public:
  FourierKernel(ir::Graph& graph, const ir::Extern& call)
      : graph_(graph),
        call_(call),
        dim_(static_cast<std::size_t>(read(call.attributes, fourier::kDim))),
        to_real_(call.op == fourier::kToRealName),
        backwards_(to_real_ || read(call.attributes, fourier::kBackwards)),
        pairs_(to_real_ || call.inputs.size() == 1),
        type_(cuda_storage_type(call.inputs[0].dtype)) {
    for (const ir::BufferView& v : call.inputs) views_.push_back(&v);
    for (const ir::BufferView& v : call.outputs) views_.push_back(&v);
    points_ = constant_length(to_real_ ? call.outputs[0] : call.inputs[0]);
    if (!fourier::has_kernel(points_, size_of(call.inputs[0].dtype)))
      fail("{}: no kernel transforms {} points; the pass decompose-for-device puts others in their place", call.op,
           points_);
    order_ = order();
    plan_ = plan_transform({.points = points_,
                            .bytes = size_of(call.inputs[0].dtype),
                            .side_by_side = !by_points(*views_.front()) || !by_points(*views_.back())});
    held_ = plan_.config.rows * (pairs_ ? 2 : 1);
    // One apart from a multiple of what memory's banks are, after every 32 points and after a sequence.
    stride_ = (points_ + points_ / 32) | 1;
  }

  Kernel kernel() {
    std::string body = memory() + starts();
    std::int64_t done = 1;
    for (std::size_t i = 0; i < plan_.factors.size(); ++i) {
      body += pass(i, done);
      done *= plan_.factors[i];
    }
    if (takes_apart()) body += taken_apart();
    for (std::size_t v = 0; v < views_.size(); ++v) take(*views_[v], type_, v >= call_.inputs.size());
    const Expr blocks = graph_.env().simplify(sym::ceil_div(count_, held_));
    return write("coil_fourier_", launch(blocks, {.threads = plan_.config.threads}), body);
  }

 private:
  std::int64_t constant_length(const ir::BufferView& view) const {
    const auto n = view.sizes[dim_].constant();
    if (!n) fail("{}: no kernel transforms a number of points that is not known", call_.op);
    return *n;
  }
  /// Whether neighbouring points of a sequence lie side by side, or nothing does.
  bool by_points(const ir::BufferView& view) const {
    return view.strides[dim_].is_constant(1) || order_.empty() || !view.strides[order_.back()].is_constant(1);
  }
  /// The dimensions that sequences differ in; the last, in which neighbouring sequences do, lies side by side in the
  /// first operand where one does.
  std::vector<std::size_t> order() const {
    const ir::BufferView& x = *views_[0];
    std::vector<std::size_t> out;
    for (std::size_t d = 0; d < x.sizes.size(); ++d)
      if (d != dim_) out.push_back(d);
    const auto is_innermost = [&](std::size_t d) { return x.strides[d].is_constant(1) && !x.sizes[d].is_constant(1); };
    if (const auto at = std::ranges::find_if(out, is_innermost); at != out.end()) std::rotate(at, at + 1, out.end());
    return out;
  }
  /// The first half of a transform is told from that of two sequences at once.
  bool takes_apart() const { return pairs_ && !to_real_; }

  std::string memory() const {
    std::string out = fmt::format("  __shared__ i64 starts[{}][{}];\n", views_.size(), held_);
    if (plan_.factors.size() > 1 || takes_apart())
      out += fmt::format("  __shared__ {0} re[{1}], im[{1}];\n", type_, plan_.config.rows * stride_);
    return out;
  }
  /// A size or stride: as a literal where it is known, so that divisions are multiplications.
  std::string number(const Expr& e) {
    const auto known = e.constant();
    return known ? std::to_string(*known) : scalar(e);
  }
  /// Where each sequence of the block begins in each view; -1 behind the last one.
  std::string starts() {
    for (std::size_t d : order_) count_ *= views_[0]->sizes[d];
    count_ = graph_.env().simplify(count_);
    const bool narrow = graph_.env().statically_known_le(count_, std::int64_t{1} << 30);
    std::string out = fmt::format(
        "  for (int q = threadIdx.x; q < {0}; q += {1}) {{\n    {2} w = ({2})blockIdx.x * {0} + q, r;\n"
        "    const bool there = w < {3};\n",
        held_, plan_.config.threads, narrow ? "u32" : "i64", number(count_));
    for (std::size_t v = 0; v < views_.size(); ++v)
      out += fmt::format("    i64 o{} = {};\n", v, number(views_[v]->offset));
    for (std::size_t i = order_.size(); i-- > 0;) {
      out += fmt::format("    r = w % {0}; w /= {0};\n", number(views_[0]->sizes[order_[i]]));
      for (std::size_t v = 0; v < views_.size(); ++v)
        out += fmt::format("    o{} += (i64)r * {};\n", v, number(views_[v]->strides[order_[i]]));
    }
    for (std::size_t v = 0; v < views_.size(); ++v) {
      out += fmt::format("    starts[{0}][q] = there ? o{0} : -1;\n", v);
      steps_.push_back(views_[v]->strides[dim_].is_constant(1) ? "" : " * (i64)" + number(views_[v]->strides[dim_]));
    }
    return out + "  }\n  c_sync();\n";
  }

  /// The part `name` of point `i` of sequence `s` in shared memory.
  std::string place(std::string_view name, std::string_view i) const {
    return fmt::format("{}[s * {} + {} + ({} >> 5)]", name, stride_, i, i);
  }
  /// An element of view `v`: of sequence `s`, a local variable of its start.
  std::string element(std::size_t v, std::string_view start, std::string_view i) const {
    return fmt::format("p{}[{} + {}{}]", v, start, i, steps_[v]);
  }
  std::string second() const { return fmt::format("s + {}", plan_.config.rows); }

  /// The statements that read point i of sequence s from memory. Complex numbers are transformed backwards by letting
  /// their parts change places, here and where they are written.
  std::string read_point() const {
    if (to_real_) return read_halves();
    if (pairs_)
      return fmt::format("const i64 a = starts[0][s], b = starts[0][{}]; x = a < 0 ? 0 : {}; y = b < 0 ? 0 : {};",
                         second(), element(0, "a", "i"), element(0, "b", "i"));
    return fmt::format("const i64 a = starts[0][s], b = starts[1][s]; {} = a < 0 ? 0 : {}; {} = a < 0 ? 0 : {};",
                       backwards_ ? "y" : "x", element(0, "a", "i"), backwards_ ? "x" : "y", element(1, "b", "i"));
  }
  /// Reads, of two sequences' first halves, the point of the whole of the first plus i times the second. What is behind
  /// the half is what stands in front of it, conjugate. The first point and the middle one count as real.
  std::string read_halves() const {
    const bool has_imaginary = call_.inputs.size() > 1;
    std::string out = fmt::format(
        "const i64 a = starts[0][s], b = starts[0][{0}]; const bool behind = i > {1}; const int j = behind ? {2} - i : "
        "i; {3} u = a < 0 ? 0 : {4}, v = b < 0 ? 0 : {5}, p = 0, q = 0; ",
        second(), points_ / 2, points_, type_, element(0, "a", "j"), element(0, "b", "j"));
    if (has_imaginary)
      out += fmt::format(
          "if (j != 0 && 2 * j != {0}) {{ const i64 c = starts[1][s], d = starts[1][{1}]; p = c < 0 ? 0 : {2}; q = d < "
          "0 ? 0 : {3}; if (behind) p = -p, q = -q; }} ",
          points_, second(), element(1, "c", "j"), element(1, "d", "j"));
    return out + "y = u - q; x = p + v;";
  }
  std::string write_point() const {
    if (to_real_)
      return fmt::format(
          "const i64 a = starts[{0}][s], b = starts[{0}][{1}]; if (a >= 0) {2} = y; if (b >= 0) {3} = x;",
          call_.inputs.size(), second(), element(call_.inputs.size(), "a", "i"),
          element(call_.inputs.size(), "b", "i"));
    return fmt::format("const i64 a = starts[2][s], b = starts[3][s]; if (a >= 0) {{ {} = {}; {} = {}; }}",
                       element(2, "a", "i"), backwards_ ? "y" : "x", element(3, "b", "i"), backwards_ ? "x" : "y");
  }

  std::string pass(std::size_t number, std::int64_t done) const {
    const bool first = number == 0, last = number + 1 == plan_.factors.size(), stays = !last || takes_apart();
    const std::string shared_read = fmt::format("x = {}; y = {};", place("re", "i"), place("im", "i")),
                      shared_write = fmt::format("{} = x; {} = y;", place("re", "i"), place("im", "i"));
    const bool points = first ? by_points(*views_.front()) : last && !takes_apart() ? by_points(*views_.back()) : true;
    return fmt::format(
        "  c_fourier_pass<{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}>(\n"
        "      [&](int s, int i, {0}& x, {0}& y) {{ {8} }},\n"
        "      [&](int s, int i, {0} x, {0} y) {{ {9} }});\n{10}",
        type_, points_, plan_.config.rows, plan_.config.threads, plan_.factors[number], done, points, !first && stays,
        first ? read_point() : shared_read, stays ? shared_write : write_point(), stays ? "  c_sync();\n" : "");
  }

  /// Points k and N - k of the transform of a + i b are sums and differences of those of a and b.
  std::string taken_apart() const {
    const std::int64_t kept = constant_length(call_.outputs[0]);
    const bool points = by_points(call_.outputs[0]);
    const char* sign = backwards_ ? "-" : "";
    const std::string by = points ? fmt::format("const int s = w / {0}, k = w % {0}", kept)
                                  : fmt::format("const int s = w % {0}, k = w / {0}", plan_.config.rows);
    return fmt::format(
        "  for (int w = threadIdx.x; w < {0}; w += {1}) {{\n    {2}, m = k == 0 ? 0 : {3} - k;\n"
        "    const {4} x = {5}, y = {6}, u = {7}, v = {8}, half = ({4})0.5;\n"
        "    const i64 a = starts[1][s], b = starts[1][{9}], c = starts[2][s], d = starts[2][{9}];\n"
        "    if (a >= 0) {{ {10} = half * (x + u); {11} = {12}(half * (y - v)); }}\n"
        "    if (b >= 0) {{ {13} = half * (y + v); {14} = {12}(half * (u - x)); }}\n  }}\n",
        plan_.config.rows * kept, plan_.config.threads, by, points_, type_, place("re", "k"), place("im", "k"),
        place("re", "m"), place("im", "m"), second(), element(1, "a", "k"), element(2, "c", "k"), sign,
        element(1, "b", "k"), element(2, "d", "k"));
  }

  ir::Graph& graph_;
  const ir::Extern& call_;
  std::size_t dim_;
  bool to_real_, backwards_, pairs_;
  std::string type_;
  std::vector<const ir::BufferView*> views_;
  std::vector<std::size_t> order_;
  std::vector<std::string> steps_;  ///< by what a point's number is multiplied, in each view
  TransformPlan plan_;
  std::int64_t points_ = 0, stride_ = 0, held_ = 0;
  Expr count_ = 1;  ///< sequences
};

}  // namespace

Kernel cuda_fourier(ir::Graph& graph, const ir::Extern& call) { return FourierKernel(graph, call).kernel(); }

}  // namespace coil::codegen
