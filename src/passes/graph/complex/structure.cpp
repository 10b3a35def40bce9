// Operators that move elements or add them up: linear, so that each part goes through them alone.
#include <algorithm>

#include "ops/shapes/strides.h"
#include "passes/graph/complex/parts.h"

namespace coil::passes {

namespace {

/// Whether an argument holds numbers that go into the result, and is no index or mask.
bool is_source(const ops::Parameter& p) { return p.name == "src" || p.name == "source" || p.name == "values"; }

/// The call with every complex argument's real part, or with the imaginary ones (real tensors beside them, in lists or
/// written into complex ones, count as zero there).
Values arguments_of_part(ComplexRewriter& r, bool imaginary) {
  auto part = [&](const Value& v, bool is_number) -> Value {
    const bool tensor = v.is<fx::Node*>() && v.as_node()->is_tensor();
    if (!tensor || (!r.is_complex_node(v) && !is_number)) return v;
    const Parts p = r.whole(v);
    return imaginary ? p.im : p.re;
  };
  auto any_complex = [&](const Values& list) {
    return std::any_of(list.begin(), list.end(), [&](const Value& v) { return r.is_complex_node(v); });
  };
  const bool makes_complex = r.node->is_tensor() && is_complex(r.result().dtype);
  Values args;
  for (std::size_t i = 0; i < r.node->args.size(); ++i) {
    const Value& v = r.node->args[i];
    const auto* list = v.get_if<Values>();
    if (!list || !any_complex(*list)) {
      // The first is real only where `dtype` makes it complex.
      args.push_back(part(v, is_source(r.node->op->schema.parameters[i]) || (i == 0 && makes_complex)));
      continue;
    }
    Values items;
    for (const Value& item : *list) items.push_back(part(item, true));
    args.push_back(std::move(items));
  }
  return args;
}

Made part_wise(ComplexRewriter& r) {
  if (auto made = r.of_real_parts()) return *made;
  Values results[2];
  for (int imaginary : {0, 1}) {
    Values args = arguments_of_part(r, imaginary);
    const auto& parameters = r.node->op->schema.parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].name == "dtype") args[i] = None{};  // the parts have theirs
      if (parameters[i].name == "value" && imaginary && !args[i].is<fx::Node*>() && !args[i].is_none())
        args[i] = 0;  // of padding: a real number
    }
    fx::Node* made = r.call(r.node->target, std::move(args));
    if (made->is_tensor())
      results[imaginary] = {made};
    else
      for (std::size_t i = 0; i < made->meta.value.as_list().size(); ++i)
        results[imaginary].push_back(r.item(made, static_cast<std::int64_t>(i)));
  }
  if (r.node->is_tensor() && !is_complex(r.result().dtype)) return results[0].at(0);  // copied into real numbers
  if (r.node->is_tensor()) return Parts{results[0].at(0), results[1].at(0)};
  std::vector<Parts> list;
  for (std::size_t i = 0; i < results[0].size(); ++i) list.push_back({results[0][i], results[1][i]});
  return list;
}

/// Reads by stride from memory in which the parts of a number lie side by side.
Made as_strided(ComplexRewriter& r) {
  const Value& self = r.node->args[0];
  const TensorMeta layout = r.meta(self);
  if (!ops::shapes::is_non_overlapping_and_dense(*r.module.env, layout))
    r.refuse("of a complex tensor that is not dense is not compiled");
  const Value pairs = r.interleaved(r.parts(self), layout).value;
  Exprs sizes = r.ints(r["size"]), strides = r.ints(r["stride"]);
  const Expr first = r.has("storage_offset") ? r.integer(r["storage_offset"]) - layout.offset : Expr(0);
  for (Expr& s : strides) s = s * 2;
  sizes.push_back(2);
  strides.push_back(1);
  return r.apart(r.call("aten.as_strided.default", {pairs, sizes, strides, r.module.env->simplify(first * 2)}));
}

/// Elements that data choose: of both parts side by side, so that they are looked for once.
Parts selected(ComplexRewriter& r, const Parts& z, const Value& indices) {
  return r.apart(r.call("aten.index.Tensor", {r.call("aten.stack.default", {Values{z.re, z.im}, -1}), indices}));
}

Made index(ComplexRewriter& r) {
  const Values& indices = r["indices"].as_list();
  const bool masked = std::ranges::any_of(indices, [&](const Value& v) {
    return v.is<fx::Node*>() && (r.dtype(v) == DType::Bool || r.dtype(v) == DType::U8);
  });
  if (!masked) return part_wise(r);
  return selected(r, r.whole(r["self"]), r["indices"]);
}

/// The parts may lie otherwise than the complex tensor did: they are copied where they have no such view.
Made viewed(ComplexRewriter& r) {
  if (auto made = r.of_real_parts()) return *made;
  return on_both(r.parts(r["self"]), [&](const Value& part) { return r.reshape(part, r.result().sizes); });
}

Made masked_select(ComplexRewriter& r) {
  const Value& mask = r["mask"];
  // Where the mask is true, in the sizes of both.
  const Value everywhere =
      r.call("aten.mul.Tensor", {mask, r.full(r.meta(r["self"]).sizes, true, DType::Bool, r.device())});
  return selected(r, r.filled(r.parts(r["self"]), r.meta(everywhere).sizes, r.part_type()), Values{everywhere});
}

constexpr std::string_view kPartWise[] = {
    "aten.unsqueeze.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.permute.default",
    "aten.transpose.int",
    "aten.swapaxes.default",
    "aten.swapdims.default",
    "aten.t.default",
    "aten.mT.default",
    "aten.numpy_T.default",
    "aten.movedim.int",
    "aten.movedim.intlist",
    "aten.moveaxis.int",
    "aten.expand.default",
    "aten.expand_as.default",
    "aten.broadcast_to.default",
    "aten.slice.Tensor",
    "aten.select.int",
    "aten.narrow.default",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.ravel.default",
    "aten.split.Tensor",
    "aten.split_with_sizes.default",
    "aten.split.sizes",
    "aten.chunk.default",
    "aten.unbind.int",
    "aten.tensor_split.sections",
    "aten.unfold.default",
    "aten.diagonal.default",
    "aten.linalg_diagonal.default",
    "aten.cat.default",
    "aten.concat.default",
    "aten.concatenate.default",
    "aten.stack.default",
    "aten.hstack.default",
    "aten.vstack.default",
    "aten.roll.default",
    "aten.flip.default",
    "aten.fliplr.default",
    "aten.flipud.default",
    "aten.rot90.default",
    "aten.repeat.default",
    "aten.tile.default",
    "aten.repeat_interleave.self_int",
    "aten.index.Tensor",
    "aten.index_select.default",
    "aten.gather.default",
    "aten.take_along_dim.default",
    "aten.diag_embed.default",
    "aten.tril.default",
    "aten.triu.default",
    "aten.slice_scatter.default",
    "aten.select_scatter.default",
    "aten.slice_backward.default",
    "aten.select_backward.default",
    "aten.diagonal_backward.default",
    "aten.unfold_backward.default",
    "aten._unsafe_index.Tensor",
    "aten._unsafe_index_put.default",
    "aten.reflection_pad1d.default",
    "aten.reflection_pad2d.default",
    "aten.replication_pad1d.default",
    "aten.replication_pad2d.default",
    "aten.select_copy.int",
    "aten.slice_copy.Tensor",
    "aten.detach_copy.default",
    "aten.index_put.default",
    "aten.copy.default",
    "aten.constant_pad_nd.default",
    "aten.fft_fftshift.default",
    "aten.fft_ifftshift.default",
    "aten.alias_copy.default",
    "aten.block_diag.default",
    "aten.broadcast_tensors.default",
    "aten.cartesian_prod.default",
    "aten.channel_shuffle.default",
    "aten.column_stack.default",
    "aten.diag.default",
    "aten.diagflat.default",
    "aten.diagonal_copy.default",
    "aten.diagonal_scatter.default",
    "aten.diff.default",
    "aten.dsplit.int",
    "aten.dsplit.array",
    "aten.dstack.default",
    "aten.expand_copy.default",
    "aten.gradient.scalarint",
    "aten.hsplit.int",
    "aten.hsplit.array",
    "aten.im2col.default",
    "aten.index_copy.default",
    "aten.masked_scatter.default",
    "aten.meshgrid.default",
    "aten.meshgrid.indexing",
    "aten.narrow_copy.default",
    "aten.pad.default",
    "aten.pixel_shuffle.default",
    "aten.pixel_unshuffle.default",
    "aten.put.default",
    "aten.repeat_interleave.self_Tensor",
    "aten.scatter.src",
    "aten.scatter_add.default",
    "aten.split_with_sizes_copy.default",
    "aten.squeeze_copy.default",
    "aten.squeeze_copy.dim",
    "aten.squeeze_copy.dims",
    "aten.sum_to_size.default",
    "aten.t_copy.default",
    "aten.take.default",
    "aten.tensor_split.indices",
    "aten.tensor_split.tensor_indices_or_sections",
    "aten.transpose_copy.int",
    "aten.unbind_copy.int",
    "aten.unfold_copy.default",
    "aten.unsafe_chunk.default",
    "aten.unsafe_split.Tensor",
    "aten.unsqueeze_copy.default",
    "aten.vsplit.int",
    "aten.vsplit.array",
    "aten.atleast_1d.default",
    "aten.atleast_2d.default",
    "aten.atleast_3d.default",
    "aten.trapezoid.dx",
    "aten.trapz.dx",
    "aten.cumulative_trapezoid.dx",
    "aten.sum.default",
    "aten.sum.dim_IntList",
    "aten.mean.default",
    "aten.mean.dim",
    "aten.cumsum.default",
    "aten.trace.default",
    "aten.view_copy.default",
    "aten.permute_copy.default",
};

}  // namespace

void add_complex_structure(ComplexRules& t) {
  for (std::string_view name : kPartWise) t[name] = part_wise;
  for (std::string_view name : {"aten.view.default", "aten._unsafe_view.default", "aten.view_as.default",
                                "aten.reshape.default", "aten.reshape_as.default"})
    t[name] = viewed;
  t["aten.index.Tensor"] = index;
  t["aten.masked_select.default"] = masked_select;
  t["aten.as_strided.default"] = t["aten.as_strided_copy.default"] = as_strided;
}

}  // namespace coil::passes
