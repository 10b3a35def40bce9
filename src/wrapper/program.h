// The wrapper IR: a program as a list of typed lines over buffers. No line is a string of target code.
//
// Everything that leaves the compiler is printed from it: the memory planner, the plan that the executor runs, and the
// C++, Python and FX emitters read this list and nothing else.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "codegen/kernel.h"
#include "ops/call_argument.h"
#include "support/going_memory.h"
#include "sym/shape_env.h"
#include "tensor/device.h"
#include "tensor/tensor.h"

namespace coil::wrapper {

using ir::BufferId;
using sym::Expr;
using sym::Exprs;

enum class BufferKind : std::uint8_t { Input, Constant, Temporary, Output };

struct Buffer {
  std::string name;
  BufferKind kind = BufferKind::Temporary;
  DType dtype = DType::F32;
  Device device;
  Exprs sizes, strides;
  Expr bytes;                                               ///< of the memory it needs
  std::size_t index = 0;                                    ///< of the input or constant
  std::optional<ir::CommBufferLayout> comm = std::nullopt;  ///< of a temporary: other ranks reach it
};
/// Whether the memory outlives the run: an input's, a weight's or a state's.
inline bool is_callers(const Buffer& b) { return b.kind == BufferKind::Input || b.kind == BufferKind::Constant; }

using View = ir::BufferView;

/// A size symbol gets its value: an expression over sizes (or the value, for a number) of inputs. `Divided` ones were
/// solved from a multiple and must come out even.
struct DefineSymbol {
  Expr symbol;
  std::size_t input = 0;
  enum class From : std::uint8_t { Size, Stride, Value } from = From::Size;
  std::size_t dim = 0;
  Expr subtract = 0, divide = 1;  ///< symbol = (that - subtract) / divide
};
/// Memory for a temporary or output, before its first use.
struct Allocate {
  BufferId buffer = 0;
};
/// Gives the memory of a buffer back after its last use.
struct Free {
  BufferId buffer = 0;
};
/// Memory for a communication buffer: its place in the memory of its process group (wrapper/comm_pools.h), in every run
/// and on every rank. -1 before places are planned.
struct AllocateComm {
  BufferId buffer = 0;
  std::int64_t offset = -1;
};
struct FreeComm {
  BufferId buffer = 0;
};
/// `to` takes over the memory of `from`, which is dead from here on.
struct Reuse {
  BufferId from = 0, to = 0;
};
struct DefineKernel {
  std::size_t kernel = 0;
};
/// Another kernel that does what a call does, for the sizes at which a condition holds. It takes the call's buffers.
struct KernelAlternative {
  Expr when;
  std::size_t kernel = 0;  ///< index into Program::kernels
  Exprs scalars;
  Expr extent;
  std::int64_t grain = 1;
  std::optional<codegen::SymbolicLaunch> launch;
};
struct CallKernel {
  std::size_t kernel = 0;  ///< index into Program::kernels
  std::vector<BufferId> buffers;
  std::vector<bool> written;
  Exprs scalars;
  Expr extent;
  std::int64_t grain = 1;
  std::string failure;  ///< message when the kernel sets its status; empty when it cannot
  std::vector<std::pair<BufferId, BufferId>> in_place;  ///< inputs whose memory an output may take over
  /// For a kernel that only copies: all of the first buffer, unchanged and each element to the same place, goes to the
  /// second.
  std::optional<std::pair<BufferId, BufferId>> copies;
  std::set<std::string> nodes;    ///< of the graph after the passes that it computes, and none that it only reads
  std::set<std::string> origins;  ///< nodes of the incoming graph that those came from
  std::string where;
  std::optional<codegen::SymbolicLaunch> launch;  ///< on a GPU, where extent and grain say nothing
  /// Taken in place of the kernel where their conditions hold, of which at most one does. Until they become calls of
  /// their own (passes/wrapper/split_alternatives.h).
  std::vector<KernelAlternative> alternatives = {};
  std::optional<Expr> when = std::nullopt;  ///< the call is left out where this does not hold
};
/// The kernels that a call may be of, by their places in Program::kernels.
template <class Call, class F>
void for_each_kernel(Call& call, F&& f) {
  f(call.kernel);
  for (auto& a : call.alternatives) f(a.kernel);
}
using Attribute = library_ops::Attribute;
struct CallExtern {
  std::string op;
  library_ops::Attributes attributes;
  std::vector<View> inputs, outputs;
  std::set<std::string> nodes, origins;
  std::string where;
};
/// An operator that the host program carries out (in torch's process, torch). Operands of the arguments are `inputs` by
/// position; the results are copied into `outputs`, absent where nothing reads them.
struct CallFallback {
  std::string op;  ///< with overload: `aten.cumsum.default`
  std::vector<ops::NamedArgument> arguments;
  std::vector<View> inputs;
  std::vector<std::optional<View>> outputs;
  std::vector<std::size_t> writes;  ///< of `inputs`: those that it writes to. It is given copies of them, which are the
                                    ///< last of `outputs`, in this order; its own results come before
  bool is_list = false;             ///< the operator returns several values, be it one
  std::set<std::string> nodes, origins;
  std::string where;
};
/// A launch of a kernel that the user wrote, with its argument block as the kernel's definition has it.
struct CallUserKernel {
  std::shared_ptr<const ops::UserKernel> kernel;
  std::vector<View> tensors;  ///< in the order of its parameters
  std::vector<bool> written;  ///< for each of them
  Exprs numbers, grid;        ///< blocks along x, y, z
  std::string failure = {};   ///< as of CallKernel
  std::set<std::string> nodes, origins;
  std::string where;
};
/// Fails the run with the message unless the condition holds.
struct Assert {
  Expr condition;
  std::string message;
};

// Symbols that get their values while the program runs, and the borders of blocks of lines, are those of the IR.
// Symbols defined and buffers allocated in a block are used in it only, but for those that both sides of a branch
// define and allocate.
using ir::Control;
using ir::ReadSymbol;
using ir::SetSymbol;

/// The borders of a part of the program that a graph of the device can hold (passes/wrapper/partition.h). A part lies
/// in one block and holds whole blocks.
struct BeginPart {
  std::size_t part = 0;  ///< index into Program::parts
};
struct EndPart {
  std::size_t part = 0;
};

using Line =
    std::variant<DefineSymbol, Assert, DefineKernel, Allocate, Reuse, CallKernel, CallExtern, CallFallback,
                 CallUserKernel, Free, ReadSymbol, SetSymbol, Control, AllocateComm, FreeComm, BeginPart, EndPart>;

struct KernelEntry {
  std::string symbol, text;                      ///< in the device's language, without the prelude
  std::optional<codegen::KernelParts> parts{};   ///< what the text is made of, where it is launched
  std::optional<codegen::TritonParts> triton{};  ///< of one in Triton, until its calls are those of a user's kernel
  std::string language{};                        ///< as of codegen::Kernel
  std::size_t place = 0;                         ///< the device that it runs on (Program::place_of)
};

struct Input {
  std::string name;  ///< path in the file of inputs
  BufferId buffer = 0;
  bool mutated = false, unused = false;
  std::optional<Expr> number;  ///< what a number is called in expressions
  std::optional<GoingMemory> goes = {};
};

struct Constant {
  std::string name;
  Tensor value;
  bool state = false;               ///< the program writes to it
  bool seed = false;                ///< the seed of random operators: new in each run; a state as well
  std::function<void()> fill = {};  ///< writes the value's bytes, where that was put off (fill_constants)
};

struct Output {
  std::string name;
  std::variant<View, Expr, double> value;
  bool is_bool = false;
};

/// What the order of the calls does to the peak of temporaries, in bytes, by sizes' hints and before packing. For
/// people.
struct MemoryOrder {
  std::uint64_t written = 0;  ///< as the program was written
  std::uint64_t now = 0;
  std::string name;  ///< of the order that was taken
};

/// What the order of exchanges with other processes does to the time of a run, by the model (scheduler/
/// exchange_overlap.h), and to the peak of temporaries. For people.
struct ExchangeOrder {
  double written_seconds = 0, seconds = 0;
  std::uint64_t written_peak = 0, peak = 0;
  std::size_t buckets = 0;  ///< of exchanges that start together
};

/// What became of an exchange beside products (passes/wrapper/chunk_collectives.h). For people.
struct ChunkNote {
  std::string what;        ///< the exchange
  std::size_t chunks = 1;  ///< 1: it is in one piece
  std::string reason;      ///< then, why
};

/// What crosses the borders of a part. Buffers that are allocated and freed in it are in neither list.
struct Part {
  std::vector<BufferId> inputs;   ///< that lines of it use and that live before it, in order of their first use
  std::vector<bool> written;      ///< for each input: lines of it write to it
  std::vector<BufferId> outputs;  ///< that get their memory in it and live after it
  Exprs symbols;                  ///< that its lines mention and that are defined before it
};

/// How many parts the program was cut into in the order of its calls before and after they were moved. For people.
struct PartCounts {
  std::size_t written = 0, now = 0;
};

struct Program {
  std::shared_ptr<sym::ShapeEnv> env;
  std::string name;
  Device device;
  std::vector<Buffer> buffers;
  std::vector<Input> inputs;
  std::vector<Constant> constants;
  std::vector<KernelEntry> kernels;
  std::vector<Line> lines;
  std::vector<Output> outputs;
  std::vector<Part> parts;
  std::optional<PartCounts> part_counts;
  std::optional<MemoryOrder> memory_order;
  std::optional<ExchangeOrder> exchange_order;
  std::vector<ChunkNote> chunk_notes;
  bool check_lifetimes = false;  ///< runs are watched, in languages that do not watch themselves
  /// The incoming graph, line by line with the node that each defines: what origins name. For people; empty where
  /// nobody asked.
  std::vector<std::pair<std::string, std::string>> source;
  /// The devices beside `device` of a program over several. Where there are none, nothing depends on the devices of
  /// buffers: all lie on `device`.
  std::vector<Device> others = {};

  /// Devices by number, which is all that the runtime knows of them: 0 is `device`, k the k-th of the others.
  std::size_t place_of(Device d) const;
  std::size_t place_of(BufferId b) const { return place_of(buffers[b].device); }
  /// Where the results of a library call lie, or its operands where it has none.
  std::size_t place_of(const CallExtern&) const;
  Device device_of(std::size_t place) const { return place == 0 ? device : others.at(place - 1); }
};

/// All of a buffer.
inline View whole(const Program& p, BufferId b) {
  return {b, p.buffers[b].dtype, p.buffers[b].sizes, p.buffers[b].strides, 0};
}

/// Results of the operator itself, which come before what it wrote to its arguments.
inline std::size_t own_results(const CallFallback& c) { return c.outputs.size() - c.writes.size(); }
/// The memory that the operator is given for its operand `k`.
inline const View& operand(const CallFallback& c, std::size_t k) {
  for (std::size_t i = 0; i < c.writes.size(); ++i)
    if (c.writes[i] == k) return *c.outputs[own_results(c) + i];
  return c.inputs.at(k);
}

/// Whether the call takes values from other processes or gives them some.
bool is_exchange(const CallExtern&);
/// Whether any call of the program does.
bool exchanges(const Program&);

/// Buffers that a call touches, read ones and written ones; none for other lines.
struct Uses {
  std::vector<BufferId> reads, writes;
};
Uses uses(const Line&);
/// The expressions that a line mentions; of one that gives a buffer memory, those of its layout.
void for_each_expr(const Program&, const Line&, const std::function<void(Expr)>&);
/// Each buffer in the line becomes `names` of it. What was to be made in place of itself needs no leave any more.
void rename_buffers(Line&, const std::vector<BufferId>& names);

/// Takes calls out, and kernels that nobody calls any more.
void drop_calls(Program&, const std::set<std::size_t>& lines);

/// Symbols that lines define while the program runs, each once, in the order in which the last line that defines each
/// comes: what is made of several has its value when the last of them has.
Exprs runtime_symbols(const Program&);

/// Inputs that go with the last call that uses them, all of whose memory is theirs as far as hints tell, and no other
/// input's: what takes their place may be made in it.
std::set<BufferId> inputs_to_take(const Program&);

/// The users' kernels that are called, each once, in the order of their first calls.
std::vector<std::shared_ptr<const ops::UserKernel>> user_kernels(const Program&);

/// What both sides of a branch make, so that it is there after it.
struct Joined {
  Exprs symbols;
  std::vector<BufferId> buffers;
};
/// For each If line whose sides have such, by its place.
std::map<std::size_t, Joined> joined_values(const Program&);

/// Every temporary is allocated once and freed once, and used only between; reuse is between equal sizes; symbols and
/// kernels are defined before use, symbols in the same block or one around it; what a block allocates it frees, unless
/// the other side of the branch allocates it too; only outputs, mutated inputs and states are written for good; calls
/// are those of the program's device. Throws Error naming the line.
void verify(const Program&);
/// The part of it that holds before symbols are defined and lifetimes planned.
void verify_calls(const Program&);

/// Whether all of one view lies behind all of the other, of the same buffer, as far as is known.
bool lie_apart(const sym::ShapeEnv&, const View&, const View&);

/// Bytes that a strided layout spans; 0 when a size is 0.
Expr span_bytes(const sym::ShapeEnv&, DType, const Exprs& sizes, const Exprs& strides);

}  // namespace coil::wrapper
