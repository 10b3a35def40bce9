// Reading and writing by index tensors and masks.
#include <algorithm>
#include <utility>

#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

constexpr std::string_view kIndex = R"(
aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor
aten::_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor
)";
constexpr std::string_view kIndexPut = R"(
aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor
aten::_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor
)";
constexpr std::string_view kIndexPutInPlace = R"(
aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)
aten::_index_put_impl_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False)
    -> Tensor(a!)
)";
// The sizes of `self`, dense.
constexpr std::string_view kScatters = R"(
aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor
aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor
aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor
aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor
aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor
aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True)
    -> Tensor
)";
// The sizes of `self`, dense: writes of rows.
constexpr std::string_view kRowWrites = R"(
aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor
aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor
aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor
)";
// A copy of `self`, layout kept.
constexpr std::string_view kWritesByIndex = R"(
aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor
aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor
aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor
)";
constexpr std::string_view kMaskedWrites = R"(
aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor
aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor
aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor
)";
constexpr std::string_view kSearch = R"(
aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor
aten::bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor
aten::searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False,
    str? side=None, Tensor? sorter=None) -> Tensor
aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False,
    str? side=None, Tensor? sorter=None) -> Tensor
)";

/// The indices of `index.Tensor`, a mask spread into one index a dimension; sizes of masks are only known at run time.
struct Indexed {
  std::vector<std::optional<TensorMeta>> indices;
  Exprs common;  ///< broadcast of the indices
  bool adjacent = true;
  std::size_t first = 0;  ///< where the common sizes go in the result
};

Indexed read_indices(const Call& call, const TensorMeta& self) {
  Indexed r;
  for (const Value& item : call["indices"].as_list()) {
    if (item.is_none()) {
      r.indices.emplace_back();
      continue;
    }
    const TensorMeta& t = item.as_tensor();
    if (t.dtype != DType::Bool && t.dtype != DType::U8) {
      if (t.dtype != DType::I64 && t.dtype != DType::I32) refuse(call, "an index is {}", torch_name(t.dtype));
      r.indices.emplace_back(t);
      continue;
    }
    for (std::size_t d = 0; d < t.rank(); ++d) {
      std::size_t at = r.indices.size() + d;
      if (at >= self.rank()) refuse(call, "too many indices for a tensor of rank {}", self.rank());
      require_equal(call, t.sizes[d], self.sizes[at], "size of a mask");
    }
    TensorMeta positions = dense(call.env, DType::I64, t.device, {call.env.fresh_unbacked()});
    for (std::size_t d = 0; d < t.rank(); ++d) r.indices.emplace_back(positions);
  }
  if (r.indices.size() > self.rank()) refuse(call, "too many indices for a tensor of rank {}", self.rank());
  r.indices.resize(self.rank());
  std::vector<Exprs> sizes;
  std::optional<std::size_t> last;
  for (std::size_t d = 0; d < self.rank(); ++d) {
    if (!r.indices[d]) continue;
    sizes.push_back(r.indices[d]->sizes);
    if (!last) r.first = d;
    if (last && *last + 1 != d) r.adjacent = false;
    last = d;
  }
  r.common = broadcast(call, sizes);
  const bool some = call.env.statically_known_lt(0, call.env.simplify(sym::product(r.common)));
  for (std::size_t d = 0; d < self.rank() && some; ++d)
    if (r.indices[d] && self.sizes[d].is_constant(0)) refuse(call, "there is nothing to index in dimension {}", d);
  if (!r.adjacent) r.first = 0;
  return r;
}

/// Sizes as numpy's advanced indexing has them; strides as TensorIterator's over the restrided source and the indices
/// (ATen/native/TensorAdvancedIndexing.cpp, make_info).
Value index(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  Indexed r = read_indices(call, self);
  Operand source;
  std::size_t done = 0;
  auto add_common = [&] {
    for (Expr size : r.common) source.sizes.push_back(size), source.strides.push_back(0);
  };
  if (!r.adjacent) add_common();
  for (std::size_t d = 0; d < self.rank(); ++d) {
    if (!r.indices[d]) {
      source.sizes.push_back(self.sizes[d]);
      source.strides.push_back(self.strides[d]);
    } else if (r.adjacent && done++ == 0) {
      add_common();
    }
  }
  std::vector<Operand> operands{source};
  std::size_t after = source.sizes.size() - r.first - r.common.size();
  for (const auto& t : r.indices) {
    if (!t) continue;
    TensorMeta wide = expanded(call, *t, r.common);
    Operand operand{Exprs(r.first, 1), Exprs(r.first, 0)};
    operand.sizes.insert(operand.sizes.end(), wide.sizes.begin(), wide.sizes.end());
    operand.strides.insert(operand.strides.end(), wide.strides.begin(), wide.strides.end());
    operand.sizes.resize(operand.sizes.size() + after, 1);
    operand.strides.resize(operand.strides.size() + after, 0);
    operands.push_back(std::move(operand));
  }
  TensorMeta made{self.dtype, self.device, source.sizes, {}, 0};
  made.strides =
      operands.size() == 1 ? dense_strides(call.env, made.sizes) : elementwise_strides(call.env, made.sizes, operands);
  return made;
}

Value kept_layout(const Call& call) { return like_in_format(call.env, call.tensor(0), std::nullopt); }

/// Sizes of `self[indices]`.
Exprs indexed_sizes(const TensorMeta& self, const Indexed& r) {
  Exprs sizes;
  bool done = false;
  if (!r.adjacent) sizes = r.common;
  for (std::size_t d = 0; d < self.rank(); ++d) {
    if (!r.indices[d])
      sizes.push_back(self.sizes[d]);
    else if (r.adjacent && !std::exchange(done, true))
      sizes.insert(sizes.end(), r.common.begin(), r.common.end());
  }
  return sizes;
}

/// A number in the host's memory is written where a mask says, rounded to what `self` holds: torch's masked_fill.
bool fills_a_mask(const Call& call, const TensorMeta& self, const TensorMeta& values) {
  const bool number = sym::product(values.sizes).is_constant(1) && values.device.is_host();
  if (!number || !is_floating(self.dtype) || !is_floating(values.dtype) || call["accumulate"].as_bool()) return false;
  std::vector<const TensorMeta*> given;
  for (const Value& index : call["indices"].as_list())
    if (const auto* tensor = index.get_if<TensorMeta>()) given.push_back(tensor);
  return given.size() == 1 && given[0]->dtype == DType::Bool;
}

Value index_put(const Call& call) {
  const TensorMeta &self = call.tensor(0), &values = call["values"].as_tensor();
  const Exprs written = indexed_sizes(self, read_indices(call, self));
  require_expands(call, values.sizes, written, "values");
  if (values.dtype != self.dtype && !fills_a_mask(call, self, values))
    refuse(call, "values are {}, self is {}", torch_name(values.dtype), torch_name(self.dtype));
  return kept_layout(call);
}

/// Refuses indices that reach beyond a tensor in a dimension, but for one, as far as the sizes are known. There is
/// nothing that an index without elements reads.
void require_within(const Call& call, const TensorMeta& where, const TensorMeta& of, std::string_view name,
                    std::optional<std::size_t> but) {
  const auto sizes = [](const TensorMeta& t) { return t.sizes.empty() ? Exprs{1} : t.sizes; };
  const Exprs read = sizes(where), there = sizes(of);
  if (std::ranges::any_of(read, [&](Expr e) { return !call.env.statically_known_lt(0, e); })) return;
  for (std::size_t d = 0; d < std::min(read.size(), there.size()); ++d)
    if (d != but && call.env.statically_known_lt(there[d], read[d]))
      refuse(call, "index of sizes {} is larger than {} of sizes {}", show(where.sizes), name, show(of.sizes));
}

Value gather(const Call& call) {
  const TensorMeta &self = call.tensor(0), &where = call["index"].as_tensor();
  const std::size_t dim = dim_argument(call, self.rank());
  if (std::max<std::size_t>(self.rank(), 1) != std::max<std::size_t>(where.rank(), 1))
    refuse(call, "index has rank {}, self {}", where.rank(), self.rank());
  require_within(call, where, self, "self", dim);
  return dense(call.env, self, where.sizes);
}

Value dense_self(const Call& call) {
  if (given(call, "dim")) dim_argument(call, call.tensor(0).rank());
  return dense(call.env, call.tensor(0), call.tensor(0).sizes);
}

/// What is scattered: ranks as gather has them, and no more indices than `src` has values.
Value scatter(const Call& call) {
  const TensorMeta &self = call.tensor(0), &where = call["index"].as_tensor();
  const Value* src = given(call, "src");
  const auto* values = src ? src->get_if<TensorMeta>() : nullptr;
  const auto rank = [](const TensorMeta& t) { return std::max<std::size_t>(t.rank(), 1); };
  if (where.sizes != Exprs{0}) {
    if (rank(self) != rank(where)) refuse(call, "index has rank {}, self {}", where.rank(), self.rank());
    if (values && rank(*values) != rank(where)) refuse(call, "index has rank {}, src {}", where.rank(), values->rank());
  }
  if (values && values->dtype != self.dtype)
    refuse(call, "src is {}, self is {}", torch_name(values->dtype), torch_name(self.dtype));
  const Value dense = dense_self(call);
  require_within(call, where, self, "self", dim_argument(call, self.rank()));
  if (values) require_within(call, where, *values, "src", std::nullopt);
  return dense;
}

Value row_write(const Call& call) {
  const DType own = call.tensor(0).dtype, given = call["source"].as_tensor().dtype;
  if (own != given) refuse(call, "is given {} for {}", torch_name(given), torch_name(own));
  return dense_self(call);
}

Value index_select(const Call& call) {
  const TensorMeta &self = call.tensor(0), &where = call["index"].as_tensor();
  if (where.rank() > 1) refuse(call, "index has rank {}", where.rank());
  if (self.rank() == 0 && where.rank() == 1) require_equal(call, where.sizes[0], 1, "number of indices to a scalar");
  Exprs sizes = self.sizes;
  std::size_t dim = dim_argument(call, self.rank());
  if (!sizes.empty()) sizes[dim] = where.rank() == 1 ? where.sizes[0] : Expr(1);
  return dense(call.env, self, std::move(sizes));
}

Value embedding(const Call& call) {
  const TensorMeta &weight = call.tensor(0), &indices = call.tensor(1);
  if (weight.rank() != 2) refuse(call, "the weight has rank {}", weight.rank());
  if (indices.dtype != DType::I64 && indices.dtype != DType::I32)
    refuse(call, "the indices are {}", torch_name(indices.dtype));
  Exprs sizes = indices.sizes;
  sizes.push_back(weight.sizes[1]);
  return dense(call.env, weight, std::move(sizes));
}

Value masked_write(const Call& call) {
  const TensorMeta &self = call.tensor(0), &mask = call["mask"].as_tensor();
  if (mask.dtype != DType::Bool && mask.dtype != DType::U8) refuse(call, "the mask is {}", torch_name(mask.dtype));
  Exprs both[] = {self.sizes, mask.sizes};
  return dense(call.env, self, broadcast(call, both));
}

Value take_along_dim(const Call& call) {
  const TensorMeta &self = call.tensor(0), &where = call["indices"].as_tensor();
  if (!given(call, "dim")) return dense(call.env, self, {numel(call.env, where)});
  if (self.rank() != where.rank()) refuse(call, "indices have rank {}, self {}", where.rank(), self.rank());
  std::size_t dim = dim_argument(call, self.rank());
  Exprs sizes[] = {self.sizes, where.sizes};
  sizes[0][dim] = 1, sizes[1][dim] = 1;
  Exprs common = broadcast(call, sizes);
  common[dim] = where.sizes[dim];
  return dense(call.env, self, std::move(common));
}

Value take(const Call& call) { return dense(call.env, call.tensor(0), call["index"].as_tensor().sizes); }

Value one_hot(const Call& call) {
  Exprs sizes = call.tensor(0).sizes;
  std::int64_t classes = number(call, "num_classes");
  sizes.push_back(classes < 0 ? call.env.fresh_unbacked() : Expr(classes));
  return dense(call.env, DType::I64, call.tensor(0).device, std::move(sizes));
}

Value masked_select(const Call& call) { return dense(call.env, call.tensor(0), {call.env.fresh_unbacked()}); }

Value search(const Call& call) {
  const DType type = flag(call, "out_int32") ? DType::I32 : DType::I64;
  const auto* values = call["self"].get_if<TensorMeta>();  // or a number
  return dense(call.env, type, tensors(call)[0]->device, values ? values->sizes : Exprs{});
}

Value is_in(const Call& call) {
  const TensorMeta& elements = call.tensor(0);
  return dense(call.env, DType::Bool, elements.device, elements.sizes);
}

}  // namespace

void register_indexing() {
  define_each(kIndex, index);
  define_each(kIndexPut, index_put);
  define_each(kIndexPutInPlace, in_place(index_put));
  define_with_twins(kScatters, scatter);
  define_with_twins(kRowWrites, row_write);
  define_with_twins(kWritesByIndex, kept_layout);
  define_with_twins(kMaskedWrites, masked_write);
  define_each(kSearch, search);
  define("aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", gather);
  define("aten::index_select(Tensor self, int dim, Tensor index) -> Tensor", index_select);
  define_each(R"(
aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False)
    -> Tensor
)",
              embedding);
  define("aten::embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float norm_type) -> Tensor(a!)",
         [](const Call& call) { return call.tensor(0); });
  define("aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", take_along_dim);
  define("aten::take(Tensor self, Tensor index) -> Tensor", take);
  define("aten::one_hot(Tensor self, int num_classes=-1) -> Tensor", one_hot);
  define("aten::masked_select(Tensor self, Tensor mask) -> Tensor", masked_select);
  define_each(R"(
aten::isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False)
    -> Tensor
aten::isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor
)",
              is_in);
  define(
      "aten::isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) "
      "-> Tensor",
      [](const Call& call) { return dense(call.env, DType::Bool, call.tensor(1).device, {}); });
}

}  // namespace coil::ops::shapes
