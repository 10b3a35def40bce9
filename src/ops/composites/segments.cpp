// Rows in bags and segments, each reduced to one; and the shifts and frequencies that go with transforms.
#include <optional>

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

enum BagMode { Sum, Mean, Max };

/// The index that counts for nothing, if there is one. Where it may be left out it is counted from the end when it is
/// below 0; elsewhere a number below 0 means that there is none.
std::optional<Expr> padding_of(const Steps& s) {
  if (!s.takes("padding_idx") || !s.has("padding_idx")) return std::nullopt;
  const std::int64_t padding = s.number("padding_idx");
  if (padding >= 0) return Expr(padding);
  if (s.op.schema.target != "aten.embedding_bag.padding_idx") return std::nullopt;
  return s.env.simplify(s.size(s["weight"], 0) + padding);
}

/// One value, or a row, for each index: `number` where the index is the padding.
Value without_padding(Steps& s, const Value& values, double number) {
  const std::optional<Expr> padding = padding_of(s);
  if (!padding) return values;
  Value kept = s.call("aten.ne.Scalar", {s["indices"], *padding});
  if (s.rank(values) == 2) kept = s.unsqueeze(kept, 1);
  return s.where(kept, values, s.full({}, number, s.dtype(values)));
}

/// Bags of rows of a table, and what their gradient is made of.
struct Bags {
  Value of_row, counts, places;
};

/// For each bag and column, the index of the first row that has the bag's maximum; 0 where a bag is empty.
Value places_of_maxima(Steps& s, const Value& rows, const Value& made, const Value& bag, const Value& indices) {
  const Expr n = s.size(rows, 0);
  const Value is_maximum = s.call("aten.eq.Tensor", {rows, s.call("aten.index_select.default", {made, 0, bag})});
  const Value number = s.where(is_maximum, s.unsqueeze(s.iota(n), 1), s.full({}, n, DType::I64));
  const Value first = reduced_rows(s, number, bag, s.size(made, 0), "amin", std::numeric_limits<std::int32_t>::max());
  // A row behind the last one stands for none.
  const Value of_place = s.cat(Values{s.to(indices, DType::I64), s.full({1}, 0, DType::I64)}, 0);
  return s.call("aten.index.Tensor", {of_place, Values{s.call("aten.clamp_max.default", {first, n})}});
}

/// Eager on the CPU has a way for sums that needs no bag of each row, and then gives none.
bool sums_without_bags(const Steps& s) {
  const TensorMeta& weight = s.meta(s["weight"]);
  if (s.number("mode") != Sum || padding_of(s) || !weight.strides[1].is_constant(1)) return false;
  if (s.has("per_sample_weights") && !s.meta(s["per_sample_weights"]).strides[0].is_constant(1)) return false;
  return weight.dtype == DType::F32 || weight.dtype == DType::F16;
}

/// A result behind the bags themselves, as it was recorded: what nobody reads has other sizes in other versions of
/// torch. Without a record, of `rows` rows, which are at most one more than there are.
Value as_recorded(Steps& s, std::size_t result, const Value& made, const Expr& rows) {
  const TensorMeta* recorded = s.recorded(result);
  const DType type = recorded ? recorded->dtype : s.runs_on_host() ? s.dtype(s["offsets"]) : s.dtype(s["indices"]);
  const Expr wanted = recorded ? recorded->sizes[0] : rows;
  if (wanted == s.size(made, 0)) return s.to(made, type);
  if (wanted.is_constant(0)) return s.full({0}, 0, type);
  const Value more = s.full({s.env.simplify(wanted - s.size(made, 0))}, 0, type);
  return s.cat(Values{s.to(made, type), more}, 0);
}

/// The three results behind the bags themselves.
Values results_of(Steps& s, const Value& made, const Bags& bags) {
  const bool host = s.runs_on_host(), maxima = s.number("mode") == Max;
  const Expr n = s.size(bags.of_row, 0), count = s.size(made, 0);
  const Expr counts = host ? count : s.size(s["offsets"], 0);
  return {as_recorded(s, 1, bags.of_row, host && sums_without_bags(s) ? Expr(0) : n),
          as_recorded(s, 2, bags.counts, counts),
          as_recorded(s, 3, maxima ? bags.places : bags.counts, maxima || host ? count : Expr(0))};
}

/// A row of the table for each index, reduced over bags; `offsets` say where bags begin.
Value embedding_bag(Steps& s) {
  const Value &weight = s["weight"], &indices = s["indices"];
  Value offsets = s["offsets"];
  if (s.flag("include_last_offset")) offsets = s.slice(offsets, 0, 0, s.env.simplify(s.size(offsets, 0) - 1));
  const Expr bags = s.size(offsets, 0), n = s.size(indices, 0);
  const std::int64_t mode = s.number("mode");
  const DType type = compute_dtype(s.dtype(weight));
  const Value bag = segment_of_rows(s, offsets, n);
  Value rows = s.to(s.call("aten.index_select.default", {weight, 0, indices}), type), ones = s.full({n}, 1, type);
  if (s.has("per_sample_weights")) rows = s.mul(rows, s.unsqueeze(s.to(s["per_sample_weights"], type), 1));
  rows = without_padding(s, rows, mode == Max ? -kInfinity : 0);
  ones = without_padding(s, ones, 0);
  const Value counts = sums(s, ones, bag, bags);
  Value made, places;
  if (mode == Max) {
    made = reduced_rows(s, rows, bag, bags, "amax", -kInfinity);
    places = places_of_maxima(s, rows, made, bag, indices);
    made = s.where(s.unsqueeze(s.call("aten.gt.Scalar", {counts, 0}), 1), made, s.full({}, 0, type));
  } else {
    made = sums(s, rows, bag, bags);
    if (mode == Mean) made = s.div(made, s.unsqueeze(s.call("aten.clamp_min.default", {counts, 1}), 1));
  }
  Values results = results_of(s, made, {bag, counts, places});
  results.insert(results.begin(), s.to(made, s.dtype(weight)));
  return results;
}

/// The bag of each row. Eager on the CPU hands over none for some sums.
Value bag_of_rows(Steps& s) {
  const Value& known = s["offset2bag"];
  const Expr n = s.size(s["indices"], 0);
  return !s.takes("offsets") || s.size(known, 0) == n ? s.to(known, DType::I64) : segment_of_rows(s, s["offsets"], n);
}

/// The gradient of a table whose bags were maxima: to the row that each maximum was of.
Value bag_gradient_of_maxima(Steps& s, const Value& grad, const Value& zeros) {
  const Value places = s.to(s["maximum_indices"], DType::I64);
  const Value bags = s.slice(s["bag_size"], 0, 0, s.size(places, 0));
  const Value some = s.unsqueeze(s.call("aten.gt.Scalar", {bags, 0}), 1), none = s.full({}, 0, s.dtype(grad));
  const Value index = s.call("aten.clamp_min.default", {places, 0});
  return s.call("aten.scatter_add.default", {zeros, 0, index, s.where(some, grad, none)});
}

/// The index by whose uses eager divides the gradient of each row, on the CPU: for the k-th of the different indices,
/// the k-th element of all indices in order, which is another one where an index before it is used twice.
Value index_that_eager_counts(Steps& s, const Value& uses, const Value& indices) {
  const Value in_order = s.item(s.call("aten.sort.default", {indices}), 0);
  const Value used = s.to(s.call("aten.gt.Scalar", {uses, 0}), DType::I64);
  const Value ordinal = s.sub(s.call("aten.cumsum.default", {used, 0}), 1);
  const Value of_row = s.call("aten.index_select.default", {ordinal, 0, indices});
  return s.call("aten.index_select.default", {in_order, 0, of_row});
}

Value embedding_bag_backward(Steps& s) {
  if (s.takes("sparse") && s.flag("sparse")) s.refuse("has no sparse gradients");
  const Value &indices = s["indices"], &gradient = s["grad"];
  const DType type = compute_dtype(s.dtype(gradient));
  const Value grad = s.to(gradient, type), zeros = s.full({s.integer(s["num_weights"]), s.size(grad, 1)}, 0, type);
  const std::int64_t mode = s.number("mode");
  if (mode == Max) return s.to(bag_gradient_of_maxima(s, grad, zeros), s.dtype(gradient));
  const Value bag = bag_of_rows(s);
  Value rows = s.call("aten.index_select.default", {grad, 0, bag});
  const auto divide = [&](const Value& by) { rows = s.div(rows, s.unsqueeze(s.to(by, type), 1)); };
  if (mode == Mean) {
    const Value counts = s.call("aten.clamp_min.default", {s["bag_size"], 1});
    divide(s.call("aten.index_select.default", {counts, 0, bag}));
  }
  if (s.flag("scale_grad_by_freq")) {
    const Value ones = s.full({s.size(indices, 0)}, 1, type), uses = sums(s, ones, indices, s.size(zeros, 0));
    const Value of = s.runs_on_host() ? index_that_eager_counts(s, uses, indices) : indices;
    divide(s.call("aten.index_select.default", {uses, 0, of}));
  }
  if (s.has("per_sample_weights")) rows = s.mul(rows, s.unsqueeze(s.to(s["per_sample_weights"], type), 1));
  rows = without_padding(s, rows, 0);
  return s.to(s.call("aten.index_add.default", {zeros, 0, indices, rows}), s.dtype(gradient));
}

/// The gradient of the weight of each row, where bags were sums.
Value bag_weights_backward(Steps& s) {
  const Value &indices = s["indices"], &gradient = s["grad"];
  const DType type = compute_dtype(s.dtype(gradient));
  const Value of_bag = s.call("aten.index_select.default", {s.to(gradient, type), 0, bag_of_rows(s)});
  const Value rows = s.to(s.call("aten.index_select.default", {s["weight"], 0, indices}), type);
  Value made = s.sum(s.mul(of_bag, rows), {1});
  made = without_padding(s, made, 0);
  return s.to(made, s.dtype(gradient));
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

/// For each row, the number of its segment among those of all leading indices (sequences of `ends` that begin with 0);
/// one more than the last for rows behind all segments.
Value segments_of_rows(Steps& s, const Value& ends, const Expr& lead, const Expr& rows) {
  const Expr each = s.size(ends, -1);
  const Value table = s.reshape(s.to(ends, DType::I64), {lead, each});
  const Value row = s.call("aten.expand.default", {s.iota(rows), Exprs{lead, rows}});
  const Value place = s.call("aten.searchsorted.Tensor", {table, s.contiguous(row)}, {{"right", true}});
  const Value first = s.unsqueeze(s.mul(s.iota(lead), each), 1);
  const Value all = s.full({}, s.env.simplify(lead * each), DType::I64);
  return s.where(s.call("aten.lt.Scalar", {place, each}), s.add(place, first), all);
}

/// What segments begin with: what is asked for, or what leaves any number as it is.
double beginning_of_segments(const Steps& s, const std::string& how) {
  if (s.has("initial")) return s.real("initial");
  if (how == "max") return -kInfinity;
  if (how == "min") return kInfinity;
  return how == "prod" ? 1 : 0;
}

/// Rows of which each is reduced with those of its segment, and one more for those that are in none.
Value reduced_segments(Steps& s, const Value& rows, const Value& segment, const Expr& segments) {
  const std::string how = s["reduce"].as_string();
  const double initial = beginning_of_segments(s, how);
  if (how == "max" || how == "min")
    return reduced_rows(s, rows, segment, segments, how == "max" ? "amax" : "amin", initial);
  if (how == "prod") return reduced_rows(s, rows, segment, segments, "prod", initial);
  const Value sum = s.add(sums(s, rows, segment, segments), initial);
  if (how == "sum") return sum;
  Value counts = sums(s, s.full({s.size(rows, 0)}, 1, s.dtype(rows)), segment, segments);
  for (std::size_t d = 1; d < s.rank(rows); ++d) counts = s.unsqueeze(counts, -1);
  const Value mean = s.div(sum, counts);
  return s.has("initial") ? s.where(s.call("aten.gt.Scalar", {counts, 0}), mean, s.full({}, initial, s.dtype(rows)))
                          : mean;
}

/// Along a dimension, by lengths or by the places where segments begin (and the last one ends), which are there for
/// each index of the dimensions before it.
Value segment_reduce(Steps& s) {
  const Value& data = s["data"];
  if (s.has("indices")) s.refuse("is compiled without `indices`");
  const auto axis = static_cast<std::size_t>(s.wrapped(s.number("axis"), s.rank(data)));
  const Value& given = s.has("lengths") ? s["lengths"] : s["offsets"];
  if (s.rank(given) != axis + 1) s.refuse("takes lengths for each index of the dimensions before its axis");
  const auto last = static_cast<std::int64_t>(axis);
  const Value ends = s.has("lengths") ? s.call("aten.cumsum.default", {given, last})
                                      : s.slice(given, last, 1, std::numeric_limits<std::int64_t>::max());
  const Exprs& sizes = s.sizes(data);
  const auto begin = sizes.begin() + last;
  const Expr lead = s.env.simplify(sym::product(std::span(sizes).first(axis)));
  Exprs rows(begin + 1, sizes.end()), made(sizes.begin(), begin);
  rows.insert(rows.begin(), s.env.simplify(lead * *begin));
  made.push_back(s.size(ends, -1));
  made.insert(made.end(), begin + 1, sizes.end());
  const Expr segments = s.env.simplify(lead * s.size(ends, -1));
  const Value segment = s.reshape(segments_of_rows(s, ends, lead, *begin), {rows[0]});
  const Value reduced = reduced_segments(s, s.reshape(data, rows), segment, s.env.simplify(segments + 1));
  return s.reshape(s.slice(reduced, 0, 0, segments), made);
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
    {"aten::_embedding_bag_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, Tensor bag_size, "
     "Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, bool sparse, Tensor? "
     "per_sample_weights, int padding_idx=-1) -> Tensor",
     embedding_bag_backward},
    {"aten::_embedding_bag_dense_backward(Tensor grad, Tensor indices, Tensor offset2bag, Tensor bag_size, Tensor "
     "maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, Tensor? per_sample_weights, int "
     "padding_idx=-1) -> Tensor",
     embedding_bag_backward},
    {"aten::_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor offsets, "
     "Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor",
     bag_weights_backward},
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
