// A plan bound to the sizes of calls, one after another, and its steps as they run. What some of the last calls' sizes
// came to is kept.
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/executor/bound_plan.h"
#include "runtime/executor/failure_statuses.h"
#include "runtime/executor/input_guards.h"
#include "runtime/executor/lifetime_checker.h"
#include "runtime/executor/model.h"
#include "runtime/executor/other_queues.h"
#include "runtime/executor/recorded_parts.h"
#include "runtime/groups/groups.h"
#include "runtime/groups/symmetric.h"
#include "runtime/plan/arena_pieces.h"
#include "runtime/plan/memory_need.h"
#include "runtime/plan/parts.h"
#include "runtime/plan/shape_program.h"
#include "support/out_of_memory.h"

namespace coil::runtime {

/// What a run tells of memory that is not its own. Each may be empty.
struct MemoryHooks {
  OutputAllocator allocate;  ///< memory of outputs whose sizes only the run tells
  std::function<void(std::uint32_t output)>
      output_needed;  ///< before the first step that uses an output buffer: it is to be placed
  std::function<void(std::span<const std::uint32_t>)> inputs_done;  ///< after a step: no later one uses these inputs
};

class Binding {
 public:
  /// The queue is begun whenever the binding is used.
  Binding(const Model::Impl&, Queue&, const OtherQueues&);

  /// Temporaries and scratch memory are allocated for each run, between `take_memory` and `release`, and not kept:
  /// programs that take turns then share them.
  void set_borrows_memory(bool on) { borrows_memory_ = on; }
  /// Temporaries and scratch memory may be allocated in pieces while the run lasts.
  void allow_pieces(bool on) {
    if (std::exchange(allows_pieces_, on) == on) return;
    is_bound_ = false;
    shelf_.clear();
  }
  /// Whether temporaries and scratch memory are taken anew for each run: where the caller lends them, and where
  /// programs that take turns share them, as those of a forward and a backward graph do, and they are large.
  bool takes_memory_for_each_run() const {
    constexpr std::size_t kLarge = 1 << 18;
    return borrows_memory_ || (queue_.lends() && now_.arena_bytes + now_.workspace_bytes >= kLarge);
  }
  /// Asked when sizes are bound: whether an input goes with the last step that uses it. Empty: none does.
  void set_may_go(std::function<bool(std::uint32_t input)> asked) { may_go_ = std::move(asked); }
  void take_memory();
  /// What the program needs for the sizes it is bound for.
  MemoryNeed need() const;
  /// The error of an allocator with what the program needs and which buffers are the largest. The next run binds anew.
  OutOfMemory with_needs(const OutOfMemory&);
  /// Asked between turns of loops: whether the run is to end.
  void set_stop(std::function<bool()> asked) { stop_ = std::move(asked); }
  /// Binds for these inputs; does nothing when they look like the last call's. Throws Error in the user's terms.
  void bind(std::span<const Tensor> inputs);
  /// Whether `bind` would have nothing to do for inputs of the same dtypes, sizes and strides as the last.
  bool is_bound_alike() const { return is_bound_ && !guards_.reads_values() && threads_ == thread_count(); }
  /// Steps find an input or output buffer at `memory`. One that is where it was costs nothing.
  void place_input(std::size_t index, std::byte* memory) { place(now_.inputs[index], memory); }
  void place_output(std::size_t index, std::byte* memory) { place(now_.outputs[index], memory); }
  /// On a device that does not run ahead: throws Error when a kernel finds an index out of range. Results that depend
  /// on the run are bound after it.
  void run_steps(const MemoryHooks& hooks = {});
  /// On a device that runs ahead: throws Error when a kernel of what ran since the last check, and was waited for,
  /// found an index out of range.
  void check_failures() { failures_.check(); }
  /// From now on the plan's parts run through `parts`, which records them; null: step by step. Watched and timed
  /// programs take no notice.
  void run_in_parts(RecordedParts* parts) { parts_ = checker_ || seconds_ ? nullptr : parts; }
  /// Something is only known as the program runs.
  bool is_late() const { return late_; }
  /// From now on each run leaves the seconds of the plan's steps there; null: no longer.
  void time_steps(std::vector<double>* seconds) {
    seconds_ = seconds;
    is_bound_ = false;
    shelf_.clear();
  }
  bool is_timed() const { return seconds_ != nullptr; }
  /// Memory of a buffer that the run allocated.
  const Storage& late_memory(BufferId owner) const { return late_memory_[owner]; }
  /// Counts the call in the groups that the plan exchanges values in.
  void begin_call() noexcept {
    for (const groups::CallCount& calls : calls_) calls->fetch_add(1);
  }
  /// After a run that failed: other ranks' next exchanges would meet none of this one's.
  void abandon_exchanges() noexcept {
    for (const auto& pool : pools_) pool->abandon();
    for (const std::string& group : groups_) groups::abandon(group);
  }
  /// Lets go of what the run allocated.
  void release();
  /// At the end of a run: copies to the host that nobody waited for are done.
  void await_copies();
  /// Memory of the host or of another device than the program's, for outputs that lie there.
  Storage allocate_on(std::uint32_t place, std::size_t bytes) const;
  /// The device that an output buffer, by its place in `outputs`, lies on.
  std::uint32_t place_of_output(std::size_t k) const { return plan_.buffers[output_buffers_[k]].place; }
  std::uint32_t place_of_input(std::size_t i) const { return input_places_[i]; }

  /// Constant `index`: this context's own copy when the program writes to it.
  const Tensor& constant(std::uint32_t index) const { return constants_[index]; }
  MemoryUse memory() const;
  /// Whether the plan computes with the value of input `index`, which then must be on the host.
  bool reads_value(std::size_t index) const { return guards_.reads_value(index); }
  /// Whether it does so with any.
  bool reads_values() const { return guards_.reads_values(); }

  const std::vector<BoundInput>& inputs() const { return now_.inputs; }
  const std::vector<BoundOutputBuffer>& outputs() const { return now_.outputs; }
  const std::vector<BoundResult>& results() const { return now_.results; }

 private:
  static constexpr std::size_t kShelved = 8;
  /// Where a run stands among what comes and goes with its steps.
  struct ComingAndGoing {
    const MemoryHooks& hooks;
    std::size_t needed = 0, done = 0;         ///< of `by_first_use` and `by_last_use`
    std::uint32_t taken = 0, given_back = 0;  ///< pieces
  };

  template <class Bound>
  void place(Bound& bound, std::byte* memory) {
    if (bound.placed == memory) return;
    for (const Patch& p : bound.patches) now_.words[p.word] = memory + p.offset;
    bound.placed = memory;
  }

  Binding(const Model::Impl&, Queue&, const OtherQueues&, const QueueScope&, const OtherQueuesScope&);
  void copy_states();
  /// For a call's sizes, in place of what other sizes came to.
  void make_room();
  /// Readies a library call for these views; false when it was ready for them.
  bool prepare(std::uint32_t site, std::vector<BoundView> in, std::vector<BoundView> out);
  /// Puts what is bound aside; true when what was bound for these inputs once is in its place.
  bool take_from_shelf(std::span<const Tensor>);
  void check_conditions(std::span<const Tensor>) const;
  void bind_memory();
  /// How many bytes the memory of a buffer has and, where that is known by now, where it lies.
  void bind_buffer(BufferId);
  void bind_comm(const Buffer&, BufferId owner);
  /// Offsets of temporaries in the arena, by the compiler's plan or one for these sizes.
  std::vector<std::uint64_t> offsets_in_arena(const std::vector<BufferId>& temporaries,
                                              const std::vector<Interval>& intervals);
  void check_limit() const;
  void bind_steps();
  BoundStep bind_kernel(const KernelCall&, std::uint32_t failure, std::size_t step);
  BoundStep bind_extern(const ExternCall&, std::uint32_t site);
  BoundStep bind_host(const HostCall&, HostOp&);
  void bind_results();
  void find_first_and_last_uses();
  /// Library calls are prepared: what scratch memory they need.
  void ask_calls();
  bool settles(const KernelCall&, std::size_t step) const;
  void grow_workspace();

  // device_steps.cpp: of programs over several devices.
  Queue& queue_of(std::uint32_t place) const { return place == 0 ? queue_ : others_.at(place); }
  std::unique_ptr<LibraryOp> make_op(const ExternCall&) const;
  bool is_ahead(const ExternCall&) const;
  void bind_other_arenas(const std::vector<Interval>& intervals, std::vector<std::uint64_t>& offsets);
  void take_other_memory();
  std::size_t arena_bytes(std::uint32_t place) const {
    return place == 0 ? now_.arena_bytes : now_.others[place - 1].bytes;
  }
  std::size_t& workspace_bytes(std::uint32_t place) {
    return place == 0 ? now_.workspace_bytes : now_.others[place - 1].workspace_bytes;
  }
  Storage& workspace(std::uint32_t place) { return place == 0 ? workspace_ : other_memory_[place - 1].workspace; }
  /// Before and after a step that the host carries out between or beside devices.
  void await_copies_of(const Step&);
  void after_copy(const ExternCall&);
  void run_elsewhere(const KernelStep&, void** words);
  void run_between(const ExternStep&, void* const* words);
  BoundResult bind_result(const Output&) const;
  std::size_t slot_bytes(Slot s, const std::string& buffer) const;
  Sizes slots(const std::vector<Slot>&) const;
  BoundView bind_view(const View&) const;
  /// A call all of whose results have no elements, unless it is made for what it does beside.
  static bool has_nothing_to_do(const LibraryOp&, const std::vector<BoundView>& results);
  /// Elements from the start of the buffer; checks that the view lies inside it.
  std::int64_t view_offset(const View&, const BoundView&) const;
  /// Adds a word that the step which is bound next finds the memory by.
  void point(BufferId, std::uint64_t byte_offset);
  void add_word(BufferId owner, std::uint64_t byte_offset);
  void use(BufferId owner);
  /// A launch with its sizes; nothing where there is nothing to do.
  std::optional<Launch> launch_of(const KernelCall&) const;
  void scalars(const KernelCall&, std::vector<void*>& words) const;
  /// The arguments of a kernel that is not Coil's own, packed as it takes them; `point` adds the word of a pointer.
  /// The words that descriptors are made from stand behind them.
  void argument_block(const KernelCall&, KernelStep&, std::vector<void*>& words,
                      const std::function<void(BufferId, std::uint64_t offset)>& point);
  /// Behind the words of one of Coil's own: descriptors of tensors, and the words that those are made from.
  void descriptors(const KernelCall&, KernelStep&, std::vector<void*>& words,
                   const std::function<void(BufferId, std::uint64_t offset)>& point);
  /// The word at which the step's next descriptor begins, with room for it.
  static std::size_t room_for_map(const KernelStep&, std::vector<void*>& words);
  BoundTensorMap tensor_map(const TensorMap&, std::size_t word) const;
  std::int64_t slot(Slot s) const {
    if (late_ && undefined_[s]) fail_undefined();
    return now_.slots[s];
  }
  [[noreturn]] void fail_undefined() const;

  // late_steps.cpp: what is only known as the program runs.
  void find_late();
  bool is_late(Slot s) const { return stages_.of[s] != 0; }
  bool is_late(const View&) const;
  bool is_late(const Step&) const;
  bool is_late(const Output&) const;
  void find_blocks();
  /// Words of memory that late steps ask for by its owner.
  void add_late_words();
  LateStep bind_late(const Step&, std::uint32_t site, std::uint32_t failure);
  /// Steps one by one as the plan has them: of late programs, and of watched ones.
  void walk_steps(const MemoryHooks&);
  void walk(std::size_t from, std::size_t to, const OutputAllocator&, ComingAndGoing*);
  std::size_t walk_step(std::size_t here, const OutputAllocator&);
  std::size_t walk_control(const Control&, std::size_t at);
  bool walks() const { return late_ || checker_ || seconds_; }
  void begin_watching();
  void run_late(const Step&, const LateStep&, const OutputAllocator&);
  void run_late_kernel(const KernelCall&, std::uint32_t failure, std::size_t step);
  void run_late_extern(const ExternCall&, std::uint32_t site);
  void run_late_host(const HostCall&, HostOp&);
  void allocate_late(BufferId, const OutputAllocator&);
  void free_late(BufferId);
  void set_number(Slot, std::int64_t value);
  std::byte* late_address(BufferId) const;

  // output_places.cpp
  /// Moves temporaries into outputs where that makes the arena smaller.
  void place_in_outputs(std::vector<BufferId>& temporaries, std::vector<Interval>& intervals,
                        std::vector<std::uint64_t>& offsets);
  std::vector<std::uint32_t> first_uses_of_outputs() const;

  // pieces.cpp
  /// Whether temporaries of the program's own device may lie in pieces; what lies on others has arenas of its own.
  bool has_pieces() const { return allows_pieces_ && !checker_ && !seconds_; }
  void bind_pieces();
  /// Lifetimes of temporaries in steps of the plan, by memory owner.
  std::vector<Interval> lives_in_plan() const;
  std::vector<Interval> lives_of_temporaries() const;
  std::vector<std::uint64_t> scratch_of_steps() const;
  void add_beside(std::vector<std::uint64_t>& beside, bool with_inputs) const;
  void point_at_pieces(const std::vector<std::uint32_t>& piece_of, const std::vector<std::uint64_t>& offsets,
                       const std::vector<std::uint32_t>& scratch_of);
  void take_piece(std::uint32_t piece);

  // run_steps.cpp
  /// Before the steps up to `last`, and after them.
  void reach(std::uint32_t last, ComingAndGoing&);
  void leave(std::uint32_t last, ComingAndGoing&);
  void run_bound(const BoundStep&);
  void run_bound(const KernelStep&, void** words);
  void make_tensor_maps(const KernelStep&, void** words, Queue&);
  void run_bound(const ExternStep&);
  void run_bound(const HostStep&);
  /// Before a library or the host writes to memory of the caller: what came before must be done, and well.
  void settle(std::size_t bound);

  // recorded_steps.cpp
  void find_parts();
  void bind_parts();
  /// How many steps a run of it takes.
  std::size_t steps_of(const Part&) const;
  bool can_be_recorded(std::uint32_t bound) const;
  void add_part(std::uint32_t part, std::uint32_t first, std::uint32_t end);
  void add_root(BoundPart&, BufferId owner) const;
  /// The part that begins with this bound step, where parts are recorded.
  const BoundPart* part_at(std::size_t bound) const {
    return parts_ && !in_part_ && now_.part_at[bound] >= 0 ? &now_.parts[static_cast<std::size_t>(now_.part_at[bound])]
                                                           : nullptr;
  }
  std::span<const std::uint64_t> key_of(const BoundPart&);
  void run_part(const BoundPart&, const OutputAllocator&);
  void record_part(const BoundPart&, const OutputAllocator&);
  void enter_part(PartMemory&, const OutputAllocator&);
  void leave_part(const PartMemory&);
  /// What a kernel or library call reads and writes.
  std::vector<Touch> touches(std::size_t bound) const;
  /// Where memory that steps use lies in this run.
  std::uintptr_t base_of(BufferId owner) const;

  const Model::Impl& model_;
  const Plan& plan_;
  Queue& queue_;
  const OtherQueues& others_;
  std::vector<Tensor> constants_;
  std::vector<std::shared_ptr<groups::SymmetricMemory>> pools_;  ///< one for each of the plan's
  std::vector<std::string> groups_;                              ///< of the plan
  std::vector<groups::CallCount> calls_;                         ///< of those that have one
  std::vector<BufferId> memory_of_;                              ///< for each buffer, the one whose memory it lives in
  std::vector<std::uint32_t> output_index_;                      ///< for each buffer, its place in `outputs`
  std::uint32_t output_count_ = 0;
  std::vector<BufferId> output_buffers_;     ///< by their places in `outputs`
  std::vector<std::uint32_t> input_places_;  ///< the devices that inputs lie on
  InputGuards guards_;
  FailureStatuses failures_;
  std::vector<std::unique_ptr<LibraryOp>> ops_;    ///< of library calls, in order
  std::vector<std::uint32_t> op_places_;           ///< the devices that they work on
  std::vector<std::unique_ptr<HostOp>> host_ops_;  ///< of HostCalls, in order
  std::unique_ptr<LifetimeChecker> checker_;       ///< of plans that ask for it
  ShapeStages stages_;
  bool late_ = false;               ///< something is only known as the program runs
  std::vector<bool> late_buffer_;   ///< for each memory owner: allocated as the program runs
  std::vector<bool> early_assert_;  ///< for each step: an assertion that is checked when sizes are bound

  BoundPlan now_;  ///< for the last call's sizes
  bool is_bound_ = false;
  int threads_ = 0;                                ///< that it is bound for
  std::vector<std::unique_ptr<BoundPlan>> shelf_;  ///< what calls of other sizes had, the last put aside first
  unsigned misses_ = 0;                            ///< of the shelf while it is full

  RecordedParts* parts_ = nullptr;
  std::vector<Part> plan_parts_;
  std::vector<PartMemory> part_memory_;  ///< for each part
  std::vector<bool> in_block_;           ///< for each part: it may come several times in a run
  bool in_part_ = false;
  std::int64_t step_now_ = 0;         ///< the bound step that runs
  std::vector<std::uint64_t> state_;  ///< a part's key, of which the first come from the inputs' sizes
  std::size_t state_sizes_ = 0;       ///< how many; 0: they are to be taken from what was seen
  std::vector<double>* seconds_ = nullptr;
  std::function<bool()> stop_;

  std::vector<StepRange> blocks_;         ///< of late programs, those that lie in no other, in order
  std::vector<std::uint32_t> block_end_;  ///< of late programs, for each step: the last of its outermost block, or it
  std::vector<std::int32_t> late_base_;   ///< for each memory owner that comes and goes: the word that is patched to it
  std::vector<Storage> late_memory_;
  std::vector<bool> undefined_;    ///< for each slot: a run-time size that came out without a value
  std::vector<void*> late_words_;  ///< arguments of the step that runs
  std::size_t late_bytes_ = 0, late_peak_ = 0;

  bool borrows_memory_ = false, allows_pieces_ = false;
  std::function<bool(std::uint32_t)> may_go_;
  struct TemporaryUse {
    BufferId owner;
    std::uint32_t step;
    Patch at;
  };
  std::vector<TemporaryUse> temporary_uses_;  ///< while steps are bound, where there may be pieces
  std::vector<Storage> piece_memory_;         ///< of the run in progress
  Storage arena_, workspace_;
  struct OtherMemory {
    Storage arena, workspace;
  };
  std::vector<OtherMemory> other_memory_;  ///< the same on each of plan_.others
  bool lands_ahead_ = false;               ///< some copies to the host are not waited for where they stand
  std::vector<BufferId> landing_;          ///< memory owners on the host that such copies still write to
};

}  // namespace coil::runtime
