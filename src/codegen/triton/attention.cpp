#include "codegen/triton/attention.h"

#include <algorithm>
#include <bit>
#include <span>

#include "codegen/head_size.h"
#include "codegen/heuristics/blocks.h"
#include "codegen/triton/template.h"
#include "library_ops/attention.h"

namespace coil::codegen {
namespace {

/// Elements of a block along a row: what the matrix units take at least, and a power of two.
int padded(std::int64_t size) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(size, 16))));
}

/// The kernel of one call: a program has some rows of one head.
class AttentionInTriton : public TritonTemplate {
 public:
  AttentionInTriton(ir::Graph& graph, const ir::Extern& call, BlockShape block)
      : TritonTemplate(graph), call_(call), facts_(call), block_(block) {}

  Kernel forward() {
    enum { Query, Key, Value, Mask };
    const bool logs = call_.outputs.size() > 1;
    begin(Query, Key);
    operand(in(Query), "head");
    operand(in(Key), "group");
    operand(in(Value), "group");
    mask(Mask, "head");
    operand(out(0), "head", true);
    if (logs)
      operand(out(1), "head", true);
    else
      arguments_ += "None, 0, ";
    return write("c_attention", Query, Key, Value);
  }

  Kernel of_queries() {
    enum { Slope, Query, Key, Value, Result, Logs, Mask };
    begin(Query, Key);
    operand(in(Slope), "head");
    operand(in(Query), "head");
    operand(in(Key), "group");
    operand(in(Value), "group");
    operand(in(Result), "head");
    operand(in(Logs), "head");
    mask(Mask, "head");
    operand(out(0), "head", true);
    operand(out(1), "head", true);
    return write("c_attention_queries", Query, Key, Value);
  }

  Kernel of_keys() {
    enum { Slope, Query, Key, Value, Logs, Sums, Mask };
    begin(Key, Key);
    const std::string shared = number(sym::floor_div(in(Query).sizes[1], in(Key).sizes[1])), first = "head * " + shared;
    const auto of_heads = [&](int i) {
      operand(in(i), first);
      arguments_ += number(in(i).strides[1]) + ", ";
    };
    of_heads(Slope);
    of_heads(Query);
    operand(in(Key), "head");
    operand(in(Value), "head");
    of_heads(Logs);
    of_heads(Sums);
    mask(Mask, first);
    arguments_ += facts_.has_mask() ? number(in(Mask).strides[1]) + ", " : "0, ";
    operand(out(0), "head", true);
    operand(out(1), "head", true);
    heads_ = shared + ", ";
    return write("c_attention_keys", Query, Key, Value);
  }

 private:
  const ir::BufferView& in(int i) const { return call_.inputs[static_cast<std::size_t>(i)]; }
  const ir::BufferView& out(int i) const { return call_.outputs[static_cast<std::size_t>(i)]; }

  /// What a program works on: `batch`, `head`, the head of keys it goes with (`group`), and its `first` row.
  void begin(int shared_out, int keys) {
    const ir::BufferView& view = in(shared_out);
    const Expr parts = sym::ceil_div(view.sizes[2], block_.x);
    blocks_ = view.sizes[0] * view.sizes[1] * parts;
    const std::string count = number(parts), heads = number(view.sizes[1]);
    line("block = tl.cast(tl.program_id(0), tl.int64)");
    // Of causal patterns the longest rows come first.
    const bool turned = facts_.causal() && shared_out != keys;
    line("first = {} * {}", turned ? fmt::format("({0} - 1 - block % {0})", count) : "(block % " + count + ")",
         block_.x);
    line("head = block // {} % {}", count, heads);
    line("batch = block // ({} * {})", count, heads);
    if (shared_out != keys) line("group = head // {}", number(sym::floor_div(view.sizes[1], in(keys).sizes[1])));
  }

  /// Where the head's rows, or its numbers of rows, begin, and their strides.
  void operand(const ir::BufferView& v, const std::string& head, bool writes = false) {
    arguments_ += place(v, head, writes) + ", " + number(v.strides[2]) + ", ";
    if (v.sizes.size() == 4) arguments_ += number(v.strides[3]) + ", ";
  }
  void mask(int i, const std::string& head) {
    if (facts_.has_mask())
      operand(in(i), head);
    else
      arguments_ += "None, 0, 0, ";
  }
  std::string place(const ir::BufferView& v, const std::string& head, bool writes) {
    const std::string p = pointer(v, writes), offset = number(v.offset), of_batch = number(v.strides[0]),
                      of_head = number(v.strides[1]);
    return fmt::format("{} + ({} + batch * {} + {} * {})", p, offset, of_batch, head, of_head);
  }

  Kernel write(const std::string& function, int query, int key, int value) {
    const std::int64_t depth = head_size(in(key)), width = head_size(in(value));
    const std::string queries = number(in(query).sizes[2]), count = number(in(key).sizes[2]);
    line("{}({}first, {}, {}, {}{}, {}, {}, {}, ROWS, KEYS, DEPTH, WIDTH)", function, arguments_, queries, count,
         heads_, depth, width, static_cast<float>(facts_.scale()), facts_.causal() ? "True" : "False");
    return finish("coil_attention_", {blocks_, 1, 1}, block_.warps,
                  {{"ROWS", block_.x}, {"KEYS", block_.r}, {"DEPTH", padded(depth)}, {"WIDTH", padded(width)}});
  }

  const ir::Extern& call_;
  library_ops::AttentionCall<const ir::Extern> facts_;
  std::string arguments_, heads_;
  Expr blocks_ = 0;
  BlockShape block_;
};

}  // namespace

bool is_blocked_attention(std::string_view op) {
  using namespace library_ops::attention;
  return op == kBlocked || op == kBlockedQueries || op == kBlockedKeys;
}

std::variant<Kernel, std::string> triton_attention(ir::Graph& graph, const ir::Extern& call,
                                                   const target::Costs& costs) {
  if (auto why = reads_as_another_type(graph, call)) return *why;
  std::int64_t widest = 0;
  const std::size_t rows =
      call.op == library_ops::attention::kBlocked ? 3 : 4;  // queries, keys, values; dy before them
  for (const ir::BufferView& v : std::span(call.inputs).first(rows))
    widest = std::max<std::int64_t>(widest, padded(head_size(v)));
  const auto block = attention_block(widest, costs);
  if (!block) return fmt::format("attention with heads of {} elements", widest);
  AttentionInTriton kernel(graph, call, *block);
  return call.op == library_ops::attention::kBlocked          ? kernel.forward()
         : call.op == library_ops::attention::kBlockedQueries ? kernel.of_queries()
                                                              : kernel.of_keys();
}

}  // namespace coil::codegen
