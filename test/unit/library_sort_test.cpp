#include <algorithm>
#include <cmath>

#include "runtime_calls.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

using V = BoundView;

TEST(Sort, AgreesWithAStableSortInEveryTypeAndLayout) {
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64, DType::Bool}) {
    for (bool descending : {false, true}) {
      for (const V& x : {V{dtype, {3, 40}, {40, 1}}, V{dtype, {40, 3}, {1, 40}}, V{dtype, {4, 30, 2}, {60, 2, 1}}, V{dtype, {2, 700}, {700, 1}}, V{dtype, {3, 300}, {1, 3}}}) {
        const std::size_t dim = x.sizes[0] == 40 ? 0 : 1;
        SCOPED_TRACE(fmt::format("{} descending {} [{}]", short_name(dtype), descending, fmt::join(x.sizes, ", ")));
        Operands in;
        in.add(x);
        const V values = dense_view(dtype, x.sizes), indices = dense_view(DType::I64, x.sizes);
        const auto out = run_call("sort", {{"dim", static_cast<std::int64_t>(dim)}, {"descending", std::int64_t{descending}}}, in, {values, indices});
        Sizes rows = x.sizes;
        rows[dim] = 1;
        for_each_index(rows, [&](const Sizes& row) {
          std::vector<std::pair<double, std::int64_t>> expected;
          for (std::int64_t i = 0; i < x.sizes[dim]; ++i) {
            Sizes at = row;
            at[dim] = i;
            expected.emplace_back(in.value(0, at), i);
          }
          std::stable_sort(expected.begin(), expected.end(), [&](const auto& a, const auto& b) { return descending ? a.first > b.first : a.first < b.first; });
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

TEST(Sort, NaNIsGreatestAndZerosAreEqual) {
  Operands in;
  in.add(dense_view(DType::F32, {6}));
  const float values[] = {NAN, -0.0f, INFINITY, 0.0f, -INFINITY, -NAN};
  std::copy(values, values + 6, in.tensors[0].data<float>());
  const std::vector<V> out = {dense_view(DType::F32, {6}), dense_view(DType::I64, {6})};
  auto order = [&](std::int64_t descending) { return numbers(out[1], run_call("sort", {{"descending", descending}}, in, out)[1].bytes()); };
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
        for (std::int64_t i = 0; i < k; ++i) EXPECT_EQ(result[static_cast<std::size_t>(row * k + i)], expected[static_cast<std::size_t>(i)]);
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
