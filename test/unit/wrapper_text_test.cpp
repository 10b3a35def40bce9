#include <gtest/gtest.h>

#include "error_of.h"
#include "wrapper/text.h"
#include "wrapper_programs.h"

namespace coil {
namespace {

using wrapper::parse;
using wrapper::to_text;

constexpr const char* kEverything =
    R"(wrapper "a program"(s0: [1, 64] = 3, u1: unbacked [0, inf]):
buffer x : f32[s0, 4] {[4, 1]} input "state.h" mutated
buffer "it's \\ \"odd\"\n" : i64[] {[]} input "n" unused
buffer lin.weight : f32[8, 4] {[4, 1]} constant
buffer calls : f32[] {[]} constant state
buffer a : f32[s0, 4] {[4, 1]} temporary
buffer b : f32[s0, 4] {[4, 1]} temporary bytes 64*s0
buffer out : f32[s0, 8] {[8, 1]} output
symbol s0 = (size(x, 0) - (1)) / (2)
assert 1 <= s0, "at \"least\" 1"
kernel coil_1
allocate a
call coil_1(x, &a; [s0, 2*s0 + 1]) over FloorDiv(s0, 4) by 512 fails "out of range" in place x -> a)"
    R"( from add, relu as mul, sum_1 at "model.py:12"
reuse a as b
call coil_1(a, &b; []) over Max(3, s0) by 1
free a
allocate out
extern out, x.as_strided([4], [1], 2) = linear(b, lin.weight.view(i32).as_strided([4, 8], [1, 4], 0), calls))"
    R"( clip=[0.5, inf] has_bias=1 none=strings[] pads=[1, 2] post=["relu", "clip:0:6"] scale=1.0)"
    R"( why="a \"b\"" from linear at "m.py:1"
free b
output "0" = out
output "1.k" = x.as_strided([s0], [4], 3)
output n = int 2*s0
output flag = bool s0 < 4
output pi = real 3.5
text coil_1
| extern "C" void coil_1() {
|
|   // """ and \ stay
| }
source add = "%add : f32[s0, 4]"
)";

TEST(WrapperText, PrintsWhatItRead) {
  // Names of outputs are quoted, relations printed in one way; an empty line of a kernel keeps its space.
  std::string text = to_text(parse(kEverything));
  EXPECT_EQ(text, to_text(parse(text)));
  std::string wanted = kEverything;
  for (const auto& [from, to] : {std::pair{"|\n", "| \n"},
                                 {"output n", "output \"n\""},
                                 {"output flag", "output \"flag\""},
                                 {"output pi", "output \"pi\""},
                                 {"s0 < 4", "s0 <= 3"}})
    wanted.replace(wanted.find(from), std::string(from).size(), to);
  EXPECT_EQ(text, wanted);
}

TEST(WrapperText, KeepsWhatTheLinesSay) {
  const wrapper::Program p = parse(kEverything);
  EXPECT_EQ(p.name, "a program");
  EXPECT_EQ(p.inputs[0].name, "state.h");
  EXPECT_TRUE(p.inputs[0].mutated && p.inputs[1].unused && p.constants[1].state);
  EXPECT_EQ(p.buffers[1].name, "it's \\ \"odd\"\n");
  EXPECT_EQ(p.buffers[5].bytes, p.env->context().find("s0").value() * 64);
  EXPECT_EQ(p.kernels[0].text, "extern \"C\" void coil_1() {\n\n  // \"\"\" and \\ stay\n}\n");
  const auto& call = std::get<wrapper::CallExtern>(p.lines[9]);
  EXPECT_EQ(std::get<std::vector<double>>(call.attributes.at("clip")).size(), 2u);
  EXPECT_TRUE(std::get<std::vector<std::string>>(call.attributes.at("none")).empty());
  EXPECT_EQ(std::get<double>(call.attributes.at("scale")), 1.0);
  EXPECT_EQ(call.inputs[1].dtype, DType::I32);
  EXPECT_EQ(p.constants[0].value.storage.bytes, 128u);
}

TEST(WrapperText, SizesWithNamesOfDtypes) {
  const std::string text = R"(wrapper main(u8: [1, 8]):
buffer x : u8[u8] {[1]} input "x"
buffer y : u8[u8] {[1]} output
symbol u8 = size(x, 0)
allocate y
fallback y = mylib.fill.default(%0, (u8), u8, [(u8), u8 + 1], dtype=u8) where %0 = x
output "y" = y
output "n" = int u8
)";
  const wrapper::Program p = parse(text);
  EXPECT_EQ(to_text(p), text);
  const auto& arguments = std::get<wrapper::CallFallback>(p.lines[2]).arguments;
  EXPECT_TRUE(std::holds_alternative<sym::Expr>(arguments[1].value) &&
              std::holds_alternative<DType>(arguments[2].value));
}

TEST(WrapperText, LaunchesOnAGpu) {
  const std::string text =
      "wrapper main(s0: [1, 8]) on cuda:0:\nbuffer x : f32[s0] {[1]} input on cuda:0 \"x\"\nbuffer y : f32[s0] {[1]} "
      "output on cuda:0\nsymbol s0 = size(x, 0)\nkernel coil_1\nallocate y\n"
      "launch coil_1(x, &y; [s0]) on [FloorDiv(s0 + 127, 128), 1, 1] x 128 threads, 4*s0 shared bytes\noutput \"y\" = "
      "y\ntext coil_1\n";
  const wrapper::Program p = parse(text);
  EXPECT_NO_THROW(wrapper::verify(p));
  EXPECT_EQ(to_text(p), text);
}

TEST(WrapperText, CallsOfTheHost) {
  const std::string text =
      R"(wrapper main(s0: [1, 8]):
buffer x : f32[s0] {[1]} input "x"
buffer y : f32[s0] {[1]} output
buffer z : i64[2*s0] {[1]} output
symbol s0 = size(x, 0)
allocate y
allocate z
fallback y = aten.cumsum.default(%0, [1, 2*s0, -3], None, True, 1.5, inf, 1e-05, "a, \"b\"",)"
      R"( dtype=f32, device=cuda:1, memory_format=channels_last, layout=strided) where %0 = x from cumsum at "m.py:1"
fallback [z, None] = mylib.two.default([%0, %1], %0, Max(3, s0)) where %0 = x, %1 = x.as_strided([s0, 2], [1, 0], 0)
fallback  = aten._assert_async.msg(%0, "wrong") where %0 = x
output "y" = y
output "z" = z
)";
  const wrapper::Program p = parse(text);
  EXPECT_NO_THROW(wrapper::verify(p));
  EXPECT_EQ(to_text(p), text);
  const auto& call = std::get<wrapper::CallFallback>(p.lines[3]);
  EXPECT_EQ(call.op, "aten.cumsum.default");
  EXPECT_FALSE(call.is_list);
  ASSERT_EQ(call.arguments.size(), 12u);
  EXPECT_EQ(std::get<std::string>(call.arguments[7].value), "a, \"b\"");
  EXPECT_EQ(call.arguments[8].keyword, "dtype");
  EXPECT_EQ(std::get<DType>(call.arguments[8].value), DType::F32);
  EXPECT_EQ(std::get<Device>(call.arguments[9].value), (Device{DeviceType::CUDA, 1}));
  const auto& two = std::get<wrapper::CallFallback>(p.lines[4]);
  EXPECT_TRUE(two.is_list && two.outputs[0] && !two.outputs[1]);
  EXPECT_EQ(two.inputs[1].sizes.size(), 2u);
  EXPECT_TRUE(std::get<wrapper::CallFallback>(p.lines[5]).outputs.empty());
}

TEST(WrapperText, FaultsNameTheirLine) {
  const std::string head = "wrapper main(s0: [1, 8]):\nbuffer x : f32[s0] {[1]} input\n";
  const std::pair<const char*, const char*> faults[] = {
      {"free y\n", "line 3, column 7: there is no buffer y"},
      {"buffer x : f32[1] {[1]} output\n", "declared twice"},
      {"buffer y : f99[1] {[1]} output\n", "'f99' is no dtype"},
      {"buffer y : f32[1] {[]} output\n", "as many strides as sizes"},
      {"buffer y : f32[s9] {[1]} output\n", "the size s9 is not declared"},
      {"buffer w : f32[s0] {[1]} constant\n", "a constant has sizes that are numbers"},
      {"buffer w : f32[4611686018427387904, 8] {[8, 1]} constant\n", "too large"},
      {"symbol s0 = size(x, 1)\n", "x has no dimension 1"},
      {"kernel a.b\n", "'a.b' is no identifier"},
      {"kernel 1a\n", "'1a' is no identifier"},
      {"call coil_9(x; []) over 1 by 1\n", "there is no kernel coil_9"},
      {"kernel k\ncall k(x; []) over 1 by 0\n", "a grain is at least 1"},
      {"assert 1 < s0, \"no end\n", "the string has no end"},
      {"output \"y\" = x.as_strided([1], [], 0)\n", "as many strides as sizes"},
      {"| text\n", "belongs to no kernel"},
      {"dance x\n", "no line of the wrapper begins so"},
      {"fallback  = a.b(%1) where %0 = x\n", "%1 is no operand"},
      {"fallback  = a.b(s7)\n", "the size s7 is not declared"},
      {"fallback  = a.b(1\n", "',' or ')' should stand here"},
      {"free x x\n", "the line should end here"},
  };
  for (const auto& [line, fault] : faults) {
    const std::string error = error_of([&, line = line] { parse(head + line); });
    EXPECT_NE(error.find(fault), std::string::npos) << line << error;
  }
  EXPECT_NE(error_of([] { parse("# nothing\n"); }).find("no wrapper program"), std::string::npos);
}

}  // namespace
}  // namespace coil
