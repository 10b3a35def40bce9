#include "autotune/products.h"

#include <charconv>
#include <map>

#include "codegen/binary_cache.h"
#include "library_ops/products.h"
#include "library_ops/table.h"
#include "support/error.h"
#include "support/hash.h"

namespace coil::autotune {
namespace {

constexpr std::int64_t kAlgorithms = 8;  // of the heuristics' list that are tried

struct TunedProduct {
  std::vector<ir::OperationId> operations;
  CallTrial call;
};

std::optional<std::vector<runtime::BoundView>> bound(const MeasuredSizes& value,
                                                     const std::vector<ir::BufferView>& views) {
  std::vector<runtime::BoundView> out;
  auto all = [&](const sym::Exprs& es, Sizes& to) {
    for (sym::Expr e : es) {
      const auto n = value(e);
      if (!n || *n < 0) return false;
      to.push_back(*n);
    }
    return true;
  };
  for (const ir::BufferView& v : views) {
    runtime::BoundView b;
    b.dtype = v.dtype;
    if (!all(v.sizes, b.sizes) || !all(v.strides, b.strides)) return std::nullopt;
    out.push_back(std::move(b));
  }
  return out;
}

void set_algorithm(library_ops::Attributes& attributes, std::int64_t number, const std::string& device) {
  attributes.insert_or_assign(std::string(library_ops::product::kAlgorithm.name), number);
  attributes.insert_or_assign(std::string(library_ops::product::kAlgorithmFor.name), device);
}

std::optional<std::int64_t> remembered_algorithm(const std::filesystem::path& entry) {
  const auto bytes = codegen::read_binary(entry);
  if (!bytes) return std::nullopt;
  std::int64_t number = 0;
  const char* const text = reinterpret_cast<const char*>(bytes->data());
  const auto [end, status] = std::from_chars(text, text + bytes->size(), number);
  if (status != std::errc() || end != text + bytes->size() || number < 0 || number >= kAlgorithms) return std::nullopt;
  return number;
}

}  // namespace

std::string to_string(const CallTrial& c) {
  std::string text = c.op;
  for (const auto& [name, value] : c.attributes) {
    text += " " + name + "=";
    std::visit(
        [&](const auto& v) {
          if constexpr (requires { v.begin(); })
            text += fmt::format("{}", fmt::join(v, ","));
          else
            text += fmt::format("{}", v);
        },
        value);
  }
  for (const auto* views : {&c.inputs, &c.outputs}) {
    text += views == &c.inputs ? " of" : " to";
    for (const auto& v : *views)
      text += fmt::format(" {}[{}]{{{}}}", short_name(v.dtype), fmt::join(v.sizes, ","), fmt::join(v.strides, ","));
  }
  return text;
}

std::optional<CallTrial> trial_of(const ir::Graph& graph, const ir::Extern& call, const ToldSizes& told) {
  const MeasuredSizes sizes(*graph.env_ptr(), told);
  const auto inputs = bound(sizes, call.inputs), outputs = bound(sizes, call.outputs);
  if (!inputs || !outputs) return std::nullopt;
  return CallTrial{call.op, call.attributes, *inputs, *outputs};
}

bool is_product(const ir::Operation& op) {
  const auto* call = std::get_if<ir::Extern>(&op.node);
  return call && library_ops::has(call->op, library_ops::Trait::Product);
}

std::string choose_algorithms(ir::Graph& graph, CallTimer& timer, const LaunchOptions& options) {
  std::map<std::string, TunedProduct> all;
  std::vector<std::string> order;
  std::vector<ir::Operation> operations(graph.operations().begin(), graph.operations().end());
  for (const ir::Operation& op : operations) {
    if (!is_product(op)) continue;
    const auto& call = std::get<ir::Extern>(op.node);
    const auto trial = trial_of(graph, call, options.told);
    if (!trial) continue;
    TunedProduct t{{}, *trial};
    const std::string name = to_string(t.call);
    auto [it, added] = all.try_emplace(name, std::move(t));
    if (added) order.push_back(name);
    it->second.operations.push_back(op.id);
  }
  std::string text;
  bool changed = false;
  for (const std::string& name : order) {
    const TunedProduct& t = all.at(name);
    std::optional<std::filesystem::path> entry;
    if (options.cache)
      entry = *options.cache / ("algorithm_" + to_hex(Hasher().add(timer.identity()).add(name).digest()));
    std::optional<std::int64_t> found = entry ? remembered_algorithm(*entry) : std::nullopt;
    if (found) {
      text += fmt::format("{}: algorithm {}, remembered\n", name, *found);
    } else {
      std::vector<CallTrial> trials;
      for (std::int64_t k = 0; k < kAlgorithms; ++k) {
        trials.push_back(t.call);
        set_algorithm(trials.back().attributes, k, timer.identity());
      }
      const auto times = timer.time(trials);
      std::size_t best = 0;
      for (std::size_t k = 1; k < times.size(); ++k)
        if (times[k] && (!times[best] || *times[k] < *times[best])) best = k;
      if (times[0] && best > 0 && *times[best] > *times[0] * kWorth) best = 0;
      found = static_cast<std::int64_t>(best);
      text += fmt::format("{}: algorithm {}, of", name, best);
      for (const auto& ms : times) text += ms ? fmt::format(" {:.4f}", *ms) : std::string(" -");
      text += " ms\n";
      const std::string number = std::to_string(best);
      if (entry && times[best]) codegen::write_binary(*entry, std::as_bytes(std::span(number)));
    }
    if (*found == 0) continue;
    changed = true;
    for (ir::OperationId id : t.operations) {
      set_algorithm(std::get<ir::Extern>(operations[id].node).attributes, *found, timer.identity());
    }
  }
  if (changed) graph.replace_operations(std::move(operations));
  return text;
}

}  // namespace coil::autotune
