// Concatenation, padding and repetition in terms of cat, constant_pad_nd, expand, clone, flip and slices.
// Kept for lowering: cat, constant_pad_nd, reflection_pad*, replication_pad*, flip.
#include <fmt/format.h>

#include <algorithm>

#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

namespace {

Value cat(Rewriter& r, Values tensors, std::int64_t dim) {
  return r.call("aten.cat.default", {std::move(tensors), dim});
}

/// `cat` with the legacy empty tensors left out, which count for the type alone.
Value simpler_cat(Rewriter& r) {
  Values kept;
  const Values& all = r["tensors"].as_list();
  for (const Value& t : all) {
    const TensorMeta& m = r.meta(t);
    if (!(m.rank() == 1 && m.sizes[0].is_constant(0) && r.result().rank() != 1)) kept.push_back(t);
  }
  if (kept.empty() || kept.size() == all.size()) {
    if (r.node->target == "aten.cat.default") return None{};
    return cat(r, all, r.number("dim"));
  }
  for (Value& t : kept) t = r.to(t, r.result().dtype);
  return cat(r, std::move(kept), r.number("dim"));
}

Value stack(Rewriter& r) {
  std::int64_t d = r.dim("dim", r.result().rank());
  Values parts;
  for (const Value& t : r["tensors"].as_list()) parts.push_back(r.unsqueeze(t, d));
  return cat(r, std::move(parts), d);
}

Decomposition stack_along(std::int64_t dim, std::size_t least_rank) {
  return [=](Rewriter& r) -> Value {
    Values parts;
    for (const Value& t : r["tensors"].as_list()) {
      Value part = t;
      while (r.rank(part) < least_rank) part = r.unsqueeze(part, 0);
      parts.push_back(part);
    }
    return cat(r, parts, r.rank(parts[0]) == 1 ? 0 : dim);
  };
}

/// Each padded dimension wrapped around: its end, itself, its beginning.
Value circular_pad(Rewriter& r) {
  Value x = r["self"];
  Exprs pad = r.ints(r["pad"]);
  for (std::size_t i = 0; i < pad.size() / 2; ++i) {
    auto d = static_cast<std::int64_t>(r.rank(x) - 1 - i);
    Expr size = r.meta(x).sizes[static_cast<std::size_t>(d)], before = pad[2 * i], after = pad[2 * i + 1];
    if (!before.is_constant() || !after.is_constant()) r.refuse("circular padding takes plain numbers");
    if (*before.constant() < 0) x = r.slice(x, d, -before, size);
    if (*after.constant() < 0) x = r.slice(x, d, 0, r.meta(x).sizes[static_cast<std::size_t>(d)] + after);
    Values parts;
    if (*before.constant() > 0) parts.push_back(r.slice(x, d, size - before, size));
    parts.push_back(x);
    if (*after.constant() > 0) parts.push_back(r.slice(x, d, 0, after));
    if (parts.size() > 1) x = cat(r, parts, d);
  }
  return x == r["self"] ? Value(r.call("aten.clone.default", {x})) : x;
}

Value pad(Rewriter& r) {
  const std::string& mode = r["mode"].as_string();
  if (mode == "constant")
    return r.call("aten.constant_pad_nd.default", {r["self"], r["pad"], r.has("value") ? r["value"] : Value(0)});
  if (mode == "circular") return circular_pad(r);
  std::size_t n = r["pad"].as_list().size() / 2;
  constexpr std::string_view kReflect[] = {"aten.reflection_pad1d.default", "aten.reflection_pad2d.default",
                                           "aten.reflection_pad3d.default"};
  constexpr std::string_view kReplicate[] = {"aten.replication_pad1d.default", "aten.replication_pad2d.default",
                                             "aten.replication_pad3d.default"};
  if (n < 1 || n > 3) r.refuse(fmt::format("{} paddings of mode {}", n, mode));
  return r.call((mode == "reflect" ? kReflect : kReplicate)[n - 1], {r["self"], r["pad"]});
}

Value constant_pad(Rewriter& r) {
  Exprs pad = r.ints(r["pad"]);
  bool none = std::all_of(pad.begin(), pad.end(), [](Expr p) { return p.is_constant(0); });
  return none ? Value(r.call("aten.clone.default", {r["self"]})) : Value(None{});
}

/// Every dimension expanded by a new one before it, which the copy joins with it.
Value repeated(Rewriter& r, Exprs times) {
  Value x = r["self"];
  Exprs sizes = r.meta(x).sizes;
  while (times.size() > sizes.size()) sizes.insert(sizes.begin(), 1);
  while (times.size() < sizes.size()) times.insert(times.begin(), 1);
  Exprs apart, spread, joined;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (!times[d].is_constant(1)) apart.push_back(1), spread.push_back(times[d]);
    apart.push_back(sizes[d]), spread.push_back(sizes[d]);
    joined.push_back(times[d] * sizes[d]);
  }
  Value wide = r.expand(r.reshape(x, apart), spread);
  return r.reshape(r.call("aten.clone.default", {wide}, {{"memory_format", ops::MemoryFormat::Contiguous}}), joined);
}

Value repeat(Rewriter& r) { return repeated(r, r.ints(r["repeats"])); }
Value tile(Rewriter& r) { return repeated(r, r.ints(r["dims"])); }

Value repeat_interleave(Rewriter& r) {
  Value x = r["self"];
  Expr times = r.integer(r["repeats"]);
  if (!r.has("dim") || r.rank(x) == 0) x = r.reshape(x, {r.meta(x).numel()});
  auto d = static_cast<std::size_t>(r.has("dim") ? r.dim("dim", r.rank(x)) : 0);
  Exprs sizes = r.meta(x).sizes, spread = sizes;
  spread.insert(spread.begin() + static_cast<std::ptrdiff_t>(d) + 1, times);
  sizes[d] = sizes[d] * times;
  Value wide = r.expand(r.unsqueeze(x, static_cast<std::int64_t>(d) + 1), spread);
  return r.reshape(r.call("aten.clone.default", {wide}, {{"memory_format", ops::MemoryFormat::Contiguous}}), sizes);
}

Value roll(Rewriter& r) {
  Value x = r["self"];
  Exprs shifts = r.ints(r["shifts"]), dims = r.ints(r["dims"]);
  bool flat = dims.empty();
  // Nothing has no place to be cut at: where that may be, the whole operator is an index modulo the size.
  const Exprs& sizes = r.meta(x).sizes;
  for (Expr size : sizes)
    if (!size.is_constant(0) && !r.module.env->statically_known_le(1, size)) return None{};
  if (flat) {
    x = r.reshape(x, {r.meta(x).numel()});
    dims = {0};
  }
  const Value from = x;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    std::int64_t d = *dims[i].constant();
    if (d < 0) d += static_cast<std::int64_t>(r.rank(x));
    Expr size = r.meta(x).sizes[static_cast<std::size_t>(d)];
    if (size.is_constant(0)) continue;
    Expr start = r.module.env->simplify(sym::mod(-shifts[i], size));
    if (start.is_constant(0)) continue;
    x = cat(r, {r.slice(x, d, start, size), r.slice(x, d, 0, start)}, d);
  }
  if (x == from) x = r.call("aten.clone.default", {x});
  return flat ? r.reshape(x, r.result().sizes) : x;
}

Decomposition flip_dim(std::int64_t dim) {
  return [dim](Rewriter& r) -> Value { return r.call("aten.flip.default", {r["self"], dims_value({dim})}); };
}

/// A quarter turn from the first dimension of `dims` towards the second, k times.
Value rot90(Rewriter& r) {
  const std::int64_t k = ((r.number("k") % 4) + 4) % 4;
  const Exprs dims = r.ints(r["dims"]);
  auto flip = [&](const Exprs& over) { return r.call("aten.flip.default", {r["self"], over}); };
  if (k == 0) return r.call("aten.clone.default", {r["self"]});
  if (k == 2) return flip(dims);
  return r.call("aten.transpose.int", {flip({dims[k == 1 ? 1 : 0]}), dims[0], dims[1]});
}

}  // namespace

void decompose_makers(DecompositionTable& t) {
  for (std::string_view op : {"aten.cat.default", "aten.concat.default", "aten.concatenate.default"})
    t[op] = simpler_cat;
  t["aten.stack.default"] = stack;
  t["aten.vstack.default"] = stack_along(0, 2);
  t["aten.hstack.default"] = stack_along(1, 1);
  t["aten.pad.default"] = pad;
  t["aten.constant_pad_nd.default"] = constant_pad;
  t["aten.repeat.default"] = repeat;
  t["aten.tile.default"] = tile;
  t["aten.repeat_interleave.self_int"] = repeat_interleave;
  t["aten.roll.default"] = roll;
  t["aten.rot90.default"] = rot90;
  t["aten.fliplr.default"] = flip_dim(1);
  t["aten.flipud.default"] = flip_dim(0);
}

}  // namespace coil::passes
