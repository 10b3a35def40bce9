// The plan: everything the executor needs to run a program, and nothing else. Made by wrapper/, stored in a package's
// manifest, walked by Executor.
//
// Sizes are never expressions here: the *shape program* is a straight line of integer instructions whose results are
// numbered slots; sizes, strides, offsets, byte counts and kernel scalars name slots. It runs once for each new
// combination of input sizes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "library_ops/attribute.h"
#include "runtime/plan/tensor_map.h"
#include "tensor/device.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace coil::runtime {

/// Index of a shape instruction, whose result it is.
using Slot = std::uint32_t;
/// Index into Plan::buffers.
using BufferId = std::uint32_t;

enum class ShapeOp : std::uint8_t {
  Constant,     ///< a
  InputSize,    ///< size of input a in dimension b
  InputStride,  ///< stride of input a in dimension b
  InputValue,   ///< the integer (or bool) that 0-d input a holds
  Add,
  Sub,
  Mul,
  FloorDiv,
  CeilDiv,
  Mod,
  Min,
  Max,
  Pow,    ///< of slots a, b; division rounds down, division by zero is an error naming the plan
  Where,  ///< slot a ? slot b : slot c
  Eq,
  Ne,
  Lt,
  Le,
  And,
  Or,
  Not,
  BitAnd,
  BitOr,
  BitXor,
  ShiftLeft,
  ShiftRight,
  Float,    ///< the function c (support/float_functions.h) of slots a and b; floats are slots that hold their bits
  RunTime,  ///< a number that a step gives: a ReadSymbol, a SetNumber, or a loop that counts. What is computed from it
            ///< is computed then, and again each time
};

struct ShapeInstruction {
  ShapeOp op = ShapeOp::Constant;
  std::int64_t a = 0, b = 0, c = 0;
  bool operator==(const ShapeInstruction&) const = default;
};

/// A condition on sizes that every call must meet: slot is not 0. The message says which input, which rule.
struct Check {
  Slot condition = 0;
  std::string message;
};

/// A user input: path as in the file of inputs (`state.h`). `strides` are what kernels assume; an input that comes with
/// others is copied into them (and back, when it is written to).
struct Input {
  std::string name;
  DType dtype = DType::F32;
  std::vector<Slot> sizes, strides;
  bool mutated = false;  ///< the program writes to it
  bool unused = false;   ///< exported as a fixed value: accepted, not read
  bool taken = false;    ///< its memory becomes a temporary's: a copy, where the caller does not let go of it
};

/// A weight, buffer or constant. Bytes are in the package's weights entry, page-aligned, at `file_offset`. `state` ones
/// are written to by the program: each context of a model sees a private copy made at load.
struct Constant {
  std::string name;
  DType dtype = DType::F32;
  Sizes sizes, strides;  ///< of an opaque (packed) constant: sizes {bytes} of U8
  std::uint64_t bytes = 0;
  std::uint64_t file_offset = 0;
  bool state = false;
  bool seed = false;  ///< the seed of random operators, one I64 and a state: each run begins with a new one in it
};

enum class BufferKind : std::uint8_t {
  Input,      ///< memory of input `index`
  Constant,   ///< memory of constant `index`
  Temporary,  ///< in the arena
  Output,     ///< allocated for each call, handed to the caller
  Comm,       ///< in communication pool `index`, at `arena_offset`
};

struct Buffer {
  BufferKind kind = BufferKind::Temporary;
  std::uint32_t index = 0;  ///< of the input, constant or pool
  std::string name;         ///< `buf3`, for people
  Slot bytes = 0;
  /// The steps that first write and last read a temporary (inclusive). A buffer that lives in the memory of another
  /// (in-place reuse) names it in `shares`, and the owner's lifetime covers both.
  std::uint32_t first = 0, last = 0;
  std::int64_t shares = -1;
  /// Place in the arena when all sizes are constant; -1: planned when sizes are bound.
  std::int64_t arena_offset = -1;
  std::uint32_t place = 0;  ///< the device that it lies on (Plan::device_of)
};

/// A strided window on a buffer; offset in elements.
struct View {
  BufferId buffer = 0;
  DType dtype = DType::F32;
  std::vector<Slot> sizes, strides;
  Slot offset = 0;
};

/// One of the arguments of a kernel that is not Coil's own: it takes them in its own order and widths.
inline constexpr std::int64_t kNumberArgument = -1, kStatusArgument = -2;
struct KernelArgument {
  std::int64_t buffer = kNumberArgument;  ///< a pointer: a place in the call's `buffers`, or that of the status word
  Slot value = 0;           ///< of a pointer, how many bytes into the buffer it points; else the number, or its bits
  std::uint32_t bytes = 8;  ///< of a number: 1, 2, 4 or 8, where it begins at a multiple of that; of a pointer 8, or
                            ///< 128: a descriptor of the tensor there (tensor_map.h)
};

/// What a descriptor among a kernel's arguments says of its tensor, which `sizes` and `strides` (in bytes) lay out.
struct TensorMap {
  std::uint32_t element = 0, swizzle = 0;
  std::vector<std::uint32_t> box;
  std::vector<Slot> sizes, strides;
  // Where the tensor begins, for Coil's own kernels, which take descriptors behind all other arguments.
  std::uint32_t buffer = 0;  ///< a place in the call's `buffers`
  Slot offset = 0;           ///< in bytes
};

/// On the CPU, `void symbol(void* const* buffers, const int64_t* scalars, int64_t begin, int64_t end)`, run over [0,
/// extent) in chunks of at least `grain`, in parallel, in any order. The kernel finds one pointer more than `buffers`
/// has: a status word (int64, 0 before the call) that it sets to 1 when an index read from a tensor is out of range (it
/// then reads element 0 instead). The executor looks at it after calls of kernels that have a `failure` message, and
/// fails the run with that message. On a GPU, whose runs are ahead of the host, a plan that `stops_on_failure` has four
/// words for each such call, in memory of the device: whether the run failed, the address of the word that the host
/// looks at, the address of the first call's four words, and how many calls there are. A kernel that fails sets the
/// host's word, and the first of each call's.
struct KernelCall {
  std::uint32_t kernel = 0;  ///< index into Plan::kernels
  std::vector<BufferId> buffers;
  std::vector<Slot> scalars;
  Slot extent = 0;
  Slot grain = 0;
  /// On a GPU: blocks along x, y, z (a 0 launches nothing), threads of a block, bytes of dynamic shared memory. The
  /// kernel takes each buffer's pointer, each scalar as an i64, and the status word's pointer.
  std::vector<Slot> grid;
  std::uint32_t block = 0;
  Slot shared_bytes = 0;
  /// Places in `buffers` that it writes to; told where lifetimes are checked, and on a GPU.
  std::vector<std::uint32_t> written = {};
  /// The whole argument block of a kernel that is not Coil's own (the user's, on a GPU). Such a kernel knows a status
  /// word where an argument is one.
  std::vector<KernelArgument> arguments = {};
  std::vector<TensorMap> tensor_maps = {};  ///< of those of its arguments that are descriptors, in their order
};

/// Whether a kernel that is not Coil's own takes a status word.
inline bool has_status(const KernelCall& call) {
  return std::ranges::any_of(call.arguments, [](const KernelArgument& a) { return a.buffer == kStatusArgument; });
}

using library_ops::Attribute;
using library_ops::Attributes;
/// A call of a library operation (library_ops/table.h) on views.
struct ExternCall {
  std::string op;
  Attributes attributes;
  std::vector<View> inputs, outputs;
  std::string description;  ///< what it computes, and where in the program that stands, for people
};

/// An integer argument of a HostCall.
struct HostInteger {
  Slot slot = 0;
};
/// A tensor argument: the input at this place.
struct HostOperand {
  std::uint32_t index = 0;
};
/// An argument that torch has a type for: `float32`, `cpu`, `channels_last`, `strided`.
struct HostName {
  enum class Kind : std::uint8_t { DType, Device, MemoryFormat, Layout } kind = Kind::DType;
  std::string text;
};
struct HostArgument : std::variant<std::monostate, bool, double, std::string, HostInteger, HostOperand, HostName,
                                   std::vector<HostArgument>> {
  using variant::variant;
};
struct NamedHostArgument {
  std::string keyword;  ///< empty: by position
  HostArgument value;
};
/// An operator that the program which runs the plan carries out (runtime/host/host.h).
struct HostCall {
  std::string op;      ///< with overload: `aten.cumsum.default`
  std::string schema;  ///< in torch's notation, that the program was compiled for; empty: not known
  std::vector<NamedHostArgument> arguments;
  std::vector<View> inputs;
  std::vector<std::optional<View>> outputs;  ///< absent where nothing reads them
  bool is_list = false;                      ///< it returns several values, be it one
  std::vector<std::uint32_t> writes;  ///< of `inputs`: those that it writes to. It is given copies of them, which are
                                      ///< the last of `outputs`, in this order; its own results come before
};

/// Fails the call with the message when slot is 0: asserts of the program itself, at their place among the steps.
struct AssertCall {
  Slot condition = 0;
  std::string message;
};

/// Memory for a buffer whose size is only known now; only buffers with such sizes have these steps. Both sides of a
/// branch may allocate the same one.
struct AllocateBuffer {
  BufferId buffer = 0;
};
struct FreeBuffer {
  BufferId buffer = 0;
};
/// `symbol`, a RunTime slot, gets the word that the 0-d buffer holds: an I64, or the bits of an F64.
struct ReadSymbol {
  BufferId source = 0;
  Slot symbol = 0;
};
/// `symbol`, a RunTime slot, gets the value of another slot: on each side of a branch, of one that the side tells.
struct SetNumber {
  Slot symbol = 0, value = 0;
};
/// A border of a block of steps; blocks nest.
struct Control {
  enum class Kind : std::uint8_t {
    If,    ///< goes on where slot `value` is not 0, else with `target`: the step after Else, or EndIf
    Else,  ///< the end of the first block: goes on with `target`, the step after EndIf
    EndIf,
    Loop,  ///< `counter`, a RunTime slot, counts turns from 0; at slot `value`, goes on with `target`, the step after
           ///< EndLoop
    BreakUnless,  ///< where slot `value` is 0, goes on with `target`, the step after EndLoop
    EndLoop,      ///< the next turn of the Loop at `target`
  } kind = Kind::If;
  Slot value = 0, counter = 0;
  std::uint32_t target = 0;
};

using Step = std::variant<KernelCall, ExternCall, AssertCall, HostCall, AllocateBuffer, FreeBuffer, ReadSymbol,
                          SetNumber, Control>;

struct PlanKernel {
  std::string symbol;       ///< C name in the kernel library
  std::string description;  ///< what it computes, with the user's source lines
  std::string failure;      ///< message when the status word is set; empty for kernels that cannot fail
  std::uint32_t place = 0;  ///< the device that it runs on (Plan::device_of)
};

/// A device beside `Plan::device` that a part of the program lies on, and what that part needs there.
struct OtherDevice {
  Device device;
  std::string isa;                       ///< as Plan::isa
  std::uint64_t static_arena_bytes = 0;  ///< as Plan::static_arena_bytes: each device has an arena of its own
};

/// What a run gives back, in order. A tensor is a view of a buffer: of an Output buffer (fresh memory), an Input (the
/// output aliases the input) or a Constant.
struct Output {
  std::string name;
  enum class Kind : std::uint8_t { Tensor, Int, Bool, Float, None } kind = Kind::Tensor;
  View view;          ///< Tensor
  Slot value = 0;     ///< Int, Bool
  double number = 0;  ///< Float: a constant
};

/// How inputs or outputs nest in the program as its author wrote it: containers down to leaves.
struct Structure {
  std::string type;               ///< of a container, by the name that torch's pytree writes: `builtins.dict`,
                                  ///< `collections.namedtuple`; empty for a leaf
  std::vector<std::string> keys;  ///< of the children: keys of a dictionary, names of fields, positions
  std::vector<Structure> children;
  std::string context;     ///< what torch's pytree writes of a container besides, as JSON: keys with their types, the
                           ///< class of a named tuple; empty where that is null
  std::int64_t leaf = -1;  ///< of a leaf: which input or output; -1 for None among the outputs
  std::string fixed;       ///< of an input that export fixed: its value, as JSON; empty for others

  bool is_leaf() const { return type.empty(); }
};

/// Inputs are a pair: the tuple of positional arguments, whose keys are their names, and the dictionary of named ones.
struct Signature {
  Structure inputs, outputs;
};

/// Memory that all ranks of a process group reach (runtime/groups/symmetric.h), made once for each context of a model:
/// every run finds the buffers in it at the same places, on every rank.
struct CommPool {
  std::string group;
  std::uint64_t bytes = 0;
  std::string plan;  ///< what lies in it, in words that must be the same on all ranks
};

/// Behind the bytes of a pool on a GPU lies the table by which kernels reach other ranks: a Comm buffer at this place.
constexpr std::uint64_t kPeerTableBytes = 256;
constexpr std::uint64_t peer_table_offset(std::uint64_t pool_bytes) { return (pool_bytes + 255) / 256 * 256; }

/// Steps, whole blocks among them, that a device can hold as one graph, and what crosses their borders. A block's steps
/// are all in one part or in none, or the part lies in the block. What is allocated and freed in a part is in neither
/// list.
struct Part {
  std::uint32_t first = 0, end = 0;       ///< steps, the last not included
  std::vector<BufferId> inputs, outputs;  ///< that steps of it use and that are there before; that it makes
  std::vector<Slot> sizes;                ///< numbers that its steps depend on
};

struct Plan {
  /// A plan is written as the oldest version that has all it uses.
  static constexpr int kVersion = 14;
  static constexpr int kOldestVersion = 3;
  std::string model_name;
  Device device;
  std::string isa;  ///< instruction set that the kernels need: `avx2`, `avx512`, …; empty for the baseline
  std::vector<ShapeInstruction> shape_program;
  std::vector<Check> checks;
  std::vector<Input> inputs;
  std::vector<Constant> constants;
  std::vector<Buffer> buffers;
  std::vector<PlanKernel> kernels;
  std::vector<Step> steps;
  std::vector<Output> outputs;
  std::vector<Part> parts;  ///< in the order of their steps, apart from each other
  std::vector<CommPool> comm_pools;
  std::uint64_t static_arena_bytes = 0;  ///< when every temporary has an arena_offset
  /// On a GPU: kernels look at their status before they begin, and leave when it is set; its pointer may be null. One
  /// that fails sets it for all (KernelCall).
  bool stops_on_failure = false;
  /// On a GPU: kernels wait, before they touch memory, for the one before them, so that they may be launched while that
  /// still runs.
  bool dependent_launches = false;
  std::uint64_t memory_limit = 0;      ///< more than so many bytes are refused before a run begins; 0: any number
  bool check_lifetimes = false;        ///< each run is watched (lifetime_checker.h)
  std::optional<Signature> signature;  ///< of programs that came as archives
  std::vector<OtherDevice> others;     ///< of a program over several devices: those beside `device`

  /// The device of a place: 0 is `device`, k the k-th of the others.
  Device device_of(std::uint32_t place) const { return place == 0 ? device : others.at(place - 1).device; }
  /// The place that a library call works at: that of its results, or of its operands where it has none.
  std::uint32_t place_of(const ExternCall& call) const {
    const std::vector<View>& views = call.outputs.empty() ? call.inputs : call.outputs;
    return views.empty() ? 0 : buffers.at(views.front().buffer).place;
  }
};

}  // namespace coil::runtime
