// What autotuning asks of a device: how long a kernel takes there in each of several launch configs.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/tensor_map.h"

namespace coil::autotune {

/// A byte of small numbers in every format: a machine that multiplies zeros runs faster than it does with a program.
inline constexpr unsigned char kSmallNumbers = 0x3c;

/// The share of the usual choice's time that another must stay below to be taken: less is the clock's noise, and the
/// usual choice holds for other sizes too.
inline constexpr double kWorth = 0.97;

/// A kernel ready to launch, with sizes bound.
struct Trial {
  std::string symbol;
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::uint32_t block = 0, shared_bytes = 0;
  std::vector<std::uint64_t> buffers;  ///< bytes of each
  std::vector<std::int64_t> scalars;
  // How its arguments lie behind the pointers: kernels in Triton have scalars of other widths, a status where they may
  // fail alone, and scratch memory, which is none.
  std::uint32_t scalar_bytes = 8;
  bool status = true;
  std::uint32_t scratch_words = 0;
  unsigned char fill = 0;  ///< what each byte of its buffers holds before
  /// A descriptor behind its other arguments.
  struct Map {
    std::size_t buffer = 0;
    std::uint64_t offset = 0;  ///< bytes into it
    runtime::TensorMapShape shape;
    bool operator==(const Map&) const = default;
  };
  std::vector<Map> maps;
  bool operator==(const Trial&) const = default;
};

class Timer {
 public:
  virtual ~Timer() = default;
  /// The device and its driver: times are good for this alone.
  virtual const std::string& identity() const = 0;
  /// The kernels that trials name from now on. Throws Error when the device cannot load them.
  virtual void load(std::span<const std::vector<std::byte>> libraries) = 0;
  /// Milliseconds of each trial, on memory that holds what they say. The trials are one kernel's configs, and take
  /// turns. Nothing for one that cannot run here. Throws Error when the device fails.
  virtual std::vector<std::optional<double>> time(std::span<const Trial>) = 0;
};

/// For each of `count` things the middle of several times, which `once` measures in milliseconds; nothing for one of
/// which it once gave nothing. They take turns, so that what slows the machine slows all of them.
std::vector<std::optional<double>> time_in_turns(std::size_t count,
                                                 const std::function<std::optional<double>(std::size_t)>& once);

}  // namespace coil::autotune
