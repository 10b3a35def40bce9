// Sizes that data tell, on example inputs: what is run for them, and on what.
#include "compiler/sample_sizes.h"

#include <gtest/gtest.h>

#include "fx/text.h"
#include "lowering/lowering.h"

namespace coil {
namespace {

bool is_lowered(std::string_view target) { return lowering::find(target) != nullptr; }

/// A program that writes to an input, with a size and a number that data tell, and one in what is drawn.
struct SampleSizes : testing::Test {
  std::unique_ptr<fx::GraphModule> module =
      fx::parse(R"(graph(u0: unbacked [0, inf], u1: unbacked [0, 4096], u2: unbacked [0, inf]):
    %x : i64[8] = placeholder[target=x]
    %n : i64[] = placeholder[target=n]
    %places : i64[u0, 1] = call_function[target=aten.nonzero.default](args = (%x,), kwargs = {})
    %twice : i64[] = call_function[target=aten.mul.Tensor](args = (%n, 2), kwargs = {})
    %item : u1 = call_function[target=aten._local_scalar_dense.default](args = (%twice,), kwargs = {})
    %noise : f32[8] = call_function[target=aten.rand.default](args = ([8],), kwargs = {})
    %drawn : i64[u2, 1] = call_function[target=aten.nonzero.default](args = (%noise,), kwargs = {})
    %more : i64[8] = call_function[target=aten.add.Tensor](args = (%x, %item), kwargs = {})
    return (%places, %drawn, %more)
input %x "x"
input %n "n"
output "places"
output "drawn"
mutation input x = 2
)");
  std::vector<Tensor> inputs{Tensor::empty(DType::I64, {8}), Tensor::empty(DType::I64, {})};
  int runs = 0;

  /// As if the CPU had computed it.
  RunModuleOn run = [&](fx::GraphModule& part, std::span<const Tensor> given) {
    ++runs;
    EXPECT_TRUE(part.mutations.empty()) << "what is run for sizes writes to nothing";
    EXPECT_EQ(given.size(), 2u);
    for (std::size_t k = 0; k < given.size(); ++k) EXPECT_EQ(given[k].bytes(), inputs[k].bytes()) << "no copies";
    std::vector<Tensor> out;
    for (const ops::Value& result : part.graph.output()->args) {
      const std::string& name = result.as_node()->name;
      EXPECT_TRUE(name == "places" || name == "twice") << name;
      out.push_back(name == "places" ? Tensor::empty(DType::I64, {3, 1}) : Tensor::empty(DType::I64, {}));
      if (name == "twice") *out.back().data<std::int64_t>() = 14;
    }
    return out;
  };
};

TEST_F(SampleSizes, AreThoseThatOneRunOfTheirPartsGives) {
  const SampledSizes found = sizes_on_samples(*module, inputs, is_lowered, run);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(found.told, (autotune::ToldSizes{{"u0", 3}, {"u1", 14}}));
  EXPECT_EQ(found.text,
            "size u0 is 3 on the example inputs\nsize u1 is 14 on the example inputs\n"
            "size u2 is 8192, for want of an example\n");
}

TEST_F(SampleSizes, AreNumbersWithoutInputsAndWhereTheirPartsAreLarge) {
  const std::string numbers =
      "size u0 is 8192, for want of an example\nsize u1 is 4096, for want of an example\n"
      "size u2 is 8192, for want of an example\n";
  EXPECT_EQ(sizes_on_samples(*module, std::nullopt, is_lowered, run).text, numbers);
  EXPECT_EQ(sizes_on_samples(*module, inputs, is_lowered, run, 0).text, numbers);
  EXPECT_EQ(runs, 0);
}

TEST_F(SampleSizes, AreNumbersWhereTheExampleFails) {
  const RunModuleOn failing = [](fx::GraphModule&, std::span<const Tensor>) -> std::vector<Tensor> {
    throw Error("an index is outside");
  };
  const SampledSizes found = sizes_on_samples(*module, inputs, is_lowered, failing);
  EXPECT_TRUE(found.told.empty());
  EXPECT_TRUE(found.text.starts_with("no size was found on the example inputs: an index is outside\n"));
}

}  // namespace
}  // namespace coil
