// Conversions in terms of _to_copy and clone, or nothing where nothing changes; dropout where it changes nothing.
#include "ops/shapes/strides.h"
#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

namespace {

Value self(Rewriter& r) { return r.node->args[0]; }

/// `self` in the result's type, on its device, in the layout that is asked for: a new tensor.
Value converted(Rewriter& r) {
  const TensorMeta &from = r.meta(r["self"]), &to = r.result();
  std::vector<std::pair<std::string, Value>> named;
  if (from.dtype != to.dtype) named.emplace_back("dtype", to.dtype);
  if (from.device != to.device) {
    named.emplace_back("device", to.device);
    if (r.has("non_blocking") && r.flag("non_blocking")) named.emplace_back("non_blocking", true);
  }
  if (r.has("memory_format") && r["memory_format"] != Value(ops::MemoryFormat::Preserve))
    named.emplace_back("memory_format", r["memory_format"]);
  if (named.empty() || (named.size() == 1 && named[0].first == "memory_format"))
    return r.call("aten.clone.default", {r["self"]}, named);
  return r.call("aten._to_copy.default", {r["self"]}, named);
}

Value convert(Rewriter& r) {
  const bool same = r.meta(r["self"]) == r.result();
  return same && !r.flag("copy") ? r["self"] : converted(r);
}

Value to_copy(Rewriter& r) {
  // Tracing under vmap makes tensors of numbers so.
  if (!r["self"].is<fx::Node*>() || !r["self"].as_node()->is_tensor())
    return r.full(r.result().sizes, r["self"], r.result().dtype, r.result().device);
  bool casts = r.meta(r["self"]).dtype != r.result().dtype || r.meta(r["self"]).device != r.result().device;
  return casts ? Value(None{}) : converted(r);
}

Value contiguous(Rewriter& r) {
  auto* format = r["memory_format"].get_if<ops::MemoryFormat>();
  if (ops::shapes::is_contiguous(*r.module.env, r.meta(r["self"]), *format)) return r["self"];
  return r.call("aten.clone.default", {r["self"]}, {{"memory_format", *format}});
}

Value clone(Rewriter& r) { return r.call("aten.clone.default", {r["self"]}); }

/// The functional form of `copy_`: `src` in the type and sizes of `self`.
Value copy(Rewriter& r) {
  if (!ops::shapes::is_non_overlapping_and_dense(*r.module.env, r.result())) return None{};  // gaps stay as they are
  Value src = r["src"];
  if (src.is<fx::Node*>() && r.meta(src).device != r.result().device) {
    std::vector<std::pair<std::string, Value>> named = {{"dtype", r.result().dtype}, {"device", r.result().device}};
    if (r.flag("non_blocking")) named.emplace_back("non_blocking", true);
    src = r.call("aten._to_copy.default", {src}, named);
  }
  src = r.expand(r.to(src, r.result().dtype), r.result().sizes);
  return src == r["src"] ? Value(r.call("aten.clone.default", {src})) : src;
}

Value fill(Rewriter& r) {
  const TensorMeta& made = r.result();
  if (!r.has("value")) return r.full(made.sizes, 0, made.dtype, made.device);
  const Value& value = r["value"];
  if (!value.is<fx::Node*>() || !value.as_node()->is_tensor())
    return r.full(made.sizes, value, made.dtype, made.device);
  return r.call("aten.clone.default", {r.expand(r.to(value, made.dtype), made.sizes)},
                {{"memory_format", ops::MemoryFormat::Contiguous}});
}

/// The places whose indices are equal. In a matrix that wraps, the diagonal begins again one row below its end.
Value fill_diagonal(Rewriter& r) {
  const TensorMeta& made = r.result();
  const std::size_t rank = made.rank();
  auto index = [&](std::size_t d) {
    Exprs sizes(rank, 1);
    sizes[d] = made.sizes[d];
    return r.reshape(r.iota(made.sizes[d]), sizes);
  };
  Value first = index(0);
  if (rank == 2 && r.flag("wrap")) first = r.call("aten.remainder.Scalar", {first, made.sizes[1] + 1});
  Value on_it = r.call("aten.eq.Tensor", {first, index(1)});
  for (std::size_t d = 2; d < rank; ++d)
    on_it = r.call("aten.logical_and.default", {on_it, r.call("aten.eq.Tensor", {first, index(d)})});
  return r.where(on_it, r.full({}, r["fill_value"], made.dtype, made.device), r["self"]);
}

/// Where nothing is dropped; lowering draws masks.
Value dropout(Rewriter& r) { return r.flag("train") && r.real("p") != 0.0 ? Value(None{}) : self(r); }

Value native_dropout(Rewriter& r) {
  if ((!r.has("train") || r.flag("train")) && r.real("p") != 0.0) return None{};
  const Value copy = r.call("aten.clone.default", {r["input"]});
  return Values{copy, r.full(r.result(1).sizes, true, DType::Bool, r.result(1).device)};
}

}  // namespace

void decompose_casts(DecompositionTable& t) {
  for (std::string_view op :
       {"aten.to.dtype", "aten.to.device", "aten.to.dtype_layout", "aten.to.other", "aten.type_as.default"})
    t[op] = convert;
  t["aten._to_copy.default"] = to_copy;
  t["aten.contiguous.default"] = contiguous;
  for (std::string_view op :
       {"aten.alias.default", "aten.detach.default", "aten.lift.default", "aten.lift_fresh.default",
        "aten.positive.default", "aten.resolve_conj.default", "aten.resolve_neg.default"})
    t[op] = self;
  for (std::string_view op : {"aten.lift_fresh_copy.default", "aten.alias_copy.default", "aten.detach_copy.default"})
    t[op] = clone;
  t["aten.copy.default"] = copy;
  for (std::string_view op : {"aten.fill.Scalar", "aten.fill.Tensor", "aten.zero.default"}) t[op] = fill;
  t["coil.fill_diagonal.default"] = fill_diagonal;
  for (std::string_view op : {"aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default",
                              "aten.feature_alpha_dropout.default"})
    t[op] = dropout;
  t["aten.native_dropout.default"] = native_dropout;
}

}  // namespace coil::passes
