// Which operations share a kernel, and in which order kernels and library calls run.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ir/ir.h"
#include "ir/realize_limits.h"
#include "support/extension_api.h"

namespace coil::scheduler {

using sym::Expr;
using sym::Exprs;

/// What an operation does inside its group's loops.
enum class Role : std::uint8_t {
  Inner,   ///< computes a value at each inner point
  Reduce,  ///< combines the values of all inner points
  Scan,    ///< combines them in order, giving each partial result; the inner space is the scanned dimension
  Outer,   ///< computes a value once for each outer point, after the inner loop of its level
};

struct Member {
  ir::OperationId op = 0;
  Role role = Role::Outer;
  int level = 0;
  Exprs ivars, rvars;  ///< the operation's loop variables as expressions over the group's
};

/// Loops shared by several operations:
///
///     for each outer point (in parallel)
///       for each level
///         for each inner point: members of this level that are Inner, Reduce or Scan, in order
///         Outer members of this level, in order
///
/// A value made at one outer point is used in the group only at the same outer point. Groups of Pointwise operations
/// alone have no inner dimensions.
struct Group {
  Exprs outer, inner;  ///< sizes; variables are i0, i1, … and r0, r1, …
  std::vector<Member> members;
  /// Buffers that only members of this group read: they need no memory when every use is at the point, or the row, that
  /// made them.
  std::set<ir::BufferId> internal;
  /// The number of the launch config among those that are worth a measurement (codegen::Kernel::candidates): 0 is the
  /// heuristics' own, others are found by measurement (autotune/launches.h).
  int launch_config = 0;
  /// Whether it has no inner loop. (One with an inner loop may have no inner dimensions left: those of size 1 vanish.)
  bool pointwise() const;
};

/// A library call, a scatter or an assertion: runs alone.
struct Single {
  ir::OperationId op = 0;
};

using Item = std::variant<Group, Single>;

/// Why two operations that share data were not put in one kernel.
struct Refusal {
  ir::OperationId producer = 0, consumer = 0;
  std::string reason;
};

struct Schedule {
  std::vector<Item> items;
  std::vector<Refusal> refusals;
};

/// An operation and a kernel that it may legally join, as the policy is asked about them.
struct Pair {
  std::size_t members = 0;  ///< operations in the kernel so far
  std::size_t buffers = 0;  ///< that the two touch
};
/// The same with loops that they would share.
struct Joint {
  std::int64_t rows = 0, row = 0;  ///< points of the outer loops, and of the inner ones
  std::int64_t row_bytes = 0;      ///< of the inner points in the widest type they read, if they are known; else 0
  bool mixes = false;              ///< one is pointwise, the other has an inner loop
  std::int64_t saved_bytes = 0;    ///< that need not be read, or drawn at random, again
  /// Elements that a pointwise operation would load or store with a distance between neighbours of a row; 0 where rows
  /// lie as they are walked.
  std::int64_t scattered = 0;
};

/// Fusion policy: what may be put together, beyond what is legal, and what is gained by it. One object, replaceable by
/// those who embed the compiler.
class COIL_EXTENSION_API Choices {
 public:
  virtual ~Choices() = default;
  /// Why the two stay apart whatever their loops, in words for `coil explain`; nothing where they need not.
  virtual std::optional<std::string> refuses(const Pair&) const;
  /// Why they stay apart with these loops.
  virtual std::optional<std::string> refuses_loops(const Joint&) const;
  /// What is gained by sharing these loops. Of several kernels, and several ways to share loops, the one with the
  /// largest gain is taken; a kernel that does not make what the operation reads only where it is above 0.
  virtual std::int64_t gain(const Joint& joint) const { return joint.saved_bytes; }

  /// How much a value may take in as it is lowered, before anything is scheduled.
  virtual ir::RealizeLimits realize_limits() const { return {}; }

  // The limits of the policy as it is here.
  /// Operations in one kernel; scalar nodes in one kernel (see distinct_ops).
  virtual std::size_t max_members() const { return 48; }
  virtual std::size_t max_scalar_ops() const { return 1200; }
  /// Distinct buffers that a kernel may touch.
  virtual std::size_t max_buffers() const { return 48; }
  /// Outer points that a kernel needs, if it has work for several threads: fusing a large pointwise operation into a
  /// reduction with fewer is refused.
  virtual std::int64_t min_parallel_outer() const { return 8; }
  virtual std::int64_t small_work() const { return 1 << 15; }
  /// Elements of a row that one worker of the device goes through no slower than a kernel more is started: rows this
  /// short are fused however few they are.
  virtual std::int64_t short_row() const { return 0; }
  /// Whether the language's kernels may store to a buffer of which they read the same element before.
  virtual bool overwrites() const { return false; }
};

/// Scalar nodes of expressions that are computed together, each once: what their text grows with. A node weighs as much
/// as it adds to `ops`.
std::size_t distinct_ops(std::span<const ir::Scalar> roots);

/// Fuses greedily in program order. Linear in the number of operations and their reads. The order of operations that
/// touch one buffer, where one of them writes, is kept.
Schedule schedule(ir::Graph&, const Choices& = {});
/// The same of a program over several devices, with the policy of each. Operations of two devices share no kernel.
using ChoicesOf = std::function<const Choices&(Device)>;
Schedule schedule(ir::Graph&, const ChoicesOf&);

/// What an operation of a group computes, in the group's variables: body with loads substituted, and the index stored
/// to.
ir::Scalar body_in_group(ir::Graph&, const Group&, const Member&);
Exprs store_in_group(ir::Graph&, const Group&, const Member&);
/// The group's variables with their sizes.
std::vector<sym::LoopVar> loop_vars(ir::Graph&, const Group&);

}  // namespace coil::scheduler
