// The printer of one kernel's C++ text; codegen/cpp/kernel.h is what others use. Its parts: loops (kernel.cpp), tiles
// (kernel_tiles.cpp), what statements do (kernel_statements.cpp), values (kernel_values.cpp).
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/coarse.h"
#include "codegen/compared.h"
#include "codegen/cpp/kernel.h"
#include "codegen/in_place.h"
#include "codegen/kernel_arguments.h"
#include "codegen/loop_nest.h"

namespace coil::codegen {

using ir::BufferId;
using ir::Reduction;
using ir::ReductionKind;
using ir::Scalar;
using ir::ScalarOp;
using scheduler::Role;

inline constexpr std::int64_t kLine = 64;  // bytes of a cache line

/// The C type of a storage element; narrow floats and bool are their bits.
std::string storage_type(DType);
std::string scalar_type(DType register_type);
std::string vector_type(DType register_type);
std::string float_literal(double, DType);
std::string int_literal(std::int64_t, DType);

class Printer {
 public:
  Printer(ir::Graph& graph, LoopNest nest, const KernelOptions& options)
      : graph_(graph), nest_(std::move(nest)), vars_(nest_.vars()), lanes_(options.lanes) {
    if (nest_.vector == LoopNest::Vector::Outer) vector_ = nest_.outer.back().var;
    if (nest_.vector == LoopNest::Vector::Inner) vector_ = nest_.inner.back().var;
  }
  Kernel print();

 private:
  struct Local {
    std::string name;
    bool varying = false;
  };

  bool outer_vector() const { return nest_.vector == LoopNest::Vector::Outer; }
  bool inner_vector() const { return nest_.vector == LoopNest::Vector::Inner; }
  bool scatters() const { return std::holds_alternative<ir::Scatter>(nest_.statements.front().op->node); }
  sym::ShapeEnv& env() { return graph_.env(); }

  // ---- Where values of the group live ----

  /// Decides for each unstored Inner value that a later level reads whether a row on the stack can hold it, or memory
  /// must.
  void place_values();
  void find_homes(const std::set<BufferId>& spilled);
  bool may_lie_in(std::size_t value, std::size_t result);
  /// Whether a statement reads what was in its buffer before: such loads go to memory.
  static bool updates(const Statement& s);
  static std::vector<Scalar> linear_loads(const Statement& s);
  DType register_of(BufferId b);
  /// Place of the current inner point in a row kept on the stack.
  std::string row_position();

  // ---- Loops ----

  void decode_point();
  /// Names what is read at places that do not change along the vectors, and checks of such places: the compiler may not
  /// move them out of a loop that stores.
  void name_steady_reads();
  std::string where_inner_loops_run();
  /// A loop over full vectors of [from, to), and what is left as a vector of n lanes.
  template <class F>
  void vector_loop(const LoopDim& dim, const std::string& from, const std::string& to, F body) {
    const std::string v(dim.var.name());
    const bool whole = env().statically_known_multiple_of(dim.size, lanes_);
    line(fmt::format("i64 {} = {};", v, from));
    line(fmt::format("for (; {0} + COIL_L <= {1}; {0} += COIL_L) {{", v, to));
    in_scope(body);
    line("}");
    if (whole) return;
    line(fmt::format("if ({} < {}) {{", v, to));
    tail_ = true;
    ++indent_;
    line(fmt::format("const i64 n = {} - {};", to, v));
    --indent_;
    in_scope(body);
    tail_ = false;
    line("}");
  }
  /// Prints `body` in two versions if its conditions (padding, bounds of windows) hold for most points: a test of all
  /// conditions chooses between one that assumes them and one that checks each.
  template <class F>
  void versions(F body) {
    const auto conditions = common_conditions();
    if (conditions.empty()) return body();
    std::string test;
    for (auto& [condition, worst] : conditions) test += (test.empty() ? "" : " && ") + text(worst);
    line(fmt::format("if ({}) {{", test));
    for (auto& [condition, worst] : conditions) assumed_.insert(condition);
    in_scope(body);
    assumed_.clear();
    line("} else {");
    in_scope(body);
    line("}");
  }
  /// Conditions of masks, each with an expression that says that it holds at every lane and window point; none if two
  /// versions are not worth their text.
  std::vector<std::pair<Expr, Expr>> common_conditions();
  std::optional<Expr> at_worst(Expr condition);

  /// How far a tiled dimension goes inside the vector loop.
  void choose_tile();
  void tile_loop();
  /// What the next turn of the vector loop transposes.
  void fetch_tile_ahead(const std::vector<Scalar>& transposed);
  /// Loads of a tile beside those: vectors of as many rows as the tile has.
  std::vector<Scalar> rows_of_tile(const std::vector<Scalar>& transposed);
  /// Loads that walk the tiled dimension contiguously and the vector dimension in strides: whole vectors, transposed in
  /// registers.
  std::vector<Scalar> transposed_loads();
  template <class F>
  void in_scope(F body) {
    ++indent_;
    scopes_.emplace_back();
    body();
    for (Scalar s : scopes_.back()) names_.erase(s), raw_.erase(s), windows_.erase(s);
    scopes_.pop_back();
    --indent_;
  }
  void levels();
  void inner_level();
  void inner_loops(std::size_t d, const std::vector<Scalar>& nodes, const std::vector<Statement*>& statements);
  /// The last inner loop: by vectors with several accumulators, by strips, or one point at a time.
  void last_loop(const LoopDim& dim, const std::vector<Statement*>& statements);
  /// `copies_` points of the loop over `r` at once, each with accumulators of its own (vectors) or with the strip's.
  void points_together(const std::string& r, const std::string& step, const std::vector<Statement*>& statements);
  void rows_of_strip(const LoopDim& dim, const std::vector<Statement*>& statements);
  void point(const std::vector<Statement*>& statements);
  /// Prefetches the rows that the first level of the next point reads. That is done while the second level of this
  /// point computes, when memory would be idle.
  void find_next_rows();
  /// Variables that hold a load's indices for the next point; nothing if these are not numbers in memory.
  std::optional<std::vector<std::string>> next_places(Scalar load);
  /// Small constant inner loops written out, so that conditions on window positions are settled here.
  bool flat(const std::vector<Statement*>& statements) const;
  void flat_points(const std::vector<Statement*>& statements);
  /// Runs `body` with the assumed conditions replaced by true in all statements, and restores the statements
  /// afterwards.
  template <class F>
  void with_bodies(const std::vector<Statement*>& statements, const std::function<void(Statement&)>& change, F body) {
    std::vector<Statement> before;
    for (Statement* s : statements) before.push_back(*s), change(*s);
    body();
    for (std::size_t k = 0; k < statements.size(); ++k) *statements[k] = before[k];
  }
  Scalar assume(Scalar body);

  /// Whether a load takes its lanes one by one and reads the same elements for each row of the vector dimension.
  bool repeats_with_rows(Scalar load);
  /// Gathers what such loads read into rows before the vector loop, unless an earlier loop did.
  void gather_rows();
  void gather_row(Scalar load, std::int64_t size);

  // A reduction over leading dimensions goes through its rows with a strip of accumulators in the nearest cache:
  // `strip_` elements of the vector dimension at a time.
  void choose_strip();
  void strip_level();
  void start_strip(const std::vector<Statement*>& statements);
  /// `row` is A, the strip's accumulators, or T, totals of sums.
  void load_accumulator(const Statement&, char row);
  void save_accumulator(const Statement&, char row);
  static bool is_sum(const Statement&);
  /// A sum over many rows adds up sums of a fixed number of rows: in one running sum of n numbers of about the same
  /// size n rounding errors would add up.
  bool has_long_sums(const std::vector<Statement*>& statements);
  void add_to_totals(const std::vector<Statement*>& statements);
  std::string in_strip() const { return fmt::format("({} - v0)", nest_.outer.back().var.name()); }
  void strip_row(const std::string& name, DType register_type);

  std::size_t work(const std::vector<Statement*>& statements) const;
  /// Number of scalar nodes printed for these statements; nodes that several share count once.
  static std::size_t text_size(const std::vector<Statement*>& statements);
  /// How many accumulators a reduction alternates between, so that its additions need not wait for each other.
  int accumulators_for(const std::vector<Statement*>& statements) const;
  /// How many inner loops a value depends on, counted from the outside.
  std::size_t depth(Scalar n);
  std::size_t made_depth(Scalar load);

  // ---- Statements ----

  void outer_statement(const Statement& s);
  void inner_statement(const Statement& s);
  std::string accumulator(const Statement& s, int copy) const {
    return fmt::format("a{}", &s - nest_.statements.data()) + (copy ? fmt::format("_{}", copy) : "");
  }
  std::string accumulator(const Statement& s) const { return accumulator(s, copy_); }
  bool vector_accumulator() const { return nest_.vector != LoopNest::Vector::None; }
  static ReductionKind kind_of(const Statement& s) { return std::get<Reduction>(s.op->node).kind; }
  static bool is_arg(ReductionKind k) { return k == ReductionKind::ArgMax || k == ReductionKind::ArgMin; }
  void declare_accumulator(const Statement& s);
  /// Running sums and products of f32 are carried from one element to the next in f64, as eager's are: in f32 the error
  /// grows with the row.
  static bool carries_f64(const Statement& s);
  static DType carried_type(const Statement& s);
  std::string start_of(const Statement& s) const;
  /// The type of positions of ArgMax and ArgMin: I32 where they fit.
  DType position_type(const Statement& s);
  /// Whether one accumulator meets positions in ascending order.
  bool in_order(const Statement& s) const;
  std::string start_position(const Statement& s);
  /// The condition under which value and position x, xp replace a, ap.
  std::string better(const Statement& s, const std::string& x, const std::string& xp, const std::string& a);
  void declare(DType d, const std::string& variable, const std::string& start);
  void accumulate(const Statement& s, const Local& value);
  void finish_reduction(const Statement& s);
  static std::string scan_identity(ir::ScanKind kind, DType d);
  Local scan(const Statement& s, const Local& value);
  Local scan_within_vectors(const Statement& s, const char* f, const std::string& x);
  void store(const Statement& s, const Local& value);
  /// Whether a statement's result is large and written once, in whole cache lines. Then stores may bypass the cache, so
  /// that the lines are not read first; the kernel does so at run time if the result is larger than the cache.
  bool streams(const Statement& s);
  /// One iteration of a scatter, or a vector of them that write side by side.
  void scatter(const Statement& s);
  void combine_at(const Statement& s, const std::vector<std::string>& indirect);

  // ---- Values ----

  bool varies(Expr e) const { return vector_ && sym::contains(e, *vector_); }
  std::string as_vector(const Local& value, DType d);
  std::string fresh() { return fmt::format("x{}", next_++); }
  Local name(Scalar n);
  Local bind(Scalar n);
  /// The variable that holds a value computed in this kernel, where it is in scope; its row on the stack otherwise.
  std::optional<Local> made_here(Scalar load);
  /// The C++ expression for a node whose operands are bound.
  Local compute(Scalar n);
  /// Neighbouring lanes `step` elements apart, of a whole vector or of a tail's n.
  std::string whole_vector(const std::string& dtype, const std::string& at, Expr step);
  Local load(Scalar n);
  /// A masked load whose value is never used where the mask does not hold.
  Local where_read(Scalar load, Local value);
  Local raw_load(Scalar n);
  Local keep_raw(Scalar n, const std::string& value);
  /// A load of a whole vector where a condition holds at run time, else zeros where no lane is in the mask, else lane
  /// by lane.
  Local either(Scalar n, const std::string& condition, const std::string& whole, const std::string& mask,
               const std::string& lane);
  /// Loads the lanes that a vector of indices names: by one load and a permutation if they lie close together, else one
  /// by one.
  std::optional<Local> window_load(Scalar n, const std::vector<Local>& args);
  /// Elements that a buffer's layout spans.
  Expr span(BufferId b);
  Local index_value(Scalar n);
  /// An affine index in the vector dimension as lanes of I64, or of I32 where it fits; a uniform one in every lane.
  std::optional<std::string> affine_lanes(Expr e, DType d = DType::I64);
  /// The same as I32, where its bounds say that it fits.
  std::optional<std::string> narrow_lanes(Expr e);
  std::optional<std::string> comparison(Expr e);
  /// A condition made of comparisons of affine indices, as a mask; nothing for others.
  std::optional<std::string> condition(Expr e);
  Local check_index(Scalar n);
  Local require(Scalar n);
  bool may_fail() const { return checks_indices_ || may_divide_by_zero_; }
  /// Whether an index out of range ends the kernel (it is then -1): so in a scatter if only the place of the store
  /// depends on the index.
  bool ends_at(Scalar) const;
  /// Random bits of one element or of a vector's.
  Local random(Scalar n);
  /// A vector whose lane l is this scalar expression; lanes past a tail's n are 0.
  std::string lanes_of(DType reg, const std::string& lane);
  std::string lane_text(Expr e, const std::vector<std::string>& indirect = {});

  // ---- Text ----

  /// An index expression in C++. `indirect` spells the values that x0, x1, … stand for.
  std::string text(Expr e, const std::vector<std::string>& indirect = {});
  /// An argument of the kernel with this value, so that kernels that differ only in it have the same text.
  std::string scalar(const std::string& key, Expr value) { return arguments_.scalar(key, value); }
  std::string pointer(BufferId b, bool writes) {
    const auto home = homes_.find(b);
    return arguments_.pointer(home == homes_.end() ? b : home->second, writes);
  }
  void line(const std::string& s);

  Kernel finish();
  InPlacePairs pairs_in_place();

  ir::Graph& graph_;
  LoopNest nest_;
  std::vector<sym::LoopVar> vars_;
  int lanes_;
  std::optional<Expr> vector_;

  std::unordered_map<BufferId, std::size_t> made_;  // statement that computes a buffer
  std::map<BufferId, std::string> scratch_;
  std::int64_t scratch_elements_ = 0;
  std::map<BufferId, BufferId> homes_;  // of values that nobody else reads, the result whose memory they lie in until
                                        // it is made
  std::set<BufferId> streamed_;         // buffers whose stores bypass the cache
  std::unordered_map<BufferId, Local> locals_;
  std::unordered_map<Scalar, Local> names_, raw_;
  std::unordered_map<Scalar, std::string> windows_;
  std::unordered_map<Scalar, std::string> gathered_;  // rows of what is the same for each row of the vector dimension
  std::unordered_map<Scalar, std::string> random_rows_;  // what a random value's neighbours are kept in
  std::unordered_map<Scalar, std::string> transposed_;   // row of a block of transposed vectors
  std::unordered_set<Expr> assumed_;
  std::unordered_set<Scalar> coarse_, compared_;
  std::int64_t strip_ = 0, tile_ = 0;
  bool totals_ = false;                           // sums of this level are made in parts
  bool whole_row_ = false;                        // a parallel point takes the whole vector dimension
  std::map<BufferId, std::string> strip_values_;  // made by a finished level of a strip: rows on the stack
  struct NextRow {
    Scalar load;
    Expr at;                          ///< index of the next point's element at the same place of the inner loops
    std::vector<std::string> places;  ///< variables with the values of x0, x1, … for the next point
    std::int64_t element_bytes;
    bool near;  ///< whether it goes into the first-level cache
  };
  std::vector<NextRow> next_rows_;
  bool fetched_ = false;  ///< a level of this point has fetched the next one's rows
  int copies_ = 1, copy_ = 0;
  std::vector<std::vector<Scalar>> scopes_{{}};
  std::unordered_map<Scalar, std::size_t> depth_;
  int level_ = 0;
  bool in_loop_ = false, tail_ = false, checks_indices_ = false, may_divide_by_zero_ = false;

  KernelArguments arguments_;
  Expr extent_ = 1;
  std::int64_t point_elements_ = 1;
  std::size_t next_ = 0;
  int indent_ = 2;
  std::string head_, body_;
};

}  // namespace coil::codegen
