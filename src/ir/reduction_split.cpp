#include "ir/reduction_split.h"

#include <algorithm>

#include "ir/tensor_box.h"

namespace coil::ir {
namespace {

/// The dimension of the channels of a picture, or of rows made of one, whose layout is yet to be chosen: it may come to
/// lie innermost.
std::optional<std::size_t> open_channels(Graph& graph, Scalar load) {
  constexpr std::size_t kImage = 3;  // dimensions from which on layouts are chosen
  const Buffer& b = graph.buffer(load->buffer);
  if (b.layout.fixed || load->op != ScalarOp::Load || b.layout.sizes.size() < kImage) return std::nullopt;
  return b.channels;
}

/// Whether neighbours in memory are what one of these variables walks, however a picture comes to lie.
bool walks_neighbours(Graph& graph, Scalar load, const Exprs& variables) {
  if (const auto channels = open_channels(graph, load))
    return std::ranges::any_of(variables, [&](Expr v) { return sym::contains(load->index[*channels], v); });
  const Layout& layout = graph.buffer(load->buffer).layout;
  const Expr index = load->op == ScalarOp::Load ? linear_index(layout, load->index) : load->index[0];
  return std::ranges::any_of(variables, [&](Expr v) {
    const auto step = sym::linear_in(index, v);
    return step && step->coefficient.is_constant(1);
  });
}

/// Whether half or more of what a reduction reads lies side by side along its dimension `d`, as pictures of
/// convolutional nets do along their channels once layouts are chosen.
bool lies_along(Graph& graph, Scalar body, std::size_t d) {
  std::int64_t along = 0, across = 0;
  for (Scalar l : loads(body))
    (walks_neighbours(graph, l, {graph.rvar(d)}) ? along : across) +=
        graph.env().hint_or(sym::product(graph.buffer(l->buffer).layout.sizes), 1 << 12);
  return along >= across;
}

/// The dimension to cut into so many chunks: the first of 32 or more, else the largest. One that neighbours lie along
/// and that leaves each chunk a few of every row only where no other has enough.
std::optional<std::size_t> dimension_to_split(Graph& graph, const Exprs& reduced, Scalar body, bool position,
                                              std::int64_t chunks) {
  constexpr std::int64_t kEnough = 8, kMany = 32, kLeastNeighbours = 64;
  const auto largest = [&](bool any) {
    std::pair<std::int64_t, std::size_t> best = {0, 0};
    for (std::size_t d = 0; d < reduced.size() && best.first < kMany; ++d)
      if (const std::int64_t size = graph.env().hint_or(reduced[d], 0); size > best.first) {
        if (any || size >= kLeastNeighbours * chunks || !lies_along(graph, body, d)) best = {size, d};
        // Chunks of positions must follow each other in their order.
        if (position && !reduced[d].is_constant(1)) break;
      }
    return best;
  };
  auto best = largest(position);
  if (best.first < kEnough) best = largest(true);
  return best.first < 2 ? std::nullopt : std::optional(best.second);
}

/// Into how many chunks a reduction is cut so that a GPU has work for all its threads. A row (`neighbours`) occupies up
/// to a block of threads, a column only a few.
std::int64_t gpu_chunks(std::int64_t outputs, std::int64_t count, bool neighbours) {
  constexpr std::int64_t kThreads = 132 * 2048, kMaxChunks = 256;
  const std::int64_t of_output =
      neighbours ? std::clamp<std::int64_t>(count / 16, 1, 1024) : std::clamp<std::int64_t>(count / 32, 1, 16);
  const std::int64_t busy = std::max<std::int64_t>(1, outputs) * of_output, least = neighbours ? 4096 : 128;
  if (busy >= kThreads / 2) return 1;
  const std::int64_t chunks = std::min(kThreads / busy, count / least);
  return chunks < 4 ? 1 : std::min(chunks, kMaxChunks);
}

}  // namespace

bool reduces_neighbours(Graph& graph, Scalar body, std::size_t reduced) {
  std::int64_t along = 0, across = 0;
  for (Scalar l : loads(body)) {
    const Layout& layout = graph.buffer(l->buffer).layout;
    (walks_neighbours(graph, l, graph.rvars(reduced)) ? along : across) +=
        graph.env().hint_or(sym::product(layout.sizes), 1 << 12) * static_cast<std::int64_t>(size_of(layout.dtype));
  }
  return along >= across;
}

bool stays_whole(Graph& graph, Device device, const Exprs& sizes, const Exprs& reduced, Scalar body) {
  const auto rows = graph.env().simplify(sym::product(sizes)).constant(),
             count = graph.env().simplify(sym::product(reduced)).constant();
  if (!rows || !count) return false;
  std::size_t widest = 0;
  for (Scalar l : loads(body)) widest = std::max(widest, size_of(graph.buffer(l->buffer).layout.dtype));
  return graph.target(device).costs.holds_rows_in_clusters(*rows, *count * static_cast<std::int64_t>(widest)) &&
         reduces_neighbours(graph, body, reduced.size());
}

std::optional<ReductionSplit> choose_split(Graph& graph, Device device, const Exprs& sizes, const Exprs& reduced,
                                           ReductionKind kind, Scalar body) {
  constexpr std::int64_t kFewOutputs = 64, kManyReduced = 1 << 16, kChunk = 1 << 13, kMaxChunks = 256;
  constexpr std::int64_t kManyColumns = 1 << 14, kManyElements = 1 << 20, kColumnChunk = 1 << 19, kFewRows = 64;
  const sym::ShapeEnv& env = graph.env();
  const bool position = is_position(kind);
  const std::int64_t count = env.hint_or(sym::product(reduced), 0),
                     outputs = env.hint_or(sym::product(sizes), kManyColumns);
  std::int64_t wanted = 0;
  if (graph.target(device).has(target::Feature::SplitsOverBlocks)) {
    if (position) return std::nullopt;
    wanted =
        gpu_chunks(env.hint_or(sym::product(sizes), 1 << 20), count, reduces_neighbours(graph, body, reduced.size()));
    if (wanted < 2) return std::nullopt;
  } else if (count >= kManyReduced && (outputs < kFewOutputs || graph.batch_invariant)) {
    wanted = std::clamp<std::int64_t>(count / kChunk, 2, kMaxChunks);
  } else {
    // Columns that are too few for the threads, each of which takes many of them at once.
    if (graph.batch_invariant || outputs >= kManyColumns || count * outputs < kManyElements || count < 2 * kFewRows ||
        sizes.empty() || reduces_neighbours(graph, body, reduced.size()))
      return std::nullopt;
    wanted = std::clamp<std::int64_t>(count * outputs / kColumnChunk, 2, std::min(kMaxChunks, count / kFewRows));
  }
  const auto dim = dimension_to_split(graph, reduced, body, position, wanted);
  if (!dim) return std::nullopt;
  ReductionSplit split{.dim = *dim};
  wanted = std::min(wanted, env.hint_or(reduced[*dim], 0));
  split.chunks = wanted;
  for (std::int64_t c = wanted; c > wanted / 2 && c > 1; --c)
    if (env.statically_known_multiple_of(reduced[split.dim], c)) {
      split.chunks = c;
      split.exact = true;
      break;
    }
  return split;
}

ChunkReduction chunks_of(Graph& graph, const Exprs& sizes, const Exprs& reduced, ReductionKind kind, Scalar body,
                         const ReductionSplit& split) {
  auto& pool = graph.pool();
  const Expr whole = reduced[split.dim];
  ChunkReduction made{.sizes = sizes,
                      .reduced = reduced,
                      .length = split.exact ? sym::floor_div(whole, split.chunks) : sym::ceil_div(whole, split.chunks)};
  made.sizes.push_back(split.chunks);
  made.reduced[split.dim] = made.length;
  const Expr old = graph.rvar(split.dim), position = graph.ivar(sizes.size()) * made.length + old;
  const auto loops = loop_vars(graph, made.sizes, made.reduced);
  made.body = pool.substitute(body, {&old, 1}, {&position, 1}, [&](Expr e) { return graph.env().simplify(e, loops); });
  // Elements behind the last of all count for nothing.
  if (!split.exact)
    made.body = pool.masked(made.body, pool.condition(sym::lt(position, whole)), neutral(pool, kind, made.body->dtype));
  if (!reduces_neighbours(graph, made.body, reduced.size())) {
    made.strides = sym::contiguous_strides(sizes);
    made.strides.push_back(sym::product(sizes));
  }
  return made;
}

}  // namespace coil::ir
