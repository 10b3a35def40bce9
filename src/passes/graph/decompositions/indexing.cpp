// Indexing in terms of index.Tensor, index_put, gather and where.
// Kept for lowering: those, embedding, scatter.src, scatter.value, scatter_add, scatter_reduce.two, masked_scatter,
// sort-based searches.
#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

namespace {

bool is_tensor(const Value& v) { return v.is<fx::Node*>() && v.as_node()->is_tensor(); }

Value masked_fill(Rewriter& r) {
  Value value = is_tensor(r["value"]) ? r.to(r["value"], r.result().dtype)
                                      : r.full({}, r["value"], r.result().dtype, r.result().device);
  return r.call("aten.where.self", {r["mask"], value, r["self"]});
}

/// Indices for index.Tensor: `index` at dimension `dim`, nothing before it.
Values at_dim(std::int64_t dim, const Value& index) {
  Values indices(static_cast<std::size_t>(dim), None{});
  indices.push_back(index);
  return indices;
}

Value flat_index(Rewriter& r) { return r.rank(r["index"]) == 0 ? r.unsqueeze(r["index"], 0) : r["index"]; }

/// index_add, index_copy, index_fill as index_put; `values` broadcasts to the indexed part.
Value put_at_dim(Rewriter& r, Value values, bool accumulate) {
  Value self = r["self"];
  bool scalar = r.rank(self) == 0;
  if (scalar) self = r.unsqueeze(self, 0), values = r.rank(values) == 0 ? r.unsqueeze(values, 0) : values;
  Value made =
      r.call("aten.index_put.default", {self, at_dim(r.dim("dim", r.rank(self)), flat_index(r)), values, accumulate});
  return scalar ? r.reshape(made, {}) : made;
}

/// Whether the lowering takes index_add or index_copy as it is: its indices count from the start alone, those of
/// index_put from either end.
bool is_lowered(Rewriter& r) { return r.rank(r["self"]) > 0 && !is_complex(r.dtype(r["self"])); }

Value index_add(Rewriter& r) {
  if (is_lowered(r)) return None{};
  Value source = r["source"];
  if (r["alpha"] != Value(1)) source = r.mul(source, r["alpha"]);
  return put_at_dim(r, source, true);
}

Value index_copy(Rewriter& r) {
  if (is_lowered(r)) return None{};
  return put_at_dim(r, r["source"], false);
}

Value index_fill(Rewriter& r) {
  DType type = r.result().dtype;
  return put_at_dim(r, is_tensor(r["value"]) ? r.to(r["value"], type) : r.full({}, r["value"], type), false);
}

Value unsafe_index(Rewriter& r) { return r.call("aten.index.Tensor", r.node->args); }
Value unsafe_index_put(Rewriter& r) { return r.call("aten.index_put.default", r.node->args); }

Value take_along_dim(Rewriter& r) {
  Value self = r["self"], indices = r["indices"];
  if (!r.has("dim")) {
    self = r.reshape(self, {r.meta(self).numel()});
    return r.call("aten.gather.default", {self, 0, r.reshape(indices, {r.meta(indices).numel()})});
  }
  std::int64_t d = r.dim("dim", r.rank(self));
  auto at = static_cast<std::size_t>(d);
  Exprs sizes = r.result().sizes;
  sizes[at] = r.meta(self).sizes[at];
  // Eager takes indices modulo the size here.
  indices = r.call("aten.remainder.Scalar", {indices, sizes[at]});
  return r.call("aten.gather.default", {r.expand(self, sizes), d, r.expand(indices, r.result().sizes)});
}

Value take(Rewriter& r) {
  Value flat = r.reshape(r["self"], {r.meta(r["self"]).numel()});
  return r.call("aten.index.Tensor", {flat, Values{r["index"]}});
}

Value one_hot(Rewriter& r) {
  Expr classes = r.result().sizes.back();
  if (sym::has_symbol_of(classes, sym::SymbolKind::Unbacked)) r.refuse("the number of classes must be given");
  return r.to(r.call("aten.eq.Tensor", {r.unsqueeze(r["self"], -1), r.iota(classes)}), DType::I64);
}

/// Where the mask holds, the next elements of the source, in row-major order.
Value masked_scatter(Rewriter& r) {
  const Exprs& sizes = r.result().sizes;
  Value mask = r.expand(r["mask"], sizes), flat = r.reshape(mask, {r.module.env->simplify(sym::product(sizes))});
  // Counted from 1. Places where nothing is written read element 0; a source of too few elements is an index out of
  // range, as eager's error is.
  Value place = r.call("aten.cumsum.default", {r.to(flat, DType::I64), 0});
  Value source = r.reshape(r["source"], {r.meta(r["source"]).numel()});
  if (r.module.env->statically_known_lt(0, r.meta(source).numel())) {
    place = r.call("aten.clamp.default", {r.sub(place, 1), 0, None{}});
  } else {
    source = r.call("aten.constant_pad_nd.default",
                    {source, Values{1, 0}});  // a mask that holds nowhere may come with no source at all
  }
  place = r.where(flat, place, r.full({}, 0, DType::I64));
  Value taken = r.reshape(r.call("aten.index.Tensor", {source, Values{place}}), sizes);
  return r.where(mask, taken, r.expand(r["self"], sizes));
}

Value put(Rewriter& r) {
  const Exprs sizes = r.meta(r["self"]).sizes;
  Value flat = r.reshape(r["self"], {r.meta(r["self"]).numel()});
  Value source = r.reshape(r["source"], r.meta(r["index"]).sizes);
  return r.reshape(r.call("aten.index_put.default", {flat, Values{r["index"]}, source, r["accumulate"]}), sizes);
}

/// One index for each slice of the source: the same for all of its elements.
Value index_reduce(Rewriter& r) {
  const Exprs whole = r.meta(r["self"]).sizes;
  const bool number = whole.empty();  // as a list of one
  const Value self = number ? r.reshape(r["self"], {1}) : r["self"],
              source = number ? r.reshape(r["source"], {1}) : r["source"];
  const std::int64_t dim = r.dim("dim", r.rank(self));
  Exprs shape(r.rank(source), 1);
  shape[static_cast<std::size_t>(dim)] = r.meta(source).sizes[static_cast<std::size_t>(dim)];
  Value index = r.expand(r.reshape(r["index"], shape), r.meta(source).sizes);
  return r.reshape(
      r.call("aten.scatter_reduce.two", {self, dim, index, source, r["reduce"]}, {{"include_self", r["include_self"]}}),
      whole);
}

/// In the order that `sorter` gives.
Value searchsorted(Rewriter& r) {
  if (!r.has("sorter")) return None{};
  Value sorted = r.call("aten.gather.default", {r["sorted_sequence"], -1, r["sorter"]});
  return r.call(r.node->target, {sorted, r["self"]},
                {{"out_int32", r["out_int32"]}, {"right", r["right"]}, {"side", r["side"]}});
}

Value is_in(Rewriter& r) {
  Value found;
  if (!is_tensor(r.node->args[1])) {
    found = r.call("aten.eq.Scalar", {r["elements"], r.node->args[1]});
  } else if (!is_tensor(r.node->args[0])) {
    found = r.call("aten.any.default", {r.call("aten.eq.Scalar", {r["test_elements"], r.node->args[0]})});
  } else {
    const Value& tests = r["test_elements"];
    Value each = r.call("aten.eq.Tensor", {r.unsqueeze(r["elements"], -1), r.reshape(tests, {r.meta(tests).numel()})});
    found = r.call("aten.any.dim", {each, -1});
  }
  return r.flag("invert") ? r.call("aten.logical_not.default", {found}) : found;
}

}  // namespace

void decompose_indexing(DecompositionTable& t) {
  t["aten.masked_fill.Scalar"] = masked_fill;
  t["aten.masked_fill.Tensor"] = masked_fill;
  t["aten.index_add.default"] = index_add;
  t["aten.index_copy.default"] = index_copy;
  t["aten.index_fill.int_Scalar"] = index_fill;
  t["aten.index_fill.int_Tensor"] = index_fill;
  t["aten._unsafe_index.Tensor"] = unsafe_index;
  t["aten._unsafe_index_put.default"] = unsafe_index_put;
  t["aten.take_along_dim.default"] = take_along_dim;
  t["aten.take.default"] = take;
  t["aten.one_hot.default"] = one_hot;
  t["aten.masked_scatter.default"] = masked_scatter;
  t["aten.put.default"] = put;
  t["aten.index_reduce.default"] = index_reduce;
  t["aten.searchsorted.Tensor"] = t["aten.searchsorted.Scalar"] = searchsorted;
  t["aten.isin.Tensor_Tensor"] = is_in;
  t["aten.isin.Tensor_Scalar"] = is_in;
  t["aten.isin.Scalar_Tensor"] = is_in;
}

}  // namespace coil::passes
