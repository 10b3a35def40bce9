// The body of one kernel in CUDA C++, or in a language like it (dialect.h), while it is written: parameters, lines,
// scopes, and scalar expressions as device code.
//
// A thread holds `lanes.width` neighbouring elements along one loop variable. What is the same for all of them is
// computed once; contiguous loads and stores move as packs; the rest stands in a loop over the lane `j`.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/coarse.h"
#include "codegen/cuda/dialect.h"
#include "codegen/in_place.h"
#include "codegen/kernel.h"
#include "codegen/kernel_arguments.h"
#include "codegen/lanes.h"
#include "codegen/loop_nest.h"

namespace coil::codegen {

using ir::BufferId;

std::string cuda_register_type(DType register_type);  ///< `f32`, `i64`, `bool`
std::string cuda_storage_type(DType storage);         ///< `f32`, `u16` for f16 and bf16, `u8` for bool

class KernelBuilder {
 public:
  KernelBuilder(ir::Graph& graph, LoopNest nest, const Dialect&);

  ir::Graph& graph;
  const Dialect& dialect;
  LoopNest nest;
  Lanes lanes{0, 1};

  sym::ShapeEnv& env() { return graph.env(); }
  const std::vector<sym::LoopVar>& vars() const { return vars_; }

  // ---- Lines
  template <class... A>
  void line(fmt::format_string<A...> format, A&&... a) {
    put(fmt::format(format, std::forward<A>(a)...));
  }
  void put(const std::string& text) { body_ += std::string(static_cast<std::size_t>(2 * indent_), ' ') + text + "\n"; }
  /// `head {`, the body in a scope of its own, `}`.
  void block(const std::string& head, const std::function<void()>& inside);
  std::string fresh(std::string_view prefix = "x") { return fmt::format("{}{}", prefix, next_++); }

  // ---- Expressions
  /// `i32` where every index of the kernel provably fits, else `i64`.
  const std::string& index_type() const { return index_type_; }
  std::string text(Expr);
  /// The same, with values for the indirect variables x0, x1, ….
  std::string text_with(Expr e, const std::vector<std::string>& indirect) { return index_text(e, indirect); }
  /// The variable or literal that holds the value here; computes it if no scope has it yet.
  std::string name(ir::Scalar);
  /// Where a value computed by another statement of the kernel is found: a variable, or an array over lanes.
  void set_local(BufferId, std::string text, bool per_lane = false);
  bool made_here(ir::Scalar load) const;
  /// Whether a value depends on any of these variables, directly or through what was set as made inside them.
  bool depends(ir::Scalar, std::span<const Expr> variables);

  // ---- Elements of a run
  void set_lanes(Lanes l) {
    lanes = l;
    varies_.clear();
  }
  /// What the innermost dimension's variable was is `place` from now on, an expression of the variable of `dim`.
  void count_inner_by(const LoopDim& dim, Expr place);
  /// Computes now what does not depend on `variables`: what can stand before their loop.
  void hoist(std::span<const ir::Scalar> roots, std::span<const Expr> variables);
  /// `each` once for every element of the run: packs are loaded before and stored after.
  void elements(std::span<const ir::Scalar> roots, std::span<const Statement* const> stores,
                const std::function<void()>& each);
  /// Inside `elements`: the value of a statement goes to memory.
  void store(const Statement&, const std::string& value);
  /// The lane's subscript for arrays over lanes: `[j]`, or `[0]` where runs are of one element.
  std::string lane() const { return lanes.width > 1 ? "[j]" : "[0]"; }
  /// A load that `elements` finds in this pack already, such as `k0[c]`.
  void set_pack(ir::Scalar load, std::string pack) { packs_[load] = std::move(pack); }
  void drop_pack(ir::Scalar load) { packs_.erase(load); }
  /// A value that stands in this text, until the scope ends.
  void set_value_here(ir::Scalar value, std::string text) {
    names_[value] = std::move(text);
    scopes_.back().push_back(value);
  }
  bool packable(ir::Scalar load);
  bool varies(ir::Scalar);
  /// A value that may be as near as 16 bits need (softmax's exponentials are).
  void make_coarse(ir::Scalar n) { coarse_.insert(n); }
  /// What a statement puts into memory: rounding to what it is stored as is left to the store.
  std::string value_to_store(const Statement&);
  std::string pack_type(DType storage) const {
    return fmt::format("c_pack<{}, {}>", cuda_storage_type(storage), lanes.width);
  }
  std::string pack_load(ir::Scalar load);
  /// A load of a sum over ranks (ir::is_peer_sum), and the two halves of one: what it gives the others, and what comes
  /// of it once they have given theirs.
  bool adds_up_over_ranks() const { return sum_.has_value(); }
  bool is_peer_sum(ir::Scalar load) const { return load->op == ir::ScalarOp::LinearLoad && sum_ == load->buffer; }
  std::string pack_send(ir::Scalar load);
  std::string pack_receive(ir::Scalar load, const std::string& sent);
  /// Ends the kernel's part in what its blocks share for a sum; here, where threads are to wait for other ranks.
  void settle_peer_sum();
  /// Stores stand under this condition; empty: always.
  std::string store_guard;
  /// How many elements of a run are there, where its dimension may end within one; empty: all.
  std::string rest;

  std::string pointer(BufferId b, bool writes) { return arguments_.pointer(b, writes); }

  Kernel finish(SymbolicLaunch launch);
  /// Memory that the threads of a block share: declared in front of the kernel's lines.
  void shared(const std::string& declaration) { head_ += fmt::format("  {} {};\n", dialect.shared, declaration); }
  /// For the pairs of buffers that may share memory.
  InPlaceForm in_place;
  /// Threads of the kernel do not wait for each other: each may leave when the run has failed.
  bool stops_any_time = false;

 private:
  std::string bind(ir::Scalar);
  std::string compute(ir::Scalar);
  std::string load(ir::Scalar, const std::vector<std::string>& indirect);
  std::string random(ir::Scalar, const std::string& seed);
  /// A parameter of the kernel with this value: kernels that differ in it are one text.
  std::string scalar(const std::string& key, Expr value) { return arguments_.scalar(key, value); }
  std::string index_text(Expr, const std::vector<std::string>& indirect);
  std::string pack_place(ir::Scalar load);
  std::string begin_peer_sum(KernelParts&);
  std::string sum_elements();

  std::vector<sym::LoopVar> vars_;
  std::string index_type_ = "i64";
  bool in_lanes_ = false, may_fail_ = false, settled_ = false;
  std::optional<BufferId> sum_;  ///< what the kernel adds up over ranks
  int indent_ = 1;
  std::size_t next_ = 0;
  std::string body_, head_;

  struct Local {
    std::string text;
    bool per_lane = false;
  };
  std::unordered_map<BufferId, Local> locals_;
  std::unordered_map<ir::Scalar, std::string> names_, packs_, reciprocals_;
  std::vector<std::vector<ir::Scalar>> scopes_{{}}, pack_scopes_{{}}, reciprocal_scopes_{{}};
  std::unordered_map<ir::Scalar, bool> varies_;
  std::unordered_set<ir::Scalar> coarse_, compared_;
  /// A run of stored elements: as a pack, or as an array of registers that become one together.
  struct OutPack {
    std::string name;
    bool registers = false;
  };
  std::map<const Statement*, OutPack> out_packs_;

  KernelArguments arguments_;
};

}  // namespace coil::codegen
