// Runs plans: a loaded model, and contexts that hold what one call at a time needs.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/threads.h"
#include "runtime/host/host.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/program.h"
#include "tensor/tensor.h"

namespace coil::runtime {

/// A value given to or taken from a run; numbers are 0-d tensors of int64, float64 or bool.
struct RunResult {
  std::vector<Tensor> outputs;  ///< one for each of plan.outputs (None: a tensor without storage)
};

struct MemoryUse {
  std::size_t arena_bytes = 0, output_bytes = 0, weight_bytes = 0, workspace_bytes = 0;
};

/// Memory for one output.
using OutputAllocator = std::function<Storage(std::size_t bytes)>;
/// Told of inputs, by their places, that the rest of the run leaves alone.
using InputsDone = std::function<void(std::span<const std::uint32_t> inputs)>;
/// Whether the caller lets go of an input, by its place, as soon as it is told.
using MayGo = std::function<bool(std::uint32_t input)>;

class DeviceRuntime;
class Model;

/// Recordings that a context keeps unless it is told otherwise.
inline constexpr std::size_t kRecordedRuns = 8;

/// State of one call at a time: bound sizes, arena, prepared library calls. Make one for each thread that calls.
class Context {
 public:
  explicit Context(std::shared_ptr<const Model>);
  ~Context();
  /// Inputs in plan order, borrowed for the call; those the program mutates are written. Throws Error on wrong count,
  /// dtype, rank, size, naming the input and the rule. Allocates nothing after the first call with the same sizes but
  /// the outputs, which come from a pool that keeps its pages. On a device that runs ahead of the host (CUDA) it
  /// returns when the work is queued: outputs are memory of the device, and what went wrong on it is said by `wait` or
  /// the next call. Inputs may lie on the program's device or on the host; the call waits when memory of the host is
  /// read or written.
  RunResult run(std::span<const Tensor> inputs);
  /// The same into `outputs`, whose old tensors are let go first (no input may be one of them) and whose vectors are
  /// reused: with the same sizes as the last call's it allocates nothing at all.
  void run_into(std::span<const Tensor> inputs, std::vector<Tensor>& outputs);
  /// The same where the inputs differ from those of this context's last run, which did not fail, in nothing but where
  /// their memory lies: nothing else of them is looked at.
  void run_alike_into(std::span<const Tensor> inputs, std::vector<Tensor>& outputs);
  /// Outputs come from `allocate(bytes)` from now on (at least 64-byte aligned, or Error); an empty function restores
  /// the pool.
  void set_output_allocator(OutputAllocator allocate);
  /// During a run, `done` hears of inputs once the last step that reads them has run (on a device that runs ahead: is
  /// queued), so that their owner may let go of them; not of those that an output views, that the program writes to or
  /// that lie on another device, nor of a program that is recorded or has sizes that only its run tells. An empty
  /// function: nobody hears. `may_go` is asked when sizes are bound: the memory that goes is reckoned with where
  /// temporaries are placed. `may_take` is asked in each run, of inputs in whose memory the program makes values of its
  /// own (Input::taken): whether nobody else has that memory; else, and without the function, the run copies them.
  void set_inputs_done(InputsDone done, MayGo may_go = {}, MayGo may_take = {});
  /// On a device that runs ahead: outputs, temporaries and scratch memory all come from `allocate` from now on, and
  /// temporaries go back as soon as a run's work is queued, so that programs which take turns on one stream share them.
  /// An empty function restores the pool. Temporaries are then allocated in a few pieces where that keeps the most that
  /// is there at once down (runtime/plan/arena_pieces.h), unless the program is recorded.
  void borrow_memory(OutputAllocator allocate);
  /// What a run that finds no memory half way leaves of inputs and states that the program writes to: as they were,
  /// which takes having all memory before the first step (false, as at first); or what the steps before wrote, as in
  /// eager, and memory is taken when it is needed.
  void set_writes_as_eager(bool);
  /// Returns when the device has done what runs have queued. Throws Error when some of it failed.
  void wait();
  /// Queues work on a stream of the caller's (a CUstream of the program's device) from now on; null: on one of the
  /// context's own, which keeps order with CUDA's default stream.
  void set_stream(void* stream);
  /// The plan's parts, which lie between what cannot be recorded (the host's steps, numbers that the host reads), are
  /// recorded as CUDA graphs and launched whole where they come again with the same sizes and memory. What the device
  /// will not record is queued step by step, and a message (runtime/device/messages.h) says why. No effect on devices
  /// that cannot record. `most`: how many recordings are kept of each part, those last used; of parts in loops and
  /// branches, eight times as many.
  void set_recording(bool, std::size_t most = kRecordedRuns);
  /// Asked between turns of loops from now on; where it says true the run ends with an Error. The context is as good
  /// for the next run as before. An empty function: nobody is asked.
  void set_stop(std::function<bool()> asked);
  /// The seed of the next run's random numbers; without it the model's own sequence gives one.
  void set_seed(std::uint64_t seed);
  /// One run, with the seconds that each step of the plan took, from its start to its end. Runs after it are as they
  /// were.
  std::vector<double> time_steps(std::span<const Tensor> inputs);
  /// A copy on the host (itself when it is there), after waiting for it; laid out alike if the tensor has no holes.
  Tensor to_host(const Tensor&);
  /// Copies a tensor of this device or the host into memory of the host, and waits for it.
  void copy_to_host(const Tensor& to, const Tensor& from);
  MemoryUse memory() const;
  /// The most bytes that runs had from the device's pool at once since `begin_measuring`, outputs that are still held
  /// and scratch memory included.
  void begin_measuring();
  std::uint64_t measured_bytes() const;
  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Immutable after load; shared by contexts.
class Model {
 public:
  /// Opens the program's device, loads kernel libraries, resolves symbols, refuses an instruction set that this machine
  /// lacks and operators left to a host that has none of that name; weights go to the device.
  static std::shared_ptr<const Model> load(StoredProgram, Host = {});
  static std::shared_ptr<const Model> load(StoredProgram, std::shared_ptr<DeviceRuntime>, Host = {});
  static std::shared_ptr<const Model> load_package(const std::filesystem::path&);
  /// The same program with other values in some of its constants, by name; kernels and all other constants are shared
  /// with this one. Constants that share memory see the change together. Throws Error for a name that is not there, a
  /// wrong dtype or size, and a weight that is stored packed for the library.
  std::shared_ptr<const Model> with_constants(const std::map<std::string, Tensor>& values) const;
  /// The same program on the caller's memory: its constants are these tensors, one for each of the plan's, where they
  /// lie. They are the caller's to write to while nothing runs. States are written to there: contexts see each other's
  /// writes, and one may run at a time where the program has states. Throws Error for a tensor that is not what the
  /// plan says, lies on another device, or at an address that kernels cannot read from.
  std::shared_ptr<const Model> over_memory(std::vector<Tensor> constants) const;
  /// The constants as they lie in memory, one for each of the plan's.
  const std::vector<Tensor>& constants() const;
  /// Random numbers of calls from now on follow from this number and the order of calls; at first they follow from the
  /// system's entropy. Shared with models made by `with_constants`.
  void seed(std::uint64_t) const;
  const Plan& plan() const;
  const std::string& provenance() const;  ///< as the program had it
  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  Model() = default;
  std::shared_ptr<Impl> impl_;
};

}  // namespace coil::runtime
