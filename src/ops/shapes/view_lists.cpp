// Operators that give several pieces of one tensor: split, chunk, unbind and their kin.
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

constexpr std::string_view kSplit = R"(
aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]
aten::unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]
)";
constexpr std::string_view kSplitSizes = R"(
aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]
aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]
aten::unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]
)";
constexpr std::string_view kChunk = R"(
aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]
aten::unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]
)";
constexpr std::string_view kSections = R"(
aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]
)";
constexpr std::string_view kIndices = R"(
aten::tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]
)";
constexpr std::string_view kUnbind = R"(
aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]
)";
constexpr std::string_view kCopies = R"(
aten::split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]
)";

/// Consecutive pieces of a dimension, as views.
Values pieces(const Call& call, std::size_t dim, const Exprs& lengths) {
  const TensorMeta& self = call.tensor(0);
  if (self.rank() == 0) refuse(call, "takes a tensor with dimensions");
  Values list;
  Expr start = 0;
  for (Expr length : lengths) {
    TensorMeta piece = self;
    piece.sizes[dim] = call.env.simplify(length);
    piece.offset = call.env.simplify(self.offset + start * self.strides[dim]);
    list.push_back(std::move(piece));
    start = start + length;
  }
  return list;
}

Exprs equal_lengths(const Call& call, Expr whole, Expr length) {
  if (whole == length) return {whole};
  std::int64_t count =
      call.env.specialize(call.env.simplify(sym::ceil_div(whole, length)), "number of pieces of a split");
  if (count <= 1) return {whole};
  Exprs lengths(static_cast<std::size_t>(count), length);
  lengths.back() = whole - length * (count - 1);
  return lengths;
}

constexpr std::int64_t kMostPieces = 1 << 20;  // of a list

Value split(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  std::size_t dim = dim_argument(call, self.rank());
  if (self.rank() == 0) refuse(call, "takes a tensor with dimensions");
  Expr length = call["split_size"].as_int();
  if (length.is_constant() && (*length.constant() < 0 || (*length.constant() == 0 && !self.sizes[dim].is_constant(0))))
    refuse(call, "pieces of {} do not make up sizes {}", *length.constant(), show(self.sizes));
  if (length.is_constant(0)) return pieces(call, dim, {0});
  return pieces(call, dim, equal_lengths(call, self.sizes[dim], length));
}

Value chunk(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  std::size_t dim = dim_argument(call, self.rank());
  std::int64_t chunks = number(call, "chunks");
  if (chunks <= 0 || self.rank() == 0) refuse(call, "takes a tensor with dimensions and a positive number of chunks");
  Expr length = call.env.simplify(sym::ceil_div(self.sizes[dim], chunks));
  if (length.is_constant(0) && chunks > kMostPieces) refuse(call, "gives no list of {} tensors", chunks);
  if (length.is_constant(0)) return pieces(call, dim, Exprs(static_cast<std::size_t>(chunks), 0));
  return pieces(call, dim, equal_lengths(call, self.sizes[dim], length));
}

Value split_sizes(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  std::size_t dim = dim_argument(call, self.rank());
  Exprs lengths = call[1].as_ints();
  if (self.rank() > 0) require_equal(call, sym::sum(lengths), self.sizes[dim], "sum of the pieces");
  return pieces(call, dim, lengths);
}

Value split_sections(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  std::size_t dim = dim_argument(call, self.rank());
  std::int64_t n = number(call, "sections");
  if (n <= 0 || self.rank() == 0) refuse(call, "takes a tensor with dimensions and a positive number of sections");
  if (n > kMostPieces) refuse(call, "gives no list of {} tensors", n);
  Expr whole = self.sizes[dim], least = sym::floor_div(whole, n), more = sym::mod(whole, n);
  Exprs lengths;
  for (std::int64_t i = 0; i < n; ++i) lengths.push_back(least + sym::where(sym::lt(i, more), 1, 0));
  return pieces(call, dim, lengths);
}

Value split_indices(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  std::size_t dim = dim_argument(call, self.rank());
  if (self.rank() == 0) refuse(call, "takes a tensor with dimensions");
  Exprs lengths;
  Expr start = 0, whole = self.sizes[dim];
  auto inside = [&](Expr at) {
    if (is_negative(call.env, at)) at = at + whole;
    return call.env.simplify(sym::max(sym::min(at, whole), 0));
  };
  Exprs ends = call["indices"].as_ints();
  for (Expr end : ends) {
    lengths.push_back(sym::max(inside(end) - start, 0));
    start = inside(end);
  }
  lengths.push_back(whole - start);
  Values list = pieces(call, dim, lengths);
  Expr at = 0;  // a piece starts where its index says, also when indices do not rise
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i].get_if<TensorMeta>()->offset = call.env.simplify(self.offset + at * self.strides[dim]);
    if (i < ends.size()) at = inside(ends[i]);
  }
  return list;
}

/// Pieces whose borders are data: each has a size and a place of its own, known at run time.
Value split_at_data(const Call& call) {
  const TensorMeta &self = call.tensor(0), &at = call.tensor(1);
  std::size_t dim = dim_argument(call, self.rank());
  if (self.rank() == 0) refuse(call, "takes a tensor with dimensions");
  auto n = at.rank() == 1 ? at.sizes[0].constant() : std::nullopt;
  if (!n) refuse(call, "needs a list of borders of fixed length: the number of pieces would depend on data");
  Values list;
  for (std::int64_t i = 0; i <= *n; ++i) {
    TensorMeta piece = self;
    piece.sizes[dim] = call.env.fresh_unbacked();
    if (i > 0) piece.offset = call.env.fresh_unbacked();
    list.push_back(std::move(piece));
  }
  return list;
}

Value unbind(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  if (self.rank() == 0) refuse(call, "takes a tensor with dimensions");
  std::size_t dim = dim_argument(call, self.rank());
  std::int64_t n = call.env.specialize(self.sizes[dim], "number of pieces of unbind");
  Values list;
  for (std::int64_t i = 0; i < n; ++i) {
    TensorMeta piece = self;
    piece.offset = call.env.simplify(self.offset + self.strides[dim] * i);
    piece.sizes.erase(piece.sizes.begin() + dim);
    piece.strides.erase(piece.strides.begin() + dim);
    list.push_back(std::move(piece));
  }
  return list;
}

/// The same pieces as new dense tensors.
ShapeFunction copied(ShapeFunction shape) {
  return [shape = std::move(shape)](const Call& call) -> Value {
    Value list = shape(call);
    for (Value& piece : *list.get_if<Values>()) {
      auto& t = *piece.get_if<TensorMeta>();
      t = dense(call.env, t, t.sizes);
    }
    return list;
  };
}

}  // namespace

void register_view_lists() {
  define_each(kSplit, split);
  define_each(kSplitSizes, split_sizes);
  define_each(kChunk, chunk);
  define_each(kSections, split_sections);
  define_each(kIndices, split_indices);
  define(
      "aten::tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor tensor_indices_or_sections, int "
      "dim=0) -> Tensor(a)[]",
      split_at_data);
  define_each(kUnbind, unbind);
  define_each(kCopies, copied(split_sizes));
  define("aten::split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]", copied(split));
  define("aten::unbind_copy.int(Tensor self, int dim=0) -> Tensor[]", copied(unbind));
}

}  // namespace coil::ops::shapes
