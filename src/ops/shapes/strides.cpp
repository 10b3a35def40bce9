#include "ops/shapes/strides.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace coil::ops::shapes {

namespace {

/// What a size contributes to the stride of the dimension before it.
Expr extent(Expr size) { return size.is_constant(0) ? Expr(1) : size; }

/// Max(1, size) of an archive's strides, as this code writes it.
Expr without_max(Expr e) {
  if (e.is_constant()) return e;
  return sym::rewrite(e, [](Expr x) -> std::optional<Expr> {
    if (x.kind() != sym::Kind::Max) return std::nullopt;
    auto operands = x.operands();
    if (operands.size() == 2 && operands[0].is_constant(1)) return operands[1];
    if (operands.size() == 2 && operands[1].is_constant(1)) return operands[0];
    return std::nullopt;
  });
}

constexpr std::array<std::size_t, 4> kChannelsLast = {0, 2, 3, 1};
constexpr std::array<std::size_t, 5> kChannelsLast3d = {0, 2, 3, 4, 1};

std::span<const std::size_t> channels_last_order(std::size_t rank) {
  if (rank == 4) return kChannelsLast;
  return kChannelsLast3d;
}

/// Dense in the order given, dimensions of size 1 aside.
bool is_dense_in_order(Env& env, const TensorMeta& t, std::span<const std::size_t> order) {
  Expr expected = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    Expr size = t.sizes[order[i]];
    if (is_zero(env, size)) return true;
    if (size.is_constant(1)) continue;
    if (!same_stride(env, t.strides[order[i]], expected)) {
      if (size.is_constant() || !env.statically_known_equal(size, 1)) return false;
      continue;
    }
    expected *= size;
  }
  return true;
}

bool has_zero(Env& env, std::span<const Expr> sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [&](Expr s) { return is_zero(env, s); });
}

/// `is_channels_last_strides_2d_s4` and its 3d form (c10/core/MemoryFormat.h).
bool looks_channels_last(Env& env, const TensorMeta& t) {
  auto order = channels_last_order(t.rank());
  if (t.strides[1].is_constant(0)) return false;
  Expr least = 0;
  for (std::size_t i = order.size(); i-- > 0;) {
    std::size_t d = order[i];
    if (is_zero(env, t.sizes[d])) return false;
    if (!least.is_constant(0) && !same_stride(env, t.strides[d], least) && stride_less(env, t.strides[d], least))
      return false;
    if (d == 0 && same_stride(env, least, t.strides[1])) return false;
    least = t.strides[d];
    if (!t.sizes[d].is_constant(1)) least *= t.sizes[d];
  }
  return true;
}

/// TensorIterator's order of dimensions, innermost first (`reorder_dimensions`).
std::vector<std::size_t> loop_order(Env& env, std::span<const Expr> sizes, std::span<const Operand> operands) {
  std::size_t rank = sizes.size();
  auto compare = [&](std::size_t a, std::size_t b) {
    for (const Operand& o : operands) {
      Expr x = o.strides[a], y = o.strides[b];
      if (x.is_constant(0) || y.is_constant(0)) continue;
      if (same_stride(env, x, y)) {
        if (!equal(env, sizes[a], sizes[b]) && stride_less(env, sizes[b], sizes[a])) return 1;
        continue;
      }
      return stride_less(env, x, y) ? -1 : 1;
    }
    return 0;
  };
  std::vector<std::size_t> order(rank);
  for (std::size_t i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  for (std::size_t i = 1; i < rank; ++i) {
    std::size_t at = i;
    for (std::size_t j = i; j-- > 0;) {
      int c = compare(order[j], order[at]);
      if (c > 0) {
        std::swap(order[j], order[at]);
        at = j;
      } else if (c < 0) {
        break;
      }
    }
  }
  return order;
}

}  // namespace

Exprs permuted_strides(Env&, std::span<const Expr> sizes, std::span<const std::size_t> order) {
  Exprs strides(sizes.size());
  Expr next = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = next;
    next *= extent(sizes[order[i]]);
  }
  return strides;
}

Exprs dense_strides(Env&, std::span<const Expr> sizes) {
  Exprs strides(sizes.size());
  Expr next = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = next;
    next *= extent(sizes[i]);
  }
  return strides;
}

Exprs format_strides(Env& env, std::span<const Expr> sizes, MemoryFormat format) {
  if (format == MemoryFormat::ChannelsLast || format == MemoryFormat::ChannelsLast3d) {
    const std::size_t rank = format == MemoryFormat::ChannelsLast ? 4 : 5;
    if (sizes.size() != rank) fail("channels last is a layout of tensors of rank {}, not {}", rank, sizes.size());
    return permuted_strides(env, sizes, channels_last_order(sizes.size()));
  }
  return dense_strides(env, sizes);
}

TensorMeta dense(Env& env, DType dtype, Device device, Exprs sizes) {
  for (Expr& size : sizes)
    if (!size.is_constant()) size = env.simplify(size);
  TensorMeta t{dtype, device, std::move(sizes), {}, 0};
  t.strides = dense_strides(env, t.sizes);
  return t;
}

TensorMeta dense(Env& env, const TensorMeta& like, Exprs sizes) {
  return dense(env, like.dtype, like.device, std::move(sizes));
}

TensorMeta in_format(Env& env, const TensorMeta& like, Exprs sizes, MemoryFormat format) {
  TensorMeta t = dense(env, like, std::move(sizes));
  t.strides = format_strides(env, t.sizes, format);
  return t;
}

bool same_stride(Env& env, Expr a, Expr b) {
  if (a == b) return true;
  if (a.is_constant() && b.is_constant()) return false;
  a = without_max(a);
  b = without_max(b);
  return a == b || env.statically_known_equal(a, b);
}

bool stride_less(Env& env, Expr a, Expr b) {
  if (a.is_constant() && b.is_constant()) return *a.constant() < *b.constant();
  a = without_max(a);
  b = without_max(b);
  if (a == b) return false;
  if (env.statically_known_lt(a, b)) return true;
  if (env.statically_known_le(b, a)) return false;
  if (env.statically_known_multiple_of(b, a)) return true;
  if (env.statically_known_multiple_of(a, b)) return false;
  Expr less = sym::lt(a, b);
  if (sym::has_symbol_of(less, sym::SymbolKind::Unbacked)) return false;
  return env.decide(less, "order of strides");
}

std::vector<std::int64_t> memory_order(Env& env, const Exprs& strides) {
  std::vector<std::int64_t> order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return stride_less(env, strides[static_cast<std::size_t>(b)], strides[static_cast<std::size_t>(a)]);
  });
  return order;
}

std::vector<std::int64_t> inverse_order(const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return back;
}

bool is_contiguous(Env& env, const TensorMeta& t) {
  std::vector<std::size_t> order(t.rank());
  std::iota(order.begin(), order.end(), 0);
  return has_zero(env, t.sizes) || is_dense_in_order(env, t, order);
}

bool is_contiguous(Env& env, const TensorMeta& t, MemoryFormat format) {
  switch (format) {
    case MemoryFormat::Contiguous: return is_contiguous(env, t);
    case MemoryFormat::Preserve: return is_non_overlapping_and_dense(env, t);
    case MemoryFormat::ChannelsLast: return t.rank() == 4 && is_dense_in_order(env, t, kChannelsLast);
    case MemoryFormat::ChannelsLast3d: return t.rank() == 5 && is_dense_in_order(env, t, kChannelsLast3d);
  }
  return false;
}

bool is_non_overlapping_and_dense(Env& env, const TensorMeta& t) {
  if (is_contiguous(env, t)) return true;
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < t.rank(); ++d)
    if (!t.sizes[d].is_constant(1)) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (same_stride(env, t.strides[a], t.strides[b])) return false;
    return stride_less(env, t.strides[b], t.strides[a]);
  });
  return is_dense_in_order(env, t, order);
}

MemoryFormat suggest_format(Env& env, const TensorMeta& t) {
  if (t.rank() == 4 && looks_channels_last(env, t)) return MemoryFormat::ChannelsLast;
  if (t.rank() == 5 && looks_channels_last(env, t)) return MemoryFormat::ChannelsLast3d;
  return MemoryFormat::Contiguous;
}

Exprs elementwise_strides(Env& env, std::span<const Expr> sizes, std::span<const Operand> operands) {
  auto as_tensor = [](const Operand& o) { return TensorMeta{DType::F32, {}, o.sizes, o.strides, 0}; };
  bool same_shape = std::all_of(operands.begin(), operands.end(), [&](const Operand& o) {
    return std::equal(o.sizes.begin(), o.sizes.end(), sizes.begin(), sizes.end());
  });
  auto all = [&](MemoryFormat format) {
    return std::all_of(operands.begin(), operands.end(),
                       [&](const Operand& o) { return is_contiguous(env, as_tensor(o), format); });
  };
  if (operands.empty()) return dense_strides(env, sizes);
  if (same_shape) {
    if (all(MemoryFormat::Contiguous)) return dense_strides(env, sizes);
    if (sizes.size() == 4 && all(MemoryFormat::ChannelsLast))
      return format_strides(env, sizes, MemoryFormat::ChannelsLast);
    const Operand& first = operands.front();
    bool same_strides = std::all_of(operands.begin(), operands.end(), [&](const Operand& o) {
      return std::equal(o.strides.begin(), o.strides.end(), first.strides.begin(),
                        [&](Expr a, Expr b) { return same_stride(env, a, b); });
    });
    if (same_strides && is_non_overlapping_and_dense(env, as_tensor(first))) return first.strides;
  }
  // The general way: strides of the operands as they are walked, 0 where an operand is repeated.
  std::vector<Operand> walked;
  for (const Operand& o : operands) {
    Operand w{Exprs(sizes.begin(), sizes.end()), Exprs(sizes.size(), 0)};
    std::size_t lead = sizes.size() - o.sizes.size();
    for (std::size_t d = 0; d < o.sizes.size(); ++d)
      if (!o.sizes[d].is_constant(1) || sizes[lead + d].is_constant(1)) w.strides[lead + d] = o.strides[d];
    walked.push_back(std::move(w));
  }
  auto order = loop_order(env, sizes, walked);
  std::reverse(order.begin(), order.end());
  return permuted_strides(env, sizes, order);
}

Exprs preserved_strides(Env& env, const TensorMeta& t) {
  if (is_non_overlapping_and_dense(env, t)) return t.strides;
  // at::infer_dense_strides: the order of TensorIterator over this one operand, dimensions of size 1 included.
  std::vector<Operand> self{{t.sizes, t.strides}};
  auto order = loop_order(env, t.sizes, self);
  std::reverse(order.begin(), order.end());
  return permuted_strides(env, t.sizes, order);
}

TensorMeta like_in_format(Env& env, const TensorMeta& t, std::optional<MemoryFormat> format) {
  TensorMeta made = t;
  made.offset = 0;
  made.strides = format.value_or(MemoryFormat::Preserve) == MemoryFormat::Preserve
                     ? preserved_strides(env, t)
                     : format_strides(env, t.sizes, *format);
  return made;
}

namespace {

/// Whether two strides are equal, by a guard where that is not known.
bool decide_same(Env& env, Expr a, Expr b) {
  const Expr same = sym::eq(without_max(a), without_max(b));
  if (a.is_constant() && b.is_constant()) return a == b;
  return !sym::has_symbol_of(same, sym::SymbolKind::Unbacked) && env.decide(same, "strides of a view");
}

}  // namespace

std::optional<Exprs> view_strides(Env& env, const TensorMeta& t, std::span<const Expr> sizes, bool exists) {
  if (t.rank() == 0) return Exprs(sizes.size(), 1);
  if (has_zero(env, t.sizes)) {
    if (std::equal(sizes.begin(), sizes.end(), t.sizes.begin(), t.sizes.end())) return t.strides;
    return dense_strides(env, sizes);
  }
  bool symbolic = std::any_of(t.sizes.begin(), t.sizes.end(), [](Expr s) { return !s.is_constant(); });
  if (symbolic && is_contiguous(env, t)) return dense_strides(env, sizes);
  Exprs strides(sizes.size());
  auto smaller = [&](Expr a, Expr b) {
    if (a.is_constant() && b.is_constant()) return *a.constant() < *b.constant();
    return !equal(env, a, b) && stride_less(env, a, b);
  };
  std::size_t left = sizes.size();  // dimensions of the view still to do
  Expr base = t.strides.back(), chunk = 1, viewed = 1;
  for (std::size_t d = t.rank(); d-- > 0;) {
    chunk *= t.sizes[d];
    const auto goes_on = [&](Expr stride) {
      return same_stride(env, stride, chunk * base) || (exists && decide_same(env, stride, chunk * base));
    };
    bool chunk_ends = d == 0 || (!t.sizes[d - 1].is_constant(1) && !goes_on(t.strides[d - 1]));
    if (!chunk_ends) continue;
    // (A size that is all that is left of the chunk may be 1.)
    auto fits = [&](Expr size) {
      return size.is_constant(1) || equal(env, env.simplify(viewed * size), chunk) || smaller(viewed, chunk);
    };
    while (left > 0 && fits(sizes[left - 1])) {
      --left;
      strides[left] = viewed * base;
      viewed = env.simplify(viewed * sizes[left]);
    }
    if (!equal(env, viewed, chunk)) return std::nullopt;
    if (d > 0) {
      base = t.strides[d - 1];
      chunk = viewed = 1;
    }
  }
  if (left != 0) return std::nullopt;
  return strides;
}

Exprs infer_sizes(const Call& call, Expr numel, Exprs sizes) {
  std::optional<std::size_t> missing;
  Expr rest = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].is_constant(-1)) {
      if (missing) refuse(call, "only one size can be -1 in {}", show(sizes));
      missing = i;
    } else {
      if (sizes[i].is_constant() && *sizes[i].constant() < 0) refuse(call, "invalid size in {}", show(sizes));
      rest *= sizes[i];
    }
  }
  if (missing) {
    if (rest.is_constant(0)) refuse(call, "-1 in {} can be anything", show(sizes));
    auto total = numel.constant(), known = rest.constant();
    if (total && known && *total % *known != 0) refuse(call, "{} elements can't be viewed as {}", *total, show(sizes));
    sizes[*missing] = call.env.simplify(sym::floor_div(numel, rest));
    rest *= sizes[*missing];
  }
  if (!numel.is_constant() || !rest.is_constant()) {
    for (Expr& size : sizes) size = call.env.simplify(size);
    if (!missing) require_equal(call, numel, rest, "number of elements");
  } else if (numel != rest) {
    refuse(call, "{} elements can't be viewed as {}", *numel.constant(), show(sizes));
  }
  return sizes;
}

}  // namespace coil::ops::shapes
