#include "sym/interval.h"

#include "sym/node.h"

namespace coil::sym {

namespace {

// Wide enough for the product of two bounds; infinities beyond every product.
using Wide = __int128;
constexpr Wide kInfinity = static_cast<Wide>(1) << 126;

Wide low_of(Range r) { return r.low == Range::kMin ? -kInfinity : r.low; }
Wide high_of(Range r) { return r.high == Range::kMax ? kInfinity : r.high; }

/// Bounds that leave 64 bits: outwards they are none, inwards the nearest that is one.
Range narrow(Wide low, Wide high) {
  Range r;
  r.low = low <= Range::kMin ? Range::kMin : low >= Range::kMax ? Range::kMax - 1 : static_cast<std::int64_t>(low);
  r.high = high >= Range::kMax ? Range::kMax : high <= Range::kMin ? Range::kMin + 1 : static_cast<std::int64_t>(high);
  return r;
}

bool infinite(Wide v) { return v >= kInfinity || v <= -kInfinity; }

Wide add(Wide a, Wide b) { return infinite(a) ? a : infinite(b) ? b : a + b; }

Wide multiply(Wide a, Wide b) {
  if (a == 0 || b == 0) return 0;
  if (infinite(a) || infinite(b)) return (a < 0) == (b < 0) ? kInfinity : -kInfinity;
  return a * b;
}

Wide divide(Wide a, Wide b) {  // b is not 0
  if (infinite(b))
    return a == 0 ? 0 : infinite(a) ? ((a < 0) == (b < 0) ? kInfinity : -kInfinity) : (a < 0) == (b < 0) ? 0 : -1;
  if (infinite(a)) return (a < 0) == (b < 0) ? kInfinity : -kInfinity;
  Wide q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

template <class F>
Range corners(Range a, Range b, F&& f) {
  Wide all[] = {f(low_of(a), low_of(b)), f(low_of(a), high_of(b)), f(high_of(a), low_of(b)), f(high_of(a), high_of(b))};
  return narrow(std::ranges::min(all), std::ranges::max(all));
}

}  // namespace

Range interval_add(Range a, Range b) { return narrow(add(low_of(a), low_of(b)), add(high_of(a), high_of(b))); }

Range interval_mul(Range a, Range b) { return corners(a, b, multiply); }

Range interval_square(Range a) {
  Range r = interval_mul(a, a);
  if (a.low <= 0 && a.high >= 0) r.low = 0;
  return a.low > 0 || a.high < 0 ? r : Range{std::max<std::int64_t>(r.low, 0), r.high};
}

Range interval_floor_div(Range a, Range b) {
  if (b.low == 0) b.low = 1;
  if (b.high == 0) b.high = -1;
  if (b.low > b.high) return {};
  if (b.low > 0 || b.high < 0) return corners(a, b, divide);
  return interval_union(corners(a, {b.low, -1}, divide), corners(a, {1, b.high}, divide));
}

Range interval_ceil_div(Range a, Range b) {
  Range r = interval_floor_div(interval_mul(a, {-1, -1}), b);
  return interval_mul(r, {-1, -1});
}

Range interval_mod(Range a, Range b) {
  if (b.low < 0) {
    if (b.high > 0)
      return {b.low == Range::kMin ? Range::kMin : b.low + 1, b.high == Range::kMax ? Range::kMax : b.high - 1};
    return {b.low == Range::kMin ? Range::kMin : b.low + 1, 0};
  }
  Range r{0, b.high == Range::kMax ? Range::kMax : std::max<std::int64_t>(b.high - 1, 0)};
  if (a.low >= 0) {
    if (a.high < b.low) return a;
    r.high = std::min(r.high, a.high);
  }
  return r;
}

Range interval_union(Range a, Range b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }
Range interval_intersect(Range a, Range b) { return {std::max(a.low, b.low), std::min(a.high, b.high)}; }

}  // namespace coil::sym
