// Matrix products by measurement: each of the library's algorithms that its heuristics name first is timed, and the
// fastest is written into the call and remembered on disk.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "autotune/launches.h"
#include "runtime/device/library.h"

namespace coil::autotune {

/// A library call with sizes bound.
struct CallTrial {
  std::string op;
  runtime::Attributes attributes;
  std::vector<runtime::BoundView> inputs, outputs;
};

class CallTimer {
 public:
  virtual ~CallTimer() = default;
  /// The device, its driver and its library: times are good for this alone, and the runtime knows its own by it.
  virtual const std::string& identity() const = 0;
  /// Milliseconds of each, on memory of small numbers, in turns; nothing for one that cannot run here.
  virtual std::vector<std::optional<double>> time(std::span<const CallTrial>) = 0;
};

/// The call at the sizes that are measured; nothing where one is not known.
std::optional<CallTrial> trial_of(const ir::Graph&, const ir::Extern&, const ToldSizes&);
/// All that its time depends on, in words.
std::string to_string(const CallTrial&);

/// Whether an operation is one that has algorithms to choose from.
bool is_product(const ir::Operation&);

/// Sets the attributes `algorithm` and `algorithm_for` of `linear` and `matmul` calls whose sizes are known or taken
/// for something (MeasuredSizes). The heuristics' first stays unless another is clearly faster. Returns a line for each
/// distinct call.
std::string choose_algorithms(ir::Graph&, CallTimer&, const LaunchOptions&);

/// On a CUDA device. Throws Error when there is none, or no cuBLASLt.
std::unique_ptr<CallTimer> make_cuda_call_timer(int index);

}  // namespace coil::autotune
