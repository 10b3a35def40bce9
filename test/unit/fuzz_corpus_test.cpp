// The fuzz targets without a fuzzer: each file of their corpora, and a fixed number of small changes of each. A finding
// of the fuzzer becomes a file under test/fuzz, and is tried here ever after.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "support/file.h"

extern "C" {
int coil_fuzz_archive(const std::uint8_t*, std::size_t);
int coil_fuzz_package(const std::uint8_t*, std::size_t);
int coil_fuzz_schema(const std::uint8_t*, std::size_t);
int coil_fuzz_text(const std::uint8_t*, std::size_t);
}

namespace coil {
namespace {

namespace fs = std::filesystem;

struct Corpus {
  const char* name;
  int (*target)(const std::uint8_t*, std::size_t);
  const char* folder;
  int changes;  ///< of each file
};

void PrintTo(const Corpus& c, std::ostream* out) { *out << c.name; }

/// A byte changed, a stretch taken out, doubled, or overwritten with another.
void change(std::string& text, std::mt19937& random) {
  auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % std::max<std::size_t>(n, 1)); };
  if (text.empty()) return text.push_back(static_cast<char>(random()));
  const std::size_t at = below(text.size()), length = 1 + below(std::min<std::size_t>(text.size() - at, 16)),
                    from = below(text.size() - length + 1);
  switch (random() % 5) {
    case 0: text[at] = static_cast<char>(random()); break;
    case 1: text[at] = "()[]{}<>,.:=%\"\\-0129 \n"[random() % 23]; break;
    case 2: text.erase(at, length); break;
    case 3: text.insert(at, text.substr(from, length)); break;
    default: text.replace(at, length, text.substr(from, length)); break;
  }
}

class FuzzCorpus : public testing::TestWithParam<Corpus> {};

// A target traps where it finds a fault, so that the last line printed names the input.
TEST_P(FuzzCorpus, HoldsNoSurprise) {
  const Corpus& corpus = GetParam();
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(COIL_TEST_FOLDER) / corpus.folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  std::mt19937 random(1);
  for (const fs::path& file : files) {
    const std::string whole = read_file(file);
    for (int k = 0; k <= corpus.changes; ++k) {
      std::string text = whole;
      for (int i = 0; i < (k + 7) / 8; ++i) change(text, random);
      SCOPED_TRACE(fmt::format("{}, change {}", file.string(), k));
      corpus.target(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FuzzCorpus,
                         testing::Values(Corpus{"archive", coil_fuzz_archive, "fixtures", 40},
                                         Corpus{"package", coil_fuzz_package, "fuzz/package", 400},
                                         Corpus{"schema", coil_fuzz_schema, "fuzz/schema", 1000},
                                         Corpus{"text", coil_fuzz_text, "fuzz/text", 200}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace coil
