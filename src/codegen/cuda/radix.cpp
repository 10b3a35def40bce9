// Least significant digit first. Within a block, the lanes of a warp that hold the same digit find each other, and
// elements change places in shared memory, so that those of one digit are written side by side. Long rows take one pass
// over memory a digit (onesweep: Adinets and Merrill 2022): where a tile's elements go depends on how many have the
// same digit in the tiles before it, which those tell as they count.
#include "codegen/cuda/radix.h"

#include <algorithm>

#include "codegen/cuda/row_kernel.h"
#include "codegen/heuristics/sorts.h"
#include "ir/radix_state.h"
#include "support/error.h"

namespace coil::codegen {

namespace {

namespace sorting = library_ops::sorting;
using State = ir::RadixState;

static_assert(State::kTile % kRadixThreads == 0 && State::kValues == kRadixThreads);

struct Words {
  bool wide;
  std::string type, place;  // of a word, of an element's place between passes
  explicit Words(const ir::BufferView& state)
      : wide(state.dtype == DType::I64), type(wide ? "u64" : "u32"), place(wide ? "i64" : "i32") {}
};

Kernel counts(const Dialect& dialect, ir::Graph& graph, const ir::Extern& call, bool descending) {
  const ir::BufferView &x = call.inputs[0], &state = call.outputs[0];
  const Words words(state);
  const Expr length = row_length(call, x);
  const std::int64_t digits = read(call.attributes, sorting::kDigits);
  const LaunchConfig config = digit_count_config();
  RowKernel k(dialect, graph, call, {&x}, 1, sym::ceil_div(length, config.tile), &state);
  const std::string n = k.scalar(length), digit_words = k.scalar(State(length).digit_words());
  const std::string body = fmt::format(
      "  c_radix_count<{0}, Get, {1}>(p0 + o0, {2}, {3}, part * {4}, p1 + {5} + row * {0} * {6}, {6}, counts, "
      "threadIdx.x);\n",
      digits, descending, k.steps[0], n, config.tile, State::kHead, digit_words);
  return k.finish({k.element, words.type}, fmt::format("  __shared__ u32 counts[{}];\n", digits * State::kValues), body,
                  config.threads);
}

/// One element of each row, the one at rank `first`, or in the middle.
Kernel selected(const Dialect& dialect, ir::Graph& graph, const ir::Extern& call) {
  const ir::BufferView& x = call.inputs[0];
  const Expr length = row_length(call, x), rank = read(call.attributes, sorting::kMiddle)
                                                      ? sym::floor_div(length - 1, 2)
                                                      : Expr(read(call.attributes, sorting::kFirst));
  const int threads = select_config(graph.env().hint_or(length, 1)).threads;
  RowKernel k(dialect, graph, call, {&x, &call.outputs[0], &call.outputs[1]}, 1, 1);
  const std::string n = k.scalar(length);
  const std::string body =
      fmt::format("  c_digit_select<{}, Get>(p0 + o0, {}, {}, {}, p1 + o1, p2 + o2, counts, sums, found, {});\n",
                  threads, k.steps[0], n, k.scalar(rank), dialect.thread);
  return k.finish(
      {k.element, k.element, "i64"},
      fmt::format("  {0} c_counter counts[256];\n  {0} u32 sums[32];\n  {0} i64 found[3];\n", dialect.shared), body,
      threads);
}

Kernel pass(const Dialect& dialect, ir::Graph& graph, const ir::Extern& call, bool descending) {
  // x, places but for the first digit, the state; values, places, the state.
  const bool first = call.inputs.size() == 2;
  const ir::BufferView &x = call.inputs[0], &state = call.outputs[2];
  const Words words(state);
  std::vector<const ir::BufferView*> views{&x};
  if (!first) views.push_back(&call.inputs[1]);
  const std::size_t inputs = views.size();
  views.insert(views.end(), {&call.outputs[0], &call.outputs[1]});
  const Expr length = row_length(call, x);
  RowKernel k(dialect, graph, call, views, inputs, State(length).tiles, &state, "begun");
  // Tiles are numbered as blocks begin, so that none waits for one that may not have a place to run. (The remainder:
  // should the state not hold zeros, nothing is written outside.)
  const std::string memory = fmt::format("p{}", views.size()), digit = k.scalar(read(call.attributes, sorting::kDigit)),
                    blocks = k.scalar(k.blocks()), n = k.scalar(length),
                    digit_words = k.scalar(State(length).digit_words());
  const std::int64_t bytes = std::max<std::int64_t>(size_of(x.dtype), words.wide ? 8 : 4);
  const std::string shared = fmt::format(
      "  __shared__ u64 memory[{}];\n  __shared__ u32 counts[{}], begun;\n  __shared__ {} starts[{}], sums[16];\n  "
      "__shared__ i32 alone;\n  if (threadIdx.x == 0) begun = (u32)c_count((i32*)({} + {})) % (u32){};\n  c_sync();\n",
      State::kTile * bytes / 8, 8 * State::kValues, words.type, State::kValues, memory, digit, blocks);
  const std::string places =
      first ? fmt::format("(const {}*)0, 0", words.place) : fmt::format("p1 + o1, {}", k.steps[1]);
  const std::size_t out = inputs;
  const std::string body = fmt::format(
      "  c_radix_pass<{0}, Get, {1}, {2}>(p0 + o0, {3}, {4}, p{5} + o{5}, {6}, p{7} + o{7}, {8}, {9}, part, (int)(8 * "
      "{10}), {11} + {12} + (row * {13} + {10}) * {14}, memory, counts, starts, sums, &alone, threadIdx.x);\n",
      State::kTile / kRadixThreads, descending, first, k.steps[0], places, out, k.steps[out], out + 1, k.steps[out + 1],
      n, digit, memory, State::kHead, read(call.attributes, sorting::kDigits), digit_words);
  std::vector<std::string> pointers{k.element};
  if (!first) pointers.push_back(words.place);
  pointers.insert(pointers.end(), {k.element, call.outputs[1].dtype == DType::I64 ? "i64" : "i32", words.type});
  return k.finish(pointers, shared, body, kRadixThreads);
}

}  // namespace

Kernel radix_kernel(const Dialect& dialect, ir::Graph& graph, const ir::Extern& call) {
  const bool descending = read(call.attributes, sorting::kDescending);
  if (call.op == sorting::kSelect) return selected(dialect, graph, call);
  return call.op == sorting::kCount ? counts(dialect, graph, call, descending) : pass(dialect, graph, call, descending);
}

}  // namespace coil::codegen
