#include "codegen/cuda/products.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/kernel_builder.h"
#include "codegen/cuda/plain_kernel.h"
#include "codegen/cuda/point_function.h"
#include "codegen/heuristics/products.h"
#include "ir/point_function.h"
#include "ir/vectors.h"
#include "library_ops/products.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

using library_ops::PostOp;
using Kind = PostOp::Kind;

/// A dimension that is not multiplied over: its size, and the stride of each tensor in it.
struct Dim {
  Expr size;
  Exprs strides;
};

/// The kernel of one call. A block computes a tile of one matrix of the result. Dimensions of the batch that all
/// tensors lie along like rows, and for which there is one matrix b, count as rows.
class ProductKernel : public PlainKernel {
 public:
  ProductKernel(ir::Graph& graph, const ir::Extern& call, const target::Target& target)
      : graph_(graph),
        target_(target),
        post_(library_ops::EpilogueCall(call).post()),
        pre_(library_ops::BlockedCall(call).pre()),
        first_pre_(library_ops::BlockedCall(call).first_pre_operand()),
        tensors_(call.inputs) {
    tensors_.push_back(call.outputs[0]);
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      take(tensors_[t], cuda_storage_type(tensors_[t].dtype), t + 1 == tensors_.size());
    read_dimensions();
  }

  Kernel print() {
    const ir::BufferView& b = tensors_[1];
    const std::size_t rank = b.sizes.size();
    const Expr columns = b.sizes[rank - 1], depth = b.sizes[rank - 2];
    const bool along = !b.strides[rank - 1].is_constant(1);
    const LaunchConfig config = config_of(columns, along);
    const Expr tiles =
        graph_.env().simplify(sym::ceil_div(rows_.size, config.rows) * sym::ceil_div(columns, config.tile));
    Expr blocks = tiles;
    for (const Dim& d : batch_) blocks *= d.size;
    std::string body = "  C_DYNAMIC_SHARED(shared);\n";
    body += place_in_batch(tiles);
    if (!pre_.empty()) body += making_of_a();
    const std::string a = pre_.empty() ? fmt::format("c_matrix{{p0 + at0, {}}}", scalar(rows_.strides[0]))
                                       : std::string("c_made_by(make)"),
                      b_row = scalar(b.strides[along ? rank - 1 : rank - 2]), rows = scalar(rows_.size),
                      across = scalar(columns), summed = scalar(depth);
    body += fmt::format(
        "  c_blocked_product<{}, {}, {}, {}, {}>((u16*)shared, tile, {}, c_matrix{{p1 + at1, {}}}, {}, {}, {}, [&](i64 "
        "row, i64 column, f32 p, f32 q) {{\n{}  }});\n",
        is_bf16(), along, config.rows, config.tile, config.unroll, a, b_row, rows, across, summed, epilogue());
    return write("coil_product_", launch(graph_.env().simplify(blocks), config), body);
  }

 private:
  bool is_bf16() const { return tensors_[1].dtype == DType::BF16; }

  LaunchConfig config_of(Expr columns, bool along) const {
    const sym::ShapeEnv& env = graph_.env();
    std::int64_t matrices = 1;
    for (const Dim& d : batch_) matrices *= env.hint_or(d.size, 8);
    return product_config({.rows = env.hint_or(rows_.size, 1 << 12) * matrices,
                           .matrices = matrices,
                           .columns = env.hint_or(columns, 1024),
                           .along = along,
                           .warpgroups = target_.has(target::Feature::Warpgroups)},
                          target_.costs);
  }

  /// The batch's dimensions and the rows, merged as far as all tensors allow.
  void read_dimensions() {
    const std::size_t rank = tensors_.back().sizes.size();
    for (std::size_t d = 0; d + 1 < rank; ++d) {
      Dim dim{tensors_.back().sizes[d], {}};
      for (std::size_t t = 0; t < tensors_.size(); ++t) dim.strides.push_back(stride(t, d, d + 2 == rank));
      if (dim.size.is_constant(1) && d + 2 < rank) continue;
      while (!batch_.empty() && merges(batch_.back(), dim)) {
        dim.size = graph_.env().simplify(batch_.back().size * dim.size);
        batch_.pop_back();
      }
      batch_.push_back(std::move(dim));
    }
    rows_ = std::move(batch_.back());
    batch_.pop_back();
  }

  Expr stride(std::size_t tensor, std::size_t d, bool is_row) const {
    const ir::BufferView& v = tensors_[tensor];
    const bool repeats = tensor == 1 ? is_row : v.sizes[d].is_constant(1);
    return repeats ? Expr(0) : v.strides[d];
  }

  bool merges(const Dim& outer, const Dim& inner) const {
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      if (!graph_.env().statically_known_equal(outer.strides[t], inner.strides[t] * inner.size)) return false;
    return true;
  }

  /// Which tile of which matrix a block has, and where that matrix begins in each tensor.
  std::string place_in_batch(Expr tiles) {
    std::string out =
        batch_.empty()
            ? "  const i64 tile = blockIdx.x;\n"
            : fmt::format("  const i64 tile = blockIdx.x % {0};\n  i64 batch = blockIdx.x / {0};\n", scalar(tiles));
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      out += fmt::format("  i64 at{} = {};\n", t, scalar(tensors_[t].offset));
    for (std::size_t d = batch_.size(); d-- > 0;) {
      const std::string size = scalar(batch_[d].size);
      for (std::size_t t = 0; t < tensors_.size(); ++t)
        if (!batch_[d].strides[t].is_constant(0))
          out += fmt::format("  at{} += batch % {} * {};\n", t, size, scalar(batch_[d].strides[t]));
      if (d > 0) out += fmt::format("  batch /= {};\n", size);
    }
    return out;
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
  std::string epilogue() {
    std::string out;
    std::size_t operand = 2;
    for (const PostOp& op : post_) {
      if (!op.takes_operand()) {
        out += fmt::format("    p = {};\n    q = {};\n", applied(op, "p"), applied(op, "q"));
        continue;
      }
      const char sign = op.kind == Kind::Add ? '+' : '*';
      out += fmt::format("    const c_two x{0} = {1};\n    p = p {2} x{0}.p;\n    q = q {2} x{0}.q;\n", operand,
                         two_of(operand), sign);
      ++operand;
    }
    const std::size_t y = tensors_.size() - 1;
    const std::string to = fmt::format("p{} + at{} + row * {} + column", y, y, scalar(rows_.strides[y]));
    if (tensors_[y].dtype == DType::F32)
      return out + fmt::format("    f32* const to = {};\n    to[0] = p;\n    to[1] = q;\n", to);
    return out + fmt::format("    c_put_two<{}>({}, p, q);\n", is_bf16(), to);
  }

  /// An operand's two elements beside the sums.
  std::string two_of(std::size_t t) {
    const ir::BufferView& v = tensors_[t];
    const Expr row = rows_.strides[t], column = v.sizes.back().is_constant(1) ? Expr(0) : v.strides.back();
    const bool narrow = v.dtype != DType::F32;
    const std::string get = narrow ? fmt::format("c_get_{}", short_name(v.dtype)) : "";
    std::string at = fmt::format("p{} + at{}", t, t);
    if (!row.is_constant(0)) at += fmt::format(" + row * {}", scalar(row));
    if (column.is_constant(0)) return fmt::format("c_two{{{0}(*({1})), {0}(*({1}))}}", get, at);
    if (narrow && column.is_constant(1) && begins_on_pairs(t))
      return fmt::format("c_get_two<{}>({} + column)", v.dtype == DType::BF16, at);
    at += fmt::format(" + column * {}", scalar(column));
    return fmt::format("c_two{{{0}(*({1})), {0}(*({1} + {2}))}}", get, at, scalar(column));
  }

  bool begins_on_pairs(std::size_t t) const {
    const auto even = [&](Expr e) { return graph_.env().statically_known_multiple_of(e, 2); };
    return even(tensors_[t].offset) && even(rows_.strides[t]) &&
           std::ranges::all_of(batch_, [&](const Dim& d) { return even(d.strides[t]); });
  }

  static std::string applied(const PostOp& op, std::string_view x) {
    const auto f32 = [](double v) { return cuda_dialect().number(v, DType::F32); };
    const auto gate = [&] { return fmt::format("c_min_nan(c_max_nan({} + 3.0f, 0.0f), 6.0f) * {}", x, f32(1.0 / 6)); };
    switch (op.kind) {
      case Kind::Relu: return fmt::format("c_max_nan({}, 0.0f)", x);
      case Kind::GeluErf: return fmt::format("0.5f * {0} * c_one_plus_erf({0} * {1})", x, f32(0.70710678118654752));
      case Kind::GeluTanh:
        return fmt::format("0.5f * {0} * c_one_plus_tanh({1} * ({0} + 0.044715f * {0} * {0} * {0}))", x,
                           f32(0.79788456080286536));
      case Kind::Silu: return fmt::format("{0} * c_sigmoid({0})", x);
      case Kind::Sigmoid: return fmt::format("c_sigmoid({})", x);
      case Kind::Tanh: return fmt::format("c_tanh({})", x);
      case Kind::Clip: return fmt::format("c_min_nan(c_max_nan({}, {}), {})", x, f32(op.a), f32(op.b));
      case Kind::HardSwish: return fmt::format("{} * ({})", x, gate());
      case Kind::HardSigmoid: return gate();
      case Kind::Elu: return fmt::format("{0} > 0.0f ? {0} : {1} * c_expm1({0})", x, f32(op.a));
      case Kind::LeakyRelu: return fmt::format("{0} > 0.0f ? {0} : {1} * {0}", x, f32(op.a));
      case Kind::Scale: return fmt::format("c_fma({}, {}, {})", x, f32(op.a), f32(op.b));
      case Kind::Add:
      case Kind::Mul:
      case Kind::Sum: break;
    }
    fail("{} is no function of a sum alone", to_string(op));
  }

  ir::Graph& graph_;
  const target::Target& target_;
  const std::vector<PostOp> post_;
  const std::string pre_;                ///< what an element of a is; empty: it is read as it is
  const std::size_t first_pre_;          ///< the place of the first operand that `pre` reads beside a
  std::vector<ir::BufferView> tensors_;  ///< a, b, operands of post-operations, those of `pre`, y
  std::vector<Dim> batch_;
  Dim rows_;
};

}  // namespace

bool is_cuda_product(std::string_view op) { return op == library_ops::matmul::kBlocked; }

Kernel cuda_product(ir::Graph& graph, const ir::Extern& call, const target::Target& target) {
  return ProductKernel(graph, call, target).print();
}

bool has_product_kernel(std::string_view kernels) {
  return kernels.find(" c_grouped") != std::string_view::npos ||
         kernels.find(" c_blocked_product") != std::string_view::npos;
}

}  // namespace coil::codegen
