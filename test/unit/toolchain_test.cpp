// The host compiler: what it makes, how it refuses, and a cache that survives damage.
#include "codegen/cpp/toolchain.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "kernel_library.h"
#include "support/file.h"

namespace coil::codegen {
namespace {

namespace fs = std::filesystem;

std::string constant_kernel(int value) {
  return fmt::format("extern \"C\" void k(void* const* b, const long*, long, long) {{ *(int*)b[0] = {}; }}\n", value);
}

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

struct Scratch {
  fs::path path;
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "coil-test-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~Scratch() { fs::remove_all(path); }
};

TEST(Toolchain, CompilesSeveralSourcesInOrder) {
  Toolchain toolchain = find_toolchain();
  std::vector<std::string> sources{constant_kernel(3), constant_kernel(4), constant_kernel(5)};
  auto objects = compile_shared(toolchain, sources, {.jobs = 3});
  ASSERT_EQ(objects.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    test::KernelLibrary library(toolchain, sources[i]);
    int value = 0;
    void* buffers[] = {&value};
    library["k"](buffers, nullptr, 0, 0);
    EXPECT_EQ(value, i + 3);
    EXPECT_EQ(objects[i], compile_shared(toolchain, std::span(sources).subspan(i, 1))[0]);
  }
}

TEST(Toolchain, SaysWhatIsMissing) {
  EXPECT_EQ(message_of([] { find_toolchain("no-such-compiler"); }),
            "no C++ compiler no-such-compiler: install it, or set cpu.compiler to another");
  EXPECT_EQ(message_of([] { find_toolchain("", "avx1024"); }),
            "cpu.isa is avx1024: it may be native, avx512, avx2 or baseline");
  std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  EXPECT_EQ(message_of([] { find_toolchain(); }), "no C++ compiler found: install g++ or clang++, or set cpu.compiler");
  ::setenv("PATH", path.c_str(), 1);
}

TEST(Toolchain, JoinsMultiplicationsAndAdditionsWhereKernelsRunOften) {
  Toolchain toolchain = find_toolchain();
  if (toolchain.lanes < 8) GTEST_SKIP() << "the instruction set has no fused multiplication and addition";
  const std::string source =
      "extern \"C\" void k(void* const* b, const long*, long, long) { float* x = (float*)b[0]; x[3] = x[0] * x[1] + "
      "x[2]; }\n";
  float x[] = {1 + 0x1p-12f, 1 + 0x1p-12f, -1 - 0x1p-11f, 0};
  void* buffers[] = {x};
  test::KernelLibrary library(toolchain, source);
  library["k"](buffers, nullptr, 0, 0);
  EXPECT_EQ(x[3], 0x1p-24f);
  optimize_less(toolchain);
  EXPECT_NO_THROW(compile_shared(toolchain, std::vector{source}));
}

TEST(Toolchain, ReportsTheFirstComplaint) {
  std::string message =
      message_of([] { compile_shared(find_toolchain(), std::vector<std::string>{"int f() { return nothing; }"}); });
  EXPECT_NE(message.find("refused a kernel"), std::string::npos) << message;
  EXPECT_NE(message.find("nothing"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(Toolchain, CacheHitsNeedNoCompilerAndDamagedEntriesAreMisses) {
  Scratch scratch;
  Toolchain toolchain = find_toolchain();
  CompileSharedOptions options{.jobs = 1, .cache_folder = scratch.path / "cache"};
  std::vector<std::string> sources{constant_kernel(7)};
  auto first = compile_shared(toolchain, sources, options);
  Toolchain without = toolchain;
  without.compiler = "/nowhere/c++";
  EXPECT_EQ(compile_shared(without, sources, options), first);

  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(*options.cache_folder)) entries.push_back(entry.path());
  ASSERT_EQ(entries.size(), 1u);
  std::string whole = read_file(entries[0]);
  std::string flipped = whole;
  flipped[flipped.size() / 2] ^= 1;
  for (const std::string& damaged : {whole.substr(0, whole.size() / 2), std::string(), flipped}) {
    std::ofstream(entries[0], std::ios::binary | std::ios::trunc) << damaged;
    EXPECT_THROW(compile_shared(without, sources, options), Error);
    EXPECT_EQ(compile_shared(toolchain, sources, options), first);
    EXPECT_EQ(compile_shared(without, sources, options), first);
  }
  // Other flags, another compiler or another source are other entries.
  Toolchain other = without;
  other.flags.push_back("-DX");
  EXPECT_THROW(compile_shared(other, sources, options), Error);
  EXPECT_THROW(compile_shared(without, std::vector{constant_kernel(8)}, options), Error);
}

TEST(Toolchain, InstructionSetsDecideLanes) {
  EXPECT_EQ(find_toolchain("", "avx512").lanes, 16);
  EXPECT_EQ(find_toolchain("", "avx2").lanes, 8);
  EXPECT_EQ(find_toolchain("", "baseline").lanes, 4);
  EXPECT_EQ(find_toolchain("", "native").isa, machine_isa());
  EXPECT_TRUE(machine_runs(machine_isa()));
  EXPECT_TRUE(machine_runs("baseline"));
  EXPECT_FALSE(machine_runs("baseline+neon"));
}

}  // namespace
}  // namespace coil::codegen
