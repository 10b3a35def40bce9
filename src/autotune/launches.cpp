#include "autotune/launches.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "codegen/binary_cache.h"
#include "support/hash.h"
#include "wrapper/program.h"

namespace coil::autotune {
namespace {

/// Kernels with one text and the same sizes: they are timed once.
struct TunedKernel {
  std::vector<scheduler::Group*> groups;
  std::filesystem::path entry;
  std::vector<Trial> trials;  ///< distinct texts, the usual first
  std::vector<int> configs;   ///< number of each among the candidates
  std::vector<codegen::LaunchConfig> candidates;
};

/// The kernel with the hints of sizes; nothing where one has none.
std::optional<Trial> trial_of(ir::Graph& graph, const codegen::Kernel& k) {
  const sym::ShapeEnv& env = graph.env();
  Trial t;
  t.symbol = k.symbol;
  auto value = [&](sym::Expr e) { return env.hint(e); };
  for (std::size_t d = 0; d < 3; ++d) {
    const auto blocks = d < k.launch->grid.size() ? value(k.launch->grid[d]) : std::optional<std::int64_t>(1);
    if (!blocks || *blocks <= 0 || *blocks > 0x7fffffff) return std::nullopt;
    t.grid[d] = static_cast<std::uint32_t>(*blocks);
  }
  const auto shared = value(k.launch->shared_bytes);
  if (!shared) return std::nullopt;
  t.block = static_cast<std::uint32_t>(k.launch->block);
  t.shared_bytes = static_cast<std::uint32_t>(*shared);
  for (ir::BufferId b : k.buffers) {
    const ir::Layout& layout = graph.buffer(b).layout;
    const auto bytes = value(wrapper::span_bytes(env, layout.dtype, layout.sizes, layout.strides));
    if (!bytes) return std::nullopt;
    t.buffers.push_back(static_cast<std::uint64_t>(*bytes));
  }
  for (sym::Expr e : k.scalars) {
    const auto number = value(e);
    if (!number) return std::nullopt;
    t.scalars.push_back(*number);
  }
  return t;
}

/// The name of what was measured: all that the times depend on.
std::string key_of(const Trial& t, const std::string& isa, const std::string& identity) {
  Hasher h;
  h.add(identity).add(isa).add(t.symbol).add(std::uint64_t{t.block}).add(std::uint64_t{t.shared_bytes});
  for (std::uint32_t g : t.grid) h.add(std::uint64_t{g});
  for (std::uint64_t b : t.buffers) h.add(b);
  for (std::int64_t s : t.scalars) h.add(static_cast<std::uint64_t>(s));
  return to_hex(h.digest());
}

/// An entry is `NUMBER SYMBOL`: a number alone would mean another config to a later compiler.
std::optional<std::pair<int, std::string>> remembered_launch(const std::filesystem::path& entry) {
  const auto bytes = codegen::read_binary(entry);
  if (!bytes) return std::nullopt;
  const std::string text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  const std::size_t space = text.find(' ');
  int number = 0;
  if (space == std::string::npos) return std::nullopt;
  const auto [end, status] = std::from_chars(text.data(), text.data() + space, number);
  if (status != std::errc() || end != text.data() + space || number < 0) return std::nullopt;
  return std::pair(number, text.substr(space + 1));
}

void remember(const std::filesystem::path& entry, int number, const std::string& symbol) {
  const std::string text = fmt::format("{} {}", number, symbol);
  codegen::write_binary(entry, std::as_bytes(std::span(text)));
}

codegen::Kernel in_config(ir::Graph& graph, scheduler::Group group, const codegen::Backend& backend, int config) {
  group.launch_config = config;
  return backend.group(graph, group);
}

}  // namespace

std::string choose_launches(ir::Graph& graph, scheduler::Schedule& schedule, const codegen::Backend& backend,
                            Timer& timer, const LaunchOptions& options) {
  std::string text;
  std::map<std::string, TunedKernel> all;
  std::vector<std::string> order;
  for (scheduler::Item& item : schedule.items) {
    auto* group = std::get_if<scheduler::Group>(&item);
    if (!group) continue;
    const codegen::Kernel usual = backend.group(graph, *group);
    if (usual.candidates.size() <= 1 || !usual.launch || usual.triton) continue;
    const auto trial = trial_of(graph, usual);
    if (!trial) continue;
    const std::string key = key_of(*trial, backend.isa(), timer.identity());
    TunedKernel& t = all[key];
    t.groups.push_back(group);
    if (t.groups.size() > 1) continue;
    order.push_back(key);
    t.trials = {*trial};
    t.configs = {0};
    t.candidates = usual.candidates;
    if (options.cache) t.entry = *options.cache / ("launch_" + key);
  }

  std::vector<std::string> kernels, measured;
  std::set<std::string> seen;
  for (const std::string& key : order) {
    TunedKernel& t = all[key];
    const scheduler::Group& group = *t.groups[0];
    if (const auto found = options.cache ? remembered_launch(t.entry) : std::nullopt) {
      if (in_config(graph, group, backend, found->first).symbol == found->second) {
        for (scheduler::Group* g : t.groups) g->launch_config = found->first;
        text += fmt::format("{}: config {}, remembered\n", t.trials[0].symbol, found->first);
        continue;
      }
    }
    const codegen::Kernel usual = backend.group(graph, group);
    std::vector<std::string> texts{usual.text};
    for (int number = 1; number < static_cast<int>(usual.candidates.size()); ++number) {
      codegen::Kernel k = in_config(graph, group, backend, number);
      auto trial = trial_of(graph, k);
      if (!trial || std::find(t.trials.begin(), t.trials.end(), *trial) != t.trials.end()) continue;
      t.trials.push_back(std::move(*trial));
      t.configs.push_back(number);
      texts.push_back(std::move(k.text));
    }
    if (t.trials.size() == 1) continue;
    measured.push_back(key);
    for (std::size_t k = 0; k < texts.size(); ++k)
      if (seen.insert(t.trials[k].symbol).second) kernels.push_back(std::move(texts[k]));
  }
  if (measured.empty()) return text;

  timer.load(backend.compile(kernels, {.jobs = options.jobs, .cache = std::nullopt}).libraries);
  for (const std::string& key : measured) {
    TunedKernel& t = all[key];
    const auto times = timer.time(t.trials);
    std::size_t best = 0;
    for (std::size_t k = 1; k < times.size(); ++k)
      if (times[k] && (!times[best] || *times[k] < *times[best])) best = k;
    if (times[0] && best > 0 && *times[best] > *times[0] * kWorth) best = 0;
    for (scheduler::Group* g : t.groups) g->launch_config = t.configs[best];
    text += fmt::format("{}: config {} ({}), of", t.trials[0].symbol, t.configs[best],
                        codegen::to_string(t.candidates[static_cast<std::size_t>(t.configs[best])]));
    for (std::size_t k = 0; k < times.size(); ++k)
      text += fmt::format(" {}:{}x{} {}", t.configs[k], t.trials[k].grid[0], t.trials[k].block,
                          times[k] ? fmt::format("{:.4f}", *times[k]) : std::string("failed"));
    text += " ms\n";
    if (options.cache && times[best]) remember(t.entry, t.configs[best], t.trials[best].symbol);
  }
  return text;
}

}  // namespace coil::autotune
