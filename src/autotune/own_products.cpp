#include "autotune/own_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "codegen/binary_cache.h"
#include "library_ops/products.h"
#include "passes/loop/fuse_post_ops.h"
#include "passes/loop/own_products.h"
#include "support/hash.h"

namespace coil::autotune {
namespace {

using library_ops::EpilogueCall;

/// One product in both forms, each with the post-operations that it takes in.
struct Contest {
  ir::OperationId id;  ///< in the graph as it was
  ir::Extern own, library;
  codegen::Kernel kernel;
  std::optional<Trial> trial;
  std::optional<CallTrial> call;
};

class Contests {
 public:
  explicit Contests(ir::Graph& graph) : graph_(graph), before_(graph.operations().begin(), graph.operations().end()) {
    for (const ir::Operation& op : before_)
      if (auto own = as_own_product(graph, op))
        all_.push_back({.id = op.id,
                        .own = *own,
                        .library = std::get<ir::Extern>(op.node),
                        .kernel = {},
                        .trial = {},
                        .call = {}});
  }

  std::vector<Contest>& all() { return all_; }

  /// What each form is once post-operations are fused.
  void fuse() {
    ir::fuse_post_ops(graph_);
    for (Contest& c : all_)
      if (const ir::Extern* found = find(c.library)) c.library = *found;
    restore();
    take_own_products(graph_, [](const ir::Operation&) { return true; });
    ir::fuse_post_ops(graph_);
    for (Contest& c : all_)
      if (const ir::Extern* found = find(c.own)) c.own = *found;
    restore();
  }

 private:
  void restore() { graph_.replace_operations(before_); }

  /// The call of this operation on these two operands.
  const ir::Extern* find(const ir::Extern& wanted) const {
    for (const ir::Operation& op : graph_.operations()) {
      const auto* call = std::get_if<ir::Extern>(&op.node);
      if (call && call->op == wanted.op &&
          std::ranges::equal(std::span(call->inputs).first(2), std::span(wanted.inputs).first(2)))
        return call;
    }
    return nullptr;
  }

  ir::Graph& graph_;
  const std::vector<ir::Operation> before_;
  std::vector<Contest> all_;
};

/// Milliseconds of the pass over the result that follows the library's call where it takes in less.
double rest_of(const Contest& c, const target::Costs& costs) {
  const std::size_t taken = EpilogueCall(c.library).post().size() + (EpilogueCall(c.library).has_bias() ? 1 : 0);
  if (EpilogueCall(c.own).post().size() <= taken) return 0;
  const runtime::BoundView& y = c.call->outputs[0];
  const auto passes =
      static_cast<std::int64_t>(2 + c.own.inputs.size()) - static_cast<std::int64_t>(c.call->inputs.size());
  const std::int64_t bytes = passes * numel(y.sizes) * static_cast<std::int64_t>(size_of(y.dtype));
  return 1e3 * (static_cast<double>(bytes) / costs.memory_bytes_per_second + costs.seconds_of_call);
}

std::optional<bool> remembered(const std::optional<std::filesystem::path>& entry) {
  const auto bytes = entry ? codegen::read_binary(*entry) : std::nullopt;
  if (!bytes || bytes->size() != 1) return std::nullopt;
  return static_cast<char>((*bytes)[0]) == '1';
}

/// The kernels of all contests, on the device; those that have no trial lose.
void make_kernels(ir::Graph& graph, std::vector<Contest>& all, const codegen::Backend& backend, Timer& timer,
                  const LaunchOptions& options) {
  const ToldSizes& told = options.told;
  std::map<std::string, std::string> texts;
  for (Contest& c : all) {
    c.call = trial_of(graph, c.library, told);
    c.kernel = backend.template_kernel(graph, c.own);
    c.trial = trial_of(graph, c.kernel, told);
    if (!c.trial || !c.call) continue;
    c.trial->fill = kSmallNumbers;
    texts.emplace(c.kernel.symbol, c.kernel.text);
  }
  std::vector<std::string> distinct;
  for (const auto& [symbol, text] : texts) distinct.push_back(text);
  timer.load(backend.compile(distinct, {.jobs = options.jobs, .cache = std::nullopt}).libraries);
}

}  // namespace

OwnProducts choose_own_products(ir::Graph& graph, const codegen::Backend& backend, Timer& timer, CallTimer& calls,
                                const LaunchOptions& options) {
  OwnProducts out;
  Contests contests(graph);
  if (contests.all().empty()) return out;
  contests.fuse();
  make_kernels(graph, contests.all(), backend, timer, options);
  std::map<std::string, bool> known;
  for (const Contest& c : contests.all()) {
    if (!c.trial || !c.call) continue;
    const std::string name = to_string(*c.call) + " or " + c.kernel.symbol;
    auto [it, added] = known.try_emplace(name, false);
    if (added) {
      std::optional<std::filesystem::path> entry;
      if (options.cache)
        entry = *options.cache /
                ("product_" + to_hex(Hasher().add(timer.identity()).add(calls.identity()).add(name).digest()));
      if (const auto found = remembered(entry)) {
        it->second = *found;
        out.text += fmt::format("{}: {}, remembered\n", name, *found ? "the kernel" : "the library");
      } else if (const auto own = timer.time({&*c.trial, 1})[0], library = calls.time({&*c.call, 1})[0];
                 own && library) {
        const double rest = rest_of(c, graph.target().costs);
        it->second = *own < kWorth * (*library + rest);
        out.text += fmt::format("{}: {}, {:.4f} ms; library {:.4f} and {:.4f} for what follows\n", name,
                                it->second ? "the kernel" : "the library", *own, *library, rest);
        const char said = it->second ? '1' : '0';
        if (entry) codegen::write_binary(*entry, std::as_bytes(std::span(&said, 1)));
      }
    }
    if (it->second) out.operations.insert(c.id);
  }
  return out;
}

}  // namespace coil::autotune
