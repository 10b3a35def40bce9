// Where the seeds of a program's random operators come from: a new one for each run.
#pragma once
#include <cstdint>
#include <mutex>

namespace coil::runtime {

/// A sequence of seeds (SplitMix64: Steele, Lea and Flood 2014), at first from the system's entropy. Threads may draw
/// at once.
class Seeds {
 public:
  Seeds();
  /// The sequence that begins here from now on.
  void seed(std::uint64_t);
  std::uint64_t next();

 private:
  std::mutex mutex_;
  std::uint64_t state_ = 0;
};

}  // namespace coil::runtime
