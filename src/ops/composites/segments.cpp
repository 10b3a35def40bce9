// Rows in bags and segments, each reduced to one; and the shifts and frequencies that go with transforms.
#include "ops/composites/steps.h"

namespace coil::ops::composites {

namespace {

/// For each of `n` rows, which segment it is in: how many of the sorted `starts` are not behind it, less one.
Value segment_of_rows(Steps& s, const Value& starts, const Expr& n) {
  return s.sub(s.call("aten.searchsorted.Tensor", {s.to(starts, DType::I64), s.iota(n)}, {{"right", true}}), 1);
}

/// Segments' sums of rows; `segment` has one number for each row.
Value sums(Steps& s, const Value& rows, const Value& segment, const Expr& segments) {
  Exprs sizes = s.sizes(rows);
  sizes[0] = segments;
  return s.call("aten.index_add.default", {s.full(sizes, 0, s.dtype(rows)), 0, segment, rows});
}

/// Segments' products or extremes of rows, beginning with `initial`.
Value reduced_rows(Steps& s, const Value& rows, Value segment, const Expr& segments, const char* how, double initial) {
  Exprs sizes = s.sizes(rows);
  for (std::size_t d = 1; d < sizes.size(); ++d) segment = s.unsqueeze(segment, -1);
  segment = s.call("aten.expand.default", {segment, sizes});
  sizes[0] = segments;
  return s.call("aten.scatter_reduce.two", {s.full(sizes, initial, s.dtype(rows)), 0, segment, rows, how});
}

/// Which row of the table each greatest element comes from, of equal ones the first; 0 where a bag has none.
Value rows_of_greatest(Steps& s, const Value& rows, const Value& made, const Value& bag, const Value& counts) {
  const Value &indices = s["indices"],
              hit = s.call("aten.eq.Tensor", {rows, s.call("aten.index_select.default", {made, 0, bag})});
  const Expr n = s.size(indices, 0), bags = s.size(made, 0), last = s.env.simplify(sym::max(n - 1, 0));
  const Value place = s.where(hit, s.unsqueeze(s.iota(n), 1), s.full({}, last, DType::I64));
  Exprs sizes = s.sizes(made);
  const Value into = s.call("aten.expand.default", {s.unsqueeze(bag, -1), s.sizes(rows)});
  const Value first =
      s.call("aten.scatter_reduce.two", {s.full(sizes, last, DType::I64), 0, into, place, std::string("amin")});
  const Value flat = s.reshape(first, {s.env.simplify(bags * sizes[1])});
  const Value chosen = s.reshape(s.call("aten.index_select.default", {s.to(indices, DType::I64), 0, flat}), sizes);
  return s.where(s.unsqueeze(s.call("aten.gt.Scalar", {counts, 0}), 1), chosen, s.full({}, 0, DType::I64));
}

/// Whether eager's host kernel adds rows up without noting the bag of each.
bool adds_without_bags(Steps& s, bool pads) {
  const TensorMeta& weight = s.meta(s["weight"]);
  auto dense = [&](Expr stride) { return s.env.statically_known_equal(stride, 1); };
  return !pads && (weight.dtype == DType::F32 || weight.dtype == DType::F16) && dense(weight.strides[1]) &&
         (!s.has("per_sample_weights") || dense(s.meta(s["per_sample_weights"]).strides[0]));
}

/// A row of the table for each index, reduced over bags; `offsets` say where bags begin.
Value embedding_bag(Steps& s) {
  enum { Sum, Mean, Max };
  const Value &weight = s["weight"], &indices = s["indices"];
  Value offsets = s["offsets"];
  if (s.flag("include_last_offset")) offsets = s.slice(offsets, 0, 0, s.env.simplify(s.size(offsets, 0) - 1));
  const Expr bags = s.size(offsets, 0), n = s.size(indices, 0);
  const std::int64_t mode = s.number("mode");
  const DType type = compute_dtype(s.dtype(weight));
  const Value bag = segment_of_rows(s, offsets, n);
  Value rows = s.to(s.call("aten.index_select.default", {weight, 0, indices}), type), ones = s.full({n}, 1, type);
  if (s.has("per_sample_weights")) rows = s.mul(rows, s.unsqueeze(s.to(s["per_sample_weights"], type), 1));
  std::int64_t padding = -1;
  for (const Parameter& p : s.op.schema.parameters)
    if (p.name == "padding_idx" && s.has("padding_idx")) padding = s.number("padding_idx");
  if (padding >= 0) {
    const Value kept = s.call("aten.ne.Scalar", {indices, padding});
    rows = s.where(s.unsqueeze(kept, 1), rows, s.full({}, mode == Max ? -kInfinity : 0, type));
    ones = s.to(kept, type);
  }
  const Value counts = sums(s, ones, bag, bags);
  // What the operator notes for its gradient, in the sizes that it has on the device.
  const bool on_host = s.meta(offsets).device.is_host();
  Value made, noted = s.full({on_host ? bags : Expr(0)}, 0, DType::I64);
  if (mode == Max) {
    made = reduced_rows(s, rows, bag, bags, "amax", -kInfinity);
    if (!n.is_constant(0)) noted = rows_of_greatest(s, rows, made, bag, counts);
    made = s.where(s.unsqueeze(s.call("aten.gt.Scalar", {counts, 0}), 1), made, s.full({}, 0, type));
  } else {
    made = sums(s, rows, bag, bags);
    if (mode == Mean) made = s.div(made, s.unsqueeze(s.call("aten.clamp_min.default", {counts, 1}), 1));
  }
  const Value bag_of_each =
      on_host && mode == Sum && adds_without_bags(s, padding >= 0) ? s.full({0}, 0, DType::I64) : bag;
  const DType places = on_host ? s.dtype(offsets) : s.dtype(indices);
  return Values{s.to(made, s.dtype(weight)), s.to(bag_of_each, places), s.to(counts, places), s.to(noted, places)};
}

/// A table whose rows among `indices` are at most `max_norm` long.
Value embedding_renorm(Steps& s) {
  const Value& table = s["self"];
  const DType type = compute_dtype(s.dtype(table));
  const Value hit = s.call("aten.index_put.default",
                           {s.full({s.size(table, 0)}, false, DType::Bool),
                            Values{s.reshape(s["indices"], {s.env.simplify(sym::product(s.sizes(s["indices"])))})},
                            s.full({}, true, DType::Bool)});
  const Value norm =
      s.call("aten.linalg_vector_norm.default", {s.to(table, type), s["norm_type"], Steps::list({1}), true});
  const Value factor = s.div(s.full({}, s["max_norm"], type), s.add(norm, 1e-7));
  const Value longer =
      s.call("aten.logical_and.default", {s.unsqueeze(hit, 1), s.call("aten.gt.Scalar", {norm, s["max_norm"]})});
  return s.to(s.where(longer, s.mul(s.to(table, type), factor), s.to(table, type)), s.dtype(table));
}

/// Along the first dimension, by lengths or by the places where segments begin (and the last one ends).
Value segment_reduce(Steps& s) {
  const Value& data = s["data"];
  if (s.number("axis") != 0 || s.has("initial") || s.has("indices"))
    s.refuse("is compiled for axis 0, without `initial` and `indices`");
  const Value ends = s.has("lengths") ? s.call("aten.cumsum.default", {s["lengths"], 0})
                                      : s.slice(s["offsets"], 0, 1, std::numeric_limits<std::int64_t>::max());
  if (s.rank(ends) != 1) s.refuse("takes one row of lengths");
  const Expr segments = s.size(ends, 0), n = s.size(data, 0);
  const Value segment = s.call("aten.searchsorted.Tensor", {s.to(ends, DType::I64), s.iota(n)}, {{"right", true}});
  const std::string how = s["reduce"].as_string();
  if (how == "sum") return sums(s, data, segment, segments);
  if (how == "max") return reduced_rows(s, data, segment, segments, "amax", -kInfinity);
  if (how == "min") return reduced_rows(s, data, segment, segments, "amin", kInfinity);
  if (how == "prod") return reduced_rows(s, data, segment, segments, "prod", 1);
  Value counts = sums(s, s.full({n}, 1, s.dtype(data)), segment, segments);
  for (std::size_t d = 1; d < s.rank(data); ++d) counts = s.unsqueeze(counts, -1);
  return s.div(sums(s, data, segment, segments), counts);
}

Value shifted(Steps& s, bool forward) {
  const Value& x = s["self"];
  std::vector<std::int64_t> dims;
  if (s.has("dim"))
    dims = s.numbers("dim");
  else
    for (std::size_t d = 0; d < s.rank(x); ++d) dims.push_back(static_cast<std::int64_t>(d));
  Exprs by;
  for (std::int64_t d : dims)
    by.push_back(s.env.simplify(forward ? sym::floor_div(s.size(x, d), 2) : sym::floor_div(s.size(x, d) + 1, 2)));
  return s.call("aten.roll.default", {x, by, Steps::list(dims)});
}

Value fftshift(Steps& s) { return shifted(s, true); }
Value ifftshift(Steps& s) { return shifted(s, false); }

/// 0, 1, …, then for a two-sided transform the negative ones, over n d.
Value frequencies(Steps& s, bool onesided) {
  const std::int64_t n = s.number("n");
  const DType type = s.has("dtype") ? s["dtype"].as_dtype() : DType::F32;
  Value k = s.iota(onesided ? n / 2 + 1 : n, type);
  if (!onesided) k = s.where(s.call("aten.ge.Scalar", {k, (n + 1) / 2}), s.sub(k, n), k);
  return s.mul(k, 1.0 / (static_cast<double>(n) * s.real("d")));
}

Value fftfreq(Steps& s) { return frequencies(s, false); }
Value rfftfreq(Steps& s) { return frequencies(s, true); }

constexpr Composite kSegments[] = {
    {"aten::embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
     "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, Tensor, "
     "Tensor)",
     embedding_bag},
    {"aten::embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int "
     "mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, "
     "Tensor, Tensor)",
     embedding_bag},
    {"aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
     "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> "
     "(Tensor, Tensor, Tensor, Tensor)",
     embedding_bag},
    {"aten::_embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, "
     "int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int "
     "padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
     embedding_bag},
    {"aten::segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? "
     "offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
     segment_reduce},
    {"aten::embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
     embedding_renorm},
    {"aten::fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor", fftshift},
    {"aten::fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor", ifftshift},
    {"aten::fft_fftfreq(int n, float d=1.0, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor",
     fftfreq},
    {"aten::fft_rfftfreq(int n, float d=1.0, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     rfftfreq},
};

}  // namespace

std::span<const Composite> segments() { return kSegments; }

}  // namespace coil::ops::composites
