#include "passes/graph/fold_constants.h"

#include <unordered_set>

#include "support/error.h"

namespace coil {
namespace {

using fx::Node;
using fx::Opcode;

/// Number of elements of a tensor, or of a list of tensors together; nothing if a size is free or it is no tensor.
std::optional<std::int64_t> elements(const ops::Value& value) {
  if (value.is<sym::TensorMeta>()) return value.as_tensor().numel().constant();
  if (!value.is<ops::Values>()) return std::nullopt;
  std::int64_t all = 0;
  for (const ops::Value& item : value.as_list()) {
    const std::optional<std::int64_t> some = elements(item);
    if (!some) return std::nullopt;
    all += *some;
  }
  return all;
}

bool is_item(const Node* n) { return n->is_call("_operator.getitem"); }

bool is_view(const Node* n) { return is_item(n) ? is_view(n->args[0].as_node()) : n->op && n->op->schema.is_view(); }

/// Positions, moved and scaled by numbers, and views of them: where rows are read at these, the loop reads them where
/// they lie.
bool is_positions(const ops::Value& value) {
  if (!value.is<Node*>()) return false;
  const Node* n = value.as_node();
  if (n->opcode != Opcode::CallFunction || n->args.empty()) return false;
  if (n->target.starts_with("aten.arange.")) return true;
  const bool by_number =
      n->is_call("aten.add.Tensor") || n->is_call("aten.sub.Tensor") || n->is_call("aten.mul.Tensor");
  return (is_view(n) || (by_number && !n->args.at(1).is<Node*>())) && is_positions(n->args[0]);
}

/// Rows of a table at positions.
bool reads_rows_in_place(const Node* n) {
  return (n->is_call("aten.embedding.default") && is_positions(n->args.at(1))) ||
         (n->is_call("aten.index_select.default") && is_positions(n->args.at(2)));
}

class Finder {
 public:
  Finder(const fx::GraphModule& module, const IsLowered& is_lowered, std::int64_t few_rows, std::int64_t min_work)
      : module_(module), is_lowered_(is_lowered), few_rows_(few_rows), min_work_(min_work) {}

  std::vector<Node*> run() {
    find_constants();
    return std::move(chosen_);
  }

 private:
  void find_constants() {
    for (Node* n = module_.graph.first(); n; n = n->next()) {
      if (n->opcode == Opcode::GetAttr && module_.is_constant(n->target))
        work_[n] = 0;
      else if (n->opcode == Opcode::CallFunction && follows(n)) {
        work_[n] = work_of(n);
        if (!follows_from_attributes(n)) generated_.insert(n);
      }
    }
    std::int64_t budget = 0, saved = 0;
    for (const auto& [name, t] : module_.attributes) budget += static_cast<std::int64_t>(t.storage.bytes);
    for (Node* n = module_.graph.first(); n; n = n->next()) {
      auto work = work_.find(n);
      if (work == work_.end() || work->second == 0 || generated_.contains(n) || !n->is_tensor() || is_view(n)) continue;
      const bool leaves = std::any_of(n->users().begin(), n->users().end(),
                                      [&](const Node* u) { return !work_.contains(u) || is_view(u); });
      const std::int64_t bytes = *elements(n->meta.value) * static_cast<std::int64_t>(size_of(n->tensor().dtype));
      if (!leaves || bytes > budget || is_made_by_products(n, bytes)) continue;
      budget -= bytes;
      saved += work->second;
      chosen_.push_back(n);
    }
    if (saved < min_work_) chosen_.clear();
  }

  /// Whether nothing but products of few rows reads a matrix, which is made element by element of half as many bytes.
  bool is_made_by_products(const Node* n, std::int64_t bytes) const {
    if (n->tensor().rank() != 2 || !is_multiplied_by_few_rows(n)) return false;
    std::unordered_set<const Node*> seen;
    std::int64_t read = 0;
    bool by_elements = true;
    std::vector<const Node*> next{n};
    while (!next.empty()) {
      const Node* x = next.back();
      next.pop_back();
      if (!seen.insert(x).second) continue;
      if (x->opcode == Opcode::GetAttr)
        read += *elements(x->meta.value) * static_cast<std::int64_t>(size_of(x->tensor().dtype));
      else
        by_elements = by_elements && (is_view(x) || is_rescaling(x));
      for (const ops::Value& arg : x->args) ops::for_each_node(arg, [&](const Node* y) { next.push_back(y); });
    }
    return by_elements && 2 * read <= bytes;
  }
  static bool is_rescaling(const Node* n) {
    constexpr std::string_view kTargets[] = {
        "aten._to_copy.default", "aten.to.dtype",   "aten.mul.Tensor",    "aten.div.Tensor",          "aten.sub.Tensor",
        "aten.add.Tensor",       "aten.mul.Scalar", "aten.clone.default", "aten._unsafe_view.default"};
    return std::ranges::find(kTargets, n->target) != std::end(kTargets);
  }
  bool is_multiplied_by_few_rows(const Node* n) const {
    return std::ranges::all_of(n->users(), [&](const Node* user) {
      if (user->is_call("aten.t.default") || user->is_call("aten.permute.default"))
        return is_multiplied_by_few_rows(user);
      const bool adds = user->is_call("aten.addmm.default");
      if (!adds && !user->is_call("aten.mm.default") && !user->is_call("aten.linear.default")) return false;
      const Node* const* matrix = user->args[1 + adds].get_if<Node*>();
      const auto rows = user->tensor().numel().constant(), columns = user->tensor().sizes.back().constant();
      return matrix && *matrix == n && rows && columns && *rows <= few_rows_ * *columns;
    });
  }

  /// Whether a call gives the same tensor each time: it reads constants or nothing, draws nothing, its sizes are known,
  /// and no host is needed for it.
  bool follows(const Node* n) const {
    if (!is_item(n) && !repeats(n)) return false;
    bool constant = true;
    for (const ops::Value& arg : n->args)
      ops::for_each_node(arg, [&](const Node* x) { constant = constant && work_.contains(x); });
    return constant;
  }

  /// Whether an attribute went into the value. Positions, masks and fills alone are computed where they are read.
  bool follows_from_attributes(const Node* n) const {
    bool follows = false;
    for (const ops::Value& arg : n->args)
      ops::for_each_node(arg, [&](const Node* x) { follows = follows || !generated_.contains(x); });
    return follows;
  }

  bool repeats(const Node* n) const {
    return n->op && is_lowered_(n->target) && !n->op->random && !n->op->side_effect && !n->op->schema.is_mutating() &&
           elements(n->meta.value);
  }

  std::int64_t work_of(const Node* n) const {
    if (reads_rows_in_place(n) && work_.at(n->args[0].as_node()) == 0) return 0;
    std::int64_t work = is_view(n) || is_item(n) ? 0 : *elements(n->meta.value);
    for (const ops::Value& arg : n->args)
      ops::for_each_node(arg, [&](const Node* x) { work = std::max(work, work + work_.at(x)); });
    return std::min(work, std::int64_t{1} << 50);
  }

  const fx::GraphModule& module_;
  const IsLowered& is_lowered_;
  std::int64_t few_rows_, min_work_;
  std::unordered_map<const Node*, std::int64_t> work_;  // of nodes that are constant: elements computed for them
  std::unordered_set<const Node*> generated_;           // of those, the ones that no attribute went into
  std::vector<Node*> chosen_;
};

/// Origins of all nodes that were folded into the value; those of the weights themselves are left out.
std::vector<std::string> origins_of(Node* n) {
  std::set<std::string> found;
  std::set<const Node*> seen;
  std::vector<Node*> next{n};
  while (!next.empty()) {
    Node* x = next.back();
    next.pop_back();
    if (x->opcode == Opcode::GetAttr || !seen.insert(x).second) continue;
    found.insert(x->meta.origins.begin(), x->meta.origins.end());
    for (ops::Value& arg : x->args) ops::for_each_node(arg, [&](Node* a) { next.push_back(a); });
  }
  return {found.begin(), found.end()};
}

/// A part of a program as a program of its own.
class Part {
 public:
  explicit Part(const fx::GraphModule& from) : from_(from) {
    module.env = from.env;
    module.name = from.name + ".constants";
  }

  /// Gives the part all inputs of the whole program, since they define its free sizes.
  void copy_inputs() {
    std::size_t k = 0;
    for (Node* n = from_.graph.first(); n; n = n->next()) {
      if (n->opcode != Opcode::Placeholder) continue;
      copied_[n] = module.graph.placeholder(n->name, n->meta.value);
      module.inputs.push_back(from_.inputs.at(k++));
    }
  }

  Node* copy(Node* n) {
    if (auto it = copied_.find(n); it != copied_.end()) return it->second;
    Node* made = nullptr;
    if (n->opcode == Opcode::GetAttr) {
      module.attributes.emplace(n->target, from_.attributes.at(n->target));
      made = module.graph.get_attr(n->name, n->target, n->meta.value);
    } else {
      ops::Values args = n->args;
      for (ops::Value& arg : args) ops::for_each_node(arg, [&](Node*& x) { x = copy(x); });
      made = module.graph.call(n->target, std::move(args), n->name);
      made->meta.value = n->meta.value;
    }
    fx::Graph::inherit(made, n);
    return copied_[n] = made;
  }

  fx::GraphModule module;

 private:
  const fx::GraphModule& from_;
  std::unordered_map<const Node*, Node*> copied_;
};

/// Runs a module made of the nodes and what they depend on, and returns their values.
std::vector<Tensor> results_of(Part& part, std::span<Node* const> nodes, const RunModule& run) {
  ops::Values results;
  for (Node* n : nodes) {
    results.emplace_back(part.copy(n));
    part.module.outputs.push_back({n->name});
  }
  part.module.graph.output(std::move(results));
  std::vector<Tensor> values = run(part.module);
  COIL_CHECK(values.size() == nodes.size());
  return values;
}

}  // namespace

std::vector<Tensor> compute(const fx::GraphModule& module, std::span<Node* const> nodes, const RunModule& run) {
  Part part(module);
  return results_of(part, nodes, run);
}

std::vector<Tensor> compute_on(const fx::GraphModule& module, std::span<Node* const> nodes, const RunModuleOn& run,
                               std::span<const Tensor> inputs) {
  Part part(module);
  part.copy_inputs();
  return results_of(part, nodes, [&](fx::GraphModule& m) { return run(m, inputs); });
}

std::vector<Node*> constants_to_fold(const fx::GraphModule& module, const IsLowered& is_lowered, std::int64_t few_rows,
                                     std::int64_t min_work) {
  return Finder(module, is_lowered, few_rows, min_work).run();
}

void fold_constants(fx::GraphModule& module, std::span<Node* const> nodes, std::span<const Tensor> values) {
  std::set<const Node*> read;
  std::vector<const Node*> next{module.graph.output()};
  while (!next.empty()) {
    const Node* n = next.back();
    next.pop_back();
    if (!read.insert(n).second) continue;
    for (const ops::Value& arg : n->args) ops::for_each_node(arg, [&](const Node* x) { next.push_back(x); });
  }
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    Node* old = nodes[k];
    if (!read.contains(old)) continue;
    const std::string attribute = "folded." + old->name;
    module.attributes.emplace(attribute, values[k]);
    fx::InsertBefore before(old);
    Node* made = module.graph.get_attr(old->name + "_folded", attribute, old->meta.value);
    fx::Graph::inherit(made, old);
    made->meta.origins = origins_of(old);
    old->replace_all_uses_with(made);
  }
}

}  // namespace coil
