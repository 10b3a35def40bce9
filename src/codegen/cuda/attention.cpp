#include "codegen/cuda/attention.h"

#include <fmt/format.h>

#include <initializer_list>

#include "codegen/cuda/plain_kernel.h"
#include "codegen/head_size.h"
#include "codegen/heuristics/attentions.h"
#include "library_ops/attention.h"

namespace coil::codegen {
namespace {

using Widths = std::initializer_list<std::int64_t>;

/// The kernel of one call: a block has some rows of one head.
class AttentionKernel : public PlainKernel {
 public:
  AttentionKernel(ir::Graph& graph, const ir::Extern& call, const target::Costs& costs)
      : graph_(graph), call_(call), costs_(costs) {
    const auto type = [](const ir::BufferView& view) { return view.dtype == DType::Bool ? "u8" : "f32"; };
    for (const ir::BufferView& view : call.inputs) take(view, type(view), false);
    for (const ir::BufferView& view : call.outputs) take(view, type(view), true);
  }

  Kernel forward() {
    enum { Query, Key, Value, Mask };
    const Widths staying{depth(Query)};
    config_ = config_for(in(Query), staying);
    const bool logs = call_.outputs.size() > 1;
    begin(in(Query), in(Key));
    return finish(fmt::format("c_attention<{}, {}, {}, {}, {}>", depth(Query), depth(Value), warps(), causal(), logs),
                  {operand(Query, "head"), operand(Key, "group"), operand(Value, "group"), mask(Mask, "head"),
                   result(0, "head"), logs ? result(1, "head") : "c_results{}"});
  }

  Kernel of_queries() {
    enum { Slope, Query, Key, Value, Result, Logs, Mask };
    const Widths staying{depth(Query), depth(Slope)};
    config_ = config_for(in(Query), staying);
    begin(in(Query), in(Key));
    return finish(
        fmt::format("c_attention_queries<{}, {}, {}, {}>", depth(Query), depth(Value), warps(), causal()),
        {operand(Slope, "head"), operand(Query, "head"), operand(Key, "group"), operand(Value, "group"),
         operand(Result, "head"), operand(Logs, "head"), mask(Mask, "head"), result(0, "head"), result(1, "head")});
  }

  Kernel of_keys() {
    enum { Slope, Query, Key, Value, Logs, Sums, Mask };
    const Widths staying{depth(Key), depth(Value)};
    config_ = config_for(in(Key), staying);
    begin(in(Key), in(Key));
    const std::string shared = scalar(sym::floor_div(in(Query).sizes[1], in(Key).sizes[1])),
                      first = fmt::format("head * {}", shared);
    std::string steps;
    for (int i : {Slope, Query, Logs, Sums}) steps += scalar(in(i).strides[1]) + ", ";
    steps += has_mask() ? scalar(in(Mask).strides[1]) : "0";
    return finish(fmt::format("c_attention_keys<{}, {}, {}, {}>", depth(Query), depth(Value), warps(), causal()),
                  {operand(Slope, first), operand(Query, first), operand(Key, "head"), operand(Value, "head"),
                   operand(Logs, first), operand(Sums, first), mask(Mask, first), "c_head_steps{" + steps + "}",
                   "(int)" + shared, result(0, "head"), result(1, "head")});
  }

 private:
  const ir::BufferView& in(int i) const { return call_.inputs[static_cast<std::size_t>(i)]; }
  std::int64_t depth(int i) const { return head_size(in(i)); }
  bool causal() const { return library_ops::AttentionCall(call_).causal(); }
  bool has_mask() const { return library_ops::AttentionCall(call_).has_mask(); }

  int warps() const { return config_.threads / 32; }

  /// `view`: the rows that blocks share out; `staying`: elements of a row of each operand that a block holds.
  LaunchConfig config_for(const ir::BufferView& view, Widths staying) const {
    const auto& env = graph_.env();
    return attention_config({.heads = env.bounds(view.sizes[0] * view.sizes[1]).high,
                             .rows = env.bounds(view.sizes[2]).high,
                             .staying = staying,
                             .widest = std::max(depth(0), depth(2)),
                             .gradient = call_.op != library_ops::attention::kBlocked},
                            costs_);
  }

  /// What a block works on: `batch`, `head`, the head of keys it goes with (`group`), and its `first` row.
  void begin(const ir::BufferView& view, const ir::BufferView& keys) {
    const Expr parts = sym::ceil_div(view.sizes[2], config_.rows);
    blocks_ = view.sizes[0] * view.sizes[1] * parts;
    const std::string n = scalar(parts), heads = scalar(view.sizes[1]),
                      shared = scalar(sym::floor_div(view.sizes[1], keys.sizes[1]));
    // Of causal patterns the longest rows come first.
    head_ = fmt::format(
        "  i64 w = blockIdx.x;\n  const i64 part = {2}w % {0}; w /= {0};\n  const i64 head = w % {1}, batch = w / {1}, "
        "group = head / {3}, first = part * {4};\n  (void)group;\n",
        n, heads, causal() && &view != &keys ? n + " - 1 - " : "", shared, config_.rows);
  }

  std::string place(std::size_t pointer, const ir::BufferView& view, std::string_view head) {
    const std::string offset = scalar(view.offset), of_batch = scalar(view.strides[0]),
                      of_head = scalar(view.strides[1]);
    return fmt::format("p{} + {} + batch * {} + {} * {}", pointer, offset, of_batch, head, of_head);
  }
  /// Rows, or numbers of rows.
  std::string operand(int i, std::string_view head) {
    const ir::BufferView& view = in(i);
    const bool rows = view.sizes.size() == 4;
    const std::string at = place(static_cast<std::size_t>(i), view, head), row = scalar(view.strides[2]),
                      dim = rows ? scalar(view.strides[3]) : "1", count = scalar(view.sizes[2]);
    return fmt::format("c_rows_of({}, {}, {}, {}, {})", at, row, dim, count, rows && head_size(view) % 4 == 0);
  }
  std::string result(std::size_t i, std::string_view head) {
    const ir::BufferView& view = call_.outputs[i];
    const bool rows = view.sizes.size() == 4;
    const std::string at = place(call_.inputs.size() + i, view, head), row = scalar(view.strides[2]),
                      dim = rows ? scalar(view.strides[3]) : "1";
    return fmt::format("c_results_of({}, {}, {}, {})", at, row, dim, rows && head_size(view) % 4 == 0);
  }
  std::string mask(int i, std::string_view head) {
    if (!has_mask()) return "c_no_mask{}";
    const ir::BufferView& view = in(i);
    const std::string at = place(static_cast<std::size_t>(i), view, head), row = scalar(view.strides[2]),
                      key = scalar(view.strides[3]);
    return fmt::format("c_mask<{}>{{{}, {}, {}}}", view.dtype == DType::Bool ? "u8" : "f32", at, row, key);
  }

  /// `arguments` in the order in which their numbers were asked for.
  Kernel finish(const std::string& function, const std::vector<std::string>& arguments) {
    const std::string scale = fmt::format("{:a}f", static_cast<float>(library_ops::AttentionCall(call_).scale()));
    return write("coil_attention_", launch(graph_.env().simplify(blocks_), config_),
                 fmt::format("  C_DYNAMIC_SHARED(shared);\n{}  {}((f32*)shared, {}, first, {}, (int)threadIdx.x);\n",
                             head_, function, fmt::join(arguments, ", "), scale));
  }

  ir::Graph& graph_;
  const ir::Extern& call_;
  const target::Costs& costs_;
  LaunchConfig config_;
  Expr blocks_ = 0;
  std::string head_;
};

}  // namespace

bool is_cuda_attention(std::string_view op) {
  using namespace library_ops::attention;
  return op == kBlocked || op == kBlockedQueries || op == kBlockedKeys;
}

Kernel cuda_attention(ir::Graph& graph, const ir::Extern& call, const target::Costs& costs) {
  AttentionKernel kernel(graph, call, costs);
  return call.op == library_ops::attention::kBlocked          ? kernel.forward()
         : call.op == library_ops::attention::kBlockedQueries ? kernel.of_queries()
                                                              : kernel.of_keys();
}

}  // namespace coil::codegen
