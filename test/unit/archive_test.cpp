#include <fstream>

#include "error_of.h"
#include "support/archive.h"
#include "support/subprocess.h"
#include "temporary_folder.h"

namespace coil {
namespace {

Archive in_memory(const std::string& content, ArchiveLimits limits = {}) {
  auto copy = std::make_shared<std::string>(content);
  return Archive::from_bytes(
      {std::shared_ptr<std::byte>(copy, reinterpret_cast<std::byte*>(copy->data())), content.size()}, "test.zip",
      limits);
}

std::string written(const std::vector<std::pair<std::string, std::string>>& entries, std::size_t alignment = 64) {
  const TemporaryFolder folder;
  ArchiveWriter writer(folder / "a.zip", alignment);
  for (const auto& [name, content] : entries) writer.add(name, content);
  writer.commit();
  return read_file(folder / "a.zip");
}

/// `content` with every occurrence of `from` replaced by `to`, of the same length.
std::string patched(std::string content, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = content.find(from, at)) != std::string::npos; at += to.size())
    content.replace(at, from.size(), to);
  return content;
}

TEST(Archive, WrittenEntriesReadBackAligned) {
  const std::string bytes = written({{"m/a", "alpha"}, {"m/empty", ""}, {"m/b/c", std::string(5000, 'x')}});
  const Archive archive = in_memory(bytes);
  EXPECT_EQ(archive.names(), (std::vector<std::string>{"m/a", "m/b/c", "m/empty"}));
  EXPECT_EQ(archive.read("m/a").text(), "alpha");
  EXPECT_EQ(archive.size("m/b/c"), 5000u);
  EXPECT_EQ(archive.read("m/empty").size, 0u);
  EXPECT_EQ(bytes.find("alpha") % 64, 0u);
  EXPECT_EQ(bytes.find("xxxx") % 64, 0u);
  EXPECT_EQ(written({{"a", "alpha"}}, ArchiveWriter::kPage).find("alpha"), 4096u);
  EXPECT_EQ(bytes, written({{"m/a", "alpha"}, {"m/empty", ""}, {"m/b/c", std::string(5000, 'x')}}));
  EXPECT_TRUE(has(error_of([&] { archive.map("m/none"); }), "has no entry 'm/none'"));
}

TEST(Archive, OtherToolsReadAndWriteTheSame) {
  if (!find_program("python3")) GTEST_SKIP() << "no python3";
  const TemporaryFolder folder;
  ArchiveWriter writer(folder / "a.zip");
  writer.add("a", "alpha");
  writer.add("d/b", std::string(300000, 'y'));
  writer.commit();
  const std::string script =
      "import zipfile, sys\n"
      "z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; assert z.read('a') == b'alpha'\n"
      "o = zipfile.ZipFile(sys.argv[2], 'w', zipfile.ZIP_DEFLATED)\n"
      "[o.writestr(n, z.read(n)) for n in z.namelist()]; o.writestr('d/', ''); o.close()\n";
  const auto result = run_process({"python3", "-c", script, folder / "a.zip", folder / "b.zip"});
  ASSERT_TRUE(result.ok()) << result.err;
  const Archive archive = Archive::open(folder / "b.zip");
  EXPECT_EQ(archive.names(), (std::vector<std::string>{"a", "d/b"}));
  EXPECT_EQ(archive.map("d/b").text(), std::string(300000, 'y'));
  EXPECT_TRUE(has(error_of([&] { Archive::open(folder / "b.zip", {.inflated_bytes = 1000, .inflated_ratio = 1}); }),
                  "would inflate to 300005"));
}

TEST(Archive, RefusesNamesThatEscapeOrRepeat) {
  const std::string bytes = written({{"aaaaaaa", "1"}, {"bbbbbbb", "2"}});
  for (const auto& [name, fault] : std::vector<std::pair<std::string, std::string>>{{"../bbbb", "leaves"},
                                                                                    {"bbbb/..", "leaves"},
                                                                                    {"b/../bb", "leaves"},
                                                                                    {"/bbbbbb", "absolute"},
                                                                                    {"b\\bbbbb", "backslash"},
                                                                                    {"c:bbbbb", "drive"},
                                                                                    {"aaaaaaa", "twice"}})
    EXPECT_TRUE(has(error_of([&] { in_memory(patched(bytes, "bbbbbbb", name)); }), fault)) << name;
  EXPECT_TRUE(has(error_of([&] { written({{"a", ""}, {"a", ""}}); }), "twice"));
  EXPECT_TRUE(has(error_of([&] { written({{"../a", ""}}); }), "leaves"));
  const std::size_t central = bytes.rfind("bbbbbbb");
  std::string renamed = bytes;
  renamed[central] = 'c';
  EXPECT_TRUE(has(error_of([&] { in_memory(renamed).map("cbbbbbb"); }), "another name"));
}

TEST(Archive, AWrongChecksumIsFoundByRead) {
  std::string bytes = written({{"a", "alpha"}});
  bytes[bytes.find("alpha")] = 'A';
  EXPECT_EQ(in_memory(bytes).map("a").text(), "Alpha");
  EXPECT_TRUE(has(error_of([&] { in_memory(bytes).read("a"); }), "wrong checksum"));
}

TEST(Archive, EveryTruncationIsRefused) {
  const std::string bytes = written({{"a", "alpha"}, {"b", "beta"}});
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(error_of([&] { in_memory(bytes.substr(0, size)); }), "no error") << size;
}

TEST(Archive, DamageIsAnErrorOrHarmless) {
  const std::string bytes = written({{"a", "alpha"}, {"b", "beta"}});
  for (std::size_t at = 0; at < bytes.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
      error_of([&] {
        const Archive archive = in_memory(damaged);
        for (const std::string& name : archive.names()) archive.read(name);
      });
    }
}

}  // namespace
}  // namespace coil
