#include "passes/loop/turned_operands.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/relayout.h"

namespace coil::ir {
namespace {

constexpr std::int64_t kMany = 1 << 20;  // elements, from which on a copy costs less than what it spares
constexpr std::int64_t kManyOfHost = 1 << 10, kFewestReads = 16;  // the same on a processor, and reads of each element

/// Which loop variables neighbours in memory lie along, in bytes.
using Votes = std::unordered_map<Expr, double>;

class Turning {
 public:
  explicit Turning(Graph& graph) : graph_(graph) {}

  void run() {
    // What a branch copies is not there behind it.
    if (std::ranges::any_of(graph_.operations(),
                            [](const Operation& op) { return std::holds_alternative<Control>(op.node); }))
      return;
    for (const Operation& op : graph_.operations())
      if (op.is_loop() && graph_.target(device_of(op)).has(target::Feature::ThreadGrids))
        look_at(op);
      else if (std::holds_alternative<Reduction>(op.node) && device_of(op).is_host())
        look_along_lanes(op);
    std::erase_if(turned_, [](const Turned& turned) { return !turned.by_reduction; });
    if (turned_.empty()) return;
    std::vector<Operation> result;
    for (Operation op : graph_.operations()) {
      if (op.is_loop()) read_copies(op, result);
      result.push_back(std::move(op));
    }
    graph_.replace_operations(std::move(result));
  }

 private:
  /// A buffer as an operation walks it: dense dimensions, outermost first, and the loop variable of each. A dimension
  /// of the buffer's own may be several of these.
  struct Walk {
    Exprs sizes, variables;
  };
  /// A buffer, in which dimensions, and the one of them that is to be innermost.
  struct Key {
    BufferId buffer = 0;
    Exprs sizes;
    std::size_t dim = 0;
    bool operator==(const Key&) const = default;
  };
  struct Turned {
    Key key;
    bool by_reduction = false;         ///< a reduction would read it across its rows
    std::vector<OperationId> readers;  ///< that walk the wanted dimension
    std::optional<BufferId> copy = std::nullopt;
  };

  const Device& device_of(const Operation& op) const { return graph_.buffer(op.outs[0]).layout.device; }

  std::int64_t elements(const Layout& layout) const { return graph_.env().hint_or(sym::product(layout.sizes), 0); }

  double bytes(const Layout& layout) const {
    return static_cast<double>(elements(layout)) * static_cast<double>(size_of(layout.dtype));
  }

  /// How a load walks a large buffer; nothing where it does not read all of it, each element once.
  std::optional<Walk> walk_of(const Operation& op, Scalar load) const {
    if (load->op != ScalarOp::Load || !load->args.empty() || load->mask) return std::nullopt;
    const Layout& layout = graph_.buffer(load->buffer).layout;
    if (elements(layout) < (layout.device.is_host() ? kManyOfHost : kMany)) return std::nullopt;
    struct Step {
      std::int64_t by;
      Expr size, variable;
    };
    std::vector<Step> steps;
    Expr rest = linear_index(layout, load->index);
    const auto take = [&](Expr variable, Expr size) {
      const auto linear = sym::linear_in(rest, variable);
      if (!linear || !linear->coefficient.constant()) return false;
      if (*linear->coefficient.constant() != 0) steps.push_back({*linear->coefficient.constant(), size, variable});
      rest = linear->rest;
      return true;
    };
    for (std::size_t d = 0; d < op.sizes().size(); ++d)
      if (!op.sizes()[d].is_constant(1) && !take(graph_.ivar(d), op.sizes()[d])) return std::nullopt;
    for (std::size_t d = 0; d < op.reduced().size(); ++d)
      if (!op.reduced()[d].is_constant(1) && !take(graph_.rvar(d), op.reduced()[d])) return std::nullopt;
    std::ranges::sort(steps, std::greater<>(), &Step::by);
    Walk walk;
    Expr dense = 1;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      if (!dense.is_constant(step->by)) return std::nullopt;
      dense = graph_.env().simplify(dense * step->size);
    }
    for (const Step& step : steps) walk.sizes.push_back(step.size), walk.variables.push_back(step.variable);
    const bool whole = graph_.env().statically_known_equal(dense, sym::product(layout.sizes));
    return whole && walk.sizes.size() > 1 ? std::optional(walk) : std::nullopt;
  }

  /// `turned`: what copies that this operation is to read will lie along.
  Votes votes_beside(const Operation& op, BufferId but, const std::unordered_map<BufferId, Expr>& turned) const {
    Votes votes;
    std::unordered_set<BufferId> seen{but};
    const auto count = [&](const Layout& layout, const Exprs& index) {
      if (const auto d = innermost(layout.sizes, layout.strides); d && *d < index.size())
        votes[index[*d]] += bytes(layout);
    };
    for (Scalar load : loads(op.body())) {
      if (load->op != ScalarOp::Load || !seen.insert(load->buffer).second) continue;
      const Layout& layout = graph_.buffer(load->buffer).layout;
      if (const auto copy = turned.find(load->buffer); copy != turned.end())
        votes[copy->second] += bytes(layout);
      else
        count(layout, load->index);
    }
    if (std::holds_alternative<Pointwise>(op.node) && op.store_index.empty())
      for (BufferId out : op.outs) count(graph_.buffer(out).layout, graph_.ivars(op.sizes().size()));
    return votes;
  }

  void look_at(const Operation& op) {
    std::unordered_map<BufferId, Expr> turned;
    for (Scalar load : loads(op.body())) {
      const auto walk = walk_of(op, load);
      if (!walk) continue;
      const Votes votes = votes_beside(op, load->buffer, turned);
      const auto of = [&](std::size_t d) {
        const auto found = votes.find(walk->variables[d]);
        return found == votes.end() ? 0.0 : found->second;
      };
      const Layout& layout = graph_.buffer(load->buffer).layout;
      const double own = bytes(layout);
      const std::size_t last = walk->sizes.size() - 1;
      for (std::size_t d = 0; d < last; ++d) {
        if (of(d) < own + of(last)) continue;
        want({load->buffer, walk->sizes, d}, op);
        turned.emplace(load->buffer, walk->variables[d]);
      }
    }
  }

  /// A processor's vectors go along the innermost dimension of a result that is larger than the operands: wants all of
  /// these that lie along the reduction, and are read again and again, along that dimension, unless some could not be.
  void look_along_lanes(const Operation& op) {
    std::size_t dims = op.sizes().size();
    while (dims > 0 && op.sizes()[dims - 1].is_constant(1)) --dims;  // those of one place are no loops
    if (dims == 0) return;
    const Expr lane = graph_.ivar(dims - 1);
    std::vector<Key> keys;
    std::int64_t read = 0;
    for (Scalar load : loads(op.body())) {
      if (load->op != ScalarOp::Load) return;
      read += elements(graph_.buffer(load->buffer).layout);
      const auto step = sym::linear_in(linear_index(graph_.buffer(load->buffer).layout, load->index), lane);
      if (!step) return;
      if (step->coefficient.is_constant(0) || step->coefficient.is_constant(1)) continue;
      const auto walk = walk_of(op, load);
      if (!walk || times_read(op, *walk) < kFewestReads) return;
      const auto at = std::ranges::find(walk->variables, lane);
      keys.push_back({load->buffer, walk->sizes, static_cast<std::size_t>(at - walk->variables.begin())});
    }
    if (graph_.env().hint_or(sym::product(op.sizes()), 0) <= read) return;
    for (const Key& key : keys) want(key, op);
  }

  std::int64_t times_read(const Operation& op, const Walk& walk) const {
    const sym::ShapeEnv& env = graph_.env();
    const Expr all = sym::product(op.sizes()) * sym::product(op.reduced());
    return env.hint_or(all, 0) / std::max<std::int64_t>(1, env.hint_or(sym::product(walk.sizes), 1));
  }

  void want(const Key& key, const Operation& op) {
    auto found = std::ranges::find(turned_, key, &Turned::key);
    if (found == turned_.end()) found = turned_.insert(found, Turned{.key = key});
    found->by_reduction = found->by_reduction || std::holds_alternative<Reduction>(op.node);
    found->readers.push_back(op.id);
  }

  /// Whether the operation walks as one of these does, and reads the buffer at the same places: then they will be one
  /// kernel.
  bool walks_alike(const Operation& op, Scalar load, const Turned& turned) const {
    return std::ranges::any_of(turned.readers, [&](OperationId id) {
      const Operation& other = graph_.operations()[id];
      if (other.id == op.id) return true;
      return other.sizes() == op.sizes() && other.reduced() == op.reduced() &&
             std::ranges::any_of(loads(other.body()), [&](Scalar l) {
               return l->op == ScalarOp::Load && l->buffer == load->buffer && l->index == load->index;
             });
    });
  }

  void read_copies(Operation& op, std::vector<Operation>& before) {
    const auto turned = [&](Scalar body) {
      return graph_.pool().replace_loads(body, [&](Scalar load) { return from_copy(op, load, before); });
    };
    if (auto* loop = std::get_if<Pointwise>(&op.node)) loop->body = turned(loop->body);
    if (auto* loop = std::get_if<Reduction>(&op.node)) loop->body = turned(loop->body);
  }

  /// The load from a copy; nothing where the buffer is read as it lies.
  Scalar from_copy(const Operation& op, Scalar load, std::vector<Operation>& before) {
    const auto walk = walk_of(op, load);
    if (!walk) return nullptr;
    for (Turned& turned : turned_) {
      if (turned.key.buffer != load->buffer || turned.key.sizes != walk->sizes || !walks_alike(op, load, turned))
        continue;
      if (!turned.copy) before.push_back(copying(turned, load, *walk, op));
      return graph_.pool().load(*turned.copy, load->dtype, moved_last(walk->variables, turned.key.dim));
    }
    return nullptr;
  }

  static Exprs moved_last(Exprs list, std::size_t d) {
    std::rotate(list.begin() + static_cast<std::ptrdiff_t>(d), list.begin() + static_cast<std::ptrdiff_t>(d) + 1,
                list.end());
    return list;
  }

  /// What makes the copy, for the load that is its first reader.
  Operation copying(Turned& turned, Scalar load, const Walk& walk, const Operation& reader) {
    const Layout layout = graph_.buffer(load->buffer).layout;
    const Exprs sizes = moved_last(walk.sizes, turned.key.dim);
    Exprs from = moved_last(walk.variables, turned.key.dim), to = graph_.ivars(sizes.size());
    const auto stay = [&](Expr variable, Expr size) {  // at 0, where there is one place
      if (size.is_constant(1)) from.push_back(variable), to.push_back(0);
    };
    for (std::size_t d = 0; d < reader.sizes().size(); ++d) stay(graph_.ivar(d), reader.sizes()[d]);
    for (std::size_t d = 0; d < reader.reduced().size(); ++d) stay(graph_.rvar(d), reader.reduced()[d]);
    turned.copy = graph_
                      .add_buffer("", BufferKind::Computed,
                                  {layout.dtype, layout.device, sizes, sym::contiguous_strides(sizes), true})
                      .id;
    Exprs index;
    for (Expr e : load->index) index.push_back(sym::substitute(e, from, to));
    return {.node = Pointwise{sizes, graph_.pool().load(load->buffer, layout.dtype, index)},
            .outs = {*turned.copy},
            .origins = reader.origins,
            .where = reader.where};
  }

  Graph& graph_;
  std::vector<Turned> turned_;
};

}  // namespace

void turn_operands(Graph& graph) { Turning(graph).run(); }

}  // namespace coil::ir
