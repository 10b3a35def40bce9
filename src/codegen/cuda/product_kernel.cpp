#include "codegen/cuda/product_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/kernel_builder.h"
#include "codegen/heuristics/products.h"
#include "library_ops/products.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

using library_ops::PostOp;
using Kind = PostOp::Kind;

std::string applied(const PostOp& op, std::string_view x) {
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

}  // namespace

ProductKernel::ProductKernel(ir::Graph& graph, const ir::Extern& call, const target::Target& target)
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

LaunchConfig ProductKernel::config() const {
  const sym::ShapeEnv& env = graph_.env();
  std::int64_t matrices = 1;
  for (const Dim& d : batch_) matrices *= env.hint_or(d.size, 8);
  const std::int64_t most_rows = env.bounds(rows_.size).high;
  return product_config({.rows = env.hint_or(rows_.size, 1 << 12) * matrices,
                         .matrices = matrices,
                         .columns = env.hint_or(columns(), 1024),
                         .along = along(),
                         .warpgroups = target_.has(target::Feature::Warpgroups),
                         .mapped = has_maps(),
                         .made = !pre_.empty(),
                         .depth = std::max<std::int64_t>(1, env.hint_or(depth(), 1024)),
                         .most_rows = most_rows <= kMostThinRows ? std::max<std::int64_t>(1, most_rows) : 0},
                        target_.costs);
}

/// Whether descriptors can say where the matrices of both operands lie, as they are multiplied.
bool ProductKernel::has_maps() const {
  const auto one = [&](std::size_t t) {
    return std::ranges::count_if(batch_, [&](const Dim& d) { return !d.strides[t].is_constant(0); }) <= 1;
  };
  return pre_.empty() && one(0) && one(1) && !rows_.strides[0].is_constant(0);
}

/// The batch's dimensions and the rows, merged as far as all tensors allow.
void ProductKernel::read_dimensions() {
  const std::size_t rank = tensors_.back().sizes.size();
  for (std::size_t d = 0; d + 1 < rank; ++d) {
    Dim dim{tensors_.back().sizes[d], {}};
    for (std::size_t t = 0; t < tensors_.size(); ++t) dim.strides.push_back(stride(t, d, d + 2 == rank));
    if (dim.size.is_constant(1) && d + 2 < rank) continue;
    while (!batch_.empty()) {
      const Dim& outer = batch_.back();
      if (dim.size.is_constant(1) && outer.strides[1].is_constant(0))
        dim = outer;  // one row of each of several: rows of one matrix
      else if (merges(outer, dim))
        dim.size = graph_.env().simplify(outer.size * dim.size);
      else
        break;
      batch_.pop_back();
    }
    batch_.push_back(std::move(dim));
  }
  rows_ = std::move(batch_.back());
  batch_.pop_back();
}

Expr ProductKernel::stride(std::size_t tensor, std::size_t d, bool is_row) const {
  const ir::BufferView& v = tensors_[tensor];
  const bool repeats = tensor == 1 ? is_row : v.sizes[d].is_constant(1);
  return repeats ? Expr(0) : v.strides[d];
}

bool ProductKernel::merges(const Dim& outer, const Dim& inner) const {
  for (std::size_t t = 0; t < tensors_.size(); ++t)
    if (!graph_.env().statically_known_equal(outer.strides[t], inner.strides[t] * inner.size)) return false;
  return true;
}

std::string ProductKernel::place_in_batch(std::size_t dimension, std::string_view matrix) {
  Expr inner = 1;
  for (std::size_t d = dimension + 1; d < batch_.size(); ++d) inner *= batch_[d].size;
  inner = graph_.env().simplify(inner);
  const std::string turns = inner.is_constant(1) ? std::string(matrix) : fmt::format("{} / {}", matrix, scalar(inner));
  return fmt::format("{} % {}", turns, scalar(batch_[dimension].size));
}

std::string ProductKernel::beginnings(std::size_t first, std::size_t end, std::string_view matrix) {
  std::string out;
  for (std::size_t t = first; t < end; ++t) {
    out += fmt::format("    i64 at{} = {};\n", t, scalar(tensors_[t].offset));
    for (std::size_t d = 0; d < batch_.size(); ++d)
      if (!batch_[d].strides[t].is_constant(0))
        out += fmt::format("    at{} += {} * {};\n", t, place_in_batch(d, matrix), scalar(batch_[d].strides[t]));
  }
  return out;
}

std::string ProductKernel::post_text(const std::vector<std::size_t>& eights) {
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
    out +=
        fmt::format("    const c_two x{0} = {1};\n    p = p {2} x{0}.p;\n    q = q {2} x{0}.q;\n", operand, two, sign);
    ++operand;
  }
  return out;
}

std::string ProductKernel::result_at() {
  const std::size_t y = tensors_.size() - 1;
  return fmt::format("p{} + at{} + row * {} + column", y, y, scalar(rows_.strides[y]));
}
std::string ProductKernel::store() {
  if (tensors_.back().dtype == DType::F32)
    return fmt::format("    f32* const to = {};\n    to[0] = p;\n    to[1] = q;\n", result_at());
  return fmt::format("    c_put_two<{}>({}, p, q);\n", is_bf16(), result_at());
}

/// An operand's two elements beside the sums.
std::string ProductKernel::two_of(std::size_t t) {
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
bool ProductKernel::begins_on(std::size_t t, int elements) const {
  const auto whole = [&](Expr e) { return graph_.env().statically_known_multiple_of(e, elements); };
  return whole(tensors_[t].offset) && whole(rows_.strides[t]) &&
         std::ranges::all_of(batch_, [&](const Dim& d) { return whole(d.strides[t]); });
}

std::string thin_piece_type(const LaunchConfig& config, bool along) {
  const int turns = config.rows / 8;
  return along ? fmt::format("c_thin_along<{}, {}>", config.tile / 16, turns) : fmt::format("c_thin_across<{}>", turns);
}

}  // namespace coil::codegen
