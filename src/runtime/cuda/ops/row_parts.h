// Products into rows that do not all start on 16 bytes (a vocabulary of 50,257): the library has slow kernels for them.
// Every g-th row lies a whole number of vectors from the last, so that the rows are written in g products, each of rows
// that start alike and from the first whole vector to the last; what is left at the rows' ends is a few columns, in two
// small products before. A bias begins on a whole vector for each of them, in a copy that begins at another element.
#pragma once
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/cuda/driver/blas.h"

namespace coil::runtime::cuda {

/// A product and where its matrices begin, in bytes from those of the whole.
struct ProductPart {
  BlasProduct product;
  std::int64_t a = 0, b = 0, d = 0, bias = 0;
  auto operator<=>(const ProductPart&) const = default;
};

/// In the order to run them, since they write some columns twice; the product itself where it is small, where its rows
/// are whole vectors, or where its operands do not let parts start on 16 bytes.
std::vector<ProductPart> row_parts(const BlasProduct&);

/// The copies of a bias that parts need.
class BiasCopies {
 public:
  BiasCopies() = default;
  /// `bytes`: of the whole bias.
  BiasCopies(std::span<const ProductPart>, std::int64_t bytes);

  std::size_t bytes() const { return starts_.size() * static_cast<std::size_t>(pitch_); }
  /// Where in the bias each of them begins, and in the memory of all.
  std::vector<std::pair<std::int64_t, std::int64_t>> copies() const;
  /// Where `bias` bytes of the whole lie in the memory of all copies; nothing where they are on a whole vector anyway.
  std::optional<std::int64_t> place(std::int64_t bias) const;

 private:
  std::vector<std::int64_t> starts_;
  std::int64_t pitch_ = 0;
};

}  // namespace coil::runtime::cuda
