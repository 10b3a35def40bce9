// Products into rows that do not all start on 16 bytes (a vocabulary of 50,257): the library has slow kernels for them.
// Every g-th row lies a whole number of vectors from the last, so that the rows are written in g products, each of rows
// that start alike and from the first whole vector to the last; what is left at the rows' ends is a few columns, in two
// small products before.
#pragma once
#include "runtime/cuda/driver/blas.h"

namespace coil::runtime::cuda {

/// A product and where its matrices begin, in bytes from those of the whole.
struct ProductPart {
  BlasProduct product;
  std::int64_t a = 0, b = 0, d = 0;
  auto operator<=>(const ProductPart&) const = default;
};

/// In the order to run them, since they write some columns twice; the product itself where it is small, where its rows
/// are whole vectors, or where its operands do not let parts start on 16 bytes.
std::vector<ProductPart> row_parts(const BlasProduct&);

}  // namespace coil::runtime::cuda
