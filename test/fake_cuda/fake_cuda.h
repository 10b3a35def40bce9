// A driver of CUDA for tests: devices whose memory lies on the host, a few kernels written in C++, streams that run
// late and in any order that they allow. What it may not be asked it refuses as CUDA does.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace coil::fake_cuda {

/// A call that fails: after `skip` more calls of the function, `count` times.
struct Fault {
  int result = 0, skip = 0, count = 1;
};

/// What the machine is, and what was asked of it. Tests set it before they open the driver, and read it when nothing
/// runs.
struct Machine {
  int devices = 2, version = 13000, capability = 90;
  std::size_t memory = std::size_t{64} << 20;  ///< of each device
  std::map<std::string, Fault> faults;         ///< by symbol: `cuMemAlloc_v2`
  std::map<std::string, double> milliseconds;  ///< that a kernel takes, by name, as events tell; others: none
  unsigned seed = 1;                           ///< of the order in which work is done

  double clock = 0;                 ///< milliseconds of all launches so far
  std::vector<std::string> calls;   ///< of functions that do something: `cuLaunchKernel scale on device 0`, in order
  std::map<int, std::size_t> used;  ///< bytes taken, by device
  std::size_t live_streams = 0, live_events = 0, live_graphs = 0;
  std::size_t overtaken = 0;  ///< work that was done before older work

  std::size_t count(const std::string& prefix) const {
    std::size_t n = 0;
    for (const std::string& c : calls) n += c.starts_with(prefix);
    return n;
  }
};

}  // namespace coil::fake_cuda

/// The machine of this process. After `coil_fake_cuda_reset` it is as new.
extern "C" coil::fake_cuda::Machine* coil_fake_cuda();
extern "C" void coil_fake_cuda_reset();
