// Tensors taken apart and put together: diagonals, blocks, stacks, products of sets, shuffles; numbers taken apart.
#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/composites/steps.h"
#include "ops/shapes/common.h"

namespace coil::ops::composites {

namespace {

/// A tensor of zeros with `x` on a diagonal of its dimensions `first` and `second`.
Value embedded(Steps& s, Value x, std::int64_t offset, std::int64_t first, std::int64_t second) {
  const std::size_t rank = s.rank(x) + 1;
  first = s.wrapped(first, rank), second = s.wrapped(second, rank);
  if (first == second) s.refuse("takes two dimensions that differ");
  if (first > second) std::swap(first, second), offset = -offset;
  const std::int64_t above = std::max<std::int64_t>(offset, 0), below = std::max<std::int64_t>(-offset, 0);
  // Row i of the diagonal holds x[i] above the main one; column j holds x[j] below it. The rest of a row or column is
  // masked.
  const Expr n = s.env.simplify(s.size(x, -1) + above + below);
  x = s.call("aten.constant_pad_nd.default", {x, Steps::list({0, above + below}), 0});
  Value rows = s.unsqueeze(s.iota(n), 1), columns = s.iota(n);
  Value mask = s.call("aten.eq.Tensor", {s.sub(columns, rows), offset});
  Value made = s.where(mask, s.unsqueeze(x, offset >= 0 ? -1 : -2), s.full({}, 0, s.dtype(x)));
  std::vector<std::int64_t> order;
  for (std::int64_t d = 0, batch = 0; d < static_cast<std::int64_t>(rank); ++d)
    order.push_back(d == first    ? static_cast<std::int64_t>(rank) - 2
                    : d == second ? static_cast<std::int64_t>(rank) - 1
                                  : batch++);
  return std::is_sorted(order.begin(), order.end()) ? made : s.contiguous(s.permute(made, order));
}

Value diag_embed(Steps& s) { return embedded(s, s["self"], s.number("offset"), s.number("dim1"), s.number("dim2")); }

Value diag_of(Steps& s, const Value& x, std::int64_t offset) {
  if (s.rank(x) == 1) return embedded(s, x, offset, -2, -1);
  if (s.rank(x) != 2) s.refuse("takes a vector or a matrix");
  return s.contiguous(s.call("aten.diagonal.default", {x, offset}));
}

Value diag(Steps& s) { return diag_of(s, s["self"], s.number("diagonal")); }

Value diagflat(Steps& s) {
  return diag_of(s, s.reshape(s["self"], {s.env.simplify(sym::product(s.sizes(s["self"])))}), s.number("offset"));
}

DType common_type(Steps& s, const Values& tensors) {
  DType type = s.dtype(tensors.at(0));
  for (const Value& t : tensors) type = promote_types(type, s.dtype(t));
  return type;
}

Value block_diag(Steps& s) {
  Values blocks = s["tensors"].as_list();
  if (blocks.empty()) return s.full({1, 0}, 0, DType::F32);
  const DType type = common_type(s, blocks);
  Expr width = 0;
  for (Value& b : blocks) {
    if (s.rank(b) > 2) s.refuse("takes tensors of at most two dimensions");
    if (s.rank(b) < 2) b = s.reshape(b, {1, s.rank(b) == 0 ? Expr(1) : s.size(b, 0)});
    b = s.to(b, type);
    width = width + s.size(b, 1);
  }
  Expr left = 0;
  for (Value& b : blocks) {
    const Expr own = s.size(b, 1), right = s.env.simplify(width - left - own);
    b = s.call("aten.constant_pad_nd.default", {b, Exprs{left, right}, 0});
    left = s.env.simplify(left + own);
  }
  return s.cat(std::move(blocks), 0);
}

Value column_stack(Steps& s) {
  Values columns = s["tensors"].as_list();
  for (Value& c : columns)
    if (s.rank(c) <= 1) c = s.reshape(c, {s.rank(c) == 0 ? Expr(1) : s.size(c, 0), 1});
  return s.cat(std::move(columns), 1);
}

Value dstack(Steps& s) {
  Values slabs = s["tensors"].as_list();
  for (Value& v : slabs) v = s.unary("atleast_3d", v);
  return s.cat(std::move(slabs), 2);
}

/// atleast_1d, atleast_2d, atleast_3d of each.
Value at_least_each(Steps& s) {
  Values made;
  for (const Value& v : s["tensors"].as_list()) made.push_back(s.unary(s.op.schema.target.substr(5, 10), v));
  return made;
}

Value row_stack(Steps& s) { return s.call("aten.vstack.default", {s["tensors"]}); }

/// Rows of lengths that differ, filled up to the longest, in the type of the first.
Value pad_sequence(Steps& s) {
  Values rows = s["sequences"].as_list();
  if (rows.empty()) s.refuse("takes at least one tensor");
  const DType type = s.dtype(rows[0]);
  Expr longest = 0;
  for (const Value& row : rows) longest = s.env.simplify(sym::max(longest, s.size(row, 0)));
  for (Value& row : rows) {
    Exprs around(2 * s.rank(row), 0);  // the last dimension's come first
    around[around.size() - (s["padding_side"].as_string() == "left" ? 2 : 1)] =
        s.env.simplify(longest - s.size(row, 0));
    row = s.call("aten.constant_pad_nd.default", {s.to(row, type), around, s["padding_value"]});
  }
  return s.call("aten.stack.default", {rows, s.flag("batch_first") ? 0 : 1});
}

/// hsplit, vsplit and dsplit by the letter they begin with.
std::int64_t split_dim(Steps& s) {
  switch (s.op.schema.target[5]) {
    case 'h': return s.rank(s["self"]) == 1 ? 0 : 1;
    case 'v': return 0;
    default: return 2;
  }
}

Value split_sections(Steps& s) {
  const std::int64_t dim = split_dim(s), sections = s.number("sections");
  if (dim >= static_cast<std::int64_t>(s.rank(s["self"]))) s.refuse("takes tensors of more dimensions");
  if (sections <= 0) s.refuse("takes a positive number of sections");
  const Expr size = s.size(s["self"], dim);
  if (!size.is_constant() ? !shapes::equal(s.env, sym::mod(size, sections), 0) : *size.constant() % sections != 0)
    s.refuse("takes a number of sections that divides the size");
  return s.call("aten.tensor_split.sections", {s["self"], sections, dim});
}
Value split_indices(Steps& s) { return s.call("aten.tensor_split.indices", {s["self"], s["indices"], split_dim(s)}); }

Value cartesian_prod(Steps& s) {
  const Values& sets = s["tensors"].as_list();
  if (sets.size() == 1) return s.unary("alias", sets[0]);
  Value grids = s.call("aten.meshgrid.indexing", {sets}, {{"indexing", "ij"}});
  Values columns;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    Value grid = s.item(grids, static_cast<std::int64_t>(i));
    columns.push_back(s.reshape(grid, {s.env.simplify(sym::product(s.sizes(grid)))}));
  }
  return s.call("aten.stack.default", {columns, 1});
}

/// Powers of a vector's elements, the greatest first unless `increasing`.
Value vander(Steps& s) {
  const Value x = s.rank(s["x"]) == 0 ? s.unsqueeze(s["x"], 0) : s["x"];
  const Expr n = s.has("N") ? s.integer(s["N"]) : s.size(x, -1);
  if (s.op.schema.target == "aten.linalg_vander.default" && s.env.statically_known_lt(n, 2))
    s.refuse("takes two powers at least");
  Value powers = s.iota(n);
  if (s.op.schema.target == "aten.vander.default" && !s.flag("increasing"))
    powers = s.call("aten.flip.default", {powers, Steps::list({0})});
  Value wide = is_floating(s.dtype(x)) || is_complex(s.dtype(x)) ? x : s.to(x, DType::I64);
  return s.contiguous(s.call("aten.pow.Tensor_Tensor", {s.unsqueeze(wide, -1), powers}));
}

Value channel_shuffle(Steps& s) {
  const Value& x = s["self"];
  const Expr groups = s.integer(s["groups"]);
  if (groups.is_constant() && s.size(x, 1).is_constant() && *s.size(x, 1).constant() % *groups.constant() != 0)
    s.refuse("takes a number of groups that divides the channels");
  Exprs sizes = s.sizes(x), apart = sizes;
  apart[1] = groups;
  apart.insert(apart.begin() + 2, s.env.simplify(sym::floor_div(sizes[1], groups)));
  return s.contiguous(s.reshape(s.call("aten.transpose.int", {s.reshape(x, apart), 1, 2}), sizes));
}

/// The inverse of pooling with indices into each plane.
Value max_unpool(Steps& s) {
  const Value &x = s["self"], &indices = s["indices"];
  Exprs sizes = s.sizes(x);
  const auto output = s["output_size"].as_list();
  const std::size_t planes = sizes.size() - output.size();
  Exprs flat(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(planes)), from = flat;
  Expr n = 1, m = 1;
  for (std::size_t i = 0; i < output.size(); ++i) {
    m = m * sizes[planes + i];
    sizes[planes + i] = s.integer(output[i]);
    n = n * sizes[planes + i];
  }
  flat.push_back(s.env.simplify(n));
  from.push_back(s.env.simplify(m));
  Value made = s.call("aten.scatter.src", {s.full(flat, 0, s.dtype(x)), static_cast<std::int64_t>(planes),
                                           s.reshape(indices, from), s.reshape(x, from)});
  return s.reshape(made, sizes);
}

/// Where the windows of fractional pooling begin along a dimension: by steps of a fractional length from a random
/// start, the last one at the end (ATen/native/FractionalMaxPooling.h).
Value fractional_starts(Steps& s, const Value& sample, const Expr& in, std::int64_t out, std::int64_t window) {
  const Value last = s.full({}, in - window, s.dtype(sample));
  const Value ends = s.unsqueeze(s.call("aten.expand.default", {s.to(last, DType::I64), s.sizes(sample)}), -1);
  if (out == 1) return ends;
  const Value step = s.div(last, static_cast<double>(out - 1)), from = s.unsqueeze(sample, -1);
  auto whole = [&](const Value& v) { return s.to(s.unary("trunc", s.mul(v, step)), DType::I64); };
  return s.cat({s.sub(whole(s.add(s.iota(out - 1, s.dtype(sample)), from)), whole(from)), ends}, -1);
}

/// The greatest element of windows that begin at random places; its index in the plane.
Value fractional_max_pool(Steps& s) {
  Value x = s["self"];
  const std::vector<std::int64_t> window = s.numbers("kernel_size"), out = s.numbers("output_size");
  const std::size_t space = window.size(), rank = s.rank(x);
  if (rank != space + 1 && rank != space + 2) s.refuse("takes planes with or without a batch");
  const bool batched = rank == space + 2;
  if (!batched) x = s.unsqueeze(x, 0);
  const Exprs sizes = s.sizes(x);
  Value samples = s.to(s["random_samples"], compute_dtype(s.dtype(s["random_samples"])));
  if (!batched) samples = s.slice(samples, 0, 0, 1);  // eager takes the first of several
  // The flat index of every element of every window: [batch, channel, places.., places in a window..].
  Value index;
  for (std::size_t d = 0; d < space; ++d) {
    // Two samples are of columns and rows, three of planes, rows and columns.
    const std::size_t column = space == 2 ? 1 - d : d;
    Value starts = fractional_starts(s, s.call("aten.select.int", {samples, 2, static_cast<std::int64_t>(column)}),
                                     sizes[d + 2], out[d], window[d]);
    Exprs at(2 + 2 * space, 1), within(2 + 2 * space, 1);
    at[0] = s.size(starts, 0), at[1] = s.size(starts, 1), at[2 + d] = out[d], within[2 + space + d] = window[d];
    const Value here = s.add(s.reshape(starts, at), s.reshape(s.iota(window[d]), within));
    index = d == 0 ? here : s.add(s.mul(index, s.full({}, sizes[d + 2], DType::I64)), here);
  }
  Expr plane = 1, places = 1, elements = 1;
  Exprs made = {sizes[0], sizes[1]};
  for (std::size_t d = 0; d < space; ++d) {
    plane = s.env.simplify(plane * sizes[d + 2]);
    places = places * out[d], elements = elements * window[d];
    made.push_back(out[d]);
  }
  index = s.reshape(index, {sizes[0], sizes[1], places * elements});
  const Value read = s.reshape(s.call("aten.gather.default", {s.reshape(x, {sizes[0], sizes[1], plane}), 2, index}),
                               {sizes[0], sizes[1], places, elements});
  const Value best = s.call("aten.max.dim", {read, 3, true});
  const Value at =
      s.call("aten.gather.default", {s.reshape(index, {sizes[0], sizes[1], places, elements}), 3, s.item(best, 1)});
  if (!batched) made.erase(made.begin());
  return Values{s.reshape(s.item(best, 0), made), s.reshape(at, made)};
}

/// Sampling positions of an affine map of the unit square or cube.
Value affine_grid(Steps& s) {
  const Value& theta = s["theta"];
  Exprs size;
  for (const Value& v : s["size"].as_list()) size.push_back(s.integer(v));
  const DType type = s.dtype(theta);
  const std::size_t rank = size.size() - 2;
  const bool corners = s.flag("align_corners");
  Exprs space(size.begin() + 2, size.end()), wide = space;
  wide.push_back(1);
  Values axes;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t d = rank - 1 - i;  // x first
    const auto n = s.constant(space[d]);
    Value line = n == 1 ? s.full({1}, 0, type) : s.call("aten.linspace.default", {-1, 1, n}, {{"dtype", type}});
    if (!corners && n > 1) line = s.mul(line, static_cast<double>(n - 1) / static_cast<double>(n));
    Exprs shape(rank + 1, 1);
    shape[d] = n;
    axes.push_back(s.call("aten.expand.default", {s.reshape(line, shape), wide}));
  }
  axes.push_back(s.full(wide, 1, type));
  const Expr points = s.env.simplify(sym::product(space));
  Value base = s.reshape(s.cat(std::move(axes), static_cast<std::int64_t>(rank)),
                         {1, points, static_cast<std::int64_t>(rank + 1)});
  base = s.call("aten.expand.default", {base, Exprs{size[0], points, static_cast<std::int64_t>(rank + 1)}});
  Value made = s.call("aten.bmm.default", {base, s.call("aten.transpose.int", {theta, 1, 2})});
  Exprs sizes = {size[0]};
  sizes.insert(sizes.end(), space.begin(), space.end());
  sizes.push_back(static_cast<std::int64_t>(rank));
  return s.reshape(made, sizes);
}

Value sum_to_size(Steps& s) {
  Value x = s["self"];
  Exprs wanted;
  for (const Value& v : s["size"].as_list()) wanted.push_back(s.integer(v));
  if (wanted.size() > s.rank(x)) s.refuse("takes fewer or as many dimensions");
  if (wanted.empty()) return s.call("aten.sum.default", {x});  // also of a number, which makes an int64 of integers
  const std::size_t lead = s.rank(x) - wanted.size();
  std::vector<std::int64_t> summed;
  for (std::size_t d = lead; d < s.rank(x); ++d)
    if (const Expr& size = wanted[d - lead];
        !size.is_constant(1) && s.env.statically_known_true(sym::ne(size, s.sizes(x)[d])))
      s.refuse("takes the sizes of the tensor or 1");
  for (std::size_t d = 0; d < s.rank(x); ++d)
    if (d < lead || (wanted[d - lead].is_constant(1) && !s.sizes(x)[d].is_constant(1)))
      summed.push_back(static_cast<std::int64_t>(d));
  if (summed.empty()) return s.unary("alias", x);
  Value made = s.sum(x, summed, true);
  return lead ? s.reshape(made, wanted) : made;
}

/// Of real numbers nothing is turned around: the tensor itself.
Value real_itself(Steps& s) { return s.unary("alias", s["self"]); }

Value copy_of_real(Steps& s) { return s.unary("clone", s["self"]); }

/// The lengths of slices along `dim` kept at most `maxnorm`.
Value renorm(Steps& s) {
  const Value& x = s["self"];
  const std::int64_t kept = s.wrapped(s.number("dim"), s.rank(x));
  std::vector<std::int64_t> dims;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(s.rank(x)); ++d)
    if (d != kept) dims.push_back(d);
  Value norm =
      s.call("aten.linalg_vector_norm.default", {s.to(x, compute_dtype(s.dtype(x))), s["p"], Steps::list(dims), true});
  Value factor = s.div(s.full({}, s["maxnorm"], s.dtype(norm)), s.add(norm, 1e-7));
  factor = s.where(s.call("aten.gt.Scalar", {norm, s["maxnorm"]}), factor, s.full({}, 1, s.dtype(norm)));
  return s.contiguous(s.mul(x, s.to(factor, s.dtype(x))));
}

/// Mantissa (from 0.5 to 1) and exponent of the bits: numbers below the least normal one are scaled up first.
Value frexp(Steps& s) {
  const Value& x = s["self"];
  if (!is_floating(s.dtype(x))) s.refuse("takes floating numbers");
  const bool wide = s.dtype(x) == DType::F64;
  const DType type = wide ? DType::F64 : DType::F32, bits_type = wide ? DType::I64 : DType::I32;
  const int shift = wide ? 52 : 23, exponents = wide ? 0x7ff : 0xff, bias = wide ? 1022 : 126;
  constexpr int kUp = 64;
  auto scalar = [&](const char* name, const Value& a, const Value& b) {
    return s.call("aten." + std::string(name), {a, b});
  };
  auto bits_of = [&](const Value& v) { return s.call("aten.view.dtype", {v, bits_type}); };
  auto exponent_of = [&](const Value& bits) {
    return scalar("bitwise_and.Scalar", scalar("bitwise_right_shift.Tensor_Scalar", bits, shift), exponents);
  };
  const Value given = s.unary("clone", s.to(x, type));
  const Value tiny = scalar("eq.Scalar", exponent_of(bits_of(given)), 0);
  const Value scaled = s.where(tiny, s.mul(given, 0x1p64), given), bits = bits_of(scaled), exponent = exponent_of(bits);
  const Value kept = s.call("aten.logical_or.default", {scalar("eq.Scalar", given, 0),
                                                        scalar("eq.Scalar", exponent, exponents)});  // 0, infinity, NaN
  const std::int64_t fraction = (std::int64_t{1} << shift) - 1,
                     sign = wide ? std::numeric_limits<std::int64_t>::min()
                                 : std::int64_t{std::numeric_limits<std::int32_t>::min()};
  const Value half =
      scalar("bitwise_or.Scalar", scalar("bitwise_and.Scalar", bits, sign | fraction), std::int64_t{bias} << shift);
  const Value mantissa = s.where(kept, given, s.call("aten.view.dtype", {half, type}));
  const Value unbiased =
      s.where(tiny, scalar("sub.Tensor", exponent, bias + kUp), scalar("sub.Tensor", exponent, bias));
  return Values{s.to(mantissa, s.dtype(x)), s.to(s.where(kept, s.full({}, 0, bits_type), unbiased), DType::I32)};
}

constexpr Composite kPieces[] = {
    {"aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", diag_embed},
    {"aten::diag(Tensor self, int diagonal=0) -> Tensor", diag},
    {"aten::diagflat(Tensor self, int offset=0) -> Tensor", diagflat},
    {"aten::block_diag(Tensor[] tensors) -> Tensor", block_diag},
    {"aten::column_stack(Tensor[] tensors) -> Tensor", column_stack},
    {"aten::dstack(Tensor[] tensors) -> Tensor", dstack},
    {"aten::atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]", at_least_each},
    {"aten::atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]", at_least_each},
    {"aten::atleast_3d.Sequence(Tensor[] tensors) -> Tensor[]", at_least_each},
    {"aten::row_stack(Tensor[] tensors) -> Tensor", row_stack},
    {"aten::pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0.0, str "
     "padding_side=\"right\") -> Tensor",
     pad_sequence},
    {"aten::hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", split_sections},
    {"aten::vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", split_sections},
    {"aten::dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", split_sections},
    {"aten::hsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", split_indices},
    {"aten::vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", split_indices},
    {"aten::dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", split_indices},
    {"aten::cartesian_prod(Tensor[] tensors) -> Tensor", cartesian_prod},
    {"aten::vander(Tensor x, int? N=None, bool increasing=False) -> Tensor", vander},
    {"aten::linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor", vander},
    {"aten::native_channel_shuffle(Tensor self, SymInt groups) -> Tensor", channel_shuffle},
    {"aten::max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor", max_unpool},
    {"aten::max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> Tensor",
     max_unpool},
    {"aten::fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> "
     "(Tensor, Tensor)",
     fractional_max_pool},
    {"aten::fractional_max_pool3d(Tensor self, int[3] kernel_size, int[3] output_size, Tensor random_samples) -> "
     "(Tensor, Tensor)",
     fractional_max_pool},
    {"aten::affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor", affine_grid},
    {"aten::sum_to_size(Tensor self, SymInt[] size) -> Tensor", sum_to_size},
    {"aten::conj_physical(Tensor self) -> Tensor", real_itself, true},
    {"aten::_conj_physical(Tensor self) -> Tensor", copy_of_real},
    {"aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)", frexp},
    {"aten::renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", renorm, true},
};

}  // namespace

std::span<const Composite> pieces() { return kPieces; }

}  // namespace coil::ops::composites
