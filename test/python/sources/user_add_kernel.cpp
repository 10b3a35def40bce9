// In the place of a user's `add_kernel` on the driver of test/fake_cuda: out = x + 3 y, by the argument block that
// Triton's kernel takes, which it also writes to a file with the grid and the block.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" void SYMBOL(const std::uint64_t* words, const std::uint64_t* grid, unsigned block) {
  const auto* x = reinterpret_cast<const float*>(words[0]);
  const auto* y = reinterpret_cast<const float*>(words[1]);
  auto* out = reinterpret_cast<float*>(words[2]);
  std::int32_t n = 0;
  std::memcpy(&n, words + 3, sizeof n);
  for (std::int32_t i = 0; i < n; ++i) out[i] = x[i] + 3 * y[i];
  std::FILE* file = std::fopen(std::getenv("COIL_TEST_LAUNCHES"), "a");
  std::fprintf(file, "%llu %llu %llu x %u:", static_cast<unsigned long long>(grid[0]),
               static_cast<unsigned long long>(grid[1]), static_cast<unsigned long long>(grid[2]), block);
  for (int i = 3; i < 6; ++i) std::fprintf(file, " %llx", static_cast<unsigned long long>(words[i]));
  std::fprintf(file, " aligned %d\n", words[0] % 16 == 0 && words[1] % 16 == 0 && words[2] % 16 == 0);
  std::fclose(file);
}
