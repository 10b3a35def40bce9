#include "passes/loop/long_columns.h"

#include "ir/reduction_split.h"

namespace coil::ir {
namespace {

constexpr std::int64_t kFewestColumns = 8;  // that fill a sector of memory
constexpr std::int64_t kFewestChunks = 16;  // below which a kernel occupies a good part of the device as it is

class LongColumns {
 public:
  explicit LongColumns(Graph& graph) : graph_(graph) {}

  void run() {
    std::vector<Operation> result;
    for (const Operation& op : graph_.operations()) {
      const auto split = split_of(op);
      if (split) result.push_back(over_rows(op, *split));
      result.push_back(split ? over_chunks(op, *split, result.back()) : op);
    }
    if (result.size() > graph_.operations().size()) graph_.replace_operations(std::move(result));
  }

 private:
  std::optional<ReductionSplit> split_of(const Operation& op) {
    const auto* sum = std::get_if<Reduction>(&op.node);
    if (!sum || is_position(sum->kind) || op.outs.size() != 1 || reduces_neighbours(graph_, sum->body, rank_of(*sum)))
      return std::nullopt;
    const Device device = device_of(graph_, op);
    if (!graph_.target(device).has(target::Feature::SplitsOverBlocks) ||
        graph_.env().hint_or(sym::product(sum->sizes), 0) < kFewestColumns)
      return std::nullopt;
    const auto split = choose_split(graph_, device, sum->sizes, sum->reduced, sum->kind, sum->body);
    return split && split->chunks >= kFewestChunks ? split : std::nullopt;
  }

  static std::size_t rank_of(const Reduction& sum) { return sum.reduced.size(); }

  Operation over_rows(const Operation& op, const ReductionSplit& split) {
    const auto& sum = std::get<Reduction>(op.node);
    ChunkReduction part = chunks_of(graph_, sum.sizes, sum.reduced, sum.kind, sum.body, split);
    const Layout layout{part.body->dtype, device_of(graph_, op), part.sizes, part.strides, true};
    return {.node = Reduction{part.sizes, part.reduced, sum.kind, part.body},
            .outs = {graph_.add_buffer("", BufferKind::Computed, layout).id},
            .origins = op.origins,
            .where = op.where};
  }

  Operation over_chunks(const Operation& op, const ReductionSplit& split, const Operation& parts) {
    const auto& sum = std::get<Reduction>(op.node);
    Exprs index = graph_.ivars(sum.sizes.size());
    index.push_back(graph_.rvar(0));
    Operation made = op;
    made.node = Reduction{.sizes = sum.sizes,
                          .reduced = {split.chunks},
                          .kind = sum.kind,
                          .body = graph_.pool().load(parts.outs[0], sum.body->dtype, index)};
    return made;
  }

  Graph& graph_;
};

}  // namespace

void split_long_columns(Graph& graph) { LongColumns(graph).run(); }

}  // namespace coil::ir
