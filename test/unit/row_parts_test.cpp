// Products into rows that do not start on 16 bytes, cut into products that do.
#include "runtime/cuda/ops/row_parts.h"

#include <gtest/gtest.h>

namespace coil::runtime::cuda {
namespace {

BlasProduct vocabulary(DType dtype, std::int64_t columns, std::int64_t rows, std::int64_t k) {
  BlasProduct p;
  p.a = {.dtype = dtype, .transposed = true, .rows = k, .columns = columns, .ld = k};
  p.b = {.dtype = dtype, .rows = k, .columns = rows, .ld = k};
  p.d = {.dtype = dtype, .rows = columns, .columns = rows, .ld = columns};
  return p;
}

/// Every element of the result is written from its own row and column, and all but two narrow parts start on vectors.
void check_cover(const BlasProduct& p) {
  const auto parts = row_parts(p);
  ASSERT_GT(parts.size(), 1u);
  const auto item = static_cast<std::int64_t>(size_of(p.d.dtype)), step = 16 / item;
  std::vector<bool> written(static_cast<std::size_t>(p.d.rows * p.d.columns), false);
  std::size_t narrow = 0;
  for (const ProductPart& part : parts) {
    const BlasProduct& q = part.product;
    ASSERT_EQ(q.a.columns, q.d.rows);
    ASSERT_EQ(q.b.columns, q.d.columns);
    const std::int64_t column = part.a / (p.a.ld * item), row = part.b / (p.b.ld * item);
    ASSERT_EQ(part.d, (row * p.d.ld + column) * item);
    ASSERT_EQ(q.b.ld % p.b.ld, 0);
    ASSERT_EQ(q.d.ld * p.b.ld, q.b.ld * p.d.ld);
    if (q.d.rows < 2 * step)
      ++narrow;
    else {
      EXPECT_EQ(part.d % 16, 0);
      EXPECT_EQ(q.d.ld * item % 16, 0);
      EXPECT_EQ(q.d.rows % step, 0);
    }
    for (std::int64_t j = 0; j < q.d.columns; ++j)
      for (std::int64_t i = 0; i < q.d.rows; ++i) {
        const std::int64_t r = row + j * (q.d.ld / p.d.ld), c = column + i;
        ASSERT_LT(r, p.d.columns);
        ASSERT_LT(c, p.d.rows);
        written[static_cast<std::size_t>(r * p.d.rows + c)] = true;
      }
  }
  EXPECT_LE(narrow, 2u);
  EXPECT_EQ(std::count(written.begin(), written.end(), false), 0);
}

TEST(RowParts, CoverTheResult) {
  check_cover(vocabulary(DType::BF16, 8193, 1027, 64));
  check_cover(vocabulary(DType::BF16, 8196, 1024, 64));
  check_cover(vocabulary(DType::BF16, 8198, 1030, 64));
  check_cover(vocabulary(DType::BF16, 16391, 513, 64));
  check_cover(vocabulary(DType::F32, 4099, 1025, 64));
}

TEST(RowParts, EachPartsBiasBeginsOnAVector) {
  for (std::int64_t columns : {8193, 8196, 8198, 30522}) {
    BlasProduct p = vocabulary(DType::BF16, columns, 5000, 64);
    p.bias = true;
    const auto parts = row_parts(p);
    const BiasCopies copies(parts, 2 * columns);
    std::vector<std::int64_t> from(copies.bytes() / 2, -1);  // the element of the bias that each one is a copy of
    for (const auto& [start, place] : copies.copies()) {
      EXPECT_EQ(place % 16, 0);
      for (std::int64_t b = start; b < 2 * columns; b += 2)
        from.at(static_cast<std::size_t>(place + b - start) / 2) = b / 2;
    }
    for (const ProductPart& part : parts) {
      EXPECT_EQ(part.bias / 2, part.a / (p.a.ld * 2)) << "the bias of its own columns";
      const auto place = copies.place(part.bias);
      EXPECT_EQ(place.has_value(), part.bias % 16 != 0);
      if (!place) continue;
      EXPECT_EQ(*place % 16, 0);
      for (std::int64_t c = 0; c < part.product.d.rows; ++c)
        EXPECT_EQ(from.at(static_cast<std::size_t>(*place / 2 + c)), part.bias / 2 + c);
    }
  }
}

TEST(RowParts, OnlyWhereTheyHelp) {
  const BlasProduct odd = vocabulary(DType::BF16, 8193, 1027, 64);
  EXPECT_EQ(row_parts(vocabulary(DType::BF16, 8192, 1027, 64)).size(), 1u);  // whole vectors
  EXPECT_EQ(row_parts(vocabulary(DType::BF16, 515, 1027, 64)).size(), 1u);   // small
  EXPECT_EQ(row_parts(vocabulary(DType::BF16, 8193, 1027, 65)).size(), 1u);  // operands that start anywhere
  BlasProduct p = odd;
  p.bias = true;
  EXPECT_EQ(row_parts(p), (std::vector<ProductPart>{{p}})) << "the bias would be copied for a small result";
  p = odd;
  p.a.transposed = false;
  EXPECT_EQ(row_parts(p).size(), 1u);
}

}  // namespace
}  // namespace coil::runtime::cuda
