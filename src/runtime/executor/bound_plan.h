// All that follows from the sizes of one call: every pointer, scalar and extent of a plan resolved, so that calls with
// the same sizes only patch inputs and outputs.
#pragma once
#include <cstdint>
#include <variant>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/device/library.h"
#include "runtime/host/host.h"
#include "runtime/plan/tensor_map.h"

namespace coil::runtime {

/// A word of the table: a pointer that refers to a place `offset` bytes into some memory.
struct Patch {
  std::uint32_t word = 0;
  std::uint64_t offset = 0;
};

/// A part of a run that may be recorded, and what its work depends on beside the sizes.
struct BoundPart {
  std::uint32_t part = 0;            ///< of the plan
  std::uint32_t first = 0, end = 0;  ///< bound steps
  bool uses_arena = false, uses_workspace = false;
  bool in_order = false;       ///< it holds steps whose memory only the run knows, or a block
  std::vector<Patch> roots;    ///< where the words of inputs and outputs that it uses are
  std::vector<BufferId> late;  ///< owners of memory that only the run sizes
};

inline constexpr std::uint32_t kNoStep = UINT32_MAX;

struct BoundInput {
  Sizes sizes, strides;          ///< as kernels assume them
  std::int64_t span = 0;         ///< elements that the layout reaches over
  bool aliased = false;          ///< an output views it
  std::uint32_t last = kNoStep;  ///< the last bound step that uses it
  std::vector<Patch> patches;
  const std::byte* placed = nullptr;  ///< where those point
};

struct BoundOutputBuffer {
  std::size_t bytes = 0;
  std::uint32_t first = kNoStep;  ///< the first bound step that uses it
  std::vector<Patch> patches;
  const std::byte* placed = nullptr;  ///< where those point
};

/// An arena, or scratch memory, that is there from one bound step to another.
struct BoundPiece {
  std::size_t bytes = 0;
  std::uint32_t first = 0, last = 0;
  std::vector<Patch> patches;
  const std::byte* placed = nullptr;  ///< where those point
};

struct BoundResult {
  enum class Source : std::uint8_t { None, Number, Fresh, Late, Input, Constant } source = Source::None;
  std::uint32_t index = 0;  ///< of the output buffer, input or constant; of Late, the plan's buffer
  DType dtype = DType::F32;
  Sizes sizes, strides;
  std::int64_t offset = 0;
  std::byte number[8] = {};
};

/// A descriptor among a kernel's arguments, which is made anew where its tensor lies elsewhere than the last time.
struct BoundTensorMap {
  TensorMapShape shape;
  std::uint32_t to = 0, from = 0;  ///< words: where it begins, and the one that points to the tensor
  const void* made_for = nullptr;
};

struct KernelStep {
  Launch launch;
  std::uint32_t failure;    ///< as FailureStatuses counts them; 0: cannot fail
  std::uint32_t place = 0;  ///< the device that it runs on
  bool settles = false;  ///< not Coil's own, and writes to memory of the caller: what came before must have gone well
  std::uint32_t maps = 0, map_count = 0;  ///< places in BoundPlan::tensor_maps
};

struct ExternStep {
  LibraryOp* op;
  std::uint32_t inputs, outputs;  ///< where their pointers begin
  std::uint32_t input_count, output_count;
  std::uint32_t place = 0;    ///< the device that it runs on
  std::int32_t scratch = -1;  ///< the word that points at its scratch memory; -1: the binding's own
};

struct HostStep {
  HostOp* op;
  std::uint32_t inputs, outputs;  ///< where their pointers begin
  std::uint32_t input_count, output_count;
};

/// A step whose sizes or memory are only known when it is reached. Programs with such steps have one bound step for
/// each of the plan's, so that branches find theirs.
struct LateStep {
  std::uint32_t site = 0;     ///< of a library call, or of one of the host
  std::uint32_t failure = 0;  ///< of a kernel call, as KernelStep has it
};

using BoundStep = std::variant<KernelStep, ExternStep, HostStep, LateStep, std::monostate>;

/// The views that a library call was last prepared for.
struct PreparedViews {
  std::vector<BoundView> inputs, outputs;
  bool prepared = false;
};

/// What a call's input looked like.
struct SeenInput {
  Sizes sizes, strides;
  std::int64_t value = 0;  ///< where the plan computes with it
};

/// Memory of temporaries on one of plan.others, as BoundPlan has that on the program's device.
struct OtherArena {
  std::vector<Patch> patches;
  const std::byte* base = nullptr;
  std::size_t bytes = 0, workspace_bytes = 0;
};

/// Where a temporary lies in the memory of an output that comes later.
struct OutputPlace {
  std::int32_t output = -1;  ///< -1: in the arena
  std::uint64_t offset = 0;
};

struct BoundPlan {
  std::vector<SeenInput> seen;  ///< the inputs that it is bound for
  std::vector<std::int64_t> slots;
  std::vector<BoundInput> inputs;           ///< one for each input of the plan
  std::vector<BoundOutputBuffer> outputs;   ///< one for each output buffer that has memory of its own
  std::vector<BoundResult> results;         ///< one for each output of the plan
  std::vector<std::uint64_t> buffer_bytes;  ///< of memory owners
  std::vector<std::byte*> buffer_base;  ///< of memory owners; null for inputs and outputs, which are patched, and for
                                        ///< temporaries before they have memory
  std::vector<void*> words;             ///< arguments of all steps: pointers and scalars
  std::vector<BoundTensorMap> tensor_maps;
  std::vector<BoundStep> steps;
  std::vector<std::uint32_t> plan_step;     ///< for each bound step, its place in the plan
  std::vector<std::uint32_t> by_first_use;  ///< outputs in order of their first steps; the last are of no step
  std::vector<std::uint32_t> by_last_use;   ///< inputs in order of their last steps, of those that steps use
  std::vector<BoundPart> parts;             ///< in order
  std::vector<std::int32_t> part_at;        ///< for each bound step, the part that begins there; -1: none
  std::vector<PreparedViews> sites;         ///< one for each library call of the plan
  std::vector<BufferId> temporaries;        ///< memory owners that lie in the arena
  std::vector<std::uint64_t> arena_offset;  ///< of memory owners
  std::vector<OutputPlace> in_outputs;      ///< of memory owners; empty: all temporaries lie in the arena
  std::vector<Patch> arena_patches;
  const std::byte* arena_base = nullptr;  ///< where those point
  std::size_t arena_bytes = 0, workspace_bytes = 0;
  std::vector<BoundPiece> pieces;             ///< in the place of both, where there are any; by their first steps
  std::vector<std::uint32_t> pieces_by_last;  ///< in order of their last steps
  std::size_t piece_bytes = 0;                ///< the most that pieces and outputs are together, less all outputs
  std::vector<OtherArena> others;             ///< one for each of plan.others
};

}  // namespace coil::runtime
