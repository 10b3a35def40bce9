#include <algorithm>
#include <map>

#include "passes/graph/make.h"
#include "passes/graph/passes.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using ops::Value;
using ops::Values;

constexpr std::string_view kWrapper = "higher_order.auto_functionalized_v2";

/// One such call. Its named arguments are those of the operator that are not written to, and for each that is, where it
/// lies: `_x_base_index` says in which of `_all_bases`, and `_x_slice_dim` or `_x_size` with their kin which view of
/// it. It gives the operator's results (one None where there are none), then the new values of the bases.
///
/// An operator whose written arguments are `out=` has no bases: `_x_size`, `_x_stride`, `_x_dtype` and `_x_device`
/// describe new memory for each. It gives what it wrote: the tensor itself where it is one.
class Wrapped {
 public:
  Wrapped(fx::GraphModule& m, Node* n) : m_(m), n_(n) {
    for (const auto& [name, value] : n->kwargs) named_.emplace(name, value);
    std::string target = n->args.at(0).get_if<std::string>() ? *n->args[0].get_if<std::string>() : "";
    if (target.starts_with("torch.ops.")) target = target.substr(10);
    op_ = ops::find(target);
    if (!op_) throw Error(fmt::format("{} is not known; register it with Library", target), target, n->where());
  }

  void expand() {
    if (makes_outputs()) return expand_outputs();
    for (const Value& base : get("_all_bases").as_list())
      bases_.push_back(make_call(m_, n_, "aten.clone.default", {base}));
    std::vector<std::pair<std::string, Value>> arguments;
    for (const ops::Parameter& p : op_->schema.parameters) {
      if (is_written(p))
        arguments.emplace_back(p.name, written(p));
      else if (named_.contains(p.name))
        arguments.emplace_back(p.name, named_.at(p.name));
    }
    Node* call = call_operator(std::move(arguments));
    const Values& results = n_->meta.value.as_list();
    const std::size_t count = op_->schema.returns.size(), own = std::max<std::size_t>(count, 1);
    if (results.size() < own)
      throw Error(fmt::format("{} has {} results, but {} are recorded", op_->schema.target, count, results.size()),
                  op_->schema.target, n_->where());
    if (count == 1) call->meta.value = results[0];
    if (count > 1) call->meta.value = Values(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(count));
    replace_items([&](Node* user, std::size_t index) {
      return index >= own ? bases_.at(index - own)
             : count == 1 ? call
                          : make_call(m_, user, "_operator.getitem", {call, static_cast<std::int64_t>(index)});
    });
    m_.graph.erase(n_);
  }

 private:
  Node* call_operator(std::vector<std::pair<std::string, Value>> arguments) const {
    Node* call = m_.graph.call(op_->schema.target, ops::normalize(*op_, {}, std::move(arguments)), n_->name);
    fx::Graph::inherit(call, n_);
    return call;
  }

  /// Puts `value_of(item, index)` in the place of each item of the results.
  template <class F>
  void replace_items(F value_of) {
    for (Node* user : std::vector<Node*>(n_->users())) {
      if (!user->is_call("_operator.getitem"))
        throw Error(fmt::format("%{} takes all results of {} at once", user->name, kWrapper), std::string(kWrapper),
                    n_->where());
      user->replace_all_uses_with(value_of(user, static_cast<std::size_t>(*user->args[1].as_int().constant())));
      m_.graph.erase(user);
    }
  }

  static bool is_written(const ops::Parameter& p) { return p.alias && p.alias->write; }

  bool makes_outputs() const {
    auto first = std::ranges::find_if(op_->schema.parameters, is_written);
    return first != op_->schema.parameters.end() && has("_" + first->name + "_dtype");
  }

  void expand_outputs() {
    std::vector<std::pair<std::string, Value>> arguments;
    std::vector<Node*> made;
    for (const ops::Parameter& p : op_->schema.parameters) {
      if (is_written(p)) {
        made.push_back(make_call(m_, n_, "aten.empty_strided.default",
                                 {get("_" + p.name + "_size"), get("_" + p.name + "_stride")},
                                 {{"dtype", get("_" + p.name + "_dtype")}, {"device", get("_" + p.name + "_device")}}));
        arguments.emplace_back(p.name, made.back());
      } else if (named_.contains(p.name)) {
        arguments.emplace_back(p.name, named_.at(p.name));
      }
    }
    Node* call = call_operator(std::move(arguments));
    call->meta.value = n_->meta.value;
    if (n_->meta.value.is<sym::TensorMeta>())
      n_->replace_all_uses_with(made.front());
    else
      replace_items([&](Node*, std::size_t index) { return made.at(index); });
    m_.graph.erase(n_);
  }

  const Value& get(const std::string& name) const {
    auto found = named_.find(name);
    if (found == named_.end())
      throw Error(fmt::format("{} of {} lacks its argument {}", kWrapper, op_->schema.target, name),
                  std::string(kWrapper), n_->where());
    return found->second;
  }
  bool has(const std::string& name) const { return named_.contains(name); }

  Value written(const ops::Parameter& p) const {
    const std::string lead = "_" + p.name;
    if (!p.type.list) return view(lead);
    if (!has(lead + "_length")) return ops::None{};
    Values items;
    for (std::int64_t i = 0; i < *get(lead + "_length").as_int().constant(); ++i)
      items.push_back(view(fmt::format("{}_{}", lead, i)));
    return items;
  }

  Value view(const std::string& lead) const {
    const Value& index = get(lead + "_base_index");
    if (index.is_none()) return index;
    Node* base = bases_.at(static_cast<std::size_t>(*index.as_int().constant()));
    if (has(lead + "_slice_dim"))
      return make_call(m_, n_, "aten.slice.Tensor",
                       {base, get(lead + "_slice_dim"), get(lead + "_slice_start"), get(lead + "_slice_end")});
    if (has(lead + "_size"))
      return make_call(m_, n_, "aten.as_strided.default",
                       {base, get(lead + "_size"), get(lead + "_stride"), get(lead + "_storage_offset")});
    return base;
  }

  fx::GraphModule& m_;
  Node* n_;
  const ops::Operator* op_;
  std::map<std::string, Value> named_;
  std::vector<Node*> bases_;
};

}  // namespace

void expand_auto_functionalized(fx::GraphModule& m) {
  for (auto& [name, sub] : m.subgraphs) expand_auto_functionalized(*sub);
  for (Node* n : m.graph.nodes()) {
    if (!n->is_call(kWrapper)) continue;
    fx::InsertBefore here(n);
    Wrapped(m, n).expand();
  }
}

}  // namespace coil::passes
