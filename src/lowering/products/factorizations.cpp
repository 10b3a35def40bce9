// Factorizations of matrices: one library call each, with the results that LAPACK gives.
#include "lowering/common.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;
using Attributes = library_ops::Attributes;

std::int64_t flag(Context& ctx, std::string_view name) { return std::int64_t{ctx.node->arg(name).as_bool()}; }

/// The call, with the results of the node from `first` to `last`.
std::vector<TensorBox> call(Context& ctx, std::string op, Attributes attributes, const std::vector<TensorBox>& operands,
                            std::vector<sym::TensorMeta> results) {
  const DType type = operands[0].dtype();
  if (is_floating(type) && type != DType::F32 && type != DType::F64)
    refuse(ctx, fmt::format("takes float and double, not {}", torch_name(type)));
  std::vector<BufferView> inputs, outputs;
  for (const TensorBox& box : operands) inputs.push_back(library_operand(box));
  std::vector<TensorBox> boxes;
  for (const sym::TensorMeta& meta : results) {
    auto [box, view] = library_result(ctx, meta.dtype, meta.sizes, meta.strides);
    boxes.push_back(box);
    outputs.push_back(view);
  }
  add_library_call(ctx, std::move(op), std::move(attributes), std::move(inputs), std::move(outputs));
  return boxes;
}

/// All results of the node.
std::vector<TensorBox> call(Context& ctx, std::string op, Attributes attributes,
                            const std::vector<TensorBox>& operands) {
  std::vector<sym::TensorMeta> results;
  for (std::size_t i = 0; i < ctx.node->meta.value.as_list().size(); ++i) results.push_back(ctx.result(i));
  return call(ctx, std::move(op), std::move(attributes), operands, std::move(results));
}

TensorBox empty(Context& ctx, const sym::TensorMeta& meta) {
  return result(ctx, number(ctx, register_type(meta.dtype), 0), meta);
}

/// The run fails unless every factorization succeeded: `info` is 0.
void check(Context& ctx, const TensorBox& info, const std::string& api) {
  const TensorBox failed =
      pointwise(ctx, DType::I64, info.sizes,
                where(ne(element(ctx, info, info.sizes), 0.0), index_value(ctx, 1), index_value(ctx, 0)));
  const TensorBox any = reduce_over(ctx, failed, reduced_axes(ctx, failed, {}, false), ReductionKind::Max, DType::I64);
  const bool positive = api.find("cholesky") != std::string::npos;
  ctx.require(sym::le(ctx.read(any), 0),
              fmt::format("{}: {}", api,
                          positive ? "the input is not positive-definite, so it has no such factors"
                                   : "the input matrix is singular: a diagonal element of its factor is zero"));
}

Lowered check_errors(Context& ctx, const Values& args) {
  check(ctx, ctx.tensor(args[0]), args[1].as_string());
  return {};
}

Lowered checked(Context& ctx, std::vector<TensorBox> results, const char* api) {
  if (ctx.node->arg("check_errors").as_bool()) check(ctx, results.back(), api);
  return results;
}

Lowered lu_factor(Context& ctx, const Values& args) {
  return checked(ctx, call(ctx, "lu_factor", {}, {ctx.tensor(args[0])}), "linalg.lu_factor");
}

Lowered cholesky(Context& ctx, const Values& args) {
  return checked(ctx, call(ctx, "cholesky", {{"upper", flag(ctx, "upper")}}, {ctx.tensor(args[0])}), "linalg.cholesky");
}

/// Whether a complex matrix is its own adjoint; of a real one both say the same.
Attributes symmetry(Context& ctx, const TensorBox& matrix) {
  if (!is_complex(matrix.dtype())) return {};
  return {{"hermitian", flag(ctx, "hermitian")}};
}

Lowered ldl_factor(Context& ctx, const Values& args) {
  const TensorBox a = ctx.tensor(args[0]);
  return checked(ctx, call(ctx, "ldl_factor", symmetry(ctx, a), {a}), "linalg.ldl_factor");
}

/// The last `kept` dimensions of a tensor, in the batches of the result.
TensorBox in_batches(Context& ctx, const TensorBox& box, std::size_t kept) {
  const Exprs& of = ctx.result().sizes;
  Exprs sizes(of.begin(), of.end() - 2);
  sizes.insert(sizes.end(), box.sizes.end() - static_cast<std::ptrdiff_t>(kept), box.sizes.end());
  return expand(ctx, box, sizes);
}

Lowered one(std::vector<TensorBox> results) { return results[0]; }

Lowered solve(Context& ctx, const Values& args, const char* op, Attributes attributes) {
  const TensorBox pivots = ctx.tensor(args[1]);
  const TensorBox narrow =
      pivots.dtype() == DType::I32
          ? pivots
          : pointwise(ctx, DType::I32, pivots.sizes, element(ctx, pivots, pivots.sizes).cast(DType::I32));
  return one(call(
      ctx, op, std::move(attributes),
      {in_batches(ctx, ctx.tensor(args[0]), 2), in_batches(ctx, narrow, 1), in_batches(ctx, ctx.tensor(args[2]), 2)},
      {ctx.result()}));
}

Lowered lu_solve(Context& ctx, const Values& args) {
  return solve(ctx, args, "lu_solve", {{"left", flag(ctx, "left")}, {"adjoint", flag(ctx, "adjoint")}});
}
Lowered ldl_solve(Context& ctx, const Values& args) {
  return solve(ctx, args, "ldl_solve", symmetry(ctx, ctx.tensor(args[0])));
}

Lowered lu_permutation(Context& ctx, const Values& args) {
  return one(call(ctx, "lu_permutation", {}, {ctx.tensor(args[0])}, {ctx.result()}));
}

Lowered solve_triangular(Context& ctx, const Values& args) {
  return one(call(ctx, "solve_triangular",
                  {{"upper", flag(ctx, "upper")}, {"left", flag(ctx, "left")}, {"unit", flag(ctx, "unitriangular")}},
                  {in_batches(ctx, ctx.tensor(args[0]), 2), in_batches(ctx, ctx.tensor(args[1]), 2)}, {ctx.result()}));
}

Lowered qr(Context& ctx, const Values& args) {
  const TensorBox a = ctx.tensor(args[0]);
  if (ctx.node->arg("mode").as_string() != "r") return call(ctx, "qr", {{"r_only", std::int64_t{0}}}, {a});
  return std::vector{empty(ctx, ctx.result(0)),
                     call(ctx, "qr", {{"r_only", std::int64_t{1}}}, {a}, {ctx.result(1)})[0]};
}

Lowered geqrf(Context& ctx, const Values& args) { return call(ctx, "geqrf", {}, {ctx.tensor(args[0])}); }

Lowered householder_product(Context& ctx, const Values& args) {
  return one(call(ctx, "householder_product", {}, {ctx.tensor(args[0]), ctx.tensor(args[1])}, {ctx.result()}));
}

Lowered ormqr(Context& ctx, const Values& args) {
  return one(call(ctx, "ormqr", {{"left", flag(ctx, "left")}, {"transpose", flag(ctx, "transpose")}},
                  {ctx.tensor(args[0]), ctx.tensor(args[1]), ctx.tensor(args[2])}, {ctx.result()}));
}

Lowered svd(Context& ctx, const Values& args) {
  const TensorBox a = ctx.tensor(args[0]);
  if (flag(ctx, "compute_uv")) return call(ctx, "svd", {{"values_only", std::int64_t{0}}}, {a});
  return std::vector{empty(ctx, ctx.result(0)),
                     call(ctx, "svd", {{"values_only", std::int64_t{1}}}, {a}, {ctx.result(1)})[0],
                     empty(ctx, ctx.result(2))};
}

Lowered eigh(Context& ctx, const Values& args) {
  const TensorBox a = ctx.tensor(args[0]);
  const std::string& triangle = ctx.node->arg("UPLO").as_string();
  const std::int64_t upper = triangle == "U" || triangle == "u";
  if (flag(ctx, "compute_v")) return call(ctx, "eigh", {{"values_only", std::int64_t{0}}, {"upper", upper}}, {a});
  return std::vector{call(ctx, "eigh", {{"values_only", std::int64_t{1}}, {"upper", upper}}, {a}, {ctx.result(0)})[0],
                     empty(ctx, ctx.result(1))};
}

Lowered eig(Context& ctx, const Values& args) {
  return call(ctx, "eig", {{"values_only", std::int64_t{!flag(ctx, "vectors")}}}, {ctx.tensor(args[0])});
}

/// The eigenvalues and eigenvectors of a complex matrix; those of a real one come as parts.
Lowered eig_complex(Context& ctx, const Values& args) {
  return call(ctx, "eig_complex", {{"values_only", std::int64_t{0}}}, {ctx.tensor(args[0])});
}
Lowered eigenvalues_of_complex(Context& ctx, const Values& args) {
  return one(call(ctx, "eig_complex", {{"values_only", std::int64_t{1}}}, {ctx.tensor(args[0])}, {ctx.result()}));
}

/// The matrix exponential; in 16 bits computed in f32 and rounded once.
Lowered matrix_exp(Context& ctx, const Values& args) {
  TensorBox matrix = ctx.tensor(args[0]);
  const sym::TensorMeta made = unrounded(ctx.result());
  if (made.dtype != matrix.dtype())
    matrix = pointwise(ctx, made.dtype, matrix.sizes, element(ctx, matrix, matrix.sizes));
  return in_result_dtype(ctx, call(ctx, "matrix_exp", {}, {matrix}, {made}).front());
}

}  // namespace

void add_factorizations(Table& t) {
  t["aten._linalg_check_errors.default"] = check_errors;
  t["aten.linalg_lu_factor_ex.default"] = lu_factor;
  t["aten.linalg_lu_solve.default"] = lu_solve;
  t["coil.lu_permutation.default"] = lu_permutation;
  t["aten.linalg_cholesky_ex.default"] = cholesky;
  t["aten.linalg_solve_triangular.default"] = solve_triangular;
  t["aten.linalg_ldl_factor_ex.default"] = ldl_factor;
  t["aten.linalg_ldl_solve.default"] = ldl_solve;
  t["aten.linalg_qr.default"] = qr;
  t["aten.geqrf.default"] = geqrf;
  t["aten.linalg_householder_product.default"] = householder_product;
  t["aten.ormqr.default"] = ormqr;
  t["aten._linalg_svd.default"] = svd;
  t["aten._linalg_eigh.default"] = eigh;
  t["coil.eig.default"] = t["coil.eig_values.default"] = eig;
  t["aten.linalg_eig.default"] = eig_complex;
  t["aten.linalg_eigvals.default"] = eigenvalues_of_complex;
  t["aten.linalg_matrix_exp.default"] = matrix_exp;
}

}  // namespace coil::lowering
