#include "compiler/sample_sizes.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_set>

#include "support/error.h"

namespace coil {
namespace {

using fx::Node;
using sym::Expr;

/// Where a symbol is first told: a dimension of a tensor, or the number in one.
struct Place {
  Expr symbol;
  Node* node;                      ///< whose tensor is computed
  std::optional<std::size_t> dim;  ///< none: its one element
};

class Finder {
 public:
  explicit Finder(const fx::GraphModule& module) : module_(module) {
    for (Expr s : module.env->symbols())
      if (s.symbol_kind() == sym::SymbolKind::Unbacked) wanted_.insert(s);
  }

  std::vector<Place> run() {
    for (Node* n = module_.graph.first(); n && !wanted_.empty(); n = n->next())
      if (n->opcode == fx::Opcode::CallFunction) look_at(n);
    return std::move(found_);
  }

 private:
  void look_at(Node* n) {
    if (n->is_tensor()) {
      const sym::Exprs& sizes = n->tensor().sizes;
      for (std::size_t d = 0; d < sizes.size(); ++d) found(sizes[d], n, d);
    } else if (n->meta.value.is<Expr>() && !n->args.empty() && n->args[0].is<Node*>() &&
               n->args[0].as_node()->is_tensor()) {
      found(n->meta.value.as_int(), n->args[0].as_node(), std::nullopt);
    }
  }

  void found(Expr symbol, Node* n, std::optional<std::size_t> dim) {
    if (wanted_.erase(symbol)) found_.push_back({symbol, n, dim});
  }

  const fx::GraphModule& module_;
  std::unordered_set<Expr> wanted_;
  std::vector<Place> found_;
};

/// What it takes to compute nodes, in elements; nothing where they cannot be computed here and now.
class Work {
 public:
  Work(const fx::GraphModule& module, const IsLowered& is_lowered) : sizes_(*module.env, none_), lowered_(is_lowered) {}

  std::optional<std::int64_t> of(Node* n) {
    if (!seen_.insert(n).second || n->opcode != fx::Opcode::CallFunction) return 0;
    const bool known =
        n->op ? lowered_(n->target) && !n->op->random && !n->op->side_effect : n->target.starts_with("_operator.");
    if (!known) return std::nullopt;
    std::int64_t all = n->is_tensor() ? sizes_(n->tensor().numel()).value_or(autotune::MeasuredSizes::kUntold) : 0;
    std::vector<Node*> read;
    for (const ops::Value& arg : n->args) ops::for_each_node(arg, [&](Node* x) { read.push_back(x); });
    for (Node* x : read) {
      const auto more = of(x);
      if (!more) return std::nullopt;
      all += *more;
    }
    return all;
  }

 private:
  const autotune::ToldSizes none_;
  autotune::MeasuredSizes sizes_;
  const IsLowered& lowered_;
  std::set<const Node*> seen_;
};

/// Unbacked symbols of the values that a graph has, in order of addition.
sym::Exprs symbols_of(const fx::GraphModule& module) {
  std::unordered_set<Expr> there;
  const auto note = [&](Expr e) {
    for (Expr s : sym::free_symbols(e)) there.insert(s);
  };
  for (Node* n = module.graph.first(); n; n = n->next()) {
    if (n->meta.value.is<Expr>()) note(n->meta.value.as_int());
    if (n->is_tensor()) std::ranges::for_each(n->tensor().sizes, note);
  }
  sym::Exprs found;
  for (Expr s : module.env->symbols())
    if (s.symbol_kind() == sym::SymbolKind::Unbacked && there.contains(s)) found.push_back(s);
  return found;
}

std::optional<std::int64_t> told_by(const Place& place, const Tensor& value) {
  if (place.dim) return *place.dim < value.sizes.size() ? std::optional(value.sizes[*place.dim]) : std::nullopt;
  if (value.dtype != DType::I64 || value.storage.bytes < sizeof(std::int64_t)) return std::nullopt;
  std::int64_t number = 0;
  std::memcpy(&number, value.bytes(), sizeof number);
  return number;
}

}  // namespace

SampledSizes sizes_on_samples(const fx::GraphModule& module, const std::optional<std::vector<Tensor>>& inputs,
                              const IsLowered& is_lowered, const RunModuleOn& run, std::int64_t most) {
  SampledSizes out;
  Work work(module, is_lowered);
  std::vector<Place> places;
  std::vector<Node*> nodes;
  std::int64_t all = 0;
  for (const Place& place : inputs ? Finder(module).run() : std::vector<Place>()) {
    const auto more = work.of(place.node);
    if (!more || all + *more > most) continue;
    all += *more;
    places.push_back(place);
    nodes.push_back(place.node);
  }
  if (!nodes.empty()) try {
      const std::vector<Tensor> values = compute_on(module, nodes, run, *inputs);
      for (std::size_t k = 0; k < places.size(); ++k)
        if (const auto n = told_by(places[k], values[k])) out.told.emplace(places[k].symbol.name(), *n);
    } catch (const Error& e) {
      out.text += fmt::format("no size was found on the example inputs: {}\n", e.what());
    }
  const autotune::MeasuredSizes sizes(*module.env, out.told);
  for (Expr s : symbols_of(module))
    out.text += fmt::format("size {} is {}{}\n", s.name(), sizes.of(s),
                            out.told.contains(s.name()) ? " on the example inputs" : ", for want of an example");
  return out;
}

}  // namespace coil
