// A plan with the sizes of one call bound: every pointer, scalar and extent resolved, so that calls with the same sizes only patch inputs and outputs.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/device.h"
#include "runtime/library.h"
#include "runtime/lifetime_checker.h"
#include "runtime/model.h"
#include "runtime/recorded_parts.h"
#include "runtime/shape_program.h"

namespace coil::runtime {

/// A word of the table: a pointer that refers to a place `offset` bytes into some memory.
struct Patch {
  std::uint32_t word = 0;
  std::uint64_t offset = 0;
};

struct BoundInput {
  Sizes sizes, strides;         ///< as kernels assume them
  std::int64_t span = 0;        ///< elements that the layout reaches over
  bool aliased = false;         ///< an output views it
  std::uint32_t last = 0;       ///< the last bound step that uses it, where there are patches
  std::vector<Patch> patches;
};

struct BoundOutputBuffer {
  std::size_t bytes = 0;
  std::uint32_t first = 0;      ///< the first bound step that uses it, where there are patches
  std::vector<Patch> patches;
};

/// What a run tells of memory that is not its own. Each may be empty.
struct MemoryHooks {
  OutputAllocator allocate;                                      ///< memory of outputs whose sizes only the run tells
  std::function<void(std::uint32_t output)> output_needed;       ///< before the first step that uses an output buffer: it is to be placed
  std::function<void(std::span<const std::uint32_t>)> inputs_done;  ///< after a step: no later one uses these inputs
};

struct BoundResult {
  enum class Source : std::uint8_t { None, Number, Fresh, Late, Input, Constant } source = Source::None;
  std::uint32_t index = 0;  ///< of the output buffer, input or constant; of Late, the plan's buffer
  DType dtype = DType::F32;
  Sizes sizes, strides;
  std::int64_t offset = 0;
  std::byte number[8] = {};
};

class Binding {
 public:
  /// The queue is begun whenever the binding is used.
  Binding(const Model::Impl&, Queue&);

  /// Temporaries and scratch memory are allocated for each run, between `take_memory` and `release`, and not kept: programs that take turns then share them.
  void set_borrows_memory(bool on) { borrows_memory_ = on; }
  void take_memory();
  /// Asked between turns of loops: whether the run is to end.
  void set_stop(std::function<bool()> asked) { stop_ = std::move(asked); }
  /// Binds for these inputs; does nothing when they look like the last call's. Throws Error in the user's terms.
  void bind(std::span<const Tensor> inputs);
  /// Whether `bind` would have nothing to do for inputs of the same dtypes, sizes and strides as the last.
  bool is_bound_alike() const { return bound_ && !reads_values_ && threads_ == thread_count(); }
  void place(const Patch& p, std::byte* memory) { words_[p.word] = memory + p.offset; }
  void place(std::span<const Patch> patches, std::byte* memory) {
    for (const Patch& p : patches) place(p, memory);
  }
  /// On a device that does not run ahead: throws Error when a kernel finds an index out of range. Results that depend on the run are bound after it.
  void run_steps(const MemoryHooks& hooks = {});
  /// From now on steps that a device can record go through `parts`, which records what lies between others; null: straight to the queue. Watched programs take no notice.
  void run_in_parts(RecordedParts* parts) { parts_ = checker_ ? nullptr : parts; }
  /// The same while the queue records: steps that touch different memory side by side.
  void record_steps();
  /// Something is only known as the program runs.
  bool is_late() const { return late_; }
  /// Whether runs with the bound sizes all take the same steps, loops included, and few enough to be recorded.
  bool repeats() const { return repeats_; }
  /// From now on each run leaves the seconds of the plan's steps there; null: no longer.
  void time_steps(std::vector<double>* seconds) {
    seconds_ = seconds;
    bound_ = false;
    shelf_.clear();
  }
  bool is_timed() const { return seconds_ != nullptr; }
  /// The same of what ran since the last check, for devices that run ahead.
  void check_failures();
  /// All that the steps' work depends on: sizes, pointers, scalars. Runs with equal states queue equal work.
  std::span<const std::uint64_t> state();
  /// Memory of a buffer that the run allocated.
  const Storage& late_memory(BufferId owner) const { return late_memory_[owner]; }
  /// Lets go of what the run allocated.
  void release();

  /// Constant `index`: this context's own copy when the program writes to it.
  const Tensor& constant(std::uint32_t index) const { return constants_[index]; }
  MemoryUse memory() const;
  /// Whether a step is the host's to carry out, which it does anew in each run.
  bool calls_host() const { return !host_ops_.empty() || detours_; }
  /// Whether the plan computes with the value of input `index`, which then must be on the host.
  bool reads_value(std::size_t index) const { return reads_value_[index]; }
  /// Whether it does so with any.
  bool reads_values() const { return reads_values_; }

  std::vector<BoundInput> inputs;           ///< one for each input of the plan
  std::vector<BoundOutputBuffer> outputs;   ///< one for each output buffer that has memory of its own
  std::vector<BoundResult> results;         ///< one for each output of the plan

 private:
  struct Seen {  ///< what the last call's input looked like
    Sizes sizes, strides;
    std::int64_t value = 0;
  };
  struct KernelStep {
    Launch launch;
    std::uint32_t failure;  ///< place in failures_; 0: cannot fail
  };
  struct ExternStep {
    LibraryOp* op;
    std::uint32_t inputs, outputs;  ///< where their pointers begin
    std::uint32_t input_count, output_count;
  };
  struct Failure {  ///< a kernel call that can fail
    std::int64_t* status;
    const std::string* message;
  };
  struct HostStep {
    HostOp* op;
    std::uint32_t inputs, outputs;  ///< where their pointers begin
    std::uint32_t input_count, output_count;
  };
  /// A step whose sizes or memory are only known when it is reached. Programs with such steps have one bound step for each of the plan's, so that branches find theirs.
  struct LateStep {
    std::uint32_t site = 0;     ///< of a library call, or of one of the host
    std::uint32_t failure = 0;  ///< of a kernel call, as KernelStep has it
  };
  using BoundStep = std::variant<KernelStep, ExternStep, HostStep, LateStep, std::monostate>;
  struct Site {  ///< a library call and the views that it was last prepared for
    std::unique_ptr<LibraryOp> op;
    std::vector<BoundView> inputs, outputs;
    bool prepared = false;
    /// Readies the call for these views; false when it was ready for them.
    bool prepare(std::vector<BoundView> in, std::vector<BoundView> out);
  };
  /// All that follows from the sizes of a call, put aside while calls have others.
  struct Shelved {
    std::vector<Seen> last;
    std::vector<std::int64_t> slots;
    std::vector<BoundInput> inputs;
    std::vector<BoundOutputBuffer> outputs;
    std::vector<BoundResult> results;
    std::vector<std::uint64_t> buffer_bytes, arena_offset;
    std::vector<std::byte*> buffer_base;
    std::vector<void*> words;
    std::vector<BoundStep> steps;
    std::vector<std::uint32_t> plan_step, by_first_use, by_last_use;
    std::vector<BufferId> temporaries;
    std::vector<Patch> arena_patches;
    std::vector<Site> sites;  ///< views alone
    const std::byte* arena_base = nullptr;
    std::size_t arena_bytes = 0, workspace_bytes = 0;
  };
  static constexpr std::size_t kShelved = 8;

  void copy_states();
  bool looks_like(const std::vector<Seen>&, std::span<const Tensor>) const;
  /// Puts what is bound aside; true when what was bound for these inputs once is in its place.
  bool take_from_shelf(std::span<const Tensor>);
  void exchange(Shelved&);
  void check_inputs(std::span<const Tensor>) const;
  void remember(std::span<const Tensor>);
  void bind_inputs(std::span<const Tensor>);
  void check_conditions(std::span<const Tensor>) const;
  void bind_memory();
  void bind_steps();
  BoundStep bind_kernel(const KernelCall&, std::uint32_t failure, std::size_t step);
  BoundStep bind_extern(const ExternCall&, Site&);
  BoundStep bind_host(const HostCall&, HostOp&);
  void bind_results();
  void find_first_and_last_uses();
  /// Library calls are prepared: what scratch memory they need, and whether the host does some of them.
  void ask_calls();
  void grow_workspace();
  BoundResult bind_result(const Output&) const;
  BoundView bind_view(const View&) const;
  /// Elements from the start of the buffer; checks that the view lies inside it.
  std::int64_t view_offset(const View&, const BoundView&) const;
  void point(BufferId, std::uint64_t byte_offset);
  /// A launch with its sizes; nothing where there is nothing to do.
  std::optional<Launch> launch_of(const KernelCall&) const;
  void scalars(const KernelCall&, std::vector<void*>& words) const;
  [[noreturn]] void fail_run(const Failure&);

  // Plans that stop on failure (plan.h): after a failed step nothing writes to memory of the caller.
  void find_guarded_steps();
  bool writes_for_caller(const Step&) const;
  /// What a kernel finds as its status.
  void* status_of(std::uint32_t failure, std::size_t step) const;
  /// Before a library or the host writes to memory of the caller: what came before must be done, and well.
  void settle(std::size_t bound);
  std::int64_t slot(Slot s) const {
    if (late_ && undefined_[s]) fail_undefined();
    return slots_[s];
  }
  [[noreturn]] void fail_undefined() const;

  // late_steps.cpp: what is only known as the program runs.
  void find_late();
  bool is_late(Slot s) const { return stages_.of[s] != 0; }
  bool is_late(const View&) const;
  bool is_late(const Step&) const;
  bool is_late(const Output&) const;
  bool takes_the_same_steps() const;
  /// Steps one by one as the plan has them: of late programs, and of watched ones.
  void walk_steps(const OutputAllocator&);
  bool walks() const { return late_ || checker_ || seconds_; }
  void begin_watching();
  void run_late(const Step&, const LateStep&, const OutputAllocator&);
  void run_late_kernel(const KernelCall&, std::uint32_t failure, std::size_t step);
  void run_late_extern(const ExternCall&, Site&);
  void run_late_host(const HostCall&, HostOp&);
  void allocate_late(BufferId, const OutputAllocator&);
  void set_number(Slot, std::int64_t value);
  std::byte* late_address(BufferId) const;
  void run_directly(const MemoryHooks&);
  void flush_parts();
  std::vector<Touch> touches(std::size_t bound) const;
  std::uintptr_t base_of(BufferId owner) const;
  void run_bound(const BoundStep&);
  void run_bound(const KernelStep&, void* const* words);
  void run_bound(const ExternStep&);
  void run_bound(const HostStep&);
  std::size_t slot_bytes(Slot s, const std::string& buffer) const;
  Sizes slots(const std::vector<Slot>&) const;

  const Model::Impl& model_;
  const Plan& plan_;
  Queue& queue_;
  std::vector<Tensor> constants_;
  std::vector<BufferId> memory_of_;              ///< for each buffer, the one whose memory it lives in
  std::vector<std::uint32_t> output_index_;      ///< for each buffer, its place in `outputs`
  std::vector<bool> reads_stride_, reads_value_; ///< for each input: the shape program reads its strides, its value
  bool reads_values_ = false;                    ///< any of them
  unsigned misses_ = 0;                          ///< of the shelf while it is full
  std::vector<Site> sites_;
  std::vector<Failure> failures_;                ///< the first is of kernels that cannot fail
  Tensor statuses_, clear_statuses_;             ///< of calls that can fail, four words each: on the device, and as they are before a run
  std::vector<bool> guarded_;                    ///< for each step, where the plan stops on failure: it writes to memory of the caller, behind one that may fail
  std::vector<std::unique_ptr<HostOp>> host_ops_;  ///< of HostCalls, in order
  std::unique_ptr<LifetimeChecker> checker_;     ///< of plans that ask for it
  ShapeStages stages_;
  bool late_ = false;                            ///< something is only known as the program runs
  std::vector<bool> late_buffer_;                ///< for each memory owner: allocated as the program runs
  std::vector<bool> early_assert_;               ///< for each step: an assertion that is checked when sizes are bound

  bool bound_ = false, repeats_ = true;
  RecordedParts* parts_ = nullptr;
  std::int64_t step_now_ = 0;                    ///< the bound step that runs, told to parts_
  bool detours_ = false;                         ///< a library call of the bound sizes is the host's
  std::vector<double>* seconds_ = nullptr;
  int threads_ = 0;
  std::vector<Seen> last_;
  std::vector<std::unique_ptr<Shelved>> shelf_;  ///< the last put aside first
  std::vector<std::uint64_t> state_;             ///< `state`, of which the first come from the inputs' sizes
  std::size_t state_sizes_ = 0;                  ///< how many; 0: they are to be taken from `last_`
  std::vector<std::int64_t> slots_;
  std::vector<std::uint64_t> buffer_bytes_;      ///< of memory owners
  std::vector<std::byte*> buffer_base_;          ///< of memory owners; null for inputs and outputs, which are patched, and for temporaries before they have memory
  std::vector<void*> words_;                     ///< arguments of all steps: pointers and scalars
  std::vector<BoundStep> steps_;
  std::vector<std::uint32_t> plan_step_;         ///< for each bound step, its place in the plan
  std::vector<std::uint32_t> by_first_use_;      ///< outputs in order of their first steps; those that no step uses come first
  std::vector<std::uint32_t> by_last_use_;       ///< inputs in order of their last steps, of those that steps use
  std::vector<std::int32_t> late_base_;          ///< for each memory owner that is an input or output: the pointer that is patched to it
  std::vector<Storage> late_memory_;
  std::vector<bool> undefined_;                  ///< for each slot: a run-time size that came out without a value
  std::vector<void*> late_words_;                ///< arguments of the step that runs
  std::size_t late_bytes_ = 0, late_peak_ = 0;
  bool borrows_memory_ = false;
  std::function<bool()> stop_;
  std::vector<BufferId> temporaries_;            ///< memory owners that lie in the arena
  std::vector<std::uint64_t> arena_offset_;      ///< of memory owners
  std::vector<Patch> arena_patches_;
  const std::byte* arena_base_ = nullptr;        ///< where the patches point
  Storage arena_, workspace_;
  std::size_t arena_bytes_ = 0, workspace_bytes_ = 0;
};

}  // namespace coil::runtime
