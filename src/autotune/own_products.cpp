#include "autotune/own_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "codegen/binary_cache.h"
#include "library_ops/products.h"
#include "passes/loop/fuse_post_ops.h"
#include "passes/loop/fuse_pre_ops.h"
#include "passes/loop/own_products.h"
#include "passes/loop/product_parts.h"
#include "support/hash.h"

namespace coil::autotune {
namespace {

using library_ops::BlockedCall;
using library_ops::EpilogueCall;

/// A form that a product can have as a kernel, with the post-operations that it takes in.
struct Form {
  ir::Extern call;
  std::int64_t parts = 1;  ///< of each sum; a loop adds them up
  codegen::Kernel kernel = {};
  std::optional<Trial> trial = {};
};

/// One product in all its forms.
struct Contest {
  ir::OperationId id;  ///< in the graph as it was
  ir::Extern library;
  std::vector<Form> forms;   ///< the kernel's on operands in memory: whole sums, then sums in parts
  std::optional<Form> made;  ///< where a loop makes the first operand: with its value made on the way
  std::optional<CallTrial> call = {};

  bool complete() const { return call && forms[0].trial; }
  ir::BufferId operand() const { return forms[0].call.inputs[0].buffer; }
};

class Contests {
 public:
  explicit Contests(ir::Graph& graph) : graph_(graph), before_(graph.operations().begin(), graph.operations().end()) {
    for (const ir::Operation& op : before_)
      if (auto own = as_own_product(graph, op)) {
        all_.push_back({.id = op.id, .library = std::get<ir::Extern>(op.node), .forms = {}, .made = {}});
        for (std::int64_t parts : product_parts(graph, *own))
          if (parts > 1) all_.back().forms.push_back({.call = *own, .parts = parts});
        all_.back().forms.insert(all_.back().forms.begin(), Form{.call = *own});
      }
  }

  std::vector<Contest>& all() { return all_; }
  /// The operations as they were.
  const std::vector<ir::Operation>& before() const { return before_; }

  /// What each form is once post-operations, and what is in front, are fused.
  void fuse() {
    ir::fuse_post_ops(graph_);
    for (Contest& c : all_)
      if (const ir::Extern* found = find(c.library)) c.library = *found;
    restore();
    take_own_products(graph_, [](const ir::Operation&, const ir::Extern&) { return 1; });
    ir::fuse_post_ops(graph_);
    for (Contest& c : all_)
      if (const ir::Extern* found = find(c.forms[0].call)) c.forms[0].call = *found;
    fuse_pre_ops(graph_, [](ir::BufferId) { return true; });
    for (Contest& c : all_)
      if (const ir::Extern* found = find_made(c.forms[0].call)) c.made = Form{.call = *found};
    restore();
    for (Contest& c : all_)
      for (std::size_t k = 1; k < c.forms.size(); ++k) {
        const auto made = product_in_parts(graph_, before_[c.id], c.forms[k].call, c.forms[k].parts);
        c.forms[k].call = std::get<ir::Extern>(made[0].node);
      }
  }

 private:
  void restore() { graph_.replace_operations(before_); }

  /// The call of this operation on these two operands.
  const ir::Extern* find(const ir::Extern& wanted) const {
    return find_if(wanted.op, [&](const ir::Extern& call) {
      return std::ranges::equal(std::span(call.inputs).first(2), std::span(wanted.inputs).first(2));
    });
  }

  /// The call with the same result that makes its first operand.
  const ir::Extern* find_made(const ir::Extern& wanted) const {
    return find_if(wanted.op, [&](const ir::Extern& call) {
      return BlockedCall(call).has_pre() && call.outputs == wanted.outputs;
    });
  }

  template <class F>
  const ir::Extern* find_if(std::string_view name, const F& wanted) const {
    for (const ir::Operation& op : graph_.operations())
      if (const auto* call = std::get_if<ir::Extern>(&op.node); call && call->op == name && wanted(*call)) return call;
    return nullptr;
  }

  ir::Graph& graph_;
  const std::vector<ir::Operation> before_;
  std::vector<Contest> all_;
};

/// Milliseconds of a pass over so many bytes of memory.
double pass(std::int64_t bytes, const target::Costs& costs) {
  return 1e3 * (static_cast<double>(bytes) / costs.memory_bytes_per_second + costs.seconds_of_call);
}

/// Milliseconds of the pass over the result that follows the library's call where it takes in less.
double rest_of(const Contest& c, const target::Costs& costs) {
  const ir::Extern& own = c.forms[0].call;
  const std::size_t taken = EpilogueCall(c.library).post().size() + (EpilogueCall(c.library).has_bias() ? 1 : 0);
  if (EpilogueCall(own).post().size() <= taken) return 0;
  const runtime::BoundView& y = c.call->outputs[0];
  const auto passes =
      static_cast<std::int64_t>(2 + own.inputs.size()) - static_cast<std::int64_t>(c.call->inputs.size());
  return pass(passes * numel(y.sizes) * static_cast<std::int64_t>(size_of(y.dtype)), costs);
}

/// Milliseconds of the loop that adds up sums in parts, and carries out what the kernel of whole sums takes in.
double sums_of(const Contest& c, const Form& form, const target::Costs& costs) {
  const runtime::BoundView& y = c.call->outputs[0];
  const auto operands = static_cast<std::int64_t>(c.forms[0].call.inputs.size() - 2);
  const std::int64_t of_element = form.parts * 4 + (1 + operands) * static_cast<std::int64_t>(size_of(y.dtype));
  return pass(numel(y.sizes) * of_element, costs);
}

/// What is remembered of a contest: into how many parts the kernel splits the sums, 0 where the library computes it.
std::optional<std::int64_t> remembered(const std::optional<std::filesystem::path>& entry) {
  const auto bytes = entry ? codegen::read_binary(*entry) : std::nullopt;
  if (!bytes || bytes->size() != 1) return std::nullopt;
  return static_cast<std::int64_t>((*bytes)[0]) - '0';
}

void remember(const std::optional<std::filesystem::path>& entry, std::int64_t parts) {
  const char said = static_cast<char>('0' + parts);
  if (entry) codegen::write_binary(*entry, std::as_bytes(std::span(&said, 1)));
}

/// The kernels of all contests, on the device; those that have no trial lose.
void make_kernels(ir::Graph& graph, std::vector<Contest>& all, const codegen::Backend& backend, Timer& timer,
                  const LaunchOptions& options) {
  const ToldSizes& told = options.told;
  std::map<std::string, std::string> texts;
  const auto make = [&](Form& form) {
    form.kernel = backend.template_kernel(graph, form.call);
    form.trial = trial_of(graph, form.kernel, told);
    if (!form.trial) return;
    form.trial->fill = kSmallNumbers;
    texts.emplace(form.kernel.symbol, form.kernel.text);
  };
  for (Contest& c : all) {
    c.call = trial_of(graph, c.library, told);
    if (!c.call) continue;
    for (Form& form : c.forms) make(form);
    if (c.made) make(*c.made);
    if (c.made && !c.made->trial) c.made.reset();
  }
  std::vector<std::string> distinct;
  for (const auto& [symbol, text] : texts) distinct.push_back(text);
  timer.load(backend.compile(distinct, {.jobs = options.jobs, .cache = std::nullopt}).libraries);
}

class Judge {
 public:
  Judge(ir::Graph& graph, const Contests& contests, Timer& timer, CallTimer& calls, const LaunchOptions& options)
      : graph_(graph), contests_(contests), timer_(timer), calls_(calls), options_(options) {}

  OwnProducts run(const std::vector<Contest>& all) {
    std::map<ir::BufferId, std::vector<const Contest*>> readers;
    for (const Contest& c : all) {
      if (!c.complete()) continue;
      if (const std::int64_t parts = parts_of(c)) out_.parts[c.id] = parts;
      if (c.made) readers[c.operand()].push_back(&c);
    }
    for (const auto& [value, contests] : readers) {
      if (!make(value, contests)) continue;
      out_.made.insert(value);
      for (const Contest* c : contests) out_.parts[c->id] = 1;
    }
    return std::move(out_);
  }

 private:
  struct Times {
    std::vector<std::optional<double>> forms;  ///< with the loop that adds up parts
    std::optional<double> made, library;       ///< the library's with what follows
    double rest = 0;                           ///< of that, what follows
    std::size_t best = 0;                      ///< of the forms
    bool complete() const { return forms[best] && library; }
    bool kernel_is_faster() const { return complete() && *forms[best] < kWorth * *library; }
    double least() const { return kernel_is_faster() ? *forms[best] : library.value_or(0); }
  };

  static std::string name_of(const Contest& c) { return to_string(*c.call) + " or " + c.forms[0].kernel.symbol; }

  std::optional<std::filesystem::path> entry_of(const std::string& name) const {
    if (!options_.cache) return std::nullopt;
    return *options_.cache /
           ("product_" + to_hex(Hasher().add(timer_.identity()).add(calls_.identity()).add(name).digest()));
  }

  /// Measured once for equal contests.
  const Times& times_of(const Contest& c) {
    auto [it, added] = times_.try_emplace(name_of(c) + (c.made ? c.made->kernel.symbol : ""));
    Times& t = it->second;
    if (!added) return t;
    std::vector<Trial> trials;
    std::vector<std::size_t> places;
    for (std::size_t k = 0; k < c.forms.size(); ++k)
      if (c.forms[k].trial) trials.push_back(*c.forms[k].trial), places.push_back(k);
    if (c.made) trials.push_back(*c.made->trial);
    const auto measured = timer_.time(trials);
    const target::Costs& costs = graph_.target().costs;
    t.forms.resize(c.forms.size());
    for (std::size_t n = 0; n < places.size(); ++n) {
      const Form& form = c.forms[places[n]];
      if (measured[n]) t.forms[places[n]] = *measured[n] + (form.parts > 1 ? sums_of(c, form, costs) : 0);
    }
    if (c.made) t.made = measured.back();
    for (std::size_t k = 1; k < t.forms.size(); ++k)
      if (t.forms[k] && (!t.forms[t.best] || *t.forms[k] < kWorth * *t.forms[t.best])) t.best = k;
    t.library = calls_.time({&*c.call, 1})[0];
    t.rest = rest_of(c, costs);
    if (t.library) *t.library += t.rest;
    return t;
  }

  static std::string form_text(std::int64_t parts) {
    return parts == 0 ? "the library" : parts == 1 ? "the kernel" : fmt::format("the kernel in {} parts", parts);
  }

  std::int64_t parts_of(const Contest& c) {
    const std::string name = name_of(c);
    auto [it, added] = known_.try_emplace(name, 0);
    if (!added) return it->second;
    const auto entry = entry_of(name);
    if (const auto found = remembered(entry)) {
      out_.text += fmt::format("{}: {}, remembered\n", name, form_text(*found));
      return it->second = *found;
    }
    const Times& t = times_of(c);
    if (!t.complete()) return 0;
    if (t.kernel_is_faster()) it->second = c.forms[t.best].parts;
    out_.text += fmt::format("{}: {}, {:.4f} ms; library {:.4f} and {:.4f} for what follows\n", name,
                             form_text(it->second), *t.forms[t.best], *t.library - t.rest, t.rest);
    remember(entry, it->second);
    return it->second;
  }

  /// Whether the kernels of all products that read this value make it themselves.
  bool make(ir::BufferId value, const std::vector<const Contest*>& readers) {
    std::string name = "made:";
    for (const Contest* c : readers) name += " " + name_of(*c) + " or " + c->made->kernel.symbol;
    const auto entry = entry_of(name);
    if (const auto found = remembered(entry)) return *found != 0;
    double made = 0, read = front_of(value);
    for (const Contest* c : readers) {
      const Times& t = times_of(*c);
      if (!t.made || !t.library) return false;
      made += *t.made, read += t.least();
    }
    const bool faster = made < kWorth * read;
    out_.text += fmt::format("{}: operand {}, {:.4f} ms; {:.4f} from memory, with the loop in front\n",
                             readers[0]->made->kernel.symbol, faster ? "made on the way" : "in memory", made, read);
    remember(entry, faster);
    return faster;
  }

  /// Milliseconds of the loop that stores this value. One behind another loop shares its kernel, and what that read.
  double front_of(ir::BufferId value) const {
    const MeasuredSizes size(graph_.env(), options_.told);
    const auto bytes = [&](ir::BufferId id) {
      const ir::Layout& layout = graph_.buffer(id).layout;
      return size(sym::product(layout.sizes)).value_or(0) * static_cast<std::int64_t>(size_of(layout.dtype));
    };
    const target::Costs& costs = graph_.target().costs;
    const double store = pass(bytes(value), costs);
    std::int64_t all = bytes(value);
    for (const ir::Operation& op : contests_.before()) {
      if (std::ranges::find(op.outs, value) == op.outs.end()) continue;
      for (ir::BufferId read : ir::reads(op)) {
        if (is_of_loop(read)) return store - 1e3 * costs.seconds_of_call;
        all += bytes(read);
      }
    }
    return pass(all, costs);
  }

  bool is_of_loop(ir::BufferId id) const {
    return std::ranges::any_of(contests_.before(), [&](const ir::Operation& op) {
      return op.is_loop() && std::ranges::find(op.outs, id) != op.outs.end();
    });
  }

  ir::Graph& graph_;
  const Contests& contests_;
  Timer& timer_;
  CallTimer& calls_;
  const LaunchOptions& options_;
  std::map<std::string, Times> times_;
  std::map<std::string, std::int64_t> known_;
  OwnProducts out_;
};

}  // namespace

OwnProducts choose_own_products(ir::Graph& graph, const codegen::Backend& backend, Timer& timer, CallTimer& calls,
                                const LaunchOptions& options) {
  Contests contests(graph);
  if (contests.all().empty()) return {};
  contests.fuse();
  make_kernels(graph, contests.all(), backend, timer, options);
  return Judge(graph, contests, timer, calls, options).run(contests.all());
}

}  // namespace coil::autotune
