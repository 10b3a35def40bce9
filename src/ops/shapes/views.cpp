// Views of one tensor as one tensor, their copying forms, and what writes a value back through a view (`_scatter`).
#include <algorithm>
#include <numeric>

#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"
#include "sym/print.h"

namespace coil::ops::shapes {

namespace {

std::size_t dim_of(const Call& call, std::string_view name) { return dim_argument(call, call.tensor(0).rank(), name); }

/// Sizes and strides in another order of dimensions.
TensorMeta reorder(const TensorMeta& t, std::span<const std::size_t> order) {
  TensorMeta made = t;
  for (std::size_t i = 0; i < order.size(); ++i) {
    made.sizes[i] = t.sizes[order[i]];
    made.strides[i] = t.strides[order[i]];
  }
  return made;
}

TensorMeta view_as_sizes(const Call& call, Exprs sizes) {
  const TensorMeta& self = call.tensor(0);
  sizes = infer_sizes(call, numel(call.env, self), std::move(sizes));
  auto strides = view_strides(call.env, self, sizes);
  if (!strides) strides = view_strides(call.env, self, sizes, true);
  if (!strides)
    refuse(call, "a tensor of sizes {} and strides {} has no view of sizes {}; use reshape", show(self.sizes),
           show(self.strides), show(sizes));
  TensorMeta made = self;
  made.sizes = std::move(sizes);
  made.strides = std::move(*strides);
  return made;
}

TensorMeta reshape_to_sizes(const Call& call, Exprs sizes) {
  const TensorMeta& self = call.tensor(0);
  sizes = infer_sizes(call, numel(call.env, self), std::move(sizes));
  auto strides = view_strides(call.env, self, sizes);
  if (!strides) return dense(call.env, self, std::move(sizes));
  TensorMeta made = self;
  made.sizes = std::move(sizes);
  made.strides = std::move(*strides);
  return made;
}

Value view(const Call& call) { return view_as_sizes(call, call["size"].as_ints()); }
Value view_as(const Call& call) { return view_as_sizes(call, call.tensor(1).sizes); }
Value reshape(const Call& call) { return reshape_to_sizes(call, call[1].as_ints()); }
Value reshape_as(const Call& call) { return reshape_to_sizes(call, call.tensor(1).sizes); }
Value ravel(const Call& call) {
  TensorMeta flat = reshape_to_sizes(call, {-1});
  return is_contiguous(call.env, flat) ? flat : dense(call.env, flat, flat.sizes);
}

Value flatten(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  std::size_t first = dim_of(call, "start_dim"), last = dim_of(call, "end_dim");
  if (first > last) refuse(call, "start_dim comes after end_dim");
  if (self.rank() == 0) return reshape_to_sizes(call, {1});
  if (first == last) return self;
  Exprs sizes(self.sizes.begin(), self.sizes.begin() + first);
  sizes.push_back(call.env.simplify(sym::product(std::span(self.sizes).subspan(first, last - first + 1))));
  sizes.insert(sizes.end(), self.sizes.begin() + last + 1, self.sizes.end());
  return reshape_to_sizes(call, std::move(sizes));
}

Value unflatten(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  std::size_t dim = dim_of(call, "dim");
  Exprs parts = infer_sizes(call, self.sizes[dim], call["sizes"].as_ints());
  Exprs sizes = self.sizes;
  sizes.erase(sizes.begin() + dim);
  sizes.insert(sizes.begin() + dim, parts.begin(), parts.end());
  return view_as_sizes(call, std::move(sizes));
}

Value permute(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  auto order = dims_argument(call, self.rank(), "dims");
  if (order.size() != self.rank())
    refuse(call, "{} dimensions are named for a tensor of rank {}", order.size(), self.rank());
  return reorder(self, order);
}

Value swap_dims(const TensorMeta& self, std::size_t a, std::size_t b) {
  TensorMeta made = self;
  if (self.rank() == 0) return made;
  std::swap(made.sizes[a], made.sizes[b]);
  std::swap(made.strides[a], made.strides[b]);
  return made;
}

Value transpose(const Call& call) {
  std::size_t rank = call.tensor(0).rank();
  const auto& p = call.op.schema.parameters;
  return swap_dims(call.tensor(0), dim_argument(call, rank, p[1].name), dim_argument(call, rank, p[2].name));
}

Value transpose_matrix(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  if (self.rank() > 2) refuse(call, "takes at most two dimensions, not {}", self.rank());
  return self.rank() == 2 ? swap_dims(self, 0, 1) : Value(self);
}

Value transpose_last(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  if (self.rank() == 0) return self;
  if (self.rank() < 2) refuse(call, "takes a matrix or a batch of them");
  return swap_dims(self, self.rank() - 2, self.rank() - 1);
}

Value reverse_dims(const Call& call) {
  std::vector<std::size_t> order(call.tensor(0).rank());
  std::iota(order.rbegin(), order.rend(), 0);
  return reorder(call.tensor(0), order);
}

Value move_dims(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  auto source = dims_argument(call, self.rank(), "source"), target = dims_argument(call, self.rank(), "destination");
  if (source.size() != target.size()) refuse(call, "as many sources as destinations are needed");
  if (self.rank() == 0) return self;
  std::vector<std::size_t> order(self.rank(), self.rank());
  for (std::size_t i = 0; i < source.size(); ++i) order[target[i]] = source[i];
  std::size_t next = 0;
  for (std::size_t& slot : order) {
    if (slot != self.rank()) continue;
    while (std::find(source.begin(), source.end(), next) != source.end()) ++next;
    slot = next++;
  }
  return reorder(self, order);
}

Value expand(const Call& call) { return expanded(call, call.tensor(0), call["size"].as_ints()); }
Value expand_as(const Call& call) { return expanded(call, call.tensor(0), call.tensor(1).sizes); }

/// A position that counts from the end when it is negative, which only the run may tell.
Expr from_front(Env& env, Expr at, Expr size) {
  if (env.statically_known_le(0, at)) return at;
  if (sym::has_symbol_of(at, sym::SymbolKind::Unbacked) && !env.statically_known_lt(at, 0))
    return env.simplify(sym::where(sym::lt(at, 0), at + size, at));
  return is_negative(env, at) ? at + size : at;
}

Expr clamp(Env& env, Expr value, Expr size) {
  value = from_front(env, value, size);
  if (env.statically_known_le(size, value)) return size;
  if (!env.statically_known_le(value, size)) value = sym::min(value, size);
  if (!env.statically_known_le(0, value)) value = sym::max(value, 0);
  return env.simplify(value);
}

TensorMeta slice_of(const Call& call, std::size_t dim, const Value* start, const Value* end, Expr step) {
  TensorMeta made = call.tensor(0);
  if (made.rank() == 0) refuse(call, "takes a tensor with dimensions");
  if (step.is_constant() && *step.constant() <= 0) refuse(call, "the step is {}", *step.constant());
  Expr size = made.sizes[dim];
  Expr from = start ? clamp(call.env, start->as_int(), size) : Expr(0);
  Expr to = end ? clamp(call.env, end->as_int(), size) : size;
  Expr length = to - from;
  if (!call.env.statically_known_le(0, length)) length = sym::max(length, 0);
  made.sizes[dim] = call.env.simplify(step.is_constant(1) ? length : sym::ceil_div(length, step));
  made.offset = call.env.simplify(made.offset + from * made.strides[dim]);
  made.strides[dim] = made.strides[dim] * step;
  return made;
}

Value slice(const Call& call) {
  return slice_of(call, dim_of(call, "dim"), given(call, "start"), given(call, "end"), call["step"].as_int());
}

Value narrow(const Call& call) {
  TensorMeta made = call.tensor(0);
  std::size_t dim = dim_of(call, "dim");
  Expr start = call["start"].as_int(), length = call["length"].as_int(), size = made.sizes[dim];
  start = from_front(call.env, start, size);
  if (call.env.statically_known_lt(start, 0) || call.env.statically_known_lt(length, 0))
    refuse(call, "start and length are out of range for sizes {}", show(made.sizes));
  if (call.env.statically_known_lt(size, start + length))
    refuse(call, "start and length exceed size {}", show(made.sizes));
  made.sizes[dim] = call.env.simplify(length);
  made.offset = call.env.simplify(made.offset + start * made.strides[dim]);
  return made;
}

Value select(const Call& call) {
  TensorMeta made = call.tensor(0);
  if (made.rank() == 0) refuse(call, "takes a tensor with dimensions");
  std::size_t dim = dim_of(call, "dim");
  Expr index = call["index"].as_int(), size = made.sizes[dim];
  index = from_front(call.env, index, size);
  if (call.env.statically_known_le(size, index) || call.env.statically_known_lt(index, 0))
    refuse(call, "index {} is outside dimension {} of sizes {}", sym::to_string(call["index"].as_int()), dim,
           show(made.sizes));
  made.offset = call.env.simplify(made.offset + index * made.strides[dim]);
  made.sizes.erase(made.sizes.begin() + dim);
  made.strides.erase(made.strides.begin() + dim);
  return made;
}

Value unsqueeze(const Call& call) {
  TensorMeta made = call.tensor(0);
  std::size_t dim = dim_argument(call, made.rank() + 1);
  Expr stride = dim < made.rank() ? made.sizes[dim] * made.strides[dim] : Expr(1);
  made.sizes.insert(made.sizes.begin() + dim, 1);
  made.strides.insert(made.strides.begin() + dim, stride);
  return made;
}

Value squeeze(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  bool all = !given(call, "dim");
  auto dims = dims_argument(call, self.rank());
  TensorMeta made = self;
  made.sizes.clear(), made.strides.clear();
  for (std::size_t d = 0; d < self.rank(); ++d) {
    bool asked = all || std::find(dims.begin(), dims.end(), d) != dims.end();
    if (asked && is_one(call.env, self.sizes[d])) continue;
    made.sizes.push_back(self.sizes[d]);
    made.strides.push_back(self.strides[d]);
  }
  return made;
}

Value diagonal(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  std::size_t a = dim_of(call, "dim1"), b = dim_of(call, "dim2");
  if (a == b || self.rank() < 2) refuse(call, "takes two different dimensions");
  Expr offset = call["offset"].as_int(), size;
  TensorMeta made = self;
  if (is_negative(call.env, offset)) {
    size = sym::min(self.sizes[a] + offset, self.sizes[b]);
    made.offset = made.offset - offset * self.strides[a];
  } else {
    size = sym::min(self.sizes[a], self.sizes[b] - offset);
    made.offset = made.offset + offset * self.strides[b];
  }
  size = call.env.simplify(sym::max(size, 0));
  if (size.is_constant(0)) made.offset = self.offset;
  Expr stride = self.strides[a] + self.strides[b];
  for (std::size_t d : {std::max(a, b), std::min(a, b)}) {
    made.sizes.erase(made.sizes.begin() + d);
    made.strides.erase(made.strides.begin() + d);
  }
  made.sizes.push_back(size);
  made.strides.push_back(stride);
  return made;
}

Value as_strided(const Call& call) {
  TensorMeta made = call.tensor(0);
  made.sizes = call["size"].as_ints();
  made.strides = call["stride"].as_ints();
  if (made.sizes.size() != made.strides.size()) refuse(call, "sizes and strides differ in number");
  if (const Value* offset = given(call, "storage_offset")) made.offset = offset->as_int();
  return made;
}

Value unfold(const Call& call) {
  TensorMeta made = call.tensor(0);
  std::size_t dim = dim_of(call, "dimension");
  Expr size = call["size"].as_int(), step = call["step"].as_int();
  Expr whole = made.rank() ? made.sizes[dim] : Expr(1), stride = made.rank() ? made.strides[dim] : Expr(1);
  if (call.env.statically_known_lt(whole, size))
    refuse(call, "size exceeds dimension {} of sizes {}", dim, show(made.sizes));
  if (made.rank() > 0) {
    made.sizes[dim] = call.env.simplify(sym::floor_div(whole - size, step) + 1);
    made.strides[dim] = stride * step;
  }
  made.sizes.push_back(size);
  made.strides.push_back(stride);
  return made;
}

Value view_dtype(const Call& call) {
  TensorMeta made = call.tensor(0);
  auto from = static_cast<std::int64_t>(size_of(made.dtype)),
       to = static_cast<std::int64_t>(size_of(call["dtype"].as_dtype()));
  made.dtype = call["dtype"].as_dtype();
  if (from == to) return made;
  if (made.rank() == 0 || !made.strides.back().is_constant(1))
    refuse(call, "a view in a type of another size needs a last dimension of stride 1");
  std::int64_t wide = std::max(from, to), narrow = std::min(from, to), ratio = wide / narrow;
  const auto require_whole = [&](Expr e, std::string_view what) {
    if (from < to && e.is_constant() && *e.constant() % ratio != 0)
      refuse(call, "{} must be divisible by {} to view {} as {}, but is {}", what, ratio,
             torch_name(call.tensor(0).dtype), torch_name(made.dtype), *e.constant());
  };
  require_whole(made.sizes.back(), "the last size");
  require_whole(made.offset, "the storage offset");
  for (std::size_t d = 0; d + 1 < made.rank(); ++d) require_whole(made.strides[d], "a stride");
  auto scaled = [&](Expr e) { return from > to ? e * ratio : call.env.simplify(sym::floor_div(e, ratio)); };
  for (std::size_t d = 0; d + 1 < made.rank(); ++d) made.strides[d] = scaled(made.strides[d]);
  made.sizes.back() = scaled(made.sizes.back());
  made.offset = scaled(made.offset);
  return made;
}

constexpr std::string_view kNoSchemas = "";

struct ViewFamily {
  ShapeFunction shape;
  std::string_view views;   ///< alias their input
  std::string_view copies;  ///< the same as a new dense tensor
};

const ViewFamily kViews[] = {
    {view, R"(
aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)
aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor
)",
     kNoSchemas},
    {view_as, R"(
aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)
)",
     kNoSchemas},
    {reshape, R"(
aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)
)",
     R"(
aten::view_copy(Tensor self, SymInt[] size) -> Tensor
aten::_reshape_copy(Tensor self, SymInt[] size) -> Tensor
)"},
    {reshape_as, R"(
aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)
)",
     kNoSchemas},
    {ravel, R"(
aten::ravel(Tensor(a) self) -> Tensor(a)
)",
     kNoSchemas},
    {flatten, R"(
aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)
)",
     kNoSchemas},
    {unflatten, R"(
aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)
)",
     kNoSchemas},
    {permute, R"(
aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)
)",
     R"(
aten::permute_copy(Tensor self, int[] dims) -> Tensor
)"},
    {transpose, R"(
aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)
aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)
aten::swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)
aten::transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)
aten::swapaxes_(Tensor(a!) self, int axis0, int axis1) -> Tensor(a!)
aten::swapdims_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)
)",
     R"(
aten::transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor
)"},
    {transpose_matrix, R"(
aten::t(Tensor(a) self) -> Tensor(a)
aten::t_(Tensor(a!) self) -> Tensor(a!)
)",
     R"(
aten::t_copy(Tensor self) -> Tensor
)"},
    {transpose_last, R"(
aten::mT(Tensor(a) self) -> Tensor(a)
aten::mH(Tensor(a) self) -> Tensor(a)
aten::adjoint(Tensor(a) self) -> Tensor(a)
aten::matrix_H(Tensor(a) self) -> Tensor(a)
)",
     kNoSchemas},
    {reverse_dims, R"(
aten::numpy_T(Tensor(a) self) -> Tensor(a)
)",
     kNoSchemas},
    {move_dims, R"(
aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)
aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)
aten::moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)
aten::moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)
)",
     kNoSchemas},
    {expand, R"(
aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)
aten::broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)
)",
     R"(
aten::expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor
)"},
    {expand_as, R"(
aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)
)",
     kNoSchemas},
    {slice, R"(
aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)
)",
     R"(
aten::slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor
)"},
    {narrow, R"(
aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)
)",
     R"(
aten::narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor
)"},
    {select, R"(
aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)
)",
     R"(
aten::select_copy.int(Tensor self, int dim, SymInt index) -> Tensor
)"},
    {unsqueeze, R"(
aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)
aten::unsqueeze_(Tensor(a!) self, int dim) -> Tensor(a!)
)",
     R"(
aten::unsqueeze_copy(Tensor self, int dim) -> Tensor
)"},
    {squeeze, R"(
aten::squeeze(Tensor(a) self) -> Tensor(a)
aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)
aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)
aten::squeeze_(Tensor(a!) self) -> Tensor(a!)
aten::squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)
aten::squeeze_.dims(Tensor(a!) self, int[] dim) -> Tensor(a!)
)",
     R"(
aten::squeeze_copy(Tensor self) -> Tensor
aten::squeeze_copy.dim(Tensor self, int dim) -> Tensor
aten::squeeze_copy.dims(Tensor self, int[] dim) -> Tensor
)"},
    {diagonal, R"(
aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)
aten::linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)
)",
     R"(
aten::diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor
)"},
    {as_strided, R"(
aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)
aten::as_strided_(Tensor(a!) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a!)
)",
     R"(
aten::as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor
)"},
    {unfold, R"(
aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)
)",
     R"(
aten::unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor
)"},
    {view_dtype, R"(
aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)
)",
     R"(
aten::view_copy.dtype(Tensor self, ScalarType dtype) -> Tensor
)"},
};

constexpr std::string_view kViewScatters = R"(
aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor
aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor
aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor
aten::as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor
)";

/// A copy of `self`, strides kept, with a part overwritten.
Value scatter_back(const Call& call) {
  TensorMeta made = call.tensor(0);
  if (!is_non_overlapping_and_dense(call.env, made)) made.strides = preserved_strides(call.env, made);
  made.offset = 0;
  return made;
}

}  // namespace

void register_views() {
  for (const ViewFamily& family : kViews) {
    define_each(family.views, family.shape);
    define_each(family.copies, [shape = family.shape](const Call& call) -> Value {
      TensorMeta viewed = shape(call).as_tensor();
      return dense(call.env, viewed, viewed.sizes);
    });
  }
  define_each(kViewScatters, scatter_back);
}

}  // namespace coil::ops::shapes
