// In the place of a product whose operands the copy engine fetches, on the driver of test/fake_cuda: x times w by the
// descriptors behind the kernel's other arguments, in bf16, w's rows lying side by side. It writes down what they say.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

/// What the fake driver's cuTensorMapEncodeTiled puts into 128 bytes.
struct Map {
  std::uint16_t* data;
  std::uint8_t element, rank, interleave, swizzle, promotion, fill, unused[2];
  std::uint32_t box[5], padding;
  std::uint64_t sizes[5], strides[4], rest[2];
};
static_assert(sizeof(Map) == 128);

float value(std::uint16_t x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x) << 16;
  float out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

std::uint16_t rounded(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void print(std::FILE* file, const Map& m) {
  std::fprintf(file, "element %d swizzle %d tile %u %u %u of %llu %llu %llu by %llu %llu\n", m.element, m.swizzle,
               m.box[0], m.box[1], m.box[2], static_cast<unsigned long long>(m.sizes[0]),
               static_cast<unsigned long long>(m.sizes[1]), static_cast<unsigned long long>(m.sizes[2]),
               static_cast<unsigned long long>(m.strides[0]), static_cast<unsigned long long>(m.strides[1]));
}

}  // namespace

extern "C" void SYMBOL(const std::uint64_t* words, const std::uint64_t* grid, unsigned block) {
  constexpr int kResult = 2;  // among the pointers
  Map x, w;
  std::memcpy(&x, words + FIRST_MAP, sizeof x);
  std::memcpy(&w, words + FIRST_MAP + 16, sizeof w);
  auto* const y = reinterpret_cast<std::uint16_t*>(words[kResult]);
  const std::uint64_t columns = w.sizes[0];
  for (std::uint64_t i = 0; i < x.sizes[1]; ++i)
    for (std::uint64_t j = 0; j < columns; ++j) {
      float sum = 0;
      for (std::uint64_t k = 0; k < x.sizes[0]; ++k)
        sum += value(x.data[i * x.strides[0] / 2 + k]) * value(w.data[k * w.strides[0] / 2 + j]);
      y[i * columns + j] = rounded(sum);
    }
  std::FILE* file = std::fopen(std::getenv("COIL_TEST_LAUNCHES"), "a");
  std::fprintf(file, "%llu x %u\n", static_cast<unsigned long long>(grid[0]), block);
  print(file, x);
  print(file, w);
  std::fclose(file);
}
