#include "autotune/launches.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "codegen/binary_cache.h"
#include "codegen/triton/compile.h"
#include "support/error.h"
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
  std::vector<codegen::Kernel> kernels;
  std::vector<codegen::LaunchConfig> candidates;
};

/// What kernels that are timed are compiled to.
class Compiled {
 public:
  Compiled(const codegen::Backend& backend, const LaunchOptions& options) : backend_(backend), options_(options) {}

  void add(const codegen::Kernel& k) {
    if (!seen_.insert(k.symbol).second) return;
    if (k.triton)
      triton_.push_back(codegen::define_triton_kernel(k.symbol, *k.triton));
    else
      texts_.push_back(k.text);
  }

  std::vector<std::vector<std::byte>> libraries() {
    auto out = backend_.compile(texts_, {.jobs = options_.jobs, .cache = std::nullopt}).libraries;
    if (triton_.empty()) return out;
    try {
      for (const auto& k : options_.compile_triton(triton_)) {
        out.push_back(k->binary);
        code_[k->symbol] = k;
      }
    } catch (const Error& e) {
      problem = fmt::format("no kernel in Triton was timed: {}\n", e.what());
    }
    return out;
  }

  /// Whether the kernel of a trial has code; of one in Triton this says how it is launched.
  bool complete(const codegen::Kernel& k, Trial& t) const {
    if (!k.triton) return true;
    const auto found = code_.find(k.symbol);
    if (found == code_.end()) return false;
    t.block = found->second->block;
    t.shared_bytes = found->second->shared_bytes;
    t.scratch_words = static_cast<std::uint32_t>(found->second->count(ops::UserKernel::Kind::Constant));
    return true;
  }

  std::string problem;

 private:
  const codegen::Backend& backend_;
  const LaunchOptions& options_;
  std::vector<std::string> texts_;
  LaunchOptions::Kernels triton_;
  std::map<std::string, std::shared_ptr<const ops::UserKernel>> code_;
  std::set<std::string> seen_;
};

/// The name of what was measured: all that the times depend on.
std::string key_of(const Trial& t, std::size_t candidates, const std::string& isa, const std::string& identity) {
  Hasher h;
  h.add(std::uint64_t{candidates});
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

/// The kernels of a schedule that have several configs, by what times depend on.
class Tuner {
 public:
  Tuner(ir::Graph& graph, const codegen::Backend& backend, Timer& timer, const LaunchOptions& options)
      : graph_(graph), backend_(backend), timer_(timer), options_(options) {}

  std::string run(scheduler::Schedule& schedule) {
    for (scheduler::Item& item : schedule.items)
      if (auto* group = std::get_if<scheduler::Group>(&item)) find(*group);
    Compiled compiled(backend_, options_);
    std::vector<TunedKernel*> measured;
    for (const std::string& key : order_) {
      TunedKernel& t = all_[key];
      if (remembered(t) || !has_choice(t)) continue;
      measured.push_back(&t);
      for (const codegen::Kernel& k : t.kernels) compiled.add(k);
    }
    if (measured.empty()) return text_;
    timer_.load(compiled.libraries());
    text_ += compiled.problem;
    for (TunedKernel* t : measured) measure(*t, compiled);
    return text_;
  }

 private:
  void find(scheduler::Group& group) {
    codegen::Kernel usual = backend_.group(graph_, group);
    if (usual.candidates.size() <= 1 || !usual.launch || (usual.triton && !options_.compile_triton)) return;
    const auto trial = trial_of(graph_, usual, options_.told);
    if (!trial) return;
    const std::string key = key_of(*trial, usual.candidates.size(), backend_.isa(), timer_.identity());
    TunedKernel& t = all_[key];
    t.groups.push_back(&group);
    if (t.groups.size() > 1) return;
    order_.push_back(key);
    t.trials = {*trial};
    t.configs = {0};
    t.candidates = usual.candidates;
    t.kernels.push_back(std::move(usual));
    if (options_.cache) t.entry = *options_.cache / ("launch_" + key);
  }

  bool remembered(TunedKernel& t) {
    const auto found = options_.cache ? remembered_launch(t.entry) : std::nullopt;
    if (!found || in_config(graph_, *t.groups[0], backend_, found->first).symbol != found->second) return false;
    for (scheduler::Group* g : t.groups) g->launch_config = found->first;
    text_ += fmt::format("{}: config {}, remembered\n", t.trials[0].symbol, found->first);
    return true;
  }

  bool has_choice(TunedKernel& t) {
    for (int number = 1; number < static_cast<int>(t.candidates.size()); ++number) {
      codegen::Kernel k = in_config(graph_, *t.groups[0], backend_, number);
      if (k.triton && !options_.compile_triton) continue;
      auto trial = trial_of(graph_, k, options_.told);
      if (!trial || std::find(t.trials.begin(), t.trials.end(), *trial) != t.trials.end()) continue;
      t.trials.push_back(std::move(*trial));
      t.configs.push_back(number);
      t.kernels.push_back(std::move(k));
    }
    return t.trials.size() > 1;
  }

  /// Times of the trials; nothing for those that do not run.
  std::vector<std::optional<double>> times_of(TunedKernel& t, const Compiled& compiled) {
    std::vector<Trial> there;
    std::vector<std::size_t> places;
    for (std::size_t k = 0; k < t.trials.size(); ++k)
      if (compiled.complete(t.kernels[k], t.trials[k])) there.push_back(t.trials[k]), places.push_back(k);
    const auto times = timer_.time(there);
    std::vector<std::optional<double>> out(t.trials.size());
    for (std::size_t k = 0; k < places.size(); ++k) out[places[k]] = times[k];
    return out;
  }

  void measure(TunedKernel& t, const Compiled& compiled) {
    const auto times = times_of(t, compiled);
    std::size_t best = 0;
    for (std::size_t k = 1; k < times.size(); ++k)
      if (times[k] && (!times[best] || *times[k] < *times[best])) best = k;
    if (times[0] && best > 0 && *times[best] > *times[0] * kWorth) best = 0;
    for (scheduler::Group* g : t.groups) g->launch_config = t.configs[best];
    text_ += fmt::format("{}: config {} ({}{}), of", t.trials[0].symbol, t.configs[best],
                         codegen::to_string(t.candidates[static_cast<std::size_t>(t.configs[best])]),
                         t.kernels[best].triton ? ", Triton" : "");
    for (std::size_t k = 0; k < times.size(); ++k)
      text_ += fmt::format(" {}:{}{}x{} {}", t.configs[k], t.kernels[k].triton ? "Triton " : "", t.trials[k].grid[0],
                           t.trials[k].block, times[k] ? fmt::format("{:.4f}", *times[k]) : std::string("failed"));
    text_ += " ms\n";
    if (options_.cache && times[best]) remember(t.entry, t.configs[best], t.trials[best].symbol);
  }

  ir::Graph& graph_;
  const codegen::Backend& backend_;
  Timer& timer_;
  const LaunchOptions& options_;
  std::string text_;
  std::map<std::string, TunedKernel> all_;
  std::vector<std::string> order_;
};

std::optional<Trial::Map> map_of(const codegen::MappedTensor& m, const MeasuredSizes& value) {
  Trial::Map out{.buffer = m.pointer, .offset = 0, .shape = {}};
  const auto offset = value(m.offset);
  if (!offset) return std::nullopt;
  out.offset = static_cast<std::uint64_t>(*offset);
  out.shape.element = m.map.element, out.shape.swizzle = m.map.swizzle;
  const std::size_t rank = m.map.box.size();
  out.shape.rank = static_cast<std::uint32_t>(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    const auto size = value(m.sizes[rank - 1 - d]), stride = value(m.strides[rank - 1 - d]);
    if (!size || !stride) return std::nullopt;
    out.shape.box[d] = m.map.box[rank - 1 - d];
    out.shape.sizes[d] = static_cast<std::uint64_t>(*size);
    out.shape.strides[d] = static_cast<std::uint64_t>(*stride);
  }
  return out;
}

}  // namespace

std::optional<Trial> trial_of(ir::Graph& graph, const codegen::Kernel& k, const ToldSizes& told) {
  const sym::ShapeEnv& env = graph.env();
  const MeasuredSizes value(env, told);
  Trial t;
  t.symbol = k.symbol;
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
  for (const codegen::MappedTensor& m : k.launch->maps) {
    auto map = map_of(m, value);
    if (!map) return std::nullopt;
    t.maps.push_back(*map);
  }
  if (k.triton) t.scalar_bytes = k.triton->wide ? 8 : 4, t.status = k.triton->status;
  return t;
}

std::string choose_launches(ir::Graph& graph, scheduler::Schedule& schedule, const codegen::Backend& backend,
                            Timer& timer, const LaunchOptions& options) {
  return Tuner(graph, backend, timer, options).run(schedule);
}

}  // namespace coil::autotune
