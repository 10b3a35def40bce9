// Operator schemas: torch's notation in, the same out; arguments put in schema order.
#include "ops/schema.h"
#include "ops/registry.h"
#include "support/error.h"

namespace coil::ops {
namespace {

TEST(Schema, RoundTrip) {
  for (std::string_view text : {
           "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
           "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
           "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
           "aten::max_pool2d(Tensor self, SymInt[2] kernel_size, SymInt[2] stride=[], SymInt[2] padding=[0, 0], bool "
           "ceil_mode=False) -> Tensor",
           "aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
           "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
           "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
           "aten::native_batch_norm(Tensor input, Tensor? weight, float momentum, float eps=1e-05) -> (Tensor, Tensor, "
           "Tensor)",
           "aten::_assert_async.msg(Tensor self, str assert_msg) -> ()",
           "shop::say(str text=\"a \\\"b\\\" \\n \\\\\") -> ()",
           "aten::split.Tensor(Tensor(a) self, SymInt split_size, SymInt dim=0) -> Tensor(a)[]",
       })
    EXPECT_EQ(to_string(parse_schema(text)), text);
}

TEST(Schema, Spellings) {
  Schema s = parse_schema("aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]");
  EXPECT_EQ(s.target, "aten.unbind.int");
  EXPECT_TRUE(s.is_view());
  EXPECT_FALSE(s.is_mutating());
  s = parse_schema(
      "aten::l1_loss(Tensor self, Tensor target, int reduction=Mean, int[2]? k=None, int[1] d=0, ScalarType? "
      "dtype=long) -> Tensor");
  EXPECT_EQ(s.parameters[2].fallback->as_int(), Expr(1));
  EXPECT_TRUE(s.parameters[3].fallback->is_none());
  EXPECT_EQ(s.parameters[3].type.list_size, 2);
  EXPECT_EQ(s.parameters[4].fallback->as_list().size(), 1u);
  EXPECT_EQ(s.parameters[5].fallback->as_dtype(), DType::I64);
  s = parse_schema("aten::foo.out(Tensor x, float p=2, *, Tensor(a!) out) -> Tensor(a!)");
  EXPECT_TRUE(s.is_mutating());
  EXPECT_FALSE(s.is_view());
  EXPECT_TRUE(s.parameters[2].keyword_only);
  EXPECT_EQ(s.parameters[1].fallback->as_double(), 2.0);
}

TEST(Schema, Faults) {
  for (std::string_view text :
       {"aten::add", "aten:add(Tensor x) -> Tensor", "aten::f(Tensor) -> Tensor", "aten::f(Tensor x=) -> Tensor",
        "aten::f(Tensor x) ->", "aten::f(Tensor x) -> Tensor y z", "aten::f(int[14444444444444] k=21) -> Tensor",
        "aten::f(int[2000000000] k=21) -> Tensor"})
    EXPECT_THROW(parse_schema(text), Error) << text;
}

TEST(Registry, NormalizesArguments) {
  const Operator& op = define("test::pool(Tensor x, int[2] k, float eps=1e-05, *, bool ceil=False) -> Tensor", nullptr);
  EXPECT_EQ(find("test.pool.default"), &op);
  EXPECT_THROW(define("test::pool(Tensor x) -> Tensor", nullptr), Error);
  Value x = TensorMeta{};
  EXPECT_EQ(normalize(op, {x, 3}, {{"ceil", true}}), (Values{x, Values{3, 3}, 1e-5, true}));
  EXPECT_EQ(normalize(op, {x}, {{"k", Values{1, 2}}, {"eps", 1}}), (Values{x, Values{1, 2}, 1.0, false}));
  EXPECT_THROW(normalize(op, {x}, {}), Error);
  EXPECT_THROW(normalize(op, {x, 3}, {{"k", 3}}), Error);
  EXPECT_THROW(normalize(op, {x, 3}, {{"kk", 3}}), Error);
  EXPECT_THROW(normalize(op, {x, 3, 0.1, true}, {}), Error);
  EXPECT_THROW(normalize(op, {x, "three"}, {}), Error);
}

}  // namespace
}  // namespace coil::ops
