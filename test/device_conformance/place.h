// A device under test, as the command line names it.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/executor/executor.h"
#include "tensor/tensor.h"

namespace coil::conformance {

struct Place {
  std::string name;  ///< `cpu`, `cuda`, `emulated`, `fake`, or a kind of device that a library brought
  Device device;
  std::map<std::string, std::string> settings;  ///< of programs compiled for it
  bool compiles = true;

  /// For one model, or for queues alone.
  std::shared_ptr<runtime::DeviceRuntime> open() const;
};

/// For messages of failures.
inline void PrintTo(const Place& place, std::ostream* to) { *to << place.name; }

/// Those that the command line asked for.
std::vector<Place>& places();

class DeviceTest : public testing::TestWithParam<Place> {
 protected:
  const Place& place() const { return GetParam(); }
  std::unique_ptr<runtime::Queue> make_queue() const { return place().open()->make_queue(); }
};

/// A tensor of the queue's device in memory of its own, with room for `span` elements.
Tensor empty_on(runtime::Queue&, DType, Sizes sizes, Sizes strides, std::int64_t span);
inline Tensor empty_on(runtime::Queue& queue, DType type, const Sizes& sizes) {
  return empty_on(queue, type, sizes, contiguous_strides(sizes), numel(sizes));
}
/// Random, the same for the same seed: floats in [-2, 2), small integers from 0 on, both truths.
Tensor random_on_host(DType, const Sizes& sizes, unsigned seed);
/// A dense copy on the host.
Tensor to_host(runtime::Queue&, const Tensor&);
/// Whether two tensors of the host have the same elements, bit for bit.
testing::AssertionResult same(const Tensor& got, const Tensor& expected);
/// Whether they have, but for what another order of additions may change.
testing::AssertionResult close(const Tensor& got, const Tensor& expected);

}  // namespace coil::conformance
