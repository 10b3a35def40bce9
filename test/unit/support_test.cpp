#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "error_of.h"
#include "support/file.h"
#include "support/hash.h"
#include "support/log.h"
#include "support/mapped_file.h"
#include "support/pointer_set.h"
#include "support/subprocess.h"
#include "temporary_folder.h"
#include "tensor/safetensors.h"

namespace coil {
namespace {

namespace fs = std::filesystem;

TEST(File, WriteAndReadBack) {
  const TemporaryFolder folder;
  write_file(folder / "a", std::string_view("first"));
  write_file(folder / "a", std::string_view("second"));
  EXPECT_EQ(read_file(folder / "a"), "second");
  EXPECT_EQ(folder.entries(), std::vector<std::string>{"a"});
}

TEST(File, WithoutCommitNothingChanges) {
  const TemporaryFolder folder;
  write_file(folder / "a", std::string_view("old"));
  {
    AtomicFile file(folder / "a");
    file.write(std::string(3 << 20, 'x'));
    EXPECT_EQ(file.position(), 3u << 20);
  }
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(folder.entries(), std::vector<std::string>{"a"});
}

TEST(File, WritesThroughASymbolicLinkAndToDevices) {
  const TemporaryFolder folder;
  write_file(folder / "a", std::string_view("old"));
  fs::create_symlink("a", folder / "link");
  write_file(folder / "link", std::string_view("new"));
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "a"), "new");
  write_file("/dev/null", std::string_view("gone"));
  EXPECT_FALSE(fs::is_regular_file("/dev/null"));
}

TEST(File, ErrorsNameThePath) {
  const TemporaryFolder folder;
  EXPECT_TRUE(has(error_of([&] { read_file(folder / "none"); }), "none: No such file"));
  EXPECT_TRUE(has(error_of([&] { write_file(folder / "no/where", std::string_view("x")); }), "No such file"));
  EXPECT_TRUE(has(error_of([&] { write_file(folder.path(), std::string_view("x")); }), "it is a folder"));
  if (fs::exists("/dev/full")) {
    EXPECT_TRUE(has(error_of([] { write_file("/dev/full", std::string_view("x")); }), "No space left"));
  }
}

TEST(MappedFile, PrivateWritesDoNotReachTheFile) {
  const TemporaryFolder folder;
  write_file(folder / "a", std::string_view("abc"));
  const auto file = MappedFile::open(folder / "a", MappedFile::Mode::CopyOnWrite);
  ASSERT_EQ(file->size(), 3u);
  *file->at(0) = std::byte{'z'};
  EXPECT_EQ(read_file(folder / "a"), "abc");
  write_file(folder / "empty", std::string_view());
  EXPECT_EQ(MappedFile::open(folder / "empty")->size(), 0u);
  EXPECT_TRUE(has(error_of([&] { MappedFile::open(folder.path()); }), "not a regular file"));
}

TEST(Hash, IsXxh3AndPartsCount) {
  EXPECT_EQ(to_hex(hash("")), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(Hasher().add("ab").add("c").digest(), Hasher().add("ab").add("c").digest());
  EXPECT_NE(Hasher().add("ab").add("c").digest(), Hasher().add("a").add("bc").digest());
}

TEST(Subprocess, CapturesStreamsAndExitCode) {
  const auto result = run_process({"sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(run_process({"sh", "-c", "kill -9 $$"}).exit_code, 137);
  EXPECT_EQ(run_process({"sh", "-c", "head -c 300000 /dev/zero"}).out.size(), 300000u);
  EXPECT_TRUE(has(error_of([] { run_process({"no-such-program"}); }), "cannot run no-such-program"));
}

TEST(Subprocess, TimeoutKillsWhatItStarted) {
  const auto result = run_process({"sh", "-c", "sleep 60 & sleep 60"}, {.timeout = std::chrono::milliseconds(50)});
  EXPECT_TRUE(result.timed_out);
  EXPECT_FALSE(result.ok());
}

TEST(Subprocess, FindProgram) {
  EXPECT_TRUE(find_program("sh").has_value());
  EXPECT_FALSE(find_program("no-such-program").has_value());
}

TEST(Log, PrintsStagesAskedForAndOnlyChanges) {
  std::string text;
  Log log({.stages = parse_stages("fx,fusion", {"fx", "fusion", "memory"}),
           .sink = [&](std::string_view s) { text += s; }});
  log("memory", "not {}", "this");
  log("fusion", "buf{}\nbuf{}", 0, 1);
  log.after("fx", "a", [] { return "graph"; });
  log.after("fx", "b", [] { return "graph"; });
  EXPECT_EQ(text, "[fusion] buf0\n[fusion] buf1\n[fx] after a:\n[fx] graph\n[fx] b changed nothing\n");
  EXPECT_TRUE(has(error_of([] { parse_stages("fux", {"fx"}); }), "unknown log stage 'fux'"));
}

TEST(Safetensors, RoundTrip) {
  const TemporaryFolder folder;
  Tensor a = Tensor::empty(DType::F32, {2, 3}), b = Tensor::empty(DType::Bool, {3}),
         scalar = Tensor::empty(DType::I64, {});
  for (int i = 0; i < 6; ++i) a.data<float>()[i] = static_cast<float>(i);
  *scalar.data<std::int64_t>() = 7;
  Tensor transposed = a;
  transposed.sizes = {3, 2};
  transposed.strides = {1, 3};
  const auto path = folder / "t.safetensors";
  write_safetensors(
      path, {{"a", a}, {"a.t", transposed}, {"b", b}, {"n", scalar}, {"none", Tensor::empty(DType::F32, {0, 4})}},
      {{"k", "v"}});
  const Safetensors read = read_safetensors(path);
  EXPECT_EQ(read.metadata.at("k"), "v");
  ASSERT_EQ(read.tensors.size(), 5u);
  EXPECT_EQ(read.tensors.at("a.t").data<float>()[1], 3.0f);
  EXPECT_EQ(read.tensors.at("a").sizes, (Sizes{2, 3}));
  EXPECT_EQ(*read.tensors.at("n").data<std::int64_t>(), 7);
  EXPECT_EQ(read.tensors.at("none").numel(), 0);
}

std::string with_header(std::string header, std::size_t data) {
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + std::string(data, '\0');
}

TEST(PointerSet, HoldsEachPointerOnceAsItGrows) {
  const std::vector<double> items(1000);
  PointerSet<double> set;
  for (std::size_t k = 0; k < items.size(); k += 2) EXPECT_TRUE(set.insert(&items[k]));
  for (std::size_t k = 0; k < items.size(); ++k) {
    EXPECT_EQ(set.contains(&items[k]), k % 2 == 0);
    EXPECT_EQ(set.insert(&items[k]), k % 2 == 1);
  }
  EXPECT_EQ(set.size(), items.size());
}

TEST(Safetensors, RefusesMalformedFiles) {
  const TemporaryFolder folder;
  auto error = [&](const std::string& content) {
    write_file(folder / "t", content);
    return error_of([&] { read_safetensors(folder / "t"); });
  };
  EXPECT_TRUE(has(error("abc"), "shorter than a header"));
  EXPECT_TRUE(has(error(std::string(8, '\xff')), "header of"));
  EXPECT_TRUE(has(error(with_header("[1]", 0)), "no JSON object"));
  EXPECT_TRUE(has(error(with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3)), "outside"));
  EXPECT_TRUE(has(error(with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4)), "need 8 bytes"));
  EXPECT_TRUE(has(error(with_header(R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", 4)), "unknown dtype"));
  EXPECT_TRUE(has(error(with_header(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4)), "not negative"));
  EXPECT_TRUE(has(error(with_header(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                    R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                                    6)),
                  "overlaps"));
  EXPECT_TRUE(
      has(error(with_header(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0)),
          "overflow"));
  EXPECT_TRUE(has(error(with_header("{}", 1)), "belong to no tensor"));
}

}  // namespace
}  // namespace coil
