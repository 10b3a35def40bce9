#include "tensor/tensor.h"
#include "support/error.h"

namespace coil {
namespace {

TEST(Tensor, ContiguousStridesTreatEmptyDimensionsAsOne) {
  EXPECT_EQ(contiguous_strides(Sizes{2, 3, 4}), (Sizes{12, 4, 1}));
  EXPECT_EQ(contiguous_strides(Sizes{2, 0, 4}), (Sizes{4, 4, 1}));
  EXPECT_EQ(contiguous_strides(Sizes{}), Sizes{});
}

TEST(Tensor, NumelRefusesOverflow) {
  EXPECT_EQ(numel(Sizes{}), 1);
  EXPECT_THROW(numel(Sizes{std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
}

TEST(Tensor, PromotionFollowsTorch) {
  EXPECT_EQ(promote_types(DType::U8, DType::I8), DType::I16);
  EXPECT_EQ(promote_types(DType::F16, DType::BF16), DType::F32);
  EXPECT_EQ(promote_types(DType::I64, DType::F16), DType::F16);
  EXPECT_EQ(promote_types(DType::Bool, DType::U8), DType::U8);
  EXPECT_EQ(promote_types(DType::F64, DType::C64), DType::C128);
}

}  // namespace
}  // namespace coil
