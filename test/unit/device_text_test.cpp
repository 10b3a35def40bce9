// The texts in src/device: how a file is cut into pieces, and that everything in them compiles.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/cpp/prelude.h"
#include "codegen/cpp/toolchain.h"
#include "device/pieces.h"
#include "device/text.h"
#include "support/error.h"
#include "wrapper/cpp/support_text.h"

namespace coil::device {
namespace {

TEST(DeviceText, FillTakesTheLongestPlaceholder) {
  const Values values{{"$d", "f32"}, {"$dv", "f32v"}, {"$n;", "a; b;"}};
  EXPECT_EQ(fill("$dv load_$d($dx) { $n; }", values), "f32v load_f32(f32x) { a; b; }");
  EXPECT_EQ(fill("$other ${x} $", values), "$other ${x} $");
  EXPECT_EQ(fill("$d", {{"$d", "$d$dv"}, {"$dv", ""}}), "$d$dv") << "what is filled in stays as it is";
}

TEST(DeviceText, FillDecidesConditionsOnPlaceholders) {
  const std::string text =
      "#if $yes\na\n#if defined(X)\nb\n#else\nc\n#endif\n#else\nd\n#endif\n#if !$yes\ne\n#endif\nf\n";
  EXPECT_EQ(fill(text, {{"$yes", "1"}}), "a\n#if defined(X)\nb\n#else\nc\n#endif\nf\n");
  EXPECT_EQ(fill(text, {{"$yes", "0"}}), "d\ne\nf\n");
  EXPECT_EQ(fill("#if $unknown\na\n#endif\n", {}), "#if $unknown\na\n#endif\n");
}

TEST(DeviceText, PiecesOfAFile) {
  // Two loops, one around pieces and one within a piece.
  const std::vector<Piece> lanes = pieces("cpp/lanes.h");
  const auto sum = std::ranges::find_if(lanes, [](const Piece& p) { return p.names[0] == "c_hsum"; });
  ASSERT_NE(sum, lanes.end());
  EXPECT_NE(sum->text.find("auto c_hsum(V x)"), std::string::npos);
  const std::string gcd = piece("cpp/integer.h", "c_gcd1");
  EXPECT_EQ(gcd, piece("cpp/integer.h", "c_gcd"));
  EXPECT_NE(gcd.find("COIL_FN u8v c_gcd(u8v x, u8v y)"), std::string::npos);
  EXPECT_NE(gcd.find("COIL_FN i64v c_gcd(i64v x, i64v y)"), std::string::npos);
  EXPECT_THROW(piece("cpp/integer.h", "c_nothing"), Error);
  EXPECT_THROW(pieces("cpp/nothing.h"), Error);
}

TEST(DeviceText, KernelsAreCompiledWithoutCommentsAndMarkers) {
  std::size_t kernels = 0;
  for (int i = 0; i < embedded_file_count; ++i) {
    const std::string name(embedded_files[i].name);
    if (!name.starts_with("cpp/") && !name.starts_with("cuda/") && !name.starts_with("shared/")) continue;
    const std::string text = whole(name);
    EXPECT_EQ(text.find("//"), std::string::npos) << name;
    EXPECT_EQ(text.find("#include \""), std::string::npos) << name;
    EXPECT_EQ(text.find("#pragma once"), std::string::npos) << name;
    ++kernels;
  }
  EXPECT_GT(kernels, 25u);
}

TEST(DeviceText, CallsAreFoundByWholeNames) {
  EXPECT_TRUE(calls("y = c_i0(x)", "c_i0"));
  EXPECT_FALSE(calls("y = c_i0e(x) + my_c_i0(x) + c_i0", "c_i0"));
  const std::vector<Piece> chain{{{"a"}, "1"}, {{"b"}, "a(2)"}, {{"c"}, "3"}, {{"d"}, "b(4)"}};
  std::vector<char> marks{0, 0, 0, 1};
  mark_called(chain, marks);
  EXPECT_EQ(marks, (std::vector<char>{1, 1, 0, 1}));
}

/// Compiles a text that is a translation unit of its own; throws Error with the compiler's complaint.
void compile(const codegen::Toolchain& toolchain, const std::string& text) {
  codegen::compile_shared(toolchain, std::vector{text});
}

TEST(DeviceText, EveryPieceOfThePreludeCompiles) {
  const std::set<std::string> names = codegen::prelude_names();
  EXPECT_GT(names.size(), 500u);
  for (const char* compiler : {"g++", "clang++-16"}) {
    for (const char* isa : {"baseline", "avx2", "avx512"}) {
      codegen::Toolchain toolchain;
      try {
        toolchain = codegen::find_toolchain(compiler, isa);
      } catch (const Error&) {
        continue;  // not on this machine
      }
      EXPECT_NO_THROW(compile(toolchain, codegen::prelude(toolchain.lanes, names))) << compiler << " for " << isa;
    }
  }
}

TEST(DeviceText, SupportOfProgramsInCppCompiles) {
  codegen::Toolchain toolchain = codegen::find_toolchain();
  toolchain.flags = {
      "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-I" COIL_TEST_FOLDER "/../include"};
  for (Device device : {Device{}, Device{DeviceType::CUDA, 0}})
    for (bool over_host : {false, !device.is_host()})
      EXPECT_NO_THROW(compile(toolchain, wrapper::cpp_support(device, over_host))) << to_string(device);
}

}  // namespace
}  // namespace coil::device
