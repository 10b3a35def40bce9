#include "passes/loop/fuse_pre_ops.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>

#include "ir/point_function.h"
#include "library_ops/products.h"
#include "library_ops/table.h"

namespace coil {
namespace {

using ir::BufferView;
using ir::Scalar;
using ir::ScalarOp;
using library_ops::BlockedCall;
using sym::Expr;
using sym::Exprs;

// Every tile of the result along a row makes the row's elements anew.
constexpr std::uint32_t kMostOperations = 48;
constexpr std::size_t kMostOperands = 6;

/// How the dimensions of a view on a loop's result run through the loops that made it: a dimension is one loop or a
/// part of one, or several loops in row-major order.
class ViewMap {
 public:
  static std::optional<ViewMap> make(const ir::Graph& graph, const BufferView& view, const ir::Layout& layout) {
    ViewMap map(*graph.env_ptr(), layout);
    if (!view.offset.is_constant(0)) return std::nullopt;
    for (std::size_t d = 0; d < view.sizes.size(); ++d)
      if (!map.add(view.sizes[d], view.strides[d])) return std::nullopt;
    for (std::size_t k = 0; k < layout.sizes.size(); ++k)
      if (!map.env_.statically_known_le(map.last_[k], layout.sizes[k] - 1)) return std::nullopt;
    return map;
  }

  std::size_t loops() const { return layout_.sizes.size(); }

  /// Strides in the view's dimensions of something that has `strides` in the loops.
  std::optional<Exprs> strides(const Exprs& of_loops) const {
    Exprs result;
    for (const Dim& dim : dims_) {
      Expr stride = dim.loops.empty() ? Expr(0) : of_loops[dim.loops[0].first] * dim.step;
      for (const auto& [loop, count] : dim.loops)
        if (!env_.statically_known_equal(of_loops[loop] * dim.step, stride * count)) return std::nullopt;
      result.push_back(env_.simplify(stride));
    }
    return result;
  }

 private:
  struct Dim {
    std::vector<std::pair<std::size_t, Expr>> loops;  ///< from the innermost, and what they count
    Expr step = 1;                                    ///< of the innermost loop
  };

  ViewMap(const sym::ShapeEnv& env, const ir::Layout& layout)
      : env_(env), layout_(layout), last_(layout.sizes.size(), Expr(0)) {}

  bool add(Expr size, Expr stride) {
    dims_.emplace_back();
    if (size.is_constant(1)) return true;
    for (std::size_t k = layout_.sizes.size(); k-- > 0;) {
      if (layout_.sizes[k].is_constant(1)) continue;
      const std::optional<Expr> step = step_of(stride, k);
      if (!step) continue;
      const bool one = env_.statically_known_le(*step * (size - 1), layout_.sizes[k] - 1);
      if (one) return put_one(k, size, *step);
      if (step->is_constant(1)) return put_several(k, size);
    }
    return false;
  }

  /// How many turns of loop k the stride spans, if whole ones.
  std::optional<Expr> step_of(Expr stride, std::size_t k) const {
    const Expr turn = layout_.strides[k];
    if (turn.is_constant(0)) return std::nullopt;
    if (env_.statically_known_equal(stride, turn)) return Expr(1);
    const auto step = sym::divide_exact(stride, turn);
    if (!step || !env_.statically_known_le(1, *step) || !env_.statically_known_le(*step, layout_.sizes[k] - 1))
      return std::nullopt;
    return step;
  }

  bool put_one(std::size_t k, Expr size, Expr step) {
    dims_.back().loops.emplace_back(k, 1);
    dims_.back().step = step;
    last_[k] += step * (size - 1);
    return true;
  }

  /// Loop k and those around it, until they are as many as the dimension has.
  bool put_several(std::size_t k, Expr size) {
    Expr count = 1;
    for (std::size_t j = k + 1; j-- > 0;) {
      if (layout_.sizes[j].is_constant(1)) continue;
      if (!env_.statically_known_equal(layout_.strides[j], layout_.strides[k] * count)) return false;
      dims_.back().loops.emplace_back(j, count);
      last_[j] += layout_.sizes[j] - 1;
      count *= layout_.sizes[j];
      if (env_.statically_known_equal(count, size)) return true;
    }
    return false;
  }

  const sym::ShapeEnv& env_;
  const ir::Layout& layout_;
  std::vector<Dim> dims_;
  Exprs last_;  ///< for each loop, the last of its turns that the dimensions reach
};

/// What a call becomes: its first operand, those that the value is made of beside it, and the value.
struct Made {
  std::vector<BufferView> operands;
  std::string value;
};

class PreOpFusion {
 public:
  explicit PreOpFusion(ir::Graph& graph) : graph_(graph), blocks_(ir::blocks(graph)) {
    for (const ir::Operation& op : graph.operations()) {
      for (ir::BufferId b : ir::reads(op)) readers_[b].push_back(op.id);
      for (ir::BufferId b : op.outs) writers_[b].push_back(op.id);
    }
    for (const ir::GraphOutput& out : graph.outputs)
      if (const auto* view = std::get_if<BufferView>(&out.value)) returned_.insert(view->buffer);
  }

  /// The loop that makes the first operand of a kernel's product, if a loop does.
  std::optional<ir::OperationId> producer(const ir::Operation& op) const {
    const ir::Extern* call = as_product(op);
    if (!call || BlockedCall(*call).has_pre()) return std::nullopt;
    const auto found = writers_.find(call->inputs[0].buffer);
    if (found == writers_.end() || found->second.size() != 1) return std::nullopt;
    const ir::Operation& made = graph_.operations()[found->second[0]];
    if (!std::holds_alternative<ir::Pointwise>(made.node) || !made.body()->has_loads) return std::nullopt;
    return made.id;
  }

  /// The readers of a loop's value, each with what it becomes; or why the value stays in memory.
  using Answer = std::variant<std::vector<std::pair<ir::OperationId, Made>>, std::string>;
  Answer ask(ir::OperationId loop) {
    const ir::Operation& op = graph_.operations()[loop];
    const ir::Buffer& between = graph_.buffer(op.outs[0]);
    if (between.kind != ir::BufferKind::Computed || between.is_output || returned_.contains(between.id))
      return "its value is a result of the program";
    if (!op.store_index.empty() || op.sizes() != between.layout.sizes) return "it stores a part of a buffer";
    if (auto reason = refuses_body(op)) return *reason;
    std::vector<std::pair<ir::OperationId, Made>> all;
    for (ir::OperationId reader : readers_[between.id]) {
      std::variant<Made, std::string> made = made_by(graph_.operations()[reader], op);
      if (auto* reason = std::get_if<std::string>(&made)) return *reason;
      all.emplace_back(reader, std::get<Made>(std::move(made)));
    }
    return all;
  }

  void run(const std::function<bool(ir::BufferId)>& wanted) {
    std::vector<ir::Operation> list(graph_.operations().begin(), graph_.operations().end());
    std::set<ir::OperationId> gone;
    for (const ir::Operation& op : graph_.operations()) {
      const auto loop = producer(op);
      if (!loop || gone.contains(*loop) || !wanted(graph_.operations()[*loop].outs[0])) continue;
      Answer answer = ask(*loop);
      auto* readers = std::get_if<0>(&answer);
      if (!readers) continue;
      for (auto& [reader, made] : *readers) put(list[reader], list[*loop], std::move(made));
      gone.insert(*loop);
    }
    if (gone.empty()) return;
    std::erase_if(list, [&](const ir::Operation& op) { return gone.contains(op.id); });
    graph_.replace_operations(std::move(list));
  }

 private:
  /// A call that can make its first operand.
  static const ir::Extern* as_product(const ir::Operation& op) {
    const auto* call = std::get_if<ir::Extern>(&op.node);
    return call && library_ops::get(call->op).attribute(library_ops::kPre.name) ? call : nullptr;
  }

  std::optional<std::string> refuses_body(const ir::Operation& op) const {
    const Scalar body = op.body();
    if (body->dtype != DType::F32) return "it is not computed in f32";
    if (body->ops > kMostOperations || ir::loads(body).size() > kMostOperands)
      return "it is too much to be computed for every tile";
    for (Scalar s : ir::topological({&body, 1})) {
      const bool load = s->op == ScalarOp::Load || s->op == ScalarOp::LinearLoad;
      if (load && (s->mask || !s->args.empty())) return "it reads where data or a condition say";
      if (s->op == ScalarOp::Index || s->op == ScalarOp::CheckIndex || s->op == ScalarOp::Random)
        return "its value depends on the place";
      if (s->op == ScalarOp::Require) return "it may fail";
      if (load && !is_readable(s->buffer)) return "what it reads lies on another device";
    }
    return std::nullopt;
  }

  bool is_readable(ir::BufferId id) const {
    return !graph_.on_several_devices || graph_.buffer(id).layout.device == graph_.target().device;
  }

  std::variant<Made, std::string> made_by(const ir::Operation& reader, const ir::Operation& loop) {
    const ir::Extern* call = as_product(reader);
    const ir::BufferId between = loop.outs[0];
    if (!call || std::ranges::count(call->inputs, between, &BufferView::buffer) != 1 ||
        call->inputs[0].buffer != between || BlockedCall(*call).has_pre())
      return "another operation reads its value";
    if (blocks_[reader.id] != blocks_[loop.id]) return "the product is in another block";
    for (Scalar load : ir::loads(loop.body()))
      if (is_written_between(load->buffer, loop.id, reader.id)) return "what it reads is written in between";
    const BufferView& a = call->inputs[0];
    const auto map = ViewMap::make(graph_, a, graph_.buffer(between).layout);
    if (a.dtype != call->inputs[1].dtype || a.dtype != graph_.buffer(between).layout.dtype || !map)
      return "the product sees its value in another form";
    auto made = made_of(loop.body(), *map, a);
    if (!made) return "it reads operands across the product's dimensions";
    return *std::move(made);
  }

  bool is_written_between(ir::BufferId buffer, ir::OperationId first, ir::OperationId last) const {
    const auto found = writers_.find(buffer);
    if (found == writers_.end()) return false;
    return std::ranges::any_of(found->second, [&](ir::OperationId id) { return first < id && id < last; });
  }

  std::optional<Made> made_of(Scalar body, const ViewMap& map, const BufferView& a) {
    std::vector<Scalar> loads = ir::loads(body);
    std::vector<BufferView> views;
    for (Scalar load : loads) {
      auto view = operand_view(load, map, a.sizes);
      if (!view) return std::nullopt;
      views.push_back(*std::move(view));
    }
    // What has an element for each of a comes first.
    for (std::size_t k = 1; k < views.size() && views[0].sizes != a.sizes; ++k)
      if (views[k].sizes == a.sizes) std::swap(views[0], views[k]), std::swap(loads[0], loads[k]);
    return Made{std::move(views), ir::point_function_text(graph_.pool(), body, loads)};
  }

  /// What a load reads, in the product's dimensions: of size 1 where it is broadcast.
  std::optional<BufferView> operand_view(Scalar load, const ViewMap& map, const Exprs& sizes) {
    const ir::Layout& layout = graph_.buffer(load->buffer).layout;
    Expr rest = load->op == ScalarOp::LinearLoad ? load->index[0] : ir::linear_index(layout, load->index);
    Exprs per_loop;
    for (Expr variable : graph_.ivars(map.loops())) {
      const auto linear = sym::linear_in(rest, variable);
      if (!linear || sym::has_symbol_of(linear->coefficient, sym::SymbolKind::Loop)) return std::nullopt;
      per_loop.push_back(linear->coefficient);
      rest = linear->rest;
    }
    if (sym::has_symbol_of(rest, sym::SymbolKind::Loop)) return std::nullopt;
    auto strides = map.strides(per_loop);
    if (!strides) return std::nullopt;
    BufferView view{load->buffer, load->rounded, sizes, *std::move(strides), rest};
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if (view.strides[d].is_constant(0)) view.sizes[d] = 1;
    return view;
  }

  void put(ir::Operation& op, const ir::Operation& loop, Made made) {
    auto& call = std::get<ir::Extern>(op.node);
    for (const BufferView& view : made.operands) graph_.buffer(view.buffer).layout.fixed = true;
    call.inputs[0] = made.operands[0];
    call.inputs.insert(call.inputs.end(), made.operands.begin() + 1, made.operands.end());
    BlockedCall(call).set_pre(std::move(made.value), made.operands.size() - 1);
    op.origins.insert(loop.origins.begin(), loop.origins.end());
  }

  ir::Graph& graph_;
  std::vector<std::size_t> blocks_;
  std::unordered_map<ir::BufferId, std::vector<ir::OperationId>> readers_, writers_;
  std::set<ir::BufferId> returned_;
};

}  // namespace

void fuse_pre_ops(ir::Graph& graph, const std::function<bool(ir::BufferId)>& wanted) { PreOpFusion(graph).run(wanted); }

std::vector<PreOpRefusal> refused_pre_ops(ir::Graph& graph) {
  std::vector<PreOpRefusal> out;
  if (!graph.target().has(target::Feature::BlockedProducts)) return out;
  PreOpFusion fusion(graph);
  for (const ir::Operation& op : graph.operations()) {
    const auto loop = fusion.producer(op);
    if (!loop) continue;
    const auto answer = fusion.ask(*loop);
    const auto* reason = std::get_if<std::string>(&answer);
    out.push_back(
        {*loop, op.id, reason ? *reason : "the value is read from memory faster than it is made for each tile"});
  }
  return out;
}

}  // namespace coil
