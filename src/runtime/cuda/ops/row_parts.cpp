#include "runtime/cuda/ops/row_parts.h"

#include <algorithm>
#include <numeric>

namespace coil::runtime::cuda {
namespace {

constexpr std::int64_t kVector = 16;                // bytes
constexpr std::int64_t kSmallestResult = 16 << 20;  // bytes of a result that is worth several products,
constexpr std::int64_t kSmallestBiased = 64 << 20;  // and copies of a bias
constexpr std::int64_t kFewestRows = 64;            // of a part

}  // namespace

std::vector<ProductPart> row_parts(const BlasProduct& p) {
  // In the library's order: what lies side by side in a row of the result counts as its matrix's rows.
  const std::int64_t item = static_cast<std::int64_t>(size_of(p.d.dtype)), step = kVector / item, side = p.d.rows,
                     lines = p.d.columns, ld = p.d.ld;
  auto starts_on_vectors = [](const BlasMatrix& m) {
    return m.ld * static_cast<std::int64_t>(size_of(m.dtype)) % kVector == 0;
  };
  const bool fits =
      p.batch == 1 && !p.adds && p.a.transposed && !p.b.transposed && starts_on_vectors(p.a) && starts_on_vectors(p.b);
  if (!fits || step <= 1 || ld % step == 0 || side * lines * item < (p.bias ? kSmallestBiased : kSmallestResult) ||
      side < 8 * step || lines < kFewestRows * step)
    return {{p}};
  const std::int64_t classes = step / std::gcd(ld, step),
                     a_line = p.a.ld * static_cast<std::int64_t>(size_of(p.a.dtype)),
                     b_line = p.b.ld * static_cast<std::int64_t>(size_of(p.b.dtype));
  std::vector<ProductPart> parts;
  std::int64_t front = 0, back = side;
  for (std::int64_t j = 0; j < classes; ++j) {
    const std::int64_t start = (step - j * ld % step) % step, whole = (side - start) / step * step;
    front = std::max(front, start);
    back = std::min(back, start + whole);
    BlasProduct q = p;
    q.a.columns = q.d.rows = whole;
    q.b.columns = q.d.columns = (lines - j + classes - 1) / classes;
    q.b.ld *= classes;
    q.d.ld *= classes;
    parts.push_back({q, start * a_line, j * b_line, (j * ld + start) * item, start * item});
  }
  auto edge = [&](std::int64_t from, std::int64_t to) {
    if (from == to) return;
    BlasProduct q = p;
    q.a.columns = q.d.rows = to - from;
    parts.insert(parts.begin(), {q, from * a_line, 0, from * item, from * item});
  };
  edge(0, front);
  edge(back, side);
  return parts;
}

BiasCopies::BiasCopies(std::span<const ProductPart> parts, std::int64_t bytes)
    : pitch_((bytes + kVector - 1) / kVector * kVector) {
  for (const ProductPart& p : parts)
    if (p.bias % kVector != 0) starts_.push_back(p.bias % kVector);
  std::ranges::sort(starts_);
  starts_.erase(std::unique(starts_.begin(), starts_.end()), starts_.end());
}

std::vector<std::pair<std::int64_t, std::int64_t>> BiasCopies::copies() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  for (std::size_t k = 0; k < starts_.size(); ++k) out.emplace_back(starts_[k], static_cast<std::int64_t>(k) * pitch_);
  return out;
}

std::optional<std::int64_t> BiasCopies::place(std::int64_t bias) const {
  const auto found = std::ranges::find(starts_, bias % kVector);
  if (found == starts_.end()) return std::nullopt;
  return (found - starts_.begin()) * pitch_ + bias - *found;
}

}  // namespace coil::runtime::cuda
