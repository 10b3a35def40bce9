// The body of one kernel in Triton while it is written: parameters, lines, scopes, and values as Triton expressions.
//
// A kernel's program works on a block of points: XBLOCK of the outer ones, and where there are inner ones RBLOCK of
// these, as the second dimension of two. A value has those of the two that its loop variables make it have.
#pragma once
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/coarse.h"
#include "codegen/kernel.h"
#include "codegen/kernel_arguments.h"
#include "codegen/loop_nest.h"

namespace coil::codegen {

/// Dimensions of a block that a value has.
using BlockDims = unsigned;
inline constexpr BlockDims kNoDims = 0, kAlongX = 1, kAlongR = 2, kBothDims = 3;

/// Why a nest's values cannot be written in Triton; nothing where they can.
std::optional<std::string> not_in_triton(const ir::Graph&, const LoopNest&);

class TritonBody {
 public:
  /// `two`: blocks have both dimensions.
  TritonBody(ir::Graph&, const LoopNest&, bool two);

  ir::Graph& graph;
  const LoopNest& nest;

  /// What the second dimension is called: `RBLOCK`, `rindex`.
  char second = 'R';

  sym::ShapeEnv& env() { return graph.env(); }
  void set_axis(Expr variable, BlockDims dims) { axes_[variable] = dims; }

  /// A value that may be as near as 16 bits need (softmax's exponentials are).
  void make_coarse(ir::Scalar n) { coarse_.insert(n); }

  // ---- Lines
  template <class... A>
  void line(fmt::format_string<A...> format, A&&... a) {
    put(fmt::format(format, std::forward<A>(a)...));
  }
  void put(const std::string& text) { body_ += std::string(static_cast<std::size_t>(4 * indent_), ' ') + text + "\n"; }
  /// `head:`, and the body in a scope of its own.
  void block(const std::string& head, const std::function<void()>& inside);

  /// Lines in a scope of their own, for the points along x where `there` holds (a name, or a condition) alone.
  void among(const std::string& there, const std::function<void()>& inside);

  // ---- Points
  /// The program's number.
  std::string program() const;
  /// The place of the program's points along x (`xindex`) among `count`, and which of them there are: those of block
  /// number `start`, the program's own where that is empty.
  void begin_x(Expr count, int block, const std::string& start = "");
  /// The same along r (`rindex`), from `start` on.
  void begin_r(Expr count, int block, const std::string& start);
  /// Loop variables of these dimensions from a place in row-major order, the last moving fastest.
  void decode(std::span<const LoopDim>, const std::string& place);
  const std::string& mask(BlockDims) const;
  std::string shape(BlockDims) const;

  // ---- Values
  std::string text(Expr e) { return index_text(e, {}); }
  /// The same as an operand of `//` and `%`, which bind as `*` does.
  std::string divisor(Expr e) {
    const std::string whole = text(e);
    return whole.front() != '(' && whole.find('*') != std::string::npos ? "(" + whole + ")" : whole;
  }
  BlockDims dims(ir::Scalar);
  BlockDims dims(Expr) const;
  /// The variable or literal that holds the value here; computes it if no scope has it yet.
  std::string name(ir::Scalar);
  /// The same as a value with a type, of all of a block where it is asked for.
  std::string value(ir::Scalar);
  std::string block_value(ir::Scalar, BlockDims);
  /// Where a value that another statement of the kernel computed is found.
  void set_local(ir::BufferId b, std::string text, BlockDims dims) { locals_[b] = {std::move(text), dims}; }
  bool made_here(ir::Scalar load) const;
  /// What a statement puts into memory: rounding to what it is stored as is left to the store.
  ir::Scalar value_to_store(const Statement&) const;
  void store(const Statement&, const std::string& value, BlockDims);
  /// The start of a buffer that is written to.
  std::string memory(ir::BufferId b) { return arguments_.pointer(b, true); }
  /// Where a statement stores to, as pointers of these dimensions, and the mask beside them (`, xmask`) or nothing.
  struct Place {
    std::string pointers, mask;
  };
  Place place(ir::BufferId, bool writes, Expr index, const std::vector<ir::Scalar>& indirect, BlockDims at_least,
              ir::Scalar mask = nullptr);

  /// `constants`: in the order of the parameters, `XBLOCK` the first.
  Kernel finish(Exprs grid, int warps, std::vector<std::pair<std::string, int>> constants, bool outer_in_place);

 private:
  std::string second_block() const { return fmt::format("{}BLOCK", second); }
  void bind(ir::Scalar);
  std::string compute(ir::Scalar);
  std::string load(ir::Scalar);
  std::string index_text(Expr, const std::vector<std::string>& indirect);
  std::string operation(ir::Scalar);
  std::string cast(ir::Scalar);
  std::string check(ir::Scalar);
  /// For each check that these indices went through, where it held: what failed it is not touched.
  std::vector<std::string> checked(std::span<const ir::Scalar> indirect) const;

  bool two_, wide_, may_fail_ = false;
  std::vector<sym::LoopVar> vars_;
  std::unordered_set<ir::Scalar> coarse_;
  std::unordered_map<Expr, BlockDims> axes_;
  std::string masks_[4];
  int indent_ = 1;
  std::size_t next_ = 0;
  std::string body_;
  struct Local {
    std::string text;
    BlockDims dims = kNoDims;
  };
  std::unordered_map<ir::BufferId, Local> locals_;
  std::unordered_map<ir::Scalar, std::string> names_;
  std::unordered_map<ir::Scalar, BlockDims> dims_;
  std::vector<std::vector<ir::Scalar>> scopes_{{}};
  KernelArguments arguments_;
};

}  // namespace coil::codegen
