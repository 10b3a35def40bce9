// Products over a dimension. Halves are multiplied with each other, so that n factors take log2(n) products of tensors.
#include "passes/graph/complex/parts.h"

namespace coil::passes {

namespace {

Parts sliced(ComplexRewriter& r, const Parts& z, std::int64_t dim, std::int64_t from, std::int64_t to) {
  return {r.slice(z.re, dim, from, to), r.slice(z.im, dim, from, to)};
}

Parts joined(ComplexRewriter& r, const Parts& a, const Parts& b, std::int64_t dim) {
  auto join = [&](const Value& x, const Value& y) { return r.call("aten.cat.default", {Values{x, y}, dim}); };
  return {join(a.re, b.re), join(a.im, b.im)};
}

/// How many factors there are, which must be known.
std::int64_t count(ComplexRewriter& r, const Exprs& sizes, std::int64_t dim) {
  const auto n = sizes[static_cast<std::size_t>(dim)].constant();
  if (!n) r.refuse("over a dimension of free size is not compiled for complex tensors");
  return *n;
}

/// The product stays as a dimension of one element.
Parts multiplied(ComplexRewriter& r, Parts z, Exprs sizes, std::int64_t dim) {
  std::int64_t n = count(r, sizes, dim);
  if (n == 0) {
    sizes[static_cast<std::size_t>(dim)] = 1;
    return r.filled(r.one(), sizes, r.part_type());
  }
  for (; n > 1; n = n / 2 + n % 2) {
    const Parts half = r.product(sliced(r, z, dim, 0, n / 2), sliced(r, z, dim, n / 2, n / 2 * 2));
    z = n % 2 ? joined(r, half, sliced(r, z, dim, n - 1, n), dim) : half;
  }
  return z;
}

Made product_of_all(ComplexRewriter& r) {
  if (auto made = r.of_real_parts()) return *made;
  const Exprs& sizes = r.meta(r["self"]).sizes;
  const Exprs row = {r.module.env->simplify(sym::product(sizes))};
  const Parts z = r.whole(r["self"]), p = multiplied(r, {r.reshape(z.re, row), r.reshape(z.im, row)}, row, 0);
  return Parts{r.reshape(p.re, {}), r.reshape(p.im, {})};
}

Made product_along(ComplexRewriter& r) {
  if (auto made = r.of_real_parts()) return *made;
  const Exprs& sizes = r.meta(r["self"]).sizes;
  if (sizes.empty()) return r.whole(r["self"]);
  const std::int64_t dim = r.dim("dim", sizes.size());
  const Parts p = multiplied(r, r.whole(r["self"]), sizes, dim);
  if (r.flag("keepdim")) return p;
  return Parts{r.call("aten.squeeze.dim", {p.re, dim}), r.call("aten.squeeze.dim", {p.im, dim})};
}

/// After step s each element holds the product of the last 2^s up to it.
Made running_product(ComplexRewriter& r) {
  if (auto made = r.of_real_parts()) return *made;
  const Exprs& sizes = r.meta(r["self"]).sizes;
  Parts z = r.whole(r["self"]);
  if (sizes.empty()) return z;
  const std::int64_t dim = r.dim("dim", sizes.size()), n = count(r, sizes, dim);
  for (std::int64_t step = 1; step < n; step *= 2)
    z = joined(r, sliced(r, z, dim, 0, step), r.product(sliced(r, z, dim, step, n), sliced(r, z, dim, 0, n - step)),
               dim);
  return z;
}

}  // namespace

void add_complex_products(ComplexRules& t) {
  t["aten.prod.default"] = product_of_all;
  t["aten.prod.dim_int"] = product_along;
  t["aten.cumprod.default"] = running_product;
}

}  // namespace coil::passes
