#include "runtime/executor/seeds.h"

#include <random>

namespace coil::runtime {

Seeds::Seeds() {
  std::random_device entropy;
  state_ = std::uint64_t{entropy()} << 32 | entropy();
}

void Seeds::seed(std::uint64_t seed) {
  std::lock_guard lock(mutex_);
  state_ = seed;
}

std::uint64_t Seeds::next() {
  std::lock_guard lock(mutex_);
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace coil::runtime
