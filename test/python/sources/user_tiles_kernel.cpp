// In the place of a user's `tiles_kernel` on the driver of test/fake_cuda: out = x * 2.5, by the descriptors in the
// argument block that Triton's kernel takes, which it also writes to a file, but for the addresses.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

/// What the fake driver's cuTensorMapEncodeTiled puts into 128 bytes.
struct Map {
  float* data;
  std::uint8_t element, rank, interleave, swizzle, promotion, fill, unused[2];
  std::uint32_t box[5], padding;
  std::uint64_t sizes[5], strides[4], rest[2];
};
static_assert(sizeof(Map) == 128);

void print(std::FILE* file, const std::uint64_t* words) {
  Map m;
  std::memcpy(&m, words, sizeof m);
  std::int32_t sizes[2];
  std::memcpy(sizes, words + 16, sizeof sizes);
  std::fprintf(file, "element %d rank %d modes %d %d %d %d tile %u %u of %llu %llu by %llu, %d %d by %lld %lld\n",
               m.element, m.rank, m.interleave, m.swizzle, m.promotion, m.fill, m.box[0], m.box[1],
               static_cast<unsigned long long>(m.sizes[0]), static_cast<unsigned long long>(m.sizes[1]),
               static_cast<unsigned long long>(m.strides[0]), sizes[0], sizes[1], static_cast<long long>(words[17]),
               static_cast<long long>(words[18]));
}

}  // namespace

extern "C" void SYMBOL(const std::uint64_t* words, const std::uint64_t* grid, unsigned block) {
  constexpr int kSecond = 24;  // 19 words of the first, and the next multiple of 64 bytes
  Map x, out;
  std::memcpy(&x, words, sizeof x);
  std::memcpy(&out, words + kSecond, sizeof out);
  float factor = 0;
  std::memcpy(&factor, words + kSecond + 19, sizeof factor);
  for (std::uint64_t i = 0; i < out.sizes[1]; ++i)
    for (std::uint64_t j = 0; j < out.sizes[0]; ++j)
      out.data[i * out.strides[0] / 4 + j] = x.data[i * x.strides[0] / 4 + j] * factor;
  std::FILE* file = std::fopen(std::getenv("COIL_TEST_LAUNCHES"), "a");
  std::fprintf(file, "%llu %llu %llu x %u, %llx %llx\n", static_cast<unsigned long long>(grid[0]),
               static_cast<unsigned long long>(grid[1]), static_cast<unsigned long long>(grid[2]), block,
               static_cast<unsigned long long>(words[kSecond + 20]),
               static_cast<unsigned long long>(words[kSecond + 21]));
  print(file, words);
  print(file, words + kSecond);
  std::fclose(file);
}
