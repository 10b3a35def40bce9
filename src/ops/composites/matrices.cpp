// Products and what is made of them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/composites/factors.h"

namespace coil::ops::composites {

namespace {

Expr product_of(Steps& s, const Exprs& sizes) { return s.env.simplify(sym::product(sizes)); }

/// Sums over the products of matched dimensions: permuted so that they meet, one matrix product, the free dimensions
/// again.
Value contract(Steps& s, const Value& a, const Value& b, std::vector<std::int64_t> of_a,
               std::vector<std::int64_t> of_b) {
  if (of_a.size() != of_b.size()) s.refuse("takes as many dimensions of the one as of the other");
  auto split = [&](const Value& x, std::vector<std::int64_t>& met) {
    for (std::int64_t& d : met) d = s.wrapped(d, s.rank(x));
    std::vector<std::int64_t> free;
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(s.rank(x)); ++d)
      if (std::find(met.begin(), met.end(), d) == met.end()) free.push_back(d);
    return free;
  };
  std::vector<std::int64_t> free_a = split(a, of_a), free_b = split(b, of_b);
  Exprs rows, columns, inner;
  for (std::int64_t d : free_a) rows.push_back(s.size(a, d));
  for (std::int64_t d : free_b) columns.push_back(s.size(b, d));
  for (std::int64_t d : of_a) inner.push_back(s.size(a, d));
  std::vector<std::int64_t> order_a = free_a, order_b = of_b;
  order_a.insert(order_a.end(), of_a.begin(), of_a.end());
  order_b.insert(order_b.end(), free_b.begin(), free_b.end());
  for (std::size_t i = 0; i < of_a.size(); ++i)
    if (s.env.statically_known_true(sym::ne(s.size(a, of_a[i]), s.size(b, of_b[i]))))
      s.refuse("takes operands of one size in the dimensions that are summed");
  const Expr k = product_of(s, inner);
  Value left = s.reshape(s.permute(a, order_a), {product_of(s, rows), k}),
        right = s.reshape(s.permute(b, order_b), {k, product_of(s, columns)});
  Exprs sizes = rows;
  sizes.insert(sizes.end(), columns.begin(), columns.end());
  return s.reshape(s.call("aten.mm.default", {left, right}), sizes);
}

/// A dimension of size 1 stands for one of any size: the other's is summed first, as eager does.
Value tensordot(Steps& s) {
  Value a = s["self"], b = s["other"];
  const std::vector<std::int64_t> of_a = s.numbers("dims_self"), of_b = s.numbers("dims_other");
  for (std::size_t i = 0; i < std::min(of_a.size(), of_b.size()); ++i) {
    const bool one_a = s.size(a, of_a[i]).is_constant(1), one_b = s.size(b, of_b[i]).is_constant(1);
    if (one_a && !one_b) b = s.sum(b, {of_b[i]}, true);
    if (one_b && !one_a) a = s.sum(a, {of_a[i]}, true);
  }
  return contract(s, a, b, of_a, of_b);
}

Value inner(Steps& s) {
  const Value &a = s["self"], &b = s["other"];
  if (s.rank(a) == 0 || s.rank(b) == 0) return s.mul(a, b);
  return contract(s, a, b, {-1}, {-1});
}

/// Every element of the one times the whole other.
Value kron(Steps& s) {
  const Value &a = s["self"], &b = s["other"];
  const std::size_t rank = std::max(s.rank(a), s.rank(b));
  Exprs of_a, of_b, sizes;
  for (std::size_t d = 0; d < rank; ++d) {
    auto at = [&](const Value& x) { return d + s.rank(x) < rank ? Expr(1) : s.sizes(x)[d + s.rank(x) - rank]; };
    of_a.insert(of_a.end(), {at(a), 1});
    of_b.insert(of_b.end(), {1, at(b)});
    sizes.push_back(s.env.simplify(at(a) * at(b)));
  }
  return s.reshape(s.mul(s.reshape(a, of_a), s.reshape(b, of_b)), sizes);
}

Value chain(Steps& s) {
  const Values& all = s[s.op.schema.parameters[0].name].as_list();
  if (all.empty()) s.refuse("takes at least one matrix");
  Value made = all[0];
  const bool row = s.rank(made) == 1, column = s.rank(all.back()) == 1 && all.size() > 1;
  if (row) made = s.unsqueeze(made, 0);
  for (std::size_t i = 1; i < all.size(); ++i)
    made = s.call("aten.mm.default", {made, i + 1 == all.size() && column ? s.unsqueeze(all[i], 1) : all[i]});
  if (all.size() == 1) return s.unary("clone", all[0]);
  Exprs sizes;
  if (!row) sizes.push_back(s.size(made, 0));
  if (!column) sizes.push_back(s.size(made, 1));
  return row || column ? s.reshape(made, sizes) : made;
}

/// The cross product of vectors of three along a dimension, as differences of products of rotated ones.
Value cross_along(Steps& s, const Value& a, const Value& b, std::int64_t dim) {
  auto turned = [&](const Value& x, std::int64_t by) {
    return s.call("aten.roll.default", {x, Steps::list({by}), Steps::list({dim})});
  };
  return s.sub(s.mul(turned(a, -1), turned(b, -2)), s.mul(turned(a, -2), turned(b, -1)));
}

Value linalg_cross(Steps& s) {
  if (s.rank(s["self"]) != s.rank(s["other"])) s.refuse("takes two tensors of one rank");
  Value both = s.call("aten.broadcast_tensors.default", {Values{s["self"], s["other"]}});
  const Value first = s.item(both, 0);
  const std::int64_t dim = s.wrapped(s.number("dim"), s.rank(first));
  if (s.env.statically_known_true(sym::ne(s.size(first, dim), 3))) s.refuse("takes vectors of three");
  return cross_along(s, first, s.item(both, 1), dim);
}

Value cross(Steps& s) {
  if (s.has("dim")) return linalg_cross(s);
  Value both = s.call("aten.broadcast_tensors.default", {Values{s["self"], s["other"]}});
  const Exprs& sizes = s.sizes(s.item(both, 0));
  auto three = std::find_if(sizes.begin(), sizes.end(), [](const Expr& n) { return n.is_constant(3); });
  if (three == sizes.end()) s.refuse("finds no dimension of size 3");
  const auto dim = static_cast<std::int64_t>(three - sizes.begin());
  return cross_along(s, s.item(both, 0), s.item(both, 1), dim);
}

Value vecdot(Steps& s) {
  const Value x = is_complex(s.dtype(s["x"])) ? s.unary("conj", s["x"]) : s["x"];
  return s.sum(s.mul(x, s["y"]), {s.number("dim")});
}

Value trace(Steps& s) { return s.unary("sum", s.call("aten.diagonal.default", {s["self"]})); }

/// x1 W x2 for every W of the weight.
Value bilinear(Steps& s) {
  const Value &a = s["input1"], &b = s["input2"], &weight = s["weight"];
  Exprs batch(s.sizes(a).begin(), s.sizes(a).end() - 1);
  const Expr n = product_of(s, batch);
  Value made =
      s.call("aten.einsum.default",
             {"bi,oij,bj->bo", Values{s.reshape(a, {n, s.size(a, -1)}), weight, s.reshape(b, {n, s.size(b, -1)})}});
  batch.push_back(s.size(weight, 0));
  made = s.reshape(made, batch);
  return s.has("bias") ? s.add(made, s["bias"]) : made;
}

/// What eager makes of `bilinear`: the product of three tensors, each with dimensions of size 1 put in, summed over
/// some dimensions.
Value trilinear(Steps& s) {
  Value made;
  for (int i = 1; i <= 3; ++i) {
    Value x = s["i" + std::to_string(i)];
    for (std::int64_t d : s.numbers("expand" + std::to_string(i))) x = s.unsqueeze(x, d);
    made = made.is_none() ? x : s.mul(made, x);
  }
  const std::vector<std::int64_t> summed = s.numbers("sumdim");
  return summed.empty() ? made : s.sum(made, summed);
}

Value matrix_power(Steps& s) {
  std::int64_t n = s.number("n");
  Value square = s["self"], made;
  if (n < 0) {
    square = checked_inverse(s, square);
    if (n == -1) return square;
    if (n == std::numeric_limits<std::int64_t>::min()) s.refuse("takes no exponent whose opposite is no int64");
    n = -n;
  }
  if (n == 0)
    return s.add(s.call("aten.zeros_like.default", {square}),
                 s.call("aten.eye.default", {s.size(square, -1)}, {{"dtype", s.dtype(square)}}));
  if (n == 1) return s.unary("clone", square);
  for (; n; n >>= 1) {
    if (n & 1) made = made.is_none() ? square : s.call("aten.matmul.default", {made, square});
    if (n > 1) square = s.call("aten.matmul.default", {square, square});
  }
  return made;
}

/// Rows are variables, columns are observations, each of weight 1.
Value covariance(Steps& s, Value x, std::int64_t correction) {
  if (s.rank(x) > 2) s.refuse("takes at most two dimensions");
  if (!is_floating(s.dtype(x))) x = s.to(x, DType::F32);
  const bool one = s.rank(x) < 2 || s.size(x, 0).is_constant(1);
  if (s.rank(x) < 2) x = s.reshape(x, {1, product_of(s, s.sizes(x))});
  const Expr n = s.size(x, 1);
  x = s.sub(x, s.call("aten.mean.dim", {x, Steps::list({1}), true}));
  Value made = s.div(s.call("aten.mm.default", {x, s.call("aten.t.default", {x})}), sym::max(n - correction, 0));
  return one ? s.reshape(made, {}) : made;
}

Value cov(Steps& s) {
  if (s.has("fweights") || s.has("aweights")) s.refuse("with weights is not compiled");
  return covariance(s, s["self"], s.number("correction"));
}

Value corrcoef(Steps& s) {
  Value c = covariance(s, s["self"], 1);
  if (s.rank(c) == 0) return s.div(c, c);
  Value d = s.unary("sqrt", s.call("aten.diagonal.default", {c}));
  Value made = s.div(s.div(c, s.unsqueeze(d, 1)), s.unsqueeze(d, 0));
  return s.call("aten.clamp.default", {made, -1, 1});
}

Value vector_norm(Steps& s, const Value& ord, const Value& dim, bool keepdim) {
  std::vector<std::pair<std::string, Value>> named;
  if (s.has("dtype")) named.emplace_back("dtype", s["dtype"]);
  return s.call("aten.linalg_vector_norm.default", {s["self"], ord, dim, keepdim}, std::move(named));
}

/// The largest, the least or the sum of singular values of the matrices that lie in two dimensions.
Value norm_of_singular_values(Steps& s, const Value& x, const std::vector<std::int64_t>& dims, bool keepdim,
                              std::string_view reduce) {
  std::vector<std::int64_t> order;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(s.rank(x)); ++d)
    if (d != dims[0] && d != dims[1]) order.push_back(d);
  order.insert(order.end(), dims.begin(), dims.end());
  Value values = singular_values(s, s.permute(x, order));
  const bool none = reduce == "amax" && s.size(values, -1).is_constant(0);  // the norm is 0
  Value made = reduce == "sum" || none
                   ? s.sum(values, {-1})
                   : s.call(reduce == "amax" ? "aten.amax.default" : "aten.amin.default", {values, Steps::list({-1})});
  if (!keepdim) return made;
  for (std::int64_t d : {std::min(dims[0], dims[1]), std::max(dims[0], dims[1])}) made = s.unsqueeze(made, d);
  return made;
}

/// Norms of matrices: of their elements, sums of rows or columns, or singular values.
Value matrix_norm_along(Steps& s, const Value& ord, std::vector<std::int64_t> dims, bool keepdim) {
  Value x = s["self"];
  for (std::int64_t& d : dims) d = s.wrapped(d, s.rank(x));
  if (dims.size() != 2 || dims[0] == dims[1]) s.refuse("takes two dimensions");
  bool typed = false;
  for (const auto& p : s.op.schema.parameters) typed = typed || p.name == "dtype";
  auto in_type = [&] { return typed && s.has("dtype") ? s.to(x, s["dtype"].as_dtype()) : x; };
  if (ord.is<std::string>()) {
    if (ord.as_string() == "nuc") return norm_of_singular_values(s, in_type(), dims, keepdim, "sum");
    if (ord.as_string() != "fro") s.refuse(fmt::format("knows the norms `fro` and `nuc`, not `{}`", ord.as_string()));
    return vector_norm(s, 2, Steps::list(dims), keepdim);
  }
  const double p = ord.as_double();
  if (std::fabs(p) == 2) return norm_of_singular_values(s, in_type(), dims, keepdim, p > 0 ? "amax" : "amin");
  if (std::fabs(p) != 1 && std::fabs(p) != kInfinity) s.refuse(fmt::format("has no norm of order {} of a matrix", p));
  if (std::fabs(p) == kInfinity) std::swap(dims[0], dims[1]);
  Value sums = vector_norm(s, 1, Steps::list({dims[0]}), keepdim);
  const bool none = s.size(x, dims[1]).is_constant(0);
  if (!keepdim && dims[1] > dims[0]) --dims[1];
  if (none && p > 0) return s.sum(sums, {dims[1]}, keepdim);  // of no elements the norm is 0
  return s.call(p > 0 ? "aten.amax.default" : "aten.amin.default", {sums, Steps::list({dims[1]}), keepdim});
}

Value matrix_norm(Steps& s) { return matrix_norm_along(s, s["ord"], s.numbers("dim"), s.flag("keepdim")); }

Value any_norm(Steps& s) {
  const Value &x = s["self"], &ord = s["ord"];
  std::vector<std::int64_t> dims = s.numbers("dim");
  const bool keep = s.flag("keepdim");
  if (ord.is_none()) return vector_norm(s, 2, s["dim"], keep);
  if (!s.has("dim")) {
    if (s.rank(x) == 2)
      dims = {0, 1};
    else if (s.rank(x) == 1)
      dims = {0};
    else
      s.refuse("with `ord` and without `dim` takes vectors and matrices");
  }
  if (dims.size() == 1 && !ord.is<std::string>()) return vector_norm(s, ord, Steps::list(dims), keep);
  return matrix_norm_along(s, ord, dims, keep);
}

Value nuclear(Steps& s) {
  std::vector<std::int64_t> dims{-2, -1};
  for (const auto& p : s.op.schema.parameters)
    if (p.name == "dim") dims = s.numbers("dim");
  if (dims.size() != 2) s.refuse("takes two dimensions");
  for (std::int64_t& d : dims) d = s.wrapped(d, s.rank(s["self"]));
  return norm_of_singular_values(s, s["self"], dims, s.flag("keepdim"), "sum");
}

constexpr Composite kMatrices[] = {
    {"aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor", tensordot},
    {"aten::inner(Tensor self, Tensor other) -> Tensor", inner},
    {"aten::kron(Tensor self, Tensor other) -> Tensor", kron},
    {"aten::chain_matmul(Tensor[] matrices) -> Tensor", chain},
    {"aten::linalg_multi_dot(Tensor[] tensors) -> Tensor", chain},
    {"aten::cross(Tensor self, Tensor other, int? dim=None) -> Tensor", cross},
    {"aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor", linalg_cross},
    {"aten::linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", vecdot},
    {"aten::trace(Tensor self) -> Tensor", trace},
    {"aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor", bilinear},
    {"aten::_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, int "
     "unroll_dim=1) -> Tensor",
     trilinear},
    {"aten::matrix_power(Tensor self, int n) -> Tensor", matrix_power},
    {"aten::linalg_matrix_power(Tensor self, int n) -> Tensor", matrix_power},
    {"aten::cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor", cov},
    {"aten::corrcoef(Tensor self) -> Tensor", corrcoef},
    {"aten::linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2,-1], bool keepdim=False, *, ScalarType? "
     "dtype=None) -> Tensor",
     matrix_norm},
    {"aten::linalg_matrix_norm.str_ord(Tensor self, str ord='fro', int[] dim=[-2,-1], bool keepdim=False, *, "
     "ScalarType? dtype=None) -> Tensor",
     matrix_norm},
    {"aten::linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
     "dtype=None) -> Tensor",
     any_norm},
    {"aten::linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) "
     "-> Tensor",
     any_norm},
    {"aten::nuclear_norm(Tensor self, bool keepdim=False) -> Tensor", nuclear},
    {"aten::nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor", nuclear},
};

}  // namespace

std::span<const Composite> matrices() { return kMatrices; }

}  // namespace coil::ops::composites
