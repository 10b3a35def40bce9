#include "passes/loop/stride_choice.h"

#include <unordered_map>
#include <unordered_set>

#include "ir/relayout.h"
#include "library_ops/table.h"

namespace coil::ir {
namespace {

using library_ops::Trait;

class StrideChoice {
 public:
  explicit StrideChoice(Graph& graph) : graph_(graph) {
    for (std::size_t i = 0; i < graph.operations().size(); ++i) {
      const Operation& op = graph.operations()[i];
      if (auto* call = std::get_if<Extern>(&op.node)) look_at(*call);
      if (!op.is_loop()) continue;
      std::unordered_set<BufferId> seen;
      for (Scalar load : loads(op.body()))
        if (seen.insert(load->buffer).second) readers_[load->buffer].push_back(i);
    }
  }

  void run() {
    for (const Operation& op : graph_.operations())
      if (auto* p = std::get_if<Pointwise>(&op.node); p && op.outs.size() == 1) choose(*p, op.outs[0]);
  }

 private:
  /// Bytes that lie side by side along each loop variable.
  using Votes = std::unordered_map<Expr, double>;

  void look_at(const Extern& call) {
    for (const BufferView& v : call.inputs) in_calls_.insert(v.buffer);
    if (!library_ops::has(call.op, Trait::Convolution)) return;
    const BufferView& y = call.outputs[0];
    if (y.sizes.size() > 2 && !y.sizes[1].is_constant(1)) channels_last_.insert(y.buffer);
  }

  void choose(const Pointwise& loop, BufferId out) {
    const Layout& layout = graph_.buffer(out).layout;
    const Exprs row_major = sym::contiguous_strides(layout.sizes);
    if (layout.fixed || loop.sizes != layout.sizes || in_calls_.contains(out)) return;
    const auto own = innermost(layout.sizes, layout.strides), last = innermost(layout.sizes, row_major);
    if (!own || !last || *own == *last) return;
    Votes votes;
    count_loads(loop.body, out, votes);
    double mine = votes[graph_.ivar(*own)], theirs = votes[graph_.ivar(*last)];
    for (std::size_t reader : readers_[out]) {
      const Operation& op = graph_.operations()[reader];
      const Votes beside = votes_beside(op, out);
      for (Scalar load : loads(op.body())) {
        if (load->buffer != out || load->index.size() != layout.sizes.size()) continue;
        mine += of(beside, load->index[*own]);
        theirs += of(beside, load->index[*last]);
        break;
      }
    }
    if (theirs > mine) relayout(graph_, out, row_major);
  }

  static double of(const Votes& votes, Expr index) {
    auto found = votes.find(index);
    return found == votes.end() ? 0 : found->second;
  }

  /// What an operation reads and writes but for one buffer.
  Votes votes_beside(const Operation& op, BufferId but) {
    Votes votes;
    count_loads(op.body(), but, votes);
    for (BufferId out : op.outs) {
      const Layout& layout = graph_.buffer(out).layout;
      const auto d = innermost(layout.sizes, layout.strides);
      if (std::holds_alternative<Pointwise>(op.node) && d) votes[graph_.ivar(*d)] += bytes(layout);
    }
    return votes;
  }

  void count_loads(Scalar body, BufferId but, Votes& votes) {
    std::unordered_set<BufferId> seen;
    for (Scalar load : loads(body)) {
      if (load->op != ScalarOp::Load || load->buffer == but || !seen.insert(load->buffer).second) continue;
      Layout layout = graph_.buffer(load->buffer).layout;
      if (channels_last_.contains(load->buffer)) layout.strides = channels_last(layout.sizes);
      const auto d = innermost(layout.sizes, layout.strides);
      if (d && *d < load->index.size()) votes[load->index[*d]] += bytes(layout);
    }
  }

  double bytes(const Layout& layout) {
    return static_cast<double>(graph_.env().hint_or(sym::product(layout.sizes), 1 << 12)) *
           static_cast<double>(size_of(layout.dtype));
  }

  Graph& graph_;
  std::unordered_map<BufferId, std::vector<std::size_t>> readers_;
  std::unordered_set<BufferId> in_calls_, channels_last_;
};

}  // namespace

void choose_strides(Graph& graph) { StrideChoice(graph).run(); }

}  // namespace coil::ir
