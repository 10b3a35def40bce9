// The transforms of Winograd's minimal filtering around products by panels (runtime/ops/panel/winograd.h), in vectors
// of AVX-512 and of AVX2. Like kernels.h, this header includes nothing with inline functions.
#pragma once
#include <cstdint>

namespace coil::runtime::panels {

/// The points that transforms are taken at, beside 0 and infinity: p and -p for each of them.
struct Points {
  const float* of = nullptr;
  int pairs = 0;  ///< 1 for tiles of 2x2, 2 for tiles of 4x4
};

/// A square of the input to its terms, V = Bt d B. Channels are neighbours.
struct SquareIn {
  Points points;
  const float* from = nullptr;  ///< the square's first place, which may lie outside of the input
  std::int64_t line_step = 0, place_step = 0;
  unsigned lines = 0, places = 0;  ///< a bit for each that lies in the input; the others hold zeros
  std::int64_t channels = 0;
  float* to = nullptr;  ///< whole vectors of channels are written
  std::int64_t term_step = 0;
};

/// Terms to a tile of results, Y = At M A.
struct SquareOut {
  Points points;
  const float* from = nullptr;
  std::int64_t term_step = 0;
  int vectors = 1;  ///< of neighbouring results
  float* to = nullptr;
  std::int64_t line_step = 0, place_step = 0;
};

struct WinogradKernels {
  /// Whether all of the square is there and small enough for the sums: beside a number of 1e12, what lies in the same
  /// square keeps no digit.
  bool (*in)(const SquareIn&);
  bool (*out)(const SquareOut&);  ///< whether all results are finite
};

extern const WinogradKernels kWinogradAvx512, kWinogradAvx2;  ///< on x86-64 alone

}  // namespace coil::runtime::panels
