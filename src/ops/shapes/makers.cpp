// New tensors put together from others: concatenation, padding, repetition, reversal, grids.
#include <algorithm>

#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

constexpr std::string_view kCat = R"(
aten::cat(Tensor[] tensors, int dim=0) -> Tensor
aten::concat(Tensor[] tensors, int dim=0) -> Tensor
aten::concatenate(Tensor[] tensors, int dim=0) -> Tensor
)";
constexpr std::string_view kPads = R"(
aten::reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor
aten::reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor
aten::reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor
aten::replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor
aten::replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor
aten::replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor
)";
constexpr std::string_view kFlips = R"(
aten::flip(Tensor self, int[] dims) -> Tensor
aten::fliplr(Tensor self) -> Tensor
aten::flipud(Tensor self) -> Tensor
)";
constexpr std::string_view kMeshgrid = R"(
aten::meshgrid(Tensor[] tensors) -> Tensor[]
aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]
)";

std::vector<TensorMeta> list_of(const Call& call) {
  std::vector<TensorMeta> list;
  for (const Value& item : call[0].as_list()) list.push_back(item.as_tensor());
  if (list.empty()) refuse(call, "takes at least one tensor");
  return list;
}

/// An empty tensor of rank 1, which `cat` skips whatever the rank of the others.
bool is_skipped(const TensorMeta& t) { return t.rank() == 1 && t.sizes[0].is_constant(0); }

TensorMeta concatenate(const Call& call, const std::vector<TensorMeta>& list, std::int64_t dim) {
  Promotion promotion;
  std::optional<MemoryFormat> format;
  const TensorMeta* first = nullptr;
  for (const TensorMeta& t : list) {
    promotion.add(t);
    MemoryFormat f = suggest_format(call.env, t);
    format = !format || *format == f ? f : MemoryFormat::Contiguous;
    if (t.rank() == 0) refuse(call, "takes tensors with dimensions");
    if (!first && !is_skipped(t)) first = &t;
  }
  if (!first) first = &list.front();
  std::size_t d = wrap_dim(call, dim, first->rank());
  Exprs sizes = first->sizes;
  sizes[d] = 0;
  for (const TensorMeta& t : list) {
    if (is_skipped(t)) continue;
    if (t.rank() != first->rank()) refuse(call, "ranks {} and {} differ", t.rank(), first->rank());
    for (std::size_t i = 0; i < t.rank(); ++i)
      if (i != d) require_equal(call, t.sizes[i], first->sizes[i], fmt::format("sizes in dimension {}", i));
    sizes[d] += t.sizes[d];
  }
  TensorMeta made = in_format(call.env, *first, std::move(sizes), format.value());
  made.dtype = promotion.result();
  return made;
}

Value cat(const Call& call) { return concatenate(call, list_of(call), number(call, "dim")); }

TensorMeta with_dim(TensorMeta t, std::size_t at) {
  Expr stride = at < t.rank() ? t.sizes[at] * t.strides[at] : Expr(1);
  t.sizes.insert(t.sizes.begin() + at, 1);
  t.strides.insert(t.strides.begin() + at, stride);
  return t;
}

Value stack(const Call& call) {
  auto list = list_of(call);
  std::size_t rank = list[0].rank(), d = wrap_dim(call, number(call, "dim"), rank + 1);
  for (const TensorMeta& t : list)
    if (t.rank() != rank || !all_equal(call.env, t.sizes, list[0].sizes))
      refuse(call, "sizes {} and {} differ", show(list[0].sizes), show(t.sizes));
  if (d < rank) {  // as eager: concatenate, then view
    TensorMeta joined = concatenate(call, list, static_cast<std::int64_t>(d));
    Exprs sizes = list[0].sizes;
    sizes.insert(sizes.begin() + d, static_cast<std::int64_t>(list.size()));
    auto strides = view_strides(call.env, joined, sizes);
    COIL_CHECK(strides.has_value(), "stack");
    joined.sizes = sizes, joined.strides = *strides;
    return joined;
  }
  for (TensorMeta& t : list) t = with_dim(t, d);
  return concatenate(call, list, static_cast<std::int64_t>(d));
}

Value vstack(const Call& call) {
  auto list = list_of(call);
  for (TensorMeta& t : list)
    while (t.rank() < 2) t = with_dim(t, 0);
  return concatenate(call, list, 0);
}

Value hstack(const Call& call) {
  auto list = list_of(call);
  for (TensorMeta& t : list)
    if (t.rank() == 0) t = with_dim(t, 0);
  return concatenate(call, list, list[0].rank() == 1 ? 0 : 1);
}

Exprs padded_sizes(const Call& call, const Exprs& pad) {
  const TensorMeta& self = call.tensor(0);
  if (pad.size() % 2 != 0 || pad.size() / 2 > self.rank())
    refuse(call, "{} paddings do not fit a tensor of rank {}", pad.size(), self.rank());
  Exprs sizes = self.sizes;
  for (std::size_t i = 0; i < pad.size() / 2; ++i) {
    Expr& size = sizes[self.rank() - 1 - i];
    size = call.env.simplify(size + pad[2 * i] + pad[2 * i + 1]);
    if (size.is_constant() && *size.constant() < 0)
      refuse(call, "the paddings cut away more than sizes {}", show(self.sizes));
  }
  return sizes;
}

/// Eager cuts first, and then pads: what a negative padding takes away must be there.
void check_cuts(const Call& call, const Exprs& pad) {
  const TensorMeta& self = call.tensor(0);
  for (std::size_t i = 0; i < pad.size(); ++i) {
    const bool is_cut = pad[i].is_constant() && *pad[i].constant() < 0;
    if (is_cut && call.env.statically_known_lt(self.sizes[self.rank() - 1 - i / 2] + pad[i], 0))
      refuse(call, "the padding {} cuts away more than sizes {}", *pad[i].constant(), show(self.sizes));
  }
}

Value constant_pad(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  Exprs pad = call["pad"].as_ints();
  Exprs sizes = padded_sizes(call, pad);
  check_cuts(call, pad);
  bool only_cuts = std::all_of(pad.begin(), pad.end(), [](Expr p) { return p.is_constant() && *p.constant() <= 0; });
  if (only_cuts) {  // eager clones the slice
    TensorMeta cut = self;
    cut.sizes = sizes;
    return like_in_format(call.env, cut, std::nullopt);
  }
  return in_format(call.env, self, std::move(sizes), suggest_format(call.env, self));
}

TensorMeta edge_pad(const Call& call, const Exprs& pad, bool reflect) {
  const TensorMeta& self = call.tensor(0);
  std::size_t n = pad.size() / 2;
  if (self.rank() != n + 1 && self.rank() != n + 2)
    refuse(call, "takes rank {} or {}, not {}", n + 1, n + 2, self.rank());
  for (std::size_t i = 0; reflect && i < pad.size(); ++i)
    if (call.env.statically_known_le(self.sizes[self.rank() - 1 - i / 2], pad[i]))
      refuse(call, "a padding is not less than the dimension it reflects, sizes {}", show(self.sizes));
  MemoryFormat format = self.rank() == n + 2 ? suggest_format(call.env, self) : MemoryFormat::Contiguous;
  return in_format(call.env, self, padded_sizes(call, pad), format);
}

Value edge_pad_argument(const Call& call) {
  return edge_pad(call, call["padding"].as_ints(), call.op.schema.target.starts_with("aten.reflection"));
}

Value pad(const Call& call) {
  const std::string& mode = call["mode"].as_string();
  if (mode == "constant") return constant_pad(call);
  const std::size_t ends = call["pad"].as_list().size(), rank = call.tensor(0).rank();
  if (ends < 2 || ends > 6 || ends % 2 != 0 || (rank != ends / 2 + 1 && rank != ends / 2 + 2))
    refuse(call, "{} numbers do not pad a tensor of {} dimensions by `{}`", ends, rank, mode);
  if (mode == "circular") return dense(call.env, call.tensor(0), padded_sizes(call, call["pad"].as_ints()));
  if (mode != "reflect" && mode != "replicate") refuse(call, "there is no padding mode `{}`", mode);
  return edge_pad(call, call["pad"].as_ints(), mode == "reflect");
}

Value repeat_by(const Call& call, Exprs repeats) {
  const TensorMeta& self = call.tensor(0);
  if (repeats.size() < self.rank()) refuse(call, "{} repeats for a tensor of rank {}", repeats.size(), self.rank());
  std::size_t lead = repeats.size() - self.rank();
  for (std::size_t d = 0; d < self.rank(); ++d) repeats[lead + d] = repeats[lead + d] * self.sizes[d];
  return dense(call.env, self, std::move(repeats));
}

Value repeat(const Call& call) { return repeat_by(call, call["repeats"].as_ints()); }

Value tile(const Call& call) {
  Exprs repeats = call["dims"].as_ints();
  while (repeats.size() < call.tensor(0).rank()) repeats.insert(repeats.begin(), 1);
  return repeat_by(call, std::move(repeats));
}

Value repeat_interleave(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  Expr repeats = call["repeats"].as_int();
  const Value* told = given(call, "output_size");
  const auto check = [&](Expr size) {
    if (told) require_equal(call, told->as_int(), size, "`output_size`");
    return size;
  };
  if (!given(call, "dim")) return dense(call.env, self, {check(numel(call.env, self) * repeats)});
  Exprs sizes = self.sizes;
  std::size_t d = dim_argument(call, self.rank());
  if (sizes.empty()) sizes.push_back(1);
  sizes[d] = check(sizes[d] * repeats);
  return dense(call.env, self, std::move(sizes));
}

Value flip(const Call& call) {
  dims_argument(call, call.tensor(0).rank(), call.args.size() > 1 ? "dims" : "");
  return like_in_format(call.env, call.tensor(0), std::nullopt);
}

/// As eager does it: flips, then a transpose for odd quarter turns.
Value rot90(const Call& call) {
  const auto dims = call["dims"].as_ints();
  if (dims.size() != 2) fail("rot90 turns in a plane of two dimensions, not {}", dims.size());
  TensorMeta out = like_in_format(call.env, call.tensor(0), std::nullopt);
  const std::size_t a = wrap_dim(call, *dims[0].constant(), out.rank()),
                    b = wrap_dim(call, *dims[1].constant(), out.rank());
  if (a == b) fail("rot90 turns in a plane of two different dimensions");
  if (*call["k"].as_int().constant() % 2 != 0)
    std::swap(out.sizes[a], out.sizes[b]), std::swap(out.strides[a], out.strides[b]);
  return out;
}

Value roll(const Call& call) {
  const auto dims = dims_argument(call, call.tensor(0).rank(), "dims");
  if (call.tensor(0).rank() == 0 && !dims.empty()) refuse(call, "a number has no dimension {} to roll", dims[0]);
  if (const std::size_t shifts = call["shifts"].as_list().size(); !dims.empty() && shifts != dims.size())
    refuse(call, "shifts and dimensions must align: {} and {}", shifts, dims.size());
  return dense(call.env, call.tensor(0), call.tensor(0).sizes);
}

Value meshgrid(const Call& call) {
  auto list = list_of(call);
  const Value* indexing = given(call, "indexing");
  bool swap = indexing && indexing->as_string() == "xy" && list.size() >= 2;
  if (swap) std::swap(list[0], list[1]);
  Exprs grid;
  for (const TensorMeta& t : list) {
    if (t.rank() > 1) refuse(call, "takes tensors of rank 0 and 1");
    grid.push_back(t.rank() == 1 ? t.sizes[0] : Expr(1));
  }
  Values results;
  for (std::size_t i = 0; i < list.size(); ++i) {
    Exprs sizes(grid.size(), 1);
    sizes[i] = grid[i];
    TensorMeta viewed = list[i];
    viewed.strides = view_strides(call.env, list[i], sizes).value();
    viewed.sizes = sizes;
    results.push_back(expanded(call, viewed, grid));
  }
  if (swap) std::swap(results[0], results[1]);
  return results;
}

Value broadcast_tensors(const Call& call) {
  auto list = list_of(call);
  std::vector<Exprs> sizes;
  for (const TensorMeta& t : list) sizes.push_back(t.sizes);
  Exprs common = broadcast(call, sizes);
  Values results;
  for (const TensorMeta& t : list) results.push_back(expanded(call, t, common));
  return results;
}

Value at_least(const Call& call, std::size_t rank) {
  TensorMeta t = call.tensor(0);
  while (t.rank() < rank) t = with_dim(t, t.rank() == 2 ? 2 : 0);
  return t;
}

}  // namespace

void register_makers() {
  define_each(kCat, cat);
  define("aten::stack(Tensor[] tensors, int dim=0) -> Tensor", stack);
  define("aten::vstack(Tensor[] tensors) -> Tensor", vstack);
  define("aten::hstack(Tensor[] tensors) -> Tensor", hstack);
  define("aten::pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor", pad);
  define("aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", constant_pad);
  define_each(kPads, edge_pad_argument);
  define("aten::repeat(Tensor self, SymInt[] repeats) -> Tensor", repeat);
  define("aten::tile(Tensor self, SymInt[] dims) -> Tensor", tile);
  define_each(R"(
aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor
)",
              repeat_interleave);
  define_each(kFlips, flip);
  define("aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor", rot90);
  define("aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", roll);
  define_each(kMeshgrid, meshgrid);
  define("aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]", broadcast_tensors);
  define("aten::atleast_1d(Tensor self) -> Tensor", [](const Call& call) { return at_least(call, 1); });
  define("aten::atleast_2d(Tensor self) -> Tensor", [](const Call& call) { return at_least(call, 2); });
  define("aten::atleast_3d(Tensor self) -> Tensor", [](const Call& call) { return at_least(call, 3); });
}

}  // namespace coil::ops::shapes
