#include "passes/graph/symbolic_masks.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "support/error.h"

namespace coil {
namespace {

using fx::Node;
using fx::Opcode;
using sym::Expr;
using sym::Exprs;

constexpr std::string_view kAttention = "aten.scaled_dot_product_attention.default";
constexpr int kMaxSteps = 4000;  // elements looked at for one mask
// First elements of a concatenation that are compared one by one with what follows them.
constexpr std::int64_t kMaxEdge = 8;

/// `add` of `aten.add.Tensor`.
std::string_view operator_name(const Node& n) {
  std::string_view target = n.target;
  if (!n.op || !target.starts_with("aten.")) return {};
  target.remove_prefix(std::string_view("aten.").size());
  return target.substr(0, target.find('.'));
}

/// Integers and truth values that depend on no input, element by element.
class Elements {
 public:
  Elements(const sym::ShapeEnv& env, std::vector<sym::LoopVar> loops) : env_(env), loops_(std::move(loops)) {}

  /// The element at these indices; nothing where it depends on data, or on more than is understood here.
  std::optional<Expr> at(const ops::Value& value, const Exprs& index) {
    if (value.is<Expr>() || value.is<ops::Bool>()) return value.as_int();
    auto* node = value.get_if<Node*>();
    if (!node) return std::nullopt;
    if (!(*node)->is_tensor())
      return (*node)->meta.value.is<Expr>() || (*node)->meta.value.is<ops::Bool>()
                 ? std::optional((*node)->meta.value.as_int())
                 : std::nullopt;
    return of(**node, index);
  }

  Expr simplified(Expr e) const { return env_.simplify(e, loops_); }

 private:
  static bool is_integral_type(DType d) { return d == DType::Bool || is_integral(d); }

  /// The expression of an operand that is broadcast to as many dimensions as the index has.
  std::optional<Expr> operand(const ops::Value& value, const Exprs& index) {
    auto* node = value.get_if<Node*>();
    if (!node || !(*node)->is_tensor()) return at(value, {});
    const Exprs& sizes = (*node)->tensor().sizes;
    if (sizes.size() > index.size()) return std::nullopt;
    Exprs own(index.end() - static_cast<std::ptrdiff_t>(sizes.size()), index.end());
    for (std::size_t d = 0; d < own.size(); ++d)
      if (sizes[d].is_constant(1)) own[d] = 0;
    return of(**node, own);
  }

  std::size_t dimension(const Node& n, const ops::Value& v, std::size_t rank) const {
    const auto d = v.as_int().constant();
    if (!d) fail("{} has a dimension that is no constant", n.name);
    return static_cast<std::size_t>(*d < 0 ? *d + static_cast<std::int64_t>(rank) : *d);
  }

  static const ops::Value* given(const Node& n, std::string_view parameter) {
    const auto& parameters = n.op->schema.parameters;
    for (std::size_t i = 0; i < parameters.size() && i < n.args.size(); ++i)
      if (parameters[i].name == parameter) return &n.args[i];
    return nullptr;
  }

  std::optional<Expr> of(const Node& n, const Exprs& index) {
    if (++steps_ > kMaxSteps || n.opcode != Opcode::CallFunction || !n.op || !is_integral_type(n.tensor().dtype))
      return std::nullopt;
    const std::string_view name = operator_name(n);
    if (auto made = arithmetic(n, name, index)) return *made;
    if (name == "arange") return ramp(n, index);
    if (name == "full" || name == "full_like") return at(*given(n, "fill_value"), {});
    if (name == "ones" || name == "ones_like") return Expr(1);
    if (name == "zeros" || name == "zeros_like") return Expr(0);
    if (n.args.empty() || !n.args[0].is<Node*>()) return name == "cat" ? concatenation(n, index) : std::nullopt;
    const Node& from = *n.args[0].as_node();
    if (!from.is_tensor()) return std::nullopt;
    if (name == "clone" || name == "alias" || name == "contiguous") return of(from, index);
    if (name == "_to_copy" || name == "to") {
      auto x = of(from, index);
      return x && n.tensor().dtype == DType::Bool ? std::optional(sym::ne(*x, 0)) : x;
    }
    if (name == "tril" || name == "triu") return triangle(n, name == "tril", from, index);
    if (name == "cumsum") return running_sum(n, from, index);
    if (name == "index") return indexed(n, from, index);
    return view(n, name, from, index);
  }

  std::optional<Expr> ramp(const Node& n, const Exprs& index) {
    const ops::Value *start = given(n, "start"), *step = given(n, "step");
    const Expr from = start && start->is<Expr>() ? start->as_int() : Expr(0),
               by = step && step->is<Expr>() ? step->as_int() : Expr(1);
    if ((start && !start->is<Expr>() && !start->is_none()) || (step && !step->is<Expr>() && !step->is_none()))
      return std::nullopt;
    return from + by * index[0];
  }

  std::optional<Expr> triangle(const Node& n, bool lower, const Node& from, const Exprs& index) {
    const std::size_t rank = from.tensor().rank();
    const ops::Value* diagonal = given(n, "diagonal");
    const auto x = of(from, index);
    if (!x) return std::nullopt;
    const Expr below = index[rank - 1] - index[rank - 2], edge = diagonal ? diagonal->as_int() : Expr(0);
    return chosen(n.tensor().dtype == DType::Bool, lower ? sym::le(below, edge) : sym::ge(below, edge), *x, 0);
  }

  std::optional<Expr> running_sum(const Node& n, const Node& from, const Exprs& index) {
    const std::size_t dim = dimension(n, *given(n, "dim"), from.tensor().rank());
    auto x = of(from, index);
    if (x) x = simplified(*x);
    return x && x->is_constant() ? std::optional(*x * (index[dim] + 1)) : std::nullopt;
  }

  std::optional<Expr> view(const Node& n, std::string_view name, const Node& from, const Exprs& index) {
    const std::size_t rank = from.tensor().rank();
    if (name == "expand") return operand(n.args[0], index);
    if (name == "unsqueeze") {
      Exprs own = index;
      own.erase(own.begin() + static_cast<std::ptrdiff_t>(dimension(n, *given(n, "dim"), rank + 1)));
      return of(from, own);
    }
    if (name == "permute") {
      Exprs own(rank);
      const auto& order = given(n, "dims")->as_list();
      for (std::size_t d = 0; d < rank; ++d) own[dimension(n, order[d], rank)] = index[d];
      return of(from, own);
    }
    if (name == "slice" || name == "select") return part(n, name == "slice", from, index);
    return std::nullopt;
  }

  std::optional<Expr> part(const Node& n, bool is_slice, const Node& from, const Exprs& index) {
    const std::size_t dim = dimension(n, *given(n, "dim"), from.tensor().rank());
    const ops::Value *start = given(n, is_slice ? "start" : "index"), *step = is_slice ? given(n, "step") : nullptr;
    const auto first = start && !start->is_none() ? at(*start, {}) : std::optional(Expr(0)),
               by = step && !step->is_none() ? at(*step, {}) : std::optional(Expr(1));
    if (!first || !by || !env_.statically_known_true(sym::ge(*first, 0)) ||
        !env_.statically_known_true(sym::le(*first, from.tensor().sizes[dim])))
      return std::nullopt;
    Exprs own = index;
    if (is_slice)
      own[dim] = *first + *by * own[dim];
    else
      own.insert(own.begin() + static_cast<std::ptrdiff_t>(dim), *first);
    return of(from, own);
  }

  /// Among truth values by logic, so that `where(c, True, False)` is c.
  static Expr chosen(bool of_truth_values, Expr condition, Expr yes, Expr no) {
    return of_truth_values
               ? sym::logical_or(sym::logical_and(condition, yes), sym::logical_and(sym::logical_not(condition), no))
               : sym::where(condition, yes, no);
  }

  std::optional<std::optional<Expr>> arithmetic(const Node& n, std::string_view name, const Exprs& index) {
    struct Form {
      std::string_view name;
      Expr (*apply)(Expr, Expr);
    };
    static constexpr Form kForms[] = {{"eq", sym::eq},
                                      {"ne", sym::ne},
                                      {"lt", sym::lt},
                                      {"le", sym::le},
                                      {"gt", [](Expr a, Expr b) { return sym::gt(a, b); }},
                                      {"ge", [](Expr a, Expr b) { return sym::ge(a, b); }},
                                      {"mul", [](Expr a, Expr b) { return a * b; }},
                                      {"logical_and", sym::logical_and},
                                      {"logical_or", sym::logical_or},
                                      {"maximum", sym::max},
                                      {"minimum", sym::min}};
    auto both = [&](auto&& f) -> std::optional<std::optional<Expr>> {
      const auto a = operand(n.args.at(0), index), b = operand(n.args.at(1), index);
      return std::optional(a && b ? std::optional<Expr>(f(*a, *b)) : std::nullopt);
    };
    for (const Form& form : kForms)
      if (form.name == name) return both(form.apply);
    const bool is_bool = n.tensor().dtype == DType::Bool;
    if (is_bool && name == "bitwise_and") return both(sym::logical_and);
    if (is_bool && name == "bitwise_or") return both(sym::logical_or);
    if (name == "logical_not" || (is_bool && name == "bitwise_not")) {
      const auto a = operand(n.args.at(0), index);
      return std::optional(a ? std::optional(sym::logical_not(*a)) : std::nullopt);
    }
    if (!is_bool && (name == "add" || name == "sub")) {
      const Expr factor = n.args.size() > 2 && n.args[2].is<Expr>() ? n.args[2].as_int() : Expr(1);
      if (n.args.size() > 2 && !n.args[2].is<Expr>() && !n.args[2].is_none())
        return std::optional<std::optional<Expr>>(std::in_place, std::nullopt);
      return both([&](Expr a, Expr b) { return name == "add" ? a + factor * b : a - factor * b; });
    }
    if (name == "where" && n.args.size() == 3) {
      const auto c = operand(n.args[0], index), a = operand(n.args[1], index), b = operand(n.args[2], index);
      return std::optional(c && a && b ? std::optional(chosen(is_bool, *c, *a, *b)) : std::nullopt);
    }
    return std::nullopt;
  }

  /// Pieces one behind the other. Where a short one begins as what follows it would go on backwards (`cat([[-1],
  /// arange(n)])`), it is the same expression throughout.
  std::optional<Expr> concatenation(const Node& n, const Exprs& index) {
    const auto& pieces = n.args.at(0).as_list();
    if (pieces.empty()) return std::nullopt;
    const std::size_t dim = n.args.size() > 1 ? dimension(n, n.args[1], index.size()) : 0;
    auto piece = [&](std::size_t k, Expr i) {
      Exprs own = index;
      own[dim] = i;
      return at(pieces[k], own);
    };
    Exprs begins{0};
    for (const ops::Value& p : pieces) {
      auto* node = p.get_if<Node*>();
      if (!node || !(*node)->is_tensor() || (*node)->tensor().rank() != index.size()) return std::nullopt;
      begins.push_back(begins.back() + (*node)->tensor().sizes[dim]);
    }
    std::size_t k = pieces.size() - 1;
    auto result = piece(k, index[dim] - begins[k]);
    while (result && k-- > 0) {
      const auto length = (begins[k + 1] - begins[k]).constant();
      bool same = length && *length <= kMaxEdge && begins[k].is_constant() && k + 2 == pieces.size();
      for (std::int64_t i = 0; same && i < *length; ++i) {
        const auto a = piece(k, i), b = piece(k + 1, begins[k] + i - begins[k + 1]);
        same = a && b && simplified(*a) == simplified(*b);
      }
      if (same) continue;
      const auto a = piece(k, index[dim] - begins[k]);
      result = a ? std::optional(sym::where(sym::lt(index[dim], begins[k + 1]), *a, *result)) : std::nullopt;
    }
    return result;
  }

  /// Indices of all leading dimensions by tensors that are broadcast against each other.
  std::optional<Expr> indexed(const Node& n, const Node& from, const Exprs& index) {
    const auto& list = n.args.at(1).as_list();
    const std::size_t rank = from.tensor().rank();
    std::size_t broadcast = 0;
    for (const ops::Value& v : list) {
      auto* node = v.get_if<Node*>();
      if (!node || !(*node)->is_tensor() || (*node)->tensor().dtype == DType::Bool) return std::nullopt;
      broadcast = std::max(broadcast, (*node)->tensor().rank());
    }
    if (list.size() > rank || index.size() != broadcast + rank - list.size()) return std::nullopt;
    const Exprs shared(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(broadcast));
    Exprs own;
    for (std::size_t d = 0; d < list.size(); ++d) {
      const auto i = operand(list[d], shared);
      if (!i || !env_.statically_known_true(sym::ge(*i, 0), loops_) ||
          !env_.statically_known_true(sym::lt(*i, from.tensor().sizes[d]), loops_))
        return std::nullopt;
      own.push_back(*i);
    }
    own.insert(own.end(), index.begin() + static_cast<std::ptrdiff_t>(broadcast), index.end());
    return of(from, own);
  }

  const sym::ShapeEnv& env_;
  const std::vector<sym::LoopVar> loops_;
  int steps_ = 0;
};

std::optional<double> filling(const ops::Value& v) {
  if (auto* d = v.get_if<double>()) return *d;
  auto* node = v.get_if<Node*>();
  if (!node) return std::nullopt;
  const std::string_view name = operator_name(**node);
  if (name == "full" || name == "full_like") return filling((*node)->args.at(1));
  return name == "scalar_tensor" ? filling((*node)->args.at(0)) : std::nullopt;
}

/// The mask as truth values; of one that is added, what it was chosen by, and whether that lets a key through.
std::pair<Node*, bool> truth(Node* mask) {
  while (mask->is_call("aten.expand.default")) mask = mask->args[0].as_node();
  if (mask->tensor().dtype == DType::Bool || operator_name(*mask) != "where" || mask->args.size() != 3)
    return {mask, true};
  const auto yes = filling(mask->args[1]), no = filling(mask->args[2]);
  const double least = std::numeric_limits<float>::lowest();
  Node* const* condition = mask->args[0].get_if<Node*>();
  if (!condition || !yes || !no) return {mask, true};
  if (*yes == 0 && *no <= least) return {*condition, true};
  return *no == 0 && *yes <= least ? std::pair{*condition, false} : std::pair{mask, true};
}

void simplify(fx::GraphModule& module, Node& call) {
  auto* given = call.arg("attn_mask").get_if<Node*>();
  auto *query = call.args[0].get_if<Node*>(), *key = call.args[1].get_if<Node*>();
  if (!given || !(*given)->is_tensor() || call.arg("is_causal").as_bool() || !query || !key ||
      (*given)->tensor().rank() < 2)
    return;
  sym::ShapeEnv& env = *module.env;
  const auto [mask, lets_through] = truth(*given);
  const Exprs& sizes = mask->tensor().sizes;
  const std::size_t r = sizes.size();
  if (mask->tensor().dtype != DType::Bool || r < 2) return;
  Exprs index;
  std::vector<sym::LoopVar> loops;
  for (std::size_t d = 0; d < r; ++d) {
    index.push_back(env.loop_var(fmt::format("m{}", d)));
    loops.push_back({index[d], sizes[d]});
  }
  Elements elements(env, loops);
  const auto element = elements.at(mask, index);
  if (!element) return;
  const Expr allowed = elements.simplified(lets_through ? *element : sym::logical_not(*element));
  const auto rows = [](const Node& x) { return x.tensor().sizes[x.tensor().rank() - 2]; };
  const bool square =
      env.statically_known_equal(sizes[r - 2], rows(**query)) && env.statically_known_equal(sizes[r - 1], rows(**key));
  const bool causal = square && allowed == elements.simplified(sym::le(index[r - 1], index[r - 2]));
  if (!causal && !(allowed.is_constant() && !allowed.is_constant(0))) return;
  ops::Values args = call.args;  // one for each parameter: query, key, value, attn_mask, dropout_p, is_causal, …
  args.at(3) = ops::None{};
  args.at(5) = causal;
  call.set_args(std::move(args));
}

}  // namespace

void simplify_symbolic_masks(fx::GraphModule& module) {
  for (Node* n = module.graph.first(); n; n = n->next()) {
    if (!n->op || n->target != kAttention) continue;
    try {
      simplify(module, *n);
    } catch (const Error&) {
      // Sizes that overflow on the way: the mask stays what it is.
    }
  }
}

}  // namespace coil
