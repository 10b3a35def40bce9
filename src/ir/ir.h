// The loop-level IR: buffers with layouts, and the operations that fill them.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/scalar.h"
#include "library_ops/attribute.h"
#include "ops/call_argument.h"
#include "ops/user_kernel.h"
#include "support/extension_api.h"
#include "sym/tensor_meta.h"
#include "target/target.h"
#include "tensor/tensor.h"

namespace coil::fx {
class Node;
}

namespace coil::ir {

using OperationId = std::uint32_t;

/// What other processes of a group can do with a buffer's memory.
enum class CommKind : std::uint8_t {
  Symmetric,  ///< read and write it: it lies at the same offset of equally large allocations on all ranks
};
std::string_view to_string(CommKind);

/// The layout of a communication buffer: it lies in memory that the ranks of a process group share, at the same place
/// in every run and on every rank (ir/comm_buffers.h says which buffers may).
struct CommBufferLayout {
  CommKind kind = CommKind::Symmetric;
  std::string group;
  bool operator==(const CommBufferLayout&) const = default;
};

/// Where the elements of a buffer lie. A flexible layout has its strides chosen between lowering and scheduling
/// (passes/loop/layout_choice.h); before that they are a proposal.
struct Layout {
  DType dtype = DType::F32;
  Device device;
  Exprs sizes, strides;
  bool fixed = false;  ///< strides are settled: inputs, constants, outputs that must equal eager's (those that the
                       ///< caller takes as they come may stay open)
  std::optional<CommBufferLayout> comm = std::nullopt;
};

enum class BufferKind : std::uint8_t { Input, Constant, Computed };

struct Buffer {
  BufferId id = 0;
  std::string name;  ///< `buf3`, or the name of the input or attribute
  BufferKind kind = BufferKind::Computed;
  Layout layout;
  std::vector<OperationId> writers;  ///< empty for inputs and constants until something mutates them
  bool is_output = false;            ///< handed to the caller: fresh memory, not the arena's
  /// The dimension in which channels lie that a convolution made and loops have passed on. Where the layout is open
  /// they may come to lie innermost.
  std::optional<std::size_t> channels;
};
/// Whether the memory outlives the run: an input's, a weight's or a state's.
inline bool is_callers(const Buffer& b) { return b.kind == BufferKind::Input || b.kind == BufferKind::Constant; }

/// All elements of a loop nest over `sizes` (variables i0, i1, …) stored to `out` at `store_index` (one expression per
/// dimension of out; by default the variables themselves).
struct Pointwise {
  Exprs sizes;
  Scalar body = nullptr;
};

enum class ReductionKind : std::uint8_t { Sum, Prod, Max, Min, Any, All, Xor, ArgMax, ArgMin };

/// out[i…] = reduction over r… of body(i…, r…). ArgMax and ArgMin give the I64 position in the flattened reduced
/// dimensions of the first extreme, NaN counting as extreme (torch's rule).
struct Reduction {
  Exprs sizes, reduced;
  ReductionKind kind = ReductionKind::Sum;
  Scalar body = nullptr;  ///< in the register type that is accumulated in
};

enum class ScanKind : std::uint8_t { Sum, Prod, Max, Min, LogSumExp };

/// Inclusive scan along dimension `dim` of `sizes`.
/// With a second buffer among the operation's `outs` (ir/scan_state.h), a row may be shared by blocks that tell each
/// other through it; it holds zeros before.
struct Scan {
  Exprs sizes;
  std::size_t dim = 0;
  ScanKind kind = ScanKind::Sum;
  Scalar body = nullptr;
};

enum class StoreMode : std::uint8_t { Assign, Add, Prod, Max, Min };

/// Like Pointwise, but stored where data says: `out[index]` with x0, x1, … standing for `indirect` values. `out` holds
/// values before. Iterations that hit one place combine by `mode`, in order, so that the last Assign wins as in eager
/// and sums do not depend on threads.
struct Scatter {
  Exprs sizes;
  Scalar body = nullptr;
  Exprs index;
  std::vector<Scalar> indirect;
  StoreMode mode = StoreMode::Assign;
  std::optional<std::size_t> sorted = {};  ///< the loop along which iterations that hit one place are neighbours: one
                                           ///< thread can carry them out in order
  /// Of a sorted loop: of so many iterations, those that hit one place are combined first, and what pieces give a place
  /// is combined in any order. 0: all in order.
  std::int64_t piece = 0;
};

/// A strided window on a buffer, as library calls see it.
struct BufferView {
  BufferId buffer = 0;
  DType dtype = DType::F32;
  Exprs sizes, strides;
  Expr offset = 0;
  bool operator==(const BufferView&) const = default;
};

/// A call of a library operation (library_ops/table.h says which there are; its views name operands and attributes).
struct Extern {
  std::string op;
  library_ops::Attributes attributes;
  std::vector<BufferView> inputs;
  std::vector<BufferView> outputs;  ///< windows on the operation's `outs`, in order
};

/// An operator that Coil leaves to its host (lowering/fallback.h). Results that nothing reads may be absent.
struct Fallback {
  std::string op;
  std::vector<ops::NamedArgument> arguments;
  std::vector<BufferView> inputs;
  std::vector<std::optional<BufferView>> outputs;
  std::vector<std::size_t> writes;  ///< of `inputs`: those that the operator writes to. It is given copies, which are
                                    ///< the last of `outputs`, in this order
  bool is_list = false;             ///< the operator returns several values, be it one
  bool has_effect = false;  ///< draws random numbers or the like: kept, in order, though nothing uses its results
};

/// A call of a kernel that the user wrote. It writes to its operation's `outs`, which hold values before, as those of a
/// Scatter do.
struct UserCall {
  std::shared_ptr<const ops::UserKernel> kernel;
  std::vector<BufferView> tensors;   ///< in the order of its parameters
  std::vector<std::size_t> written;  ///< places in `tensors`
  Exprs numbers, grid;               ///< blocks along x, y, z
};

/// A run-time assertion.
struct Assertion {
  Expr condition;
  std::string message;
};

/// A symbol gets its value while the program runs: the integer that `source` (0-d, I64) holds; of a float (0-d, F64)
/// its bits (FloatFunction::OfBits).
struct ReadSymbol {
  Expr symbol;
  BufferId source = 0;
};

/// A symbol gets the value of an expression: on each side of a branch that of the side's own result, where only the
/// branch tells the size of what it gives.
struct SetSymbol {
  Expr symbol, value;
};

/// A border of a block of operations. Blocks nest; what is made in one is used in it only, so results leave through
/// buffers that were made before it: but for a symbol that both sides of a branch set, and buffers that are sized by
/// it, which each side makes and both have made after it.
///
///     If condition … Else … EndIf          the first block where the condition is not 0, else the second
///     Loop counter < extent … EndLoop      the block again and again; BreakUnless, a direct part of it, leaves when
///     its condition is 0
struct Control {
  enum class Kind : std::uint8_t { If, Else, EndIf, Loop, BreakUnless, EndLoop } kind = Kind::If;
  Expr condition = 1;              ///< of If and BreakUnless
  Expr counter = 0;                ///< of Loop: the symbol that counts turns from 0
  Expr extent = sym::Range::kMax;  ///< of Loop; kMax: without end
  bool opens() const { return kind == Kind::If || kind == Kind::Else || kind == Kind::Loop; }
  bool closes() const { return kind == Kind::Else || kind == Kind::EndIf || kind == Kind::EndLoop; }
};

struct Operation {
  OperationId id = 0;
  std::variant<Pointwise, Reduction, Scan, Scatter, Extern, Assertion, Fallback, UserCall, ReadSymbol, SetSymbol,
               Control>
      node;
  std::vector<BufferId> outs;
  /// Where in outs[0] an iteration of Pointwise, Reduction or Scan stores, over i0, i1, …; empty means at (i0, i1, …).
  Exprs store_index;
  std::set<std::string> origins;  ///< names of the fx nodes computed here, and only those (not those read)
  std::string where;              ///< the user's line of the last of them

  /// Loop sizes and reduced sizes; empty for extern operations and assertions.
  const Exprs& sizes() const;
  const Exprs& reduced() const;
  bool is_loop() const { return node.index() < 4; }
  /// What a loop computes at a point; null of what is no loop.
  Scalar body() const;
  /// Runs for what it does to the program, not for a value.
  bool has_effect() const {
    return std::holds_alternative<Assertion>(node) || std::holds_alternative<Control>(node) ||
           (std::holds_alternative<Fallback>(node) && std::get<Fallback>(node).has_effect);
  }
  /// The symbol that it gives a value, if it is one that does.
  std::optional<Expr> defined_symbol() const;
};

struct GraphOutput {
  std::string name;
  /// A tensor, or a number: an integer or condition by expression, or a constant float.
  std::variant<BufferView, Expr, double> value;
  bool is_bool = false;  ///< the expression is a condition
};

/// What is being lowered, for the operations made meanwhile. An operation computes the node itself and the nodes whose
/// bodies it absorbed, but none that it only reads.
struct Provenance {
  std::set<std::string> origins;
  std::string where;
  std::vector<std::pair<Scalar, std::set<std::string>>> absorbed;  ///< bodies inlined by loads, and their origins
  /// Origins of an operation with this body: the node's own, and those of absorbed bodies that occur in it.
  std::set<std::string> of(Scalar body) const;
};

/// A lowered program. Operations are in an order that respects data flow; the scheduler may change it.
class COIL_EXTENSION_API Graph {
 public:
  /// A graph for the host where no target is told. The target outlives the graph.
  explicit Graph(std::shared_ptr<sym::ShapeEnv> env, const target::Target& target = target::host())
      : target_(&target), env_(std::move(env)), pool_(*env_) {}

  /// What the program is compiled for.
  const target::Target& target() const { return *target_; }
  /// For graphs that were read as text, which says nothing of a target.
  void set_target(const target::Target& target) { target_ = &target; }
  /// What carries out an operation whose result lies on this device: the program's target, or the host.
  const target::Target& target(Device device) const { return device == target_->device ? *target_ : target::host(); }

  sym::ShapeEnv& env() { return *env_; }
  const std::shared_ptr<sym::ShapeEnv>& env_ptr() const { return env_; }
  ScalarPool& pool() { return pool_; }

  Buffer& add_buffer(std::string name, BufferKind, Layout);
  Operation& add_operation(Operation);
  /// Whether it ever had a convolution, or the gradient of one's weights: layouts left open may then come to have the
  /// channels innermost (passes/loop/layout_choice.h).
  bool has_convolutions() const { return has_convolutions_; }
  /// Says of a convolution's result that another operation made in which dimension its channels lie.
  void made_channels(BufferId made, std::size_t dim) {
    has_convolutions_ = true;
    buffers_[made].channels = dim;
  }
  /// Forgets those of operation `first` and its followers that `unwanted` tells; nothing may read their results.
  void drop_operations(std::size_t first, const std::function<bool(const Operation&)>& unwanted);
  /// The whole list anew, in this order: what passes over the IR end with. Operations get new ids and buffers their
  /// writers.
  void replace_operations(std::vector<Operation>);
  Buffer& buffer(BufferId id) { return buffers_[id]; }
  const Buffer& buffer(BufferId id) const { return buffers_[id]; }
  std::deque<Buffer>& buffers() { return buffers_; }
  const std::deque<Buffer>& buffers() const { return buffers_; }
  std::deque<Operation>& operations() { return operations_; }
  const std::deque<Operation>& operations() const { return operations_; }

  /// Loop variable i<d> or r<d>.
  Expr ivar(std::size_t d) { return variable(ivars_, 'i', d); }
  Expr rvar(std::size_t d) { return variable(rvars_, 'r', d); }
  Exprs ivars(std::size_t n);
  Exprs rvars(std::size_t n);

  /// The seed of all random operators, an I64 that whoever runs the program renews before each run.
  Scalar seed();
  /// In a loop each turn has a seed of its own, until `end_turns`.
  void begin_turns(Expr counter) { turns_.push_back({counter, new_salts(2)}); }
  void end_turns() { turns_.pop_back(); }
  /// The buffer that holds it, once something asked for it.
  std::optional<BufferId> seed_buffer() const { return seed_buffer_; }
  /// Says that a constant is it, of a graph that is read from text.
  void set_seed_buffer(BufferId id) { seed_buffer_ = id; }
  /// Numbers for the scalars (ScalarOp::Random) of one operator: the first of `count`.
  std::int64_t new_salts(std::int64_t count) { return std::exchange(salts_, salts_ + count); }

  std::vector<BufferId> inputs;          ///< one for each of the program's inputs, in order
  std::map<BufferId, Tensor> constants;  ///< values of Constant buffers
  /// For constants whose memory is there but not yet written: what writes it, on any thread. Calls of libraries alone
  /// read these.
  std::map<BufferId, std::function<void()>> fills;
  std::set<BufferId> mutated;  ///< inputs and constants that operations write to
  /// A part of the program lies on the CPU, beside the target's device. Where not, nothing depends on the devices of
  /// buffers: all lie on the target's.
  bool on_several_devices = false;
  /// No choice that a value's bits depend on follows from how many rows a batch has (deterministic=batch).
  bool batch_invariant = false;
  std::set<BufferId> exchanged;  ///< constants that others may take the place of
  /// Whether a buffer is a constant whose value is known now, and the same in every run.
  bool is_known(BufferId id) const {
    return constants.contains(id) && !mutated.contains(id) && !exchanged.contains(id) && seed_buffer_ != id;
  }
  std::vector<GraphOutput> outputs;
  std::map<std::string, std::shared_ptr<const ops::UserKernel>> user_kernels;  ///< by symbol
  Provenance provenance;
  std::set<std::string> defined_symbols;  ///< names of those that operations define
  std::vector<std::string> warnings;      ///< what whoever compiles is to be told

 private:
  Expr variable(Exprs& made, char letter, std::size_t d);
  void follow_channels(const Operation&);
  struct Turn {
    Expr counter;
    std::int64_t salt;
  };
  std::vector<Turn> turns_;
  std::optional<BufferId> seed_buffer_;
  std::int64_t salts_ = 0;
  bool has_convolutions_ = false;
  Exprs ivars_, rvars_;
  const target::Target* target_;
  std::shared_ptr<sym::ShapeEnv> env_;
  ScalarPool pool_;
  std::deque<Buffer> buffers_;
  std::deque<Operation> operations_;
};

/// Where an operation is carried out: on the device of what it writes, or of what it reads where it writes nothing. In
/// a program on one device that is the target's, whatever its buffers say.
Device device_of(const Graph&, const Operation&);
/// Buffers read by an operation (through loads, scatter indices or library operands), each once, in order.
std::vector<BufferId> reads(const Operation&);
/// Calls `f` on every expression of an operation itself, those of its body and of its views among them, but not on what
/// it defines; layouts of buffers are theirs.
void for_each_expr(const Operation&, const std::function<void(const Expr&)>& f);
/// Size symbols an operation needs to know when it runs: of its sizes, indices, layouts of what it reads and writes.
std::set<std::string> free_symbols(const Graph&, const Operation&);
/// The symbols of free_symbols() that the program defines as it runs.
std::vector<Expr> runtime_symbols(const Graph&, const Operation&);
/// Which operations are needed for the outputs, for writes to inputs and constants, and for effects.
std::vector<bool> live_operations(const Graph&);
/// Which symbols have values, as a walk over operations goes in and out of blocks. What both sides of a branch define
/// is known after it.
class KnownSymbols {
 public:
  void border(const Control&);
  void define(Expr symbol) { known_.emplace(symbol.name()); }
  bool contains(Expr symbol) const { return known_.contains(symbol.name()); }
  bool all_closed() const { return open_.empty(); }

 private:
  using Names = std::set<std::string, std::less<>>;
  struct Block {
    Names before, first_side;
  };
  Names known_;
  std::vector<Block> open_;
};
/// For each operation, its block: equal numbers, same block. 0 is the program's own; a BreakUnless parts a block in
/// two.
std::vector<std::size_t> blocks(const Graph&);
/// Every symbol is defined before its use, in the same block or one around it; blocks nest; a buffer made in a block is
/// used in it only. Throws Error naming the operation.
void verify(const Graph&);
/// Index in elements from the buffer's start of a multi-dimensional index.
COIL_EXTENSION_API Expr linear_index(const Layout&, std::span<const Expr> index);
/// The text form (ir/text.h): buffers with layouts, operations with bodies, outputs.
std::string to_string(const Graph&);

}  // namespace coil::ir
