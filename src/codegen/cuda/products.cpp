#include "codegen/cuda/products.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/kernel_builder.h"
#include "codegen/cuda/plain_kernel.h"
#include "codegen/cuda/point_function.h"
#include "codegen/cuda/streamed_products.h"
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
    const LaunchConfig config = config_of(columns, depth, along);
    if (is_streamed(config)) return print_streamed(config, along);
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

  /// The kernel whose operands the copy engine fetches.
  Kernel print_streamed(const LaunchConfig& config, bool along) {
    const sym::ShapeEnv& env = graph_.env();
    const ir::BufferView &b = tensors_[1], &y = tensors_.back();
    const std::size_t rank = b.sizes.size(), last = tensors_.size() - 1;
    const Expr summed = b.sizes[rank - 2], across = b.sizes[rank - 1],
               down = sym::ceil_div(rows_.size, config.rows * config.cluster),
               tiles = env.simplify(down * sym::ceil_div(across, config.tile));
    Expr all = tiles;
    for (const Dim& d : batch_) all *= d.size;
    const std::string bounds = fmt::format("row < {} && column < {}", scalar(rows_.size), scalar(across)),
                      tile = tile_text(config, env.simplify(all), tiles, summed);
    std::string body = fmt::format(
        "  C_DYNAMIC_SHARED(shared);\n"
        "  c_streamed_product<{}, {}, {}, {}, {}>(shared, m0, m1, [&](i64 n, u32 rank, c_stream_tile& t) {{\n{}  }},\n",
        is_bf16(), along, config.tile, config.unroll, config.cluster, tile);
    const bool narrow = y.dtype != DType::F32;
    const std::vector<std::size_t> eights = read_in_eights(across);
    const std::size_t wide = eights.empty() ? 2 : 8;
    body += fmt::format(
        "  c_make_result<{}, {}>([&](const c_stream_tile& t, i64 row, i64 column) {{\n    c_eights<{}> e = {{}};\n"
        "    if (!({})) return e;\n{}    return e;\n  }},\n"
        "  [&](const c_stream_tile& t, i64 row, i64 first, f32 (&v)[{}], const c_eights<{}>& e) {{\n"
        "    const i64 column = first;\n    if (!({})) return;\n{}{}  }},\n"
        "  [&](const c_stream_tile& t, i64 row, i64 column, const uint4& eight) {{\n",
        narrow, eights.size(), eights.size(), bounds, taken(eights), wide, eights.size(), bounds,
        places(2, narrow ? last : last + 1), for_each_pair(wide, post_text(eights) + (narrow ? "" : store())));
    if (narrow)
      body += fmt::format("    if (!({})) return;\n{}    *(uint4*)({}) = eight;\n", bounds, places(last, last + 1),
                          result_at());
    body += "  }), status);\n";
    SymbolicLaunch how = launch(streamed_blocks(env, env.simplify(all), config, target_.costs), config);
    how.cluster = config.cluster;
    how.maps = {mapped(env, rows_operand(summed), config.rows),
                mapped(env, matrix_operand(along), tile_rows_of_second(config, along))};
    return write("coil_product_", std::move(how), body);
  }

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
                         places(eights[k], eights[k] + 1), k, eights[k], scalar(rows_.strides[eights[k]]));
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
    if (d == batch_.size()) return "0";
    Expr inner = 1;
    for (std::size_t k = d + 1; k < batch_.size(); ++k) inner *= batch_[k].size;
    return fmt::format("(i32)(t.batch / {} % {})", scalar(graph_.env().simplify(inner)), scalar(batch_[d].size));
  }

  /// Where matrix `t.batch` begins in the tensors from `first` on.
  std::string places(std::size_t first, std::size_t end) {
    std::string out;
    for (std::size_t t = first; t < end; ++t) {
      out += fmt::format("    i64 at{} = {};\n", t, scalar(tensors_[t].offset));
      Expr inner = 1;
      for (std::size_t d = batch_.size(); d-- > 0; inner *= batch_[d].size)
        if (!batch_[d].strides[t].is_constant(0))
          out += fmt::format("    at{} += t.batch / {} % {} * {};\n", t, scalar(graph_.env().simplify(inner)),
                             scalar(batch_[d].size), scalar(batch_[d].strides[t]));
    }
    return out;
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
  StreamedOperand matrix_operand(bool along) const {
    StreamedOperand x = operand(1);
    const ir::BufferView& b = tensors_[1];
    const std::size_t dense = b.sizes.size() - (along ? 2 : 1), other = b.sizes.size() - (along ? 1 : 2);
    x.sizes.insert(x.sizes.end(), {b.sizes[other], b.sizes[dense]});
    x.strides.insert(x.strides.end(), {b.strides[other], 1});
    return x;
  }

  /// Whether descriptors can say where the matrices of both operands lie, as they are multiplied.
  bool has_maps() const {
    const auto one = [&](std::size_t t) {
      return std::ranges::count_if(batch_, [&](const Dim& d) { return !d.strides[t].is_constant(0); }) <= 1;
    };
    return pre_.empty() && one(0) && one(1) && !rows_.strides[0].is_constant(0);
  }

  LaunchConfig config_of(Expr columns, Expr depth, bool along) const {
    const sym::ShapeEnv& env = graph_.env();
    std::int64_t matrices = 1;
    for (const Dim& d : batch_) matrices *= env.hint_or(d.size, 8);
    return product_config({.rows = env.hint_or(rows_.size, 1 << 12) * matrices,
                           .matrices = matrices,
                           .columns = env.hint_or(columns, 1024),
                           .along = along,
                           .warpgroups = target_.has(target::Feature::Warpgroups),
                           .depth = has_maps() ? std::max<std::int64_t>(1, env.hint_or(depth, 1024)) : 0},
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
  std::string epilogue() { return post_text() + store(); }

  /// `eights`: operands of which eight elements were read.
  std::string post_text(const std::vector<std::size_t>& eights = {}) {
    std::string out;
    std::size_t operand = 2;
    for (const PostOp& op : post_) {
      if (!op.takes_operand()) {
        out += fmt::format("    p = {};\n    q = {};\n", applied(op, "p"), applied(op, "q"));
        continue;
      }
      const char sign = op.kind == Kind::Add ? '+' : '*';
      const auto at = std::ranges::find(eights, operand) - eights.begin();
      const bool bf16 = tensors_[operand].dtype == DType::BF16;
      const std::string two =
          at < std::ssize(eights) ? fmt::format("c_two_of<{}>(e.of[{}], k)", bf16, at) : two_of(operand);
      out += fmt::format("    const c_two x{0} = {1};\n    p = p {2} x{0}.p;\n    q = q {2} x{0}.q;\n", operand, two,
                         sign);
      ++operand;
    }
    return out;
  }

  std::string result_at() {
    const std::size_t y = tensors_.size() - 1;
    return fmt::format("p{} + at{} + row * {} + column", y, y, scalar(rows_.strides[y]));
  }
  std::string store() {
    if (tensors_.back().dtype == DType::F32)
      return fmt::format("    f32* const to = {};\n    to[0] = p;\n    to[1] = q;\n", result_at());
    return fmt::format("    c_put_two<{}>({}, p, q);\n", is_bf16(), result_at());
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
    if (narrow && column.is_constant(1) && begins_on(t, 2))
      return fmt::format("c_get_two<{}>({} + column)", v.dtype == DType::BF16, at);
    at += fmt::format(" + column * {}", scalar(column));
    return fmt::format("c_two{{{0}(*({1})), {0}(*({1} + {2}))}}", get, at, scalar(column));
  }

  /// Whether each row of a tensor begins at a multiple of so many elements.
  bool begins_on(std::size_t t, int elements) const {
    const auto whole = [&](Expr e) { return graph_.env().statically_known_multiple_of(e, elements); };
    return whole(tensors_[t].offset) && whole(rows_.strides[t]) &&
           std::ranges::all_of(batch_, [&](const Dim& d) { return whole(d.strides[t]); });
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

bool needs_family(std::string_view kernels) { return kernels.find(" c_streamed_") != std::string_view::npos; }

}  // namespace coil::codegen
