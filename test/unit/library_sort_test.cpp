#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "runtime_calls.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

using V = BoundView;

TEST(Sort, AgreesWithAStableSortInEveryTypeAndLayout) {
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8, DType::I16, DType::I32, DType::I64,
                      DType::U8, DType::U16, DType::U32, DType::U64, DType::Bool}) {
    for (bool descending : {false, true}) {
      for (const V& x : {V{dtype, {3, 40}, {40, 1}}, V{dtype, {40, 3}, {1, 40}}, V{dtype, {4, 30, 2}, {60, 2, 1}},
                         V{dtype, {2, 700}, {700, 1}}, V{dtype, {3, 300}, {1, 3}}}) {
        const std::size_t dim = x.sizes[0] == 40 ? 0 : 1;
        SCOPED_TRACE(fmt::format("{} descending {} [{}]", short_name(dtype), descending, fmt::join(x.sizes, ", ")));
        Operands in;
        in.add(x);
        const V values = dense_view(dtype, x.sizes), indices = dense_view(DType::I64, x.sizes);
        const auto out =
            run_call("sort", {{"dim", static_cast<std::int64_t>(dim)}, {"descending", std::int64_t{descending}}}, in,
                     {values, indices});
        Sizes rows = x.sizes;
        rows[dim] = 1;
        for_each_index(rows, [&](const Sizes& row) {
          std::vector<std::pair<double, std::int64_t>> expected;
          for (std::int64_t i = 0; i < x.sizes[dim]; ++i) {
            Sizes at = row;
            at[dim] = i;
            expected.emplace_back(in.value(0, at), i);
          }
          std::stable_sort(expected.begin(), expected.end(), [&](const auto& a, const auto& b) {
            return descending ? a.first > b.first : a.first < b.first;
          });
          for (std::int64_t i = 0; i < x.sizes[dim]; ++i) {
            std::int64_t offset = 0;
            for (std::size_t d = 0; d < row.size(); ++d) offset += (d == dim ? i : row[d]) * values.strides[d];
            ASSERT_EQ(out[1].data<std::int64_t>()[offset], expected[static_cast<std::size_t>(i)].second);
          }
        });
      }
    }
  }
}

TEST(Sort, GivesTheRanksAskedForAsAWholeSortDoes) {
  for (DType dtype : {DType::F32, DType::F64, DType::BF16, DType::I8, DType::I32, DType::I64, DType::U8, DType::Bool})
    for (const V& x : {V{dtype, {3, 1}, {1, 1}}, V{dtype, {2, 2}, {2, 1}}, V{dtype, {3, 65}, {1, 3}},
                       V{dtype, {2, 1000}, {1000, 1}}}) {
      Operands in;
      in.add(x);
      if (dtype == DType::F32 && x.sizes[1] == 1000)
        for (std::int64_t i = 0; i < 2000; i += 7) in.tensors[0].data<float>()[i] = i % 2 ? NAN : -0.0f;
      const std::int64_t rows = x.sizes[0], n = x.sizes[1];
      const auto all = run_call("sort", {{"dim", std::int64_t{1}}}, in,
                                {dense_view(dtype, x.sizes), dense_view(DType::I64, x.sizes)});
      const auto expect = [&](Attributes attributes, std::int64_t first, std::int64_t kept) {
        SCOPED_TRACE(fmt::format("{} [{}] from {} on {}", short_name(dtype), fmt::join(x.sizes, ", "), first, kept));
        attributes["dim"] = std::int64_t{1};
        const auto some =
            run_call("sort", attributes, in, {dense_view(dtype, {rows, kept}), dense_view(DType::I64, {rows, kept})});
        const std::size_t width = size_of(dtype);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t k = 0; k < kept; ++k) {
            EXPECT_EQ(some[1].data<std::int64_t>()[r * kept + k], all[1].data<std::int64_t>()[r * n + first + k]);
            EXPECT_EQ(std::memcmp(some[0].bytes() + static_cast<std::size_t>(r * kept + k) * width,
                                  all[0].bytes() + static_cast<std::size_t>(r * n + first + k) * width, width),
                      0);
          }
      };
      for (std::int64_t first : {std::int64_t{0}, n / 3, n / 2, n - 1}) expect({{"first", first}}, first, 1);
      expect({{"first", n / 2}}, n / 2, n - n / 2);
      expect({{"middle", std::int64_t{1}}}, (n - 1) / 2, 1);
    }
  Operands in;
  in.add(dense_view(DType::F32, {2, 4}));
  EXPECT_THROW(run_call("sort", {{"dim", std::int64_t{1}}, {"first", std::int64_t{4}}}, in,
                        {dense_view(DType::F32, {2, 1}), dense_view(DType::I64, {2, 1})}),
               Error);
}

TEST(Unique, CountsNumbersThatLieCloseAndSortsOthers) {
  for (DType dtype : {DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64})
    for (const bool close : {true, false}) {
      SCOPED_TRACE(fmt::format("{} close {}", short_name(dtype), close));
      constexpr std::int64_t n = 40;
      Operands in;
      in.add(dense_view(dtype, {n, 1}));
      // Whole numbers of few bits at the type's two ends, or beside each other below its greatest.
      const std::size_t width = size_of(dtype);
      const bool is_signed = dtype == DType::I8 || dtype == DType::I16 || dtype == DType::I32 || dtype == DType::I64;
      std::map<std::uint64_t, std::pair<std::int64_t, std::vector<std::int64_t>>> expected;  // by order: bits, places
      for (std::int64_t i = 0; i < n; ++i) {
        const std::uint64_t mask = width == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * width) - 1,
                            sign = std::uint64_t{1} << (8 * width - 1);
        const auto step = static_cast<std::uint64_t>(i * 7 % 11);
        const std::uint64_t order = close || i % 2 ? mask - step : step, bits = is_signed ? order ^ sign : order;
        std::memcpy(in.tensors[0].bytes() + static_cast<std::size_t>(i) * width, &bits, width);
        expected[order].first = static_cast<std::int64_t>(bits);
        expected[order].second.push_back(i);
      }
      const auto out = run_call("unique", {{"consecutive", std::int64_t{0}}}, in,
                                {dense_view(dtype, {n, 1}), dense_view(DType::I64, {n}), dense_view(DType::I64, {n}),
                                 dense_view(DType::I64, {1})});
      ASSERT_EQ(*out[3].data<std::int64_t>(), static_cast<std::int64_t>(expected.size()));
      std::int64_t k = 0;
      for (const auto& [order, found] : expected) {
        EXPECT_EQ(std::memcmp(out[0].bytes() + static_cast<std::size_t>(k) * width, &found.first, width), 0);
        EXPECT_EQ(out[2].data<std::int64_t>()[k], static_cast<std::int64_t>(found.second.size()));
        for (std::int64_t place : found.second) EXPECT_EQ(out[1].data<std::int64_t>()[place], k);
        ++k;
      }
    }
}

TEST(Sort, NaNIsGreatestAndZerosAreEqual) {
  Operands in;
  in.add(dense_view(DType::F32, {6}));
  const float values[] = {NAN, -0.0f, INFINITY, 0.0f, -INFINITY, -NAN};
  std::copy(values, values + 6, in.tensors[0].data<float>());
  const std::vector<V> out = {dense_view(DType::F32, {6}), dense_view(DType::I64, {6})};
  auto order = [&](std::int64_t descending) {
    return numbers(out[1], run_call("sort", {{"descending", descending}}, in, out)[1].bytes());
  };
  EXPECT_EQ(order(0), (std::vector<double>{4, 1, 3, 2, 0, 5}));
  EXPECT_EQ(order(1), (std::vector<double>{0, 5, 2, 1, 3, 4}));
}

TEST(TopK, TakesTheLargestOrTheSmallest) {
  Operands in;
  in.add(dense_view(DType::I64, {2, 64}));
  for (std::int64_t i = 0; i < 128; ++i) in.tensors[0].data<std::int64_t>()[i] = (i * 37) % 101 - 50;
  for (std::int64_t k : {1, 3, 64}) {
    const std::vector<V> out = {dense_view(DType::I64, {2, k}), dense_view(DType::I64, {2, k})};
    for (std::int64_t largest : {0, 1}) {
      const auto result = numbers(out[0], run_call("topk", {{"dim", 1}, {"largest", largest}}, in, out)[0].bytes());
      for (std::int64_t row = 0; row < 2; ++row) {
        std::vector<double> expected;
        for (std::int64_t i = 0; i < 64; ++i) expected.push_back(in.value(0, {row, i}));
        std::sort(expected.begin(), expected.end());
        if (largest) std::reverse(expected.begin(), expected.end());
        for (std::int64_t i = 0; i < k; ++i)
          EXPECT_EQ(result[static_cast<std::size_t>(row * k + i)], expected[static_cast<std::size_t>(i)]);
      }
    }
  }
}

TEST(Sort, TakesNumbersAndEmptyTensors) {
  Operands in;
  in.add(dense_view(DType::F32, {}));
  const auto out = run_call("sort", {}, in, {dense_view(DType::F32, {}), dense_view(DType::I64, {})});
  EXPECT_EQ(*out[1].data<std::int64_t>(), 0);
  Operands empty;
  empty.add(dense_view(DType::F32, {0, 4}));
  run_call("sort", {{"dim", 0}}, empty, {dense_view(DType::F32, {0, 4}), dense_view(DType::I64, {0, 4})});
  EXPECT_THROW(run_call("topk", {}, in, {dense_view(DType::F32, {2}), dense_view(DType::I64, {2})}), Error);
}

}  // namespace
}  // namespace coil::runtime
