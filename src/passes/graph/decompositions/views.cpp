// Views in terms of view, permute, expand, slice, select, squeeze.dims and unsqueeze; lists of pieces in terms of slice
// and select. Kept for lowering: those seven, and diagonal, unfold, as_strided, view.dtype, slice_scatter,
// diagonal_scatter, as_strided_scatter.
#include <algorithm>
#include <numeric>

#include "ops/shapes/strides.h"
#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

namespace {

using Order = std::vector<std::int64_t>;

Order identity_order(std::size_t rank) {
  Order order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::int64_t last_dim(std::size_t rank) { return static_cast<std::int64_t>(rank) - 1; }

/// reshape, flatten, view_as, …: the sizes are those of the result.
Value to_result_sizes(Rewriter& r) { return r.reshape(r["self"], r.result().sizes); }

Value expand_to_result(Rewriter& r) { return r.expand(r["self"], r.result().sizes); }

Value swap_dims(Rewriter& r, std::int64_t a, std::int64_t b) {
  Order order = identity_order(r.rank(r["self"]));
  if (order.empty()) return r["self"];
  std::swap(order[static_cast<std::size_t>(a)], order[static_cast<std::size_t>(b)]);
  return r.permute(r["self"], order);
}

Value transpose(Rewriter& r) {
  const auto& parameters = r.node->op->schema.parameters;
  std::size_t rank = r.rank(r["self"]);
  return swap_dims(r, r.dim(parameters[1].name, rank), r.dim(parameters[2].name, rank));
}

Value transpose_last(Rewriter& r) {
  std::size_t rank = r.rank(r["self"]);
  return rank < 2 ? r["self"] : swap_dims(r, last_dim(rank) - 1, last_dim(rank));
}

Value reverse_dims(Rewriter& r) {
  Order order = identity_order(r.rank(r["self"]));
  std::reverse(order.begin(), order.end());
  return r.permute(r["self"], order);
}

Value move_dims(Rewriter& r) {
  std::size_t rank = r.rank(r["self"]);
  auto wrapped = [&](std::string_view name) {
    Order dims;
    for (Expr e : r.ints(r[name]))
      dims.push_back(*e.constant() < 0 ? *e.constant() + static_cast<std::int64_t>(rank) : *e.constant());
    return dims;
  };
  if (rank == 0) return r["self"];
  Order source = wrapped("source"), target = wrapped("destination"), order(rank, -1);
  for (std::size_t i = 0; i < source.size(); ++i) order[static_cast<std::size_t>(target[i])] = source[i];
  std::int64_t next = 0;
  for (std::int64_t& slot : order) {
    if (slot >= 0) continue;
    while (std::find(source.begin(), source.end(), next) != source.end()) ++next;
    slot = next++;
  }
  return r.permute(r["self"], order);
}

Value narrow(Rewriter& r) {
  std::int64_t d = r.dim("dim", r.rank(r["self"]));
  Expr start = r.integer(r["start"]), length = r.integer(r["length"]);
  if (start.is_constant() && *start.constant() < 0)
    start = start + r.meta(r["self"]).sizes[static_cast<std::size_t>(d)];
  return r.slice(r["self"], d, start, start + length);
}

/// Dimensions of size 1 that are gone from the result.
Value squeeze(Rewriter& r) {
  const TensorMeta& self = r.meta(r["self"]);
  if (r.result().rank() == self.rank()) return r["self"];
  if (r.node->target == "aten.squeeze.dims") return None{};
  Order dims;
  if (r.has("dim")) {
    dims.push_back(r.dim("dim", self.rank()));
  } else {
    for (std::size_t d = 0; d < self.rank(); ++d)
      if (self.sizes[d].is_constant(1)) dims.push_back(static_cast<std::int64_t>(d));
  }
  return r.call("aten.squeeze.dims", {r["self"], dims_value(dims)});
}

Value permute(Rewriter& r) {
  Order order;
  std::size_t rank = r.rank(r["self"]);
  for (Expr e : r.ints(r["dims"]))
    order.push_back(*e.constant() < 0 ? *e.constant() + static_cast<std::int64_t>(rank) : *e.constant());
  return std::is_sorted(order.begin(), order.end()) ? r["self"] : Value(None{});
}

Value view(Rewriter& r) {
  const TensorMeta& self = r.meta(r["self"]);
  return self.sizes == r.result().sizes && self.strides == r.result().strides ? r["self"] : Value(None{});
}

/// The same as a view, written out dense.
Decomposition copied(Decomposition viewed) {
  return [viewed = std::move(viewed)](Rewriter& r) -> Value {
    return r.call("aten.clone.default", {viewed(r)}, {{"memory_format", ops::MemoryFormat::Contiguous}});
  };
}

/// Copying forms of operators that are kept as views: the same arguments.
Decomposition copy_of(std::string_view view) {
  return [view](Rewriter& r) -> Value {
    return r.call("aten.clone.default", {r.call(view, r.node->args)},
                  {{"memory_format", ops::MemoryFormat::Contiguous}});
  };
}

/// Consecutive slices with the lengths that the results have.
Value pieces(Rewriter& r) {
  const Value& self = r["self"];
  std::int64_t d = r.dim("dim", r.rank(self));
  auto at = static_cast<std::size_t>(d);
  Expr start = 0;
  Values list;
  for (const Value& piece : r.node->meta.value.as_list()) {
    Expr length = piece.as_tensor().sizes[at];
    list.push_back(r.slice(self, d, start, r.module.env->simplify(start + length)));
    start = start + length;
  }
  return list;
}

Value split_at_indices(Rewriter& r) {
  const Value& self = r["self"];
  std::int64_t d = r.dim("dim", r.rank(self));
  Expr start = 0;
  Values list;
  for (Expr end : r.ints(r["indices"])) {
    list.push_back(r.call("aten.slice.Tensor", {self, d, start, end}));
    start = end;
  }
  list.push_back(r.call("aten.slice.Tensor", {self, d, start}));
  return list;
}

/// Borders that are data, read one by one.
Value split_at_data(Rewriter& r) {
  const Value &self = r["self"], &borders = r["tensor_indices_or_sections"];
  std::int64_t d = r.dim("dim", r.rank(self));
  Value start = 0;
  Values list;
  for (std::size_t i = 0; i + 1 < r.node->meta.value.as_list().size(); ++i) {
    Value end = r.call("aten.item.default", {r.call("aten.select.int", {borders, 0, static_cast<std::int64_t>(i)})});
    list.push_back(r.call("aten.slice.Tensor", {self, d, start, end}));
    start = end;
  }
  list.push_back(r.call("aten.slice.Tensor", {self, d, start}));
  return list;
}

Value unbind(Rewriter& r) {
  std::int64_t d = r.dim("dim", r.rank(r["self"]));
  Values list;
  for (std::size_t i = 0; i < r.node->meta.value.as_list().size(); ++i)
    list.push_back(r.call("aten.select.int", {r["self"], d, static_cast<std::int64_t>(i)}));
  return list;
}

Decomposition copied_pieces(Decomposition viewed) {
  return [viewed = std::move(viewed)](Rewriter& r) -> Value {
    Values list = viewed(r).as_list();
    for (Value& piece : list)
      piece = r.call("aten.clone.default", {piece}, {{"memory_format", ops::MemoryFormat::Contiguous}});
    return list;
  };
}

/// As `slice_scatter` of the value with the dimension put back.
Value select_scatter(Rewriter& r) {
  std::int64_t d = r.dim("dim", r.rank(r["self"]));
  Expr index = r.integer(r["index"]);
  if (r.module.env->statically_known_lt(index, 0)) index = index + r.meta(r["self"]).sizes[static_cast<std::size_t>(d)];
  return r.call("aten.slice_scatter.default", {r["self"], r.unsqueeze(r["src"], d), d, index, index + 1});
}

Value broadcast_tensors(Rewriter& r) {
  Values list;
  for (std::size_t i = 0; i < r["tensors"].as_list().size(); ++i)
    list.push_back(r.expand(r["tensors"].as_list()[i], r.result(i).sizes));
  return list;
}

Value meshgrid(Rewriter& r) {
  const Values& tensors = r["tensors"].as_list();
  bool swap = r.has("indexing") && r["indexing"].as_string() == "xy" && tensors.size() >= 2;
  Values list;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::size_t at = swap && i < 2 ? 1 - i : i;
    Exprs sizes(tensors.size(), 1);
    sizes[at] = r.result(i).sizes[at];
    list.push_back(r.expand(r.reshape(tensors[i], sizes), r.result(i).sizes));
  }
  return list;
}

}  // namespace

void decompose_views(DecompositionTable& t) {
  for (std::string_view op :
       {"aten.reshape.default", "aten.reshape_as.default", "aten.view_as.default", "aten._unsafe_view.default",
        "aten.flatten.using_ints", "aten.unflatten.int", "aten.ravel.default", "aten.atleast_1d.default",
        "aten.atleast_2d.default", "aten.atleast_3d.default"})
    t[op] = to_result_sizes;
  t["aten.view.default"] = view;
  t["aten.permute.default"] = permute;
  for (std::string_view op : {"aten.expand_as.default", "aten.broadcast_to.default"}) t[op] = expand_to_result;
  for (std::string_view op : {"aten.transpose.int", "aten.swapaxes.default", "aten.swapdims.default"})
    t[op] = transpose;
  for (std::string_view op :
       {"aten.t.default", "aten.mT.default", "aten.mH.default", "aten.adjoint.default", "aten.matrix_H.default"})
    t[op] = transpose_last;
  t["aten.numpy_T.default"] = reverse_dims;
  for (std::string_view op : {"aten.movedim.int", "aten.movedim.intlist", "aten.moveaxis.int", "aten.moveaxis.intlist"})
    t[op] = move_dims;
  t["aten.narrow.default"] = narrow;
  for (std::string_view op : {"aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims"}) t[op] = squeeze;

  for (std::string_view op : {"aten.split.Tensor", "aten.split.sizes", "aten.split_with_sizes.default",
                              "aten.chunk.default", "aten.tensor_split.sections", "aten.unsafe_split.Tensor",
                              "aten.unsafe_split_with_sizes.default", "aten.unsafe_chunk.default"})
    t[op] = pieces;
  t["aten.tensor_split.indices"] = split_at_indices;
  t["aten.tensor_split.tensor_indices_or_sections"] = split_at_data;
  t["aten.unbind.int"] = unbind;
  for (std::string_view op : {"aten.split_copy.Tensor", "aten.split_with_sizes_copy.default"})
    t[op] = copied_pieces(pieces);
  t["aten.unbind_copy.int"] = copied_pieces(unbind);

  t["aten.view_copy.default"] = copied(to_result_sizes);
  t["aten.transpose_copy.int"] = copied(transpose);
  t["aten.t_copy.default"] = copied(transpose_last);
  t["aten.narrow_copy.default"] = copied(narrow);
  t["aten.permute_copy.default"] = copy_of("aten.permute.default");
  t["aten.expand_copy.default"] = copy_of("aten.expand.default");
  t["aten.slice_copy.Tensor"] = copy_of("aten.slice.Tensor");
  t["aten.select_copy.int"] = copy_of("aten.select.int");
  t["aten.unsqueeze_copy.default"] = copy_of("aten.unsqueeze.default");
  t["aten.squeeze_copy.default"] = copy_of("aten.squeeze.default");
  t["aten.squeeze_copy.dim"] = copy_of("aten.squeeze.dim");
  t["aten.squeeze_copy.dims"] = copy_of("aten.squeeze.dims");
  t["aten.diagonal_copy.default"] = copy_of("aten.diagonal.default");
  t["aten.linalg_diagonal.default"] = [](Rewriter& r) -> Value {
    return r.call("aten.diagonal.default", {r["A"], r["offset"], r["dim1"], r["dim2"]});
  };
  t["aten.as_strided_copy.default"] = copy_of("aten.as_strided.default");
  t["aten.unfold_copy.default"] = copy_of("aten.unfold.default");
  t["aten.view_copy.dtype"] = copy_of("aten.view.dtype");

  t["aten.select_scatter.default"] = select_scatter;
  t["aten.broadcast_tensors.default"] = broadcast_tensors;
  t["aten.meshgrid.default"] = meshgrid;
  t["aten.meshgrid.indexing"] = meshgrid;
}

}  // namespace coil::passes
