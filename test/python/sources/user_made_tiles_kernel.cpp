// In the place of a user's `made_tiles_kernel` on the driver of test/fake_cuda: out = x * factor, by the argument block
// that Triton's kernel takes. It fills the memory that it has for itself, 256 bytes for each block, and writes to a
// file how that lies.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" void SYMBOL(const std::uint64_t* words, const std::uint64_t* grid, unsigned block) {
  const auto* x = reinterpret_cast<const float*>(words[0]);
  auto* out = reinterpret_cast<float*>(words[1]);
  std::int32_t sizes[2];
  std::memcpy(sizes, words + 2, sizeof sizes);
  float factor = 0;
  std::memcpy(&factor, words + 3, sizeof factor);
  const std::uint64_t bytes = 256 * grid[0] * grid[1] * grid[2];
  std::memset(reinterpret_cast<void*>(words[4]), 0xff, bytes);
  for (std::int32_t i = 0; i < sizes[0] * sizes[1]; ++i) out[i] = x[i] * factor;
  std::FILE* file = std::fopen(std::getenv("COIL_TEST_LAUNCHES"), "a");
  std::fprintf(file, "%llu %llu x %u: %d by %d, workspace at a multiple of 128: %d\n",
               static_cast<unsigned long long>(grid[0]), static_cast<unsigned long long>(grid[1]), block, sizes[0],
               sizes[1], words[4] != 0 && words[4] % 128 == 0);
  std::fclose(file);
}
