#include "passes/graph/aliasing.h"

#include <algorithm>
#include <numeric>

#include "fx/infer.h"
#include "passes/graph/make.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using ops::Value;
using ops::Values;
using sym::Expr;
using sym::Exprs;
using sym::TensorMeta;

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view p) { return text.starts_with(p); });
}

bool flag(const Node& n, std::string_view name) {
  for (std::size_t i = 0; i < n.op->schema.parameters.size(); ++i)
    if (n.op->schema.parameters[i].name == name) return n.args[i] == Value(true);
  return false;
}

const Node* first_tensor(const Node& n) {
  if (!n.op || n.args.empty() || !n.args[0].is<Node*>()) return nullptr;
  const Node* input = n.args[0].as_node();
  return input->is_tensor() ? input : nullptr;
}

/// Dense row-major, strides of dimensions of size 1 left aside; what is not known counts as no.
bool is_contiguous(sym::ShapeEnv& env, const TensorMeta& t) {
  Expr expected = 1;
  for (std::size_t i = t.rank(); i-- > 0;) {
    if (!env.statically_known_equal(t.sizes[i], 1) && !env.statically_known_equal(t.strides[i], expected)) return false;
    expected = expected * t.sizes[i];
  }
  return true;
}

/// `reshape` and its kin copy exactly when no view will do; the copy is contiguous and begins its own storage. A view
/// can look like that only when the viewed tensor is contiguous itself.
bool reshape_is_view(sym::ShapeEnv& env, const TensorMeta& input, const TensorMeta& result) {
  return is_contiguous(env, input) || !is_contiguous(env, result) || !result.offset.is_constant(0);
}

/// A dimension, counted from 0. Recorded metadata may be at odds with the arguments, so that they are checked here
/// again.
std::int64_t wrapped(const Value& v, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  auto d = v.as_int().constant();
  if (!d || *d < -n || *d >= n) fail("{} is no dimension of a tensor of rank {}", ops::to_string(v), rank);
  return *d < 0 ? *d + n : *d;
}

std::vector<std::int64_t> wrapped_list(const Value& v, std::size_t rank) {
  std::vector<std::int64_t> out;
  if (!v.is<Values>()) return {wrapped(v, rank)};
  for (const Value& item : v.as_list()) out.push_back(wrapped(item, rank));
  return out;
}

std::optional<std::vector<std::int64_t>> permutation_as_written(const ViewStep& step, const TensorMeta& viewed) {
  const std::size_t rank = viewed.rank();
  std::string_view t = step.target;
  std::vector<std::int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (t == "aten.permute.default") return wrapped_list(step.args[1], rank);
  if (starts_with_any(t, {"aten.transpose.", "aten.swapaxes.", "aten.swapdims."})) {
    if (rank)
      std::swap(order[static_cast<std::size_t>(wrapped(step.args[1], rank))],
                order[static_cast<std::size_t>(wrapped(step.args[2], rank))]);
    return order;
  }
  if (t == "aten.t.default") {
    if (rank == 2) std::swap(order[0], order[1]);
    return order;
  }
  if (starts_with_any(t, {"aten.mT.", "aten.mH.", "aten.adjoint.", "aten.matrix_H."})) {
    if (is_complex(viewed.dtype) && t != "aten.mT.default") return {};
    if (rank >= 2) std::swap(order[rank - 1], order[rank - 2]);
    return order;
  }
  if (t == "aten.numpy_T.default") {
    std::reverse(order.begin(), order.end());
    return order;
  }
  if (starts_with_any(t, {"aten.movedim.", "aten.moveaxis."})) {
    std::vector<std::int64_t> source = wrapped_list(step.args[1], rank), target = wrapped_list(step.args[2], rank);
    std::fill(order.begin(), order.end(), -1);
    if (source.size() != target.size()) fail("{} takes as many sources as destinations", t);
    for (std::size_t i = 0; i < source.size(); ++i) order[static_cast<std::size_t>(target[i])] = source[i];
    std::int64_t next = 0;
    for (std::int64_t& d : order) {
      if (d >= 0) continue;
      while (std::find(source.begin(), source.end(), next) != source.end()) ++next;
      d = next++;
    }
    return order;
  }
  return {};
}

/// `order[i]` is the dimension of the viewed tensor that dimension i of the view is; nothing for other views.
std::optional<std::vector<std::int64_t>> permutation(const ViewStep& step, const TensorMeta& viewed) {
  auto order = permutation_as_written(step, viewed);
  if (!order) return {};
  std::vector<std::int64_t> sorted = *order, all(viewed.rank());
  std::iota(all.begin(), all.end(), 0);
  std::sort(sorted.begin(), sorted.end());
  if (sorted != all) fail("{} does not permute {} dimensions", step.target, viewed.rank());
  return order;
}

/// Views that keep elements in row-major order, so that a reshape undoes them.
bool keeps_order(std::string_view t) {
  return starts_with_any(t, {"aten.view.default", "aten.view_as.", "aten.reshape.", "aten.reshape_as.", "aten.flatten.",
                             "aten.unflatten.", "aten.ravel.", "aten.squeeze.", "aten.unsqueeze.", "aten.alias.",
                             "aten.detach.", "aten._reshape_alias.", "aten.lift_fresh.", "aten.positive.",
                             "aten.atleast_1d.default", "aten.atleast_2d.default", "aten.atleast_3d.default"});
}

std::string_view plural_piece(const ViewStep& step) {
  return step.target.starts_with("aten.unbind.") ? "aten.select.int" : "aten.slice.Tensor";
}

/// The dimension along which a list of pieces is taken: the last argument, or told by the operator's name.
std::int64_t piece_dim(std::string_view target, const Values& args, std::size_t rank) {
  if (target.starts_with("aten.hsplit.")) return rank == 1 ? 0 : 1;
  if (target.starts_with("aten.vsplit.")) return 0;
  if (target.starts_with("aten.dsplit.")) return 2;
  return wrapped(args.back(), rank);
}

/// Arguments after the tensor of the `select` or `slice` that makes the same view as a piece of a list.
Values piece_arguments(const ViewStep& step, const TensorMeta& viewed, const TensorMeta& result) {
  std::int64_t dim = piece_dim(step.target, step.args, viewed.rank());
  if (step.target.starts_with("aten.unbind.")) return {dim, static_cast<std::int64_t>(*step.piece)};
  Expr start = step.starts.at(*step.piece);
  return {dim, start, start + result.sizes.at(static_cast<std::size_t>(dim))};
}

Values prepend(Value first, const Values& rest, std::optional<Value> second = {}) {
  Values out{std::move(first)};
  if (second) out.push_back(std::move(*second));
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

Node* scatter(fx::GraphModule& m, const Node* from, std::string_view target, Node* viewed, Node* written,
              const Values& rest) {
  return make_call(m, from, target, prepend(viewed, rest, written));
}

}  // namespace

bool gives_back_input(const Node& n) {
  if (!n.op || n.args.empty() || !n.args[0].is<Node*>()) return false;
  std::string_view t = n.target;
  if (starts_with_any(t, {"aten.dropout.", "aten.dropout_.", "aten.feature_dropout.", "aten.feature_dropout_.",
                          "aten.alpha_dropout.", "aten.alpha_dropout_.", "aten.feature_alpha_dropout.",
                          "aten.feature_alpha_dropout_."}))
    return !flag(n, "train");
  if (starts_with_any(t, {"aten.detach.", "aten.detach_.", "aten.alias.", "aten.lift_fresh.", "aten.lift.",
                          "aten.positive.", "aten.requires_grad_."}))
    return true;
  const Node* input = first_tensor(n);
  if (!input || !n.is_tensor() || n.tensor() != input->tensor()) return false;
  if (starts_with_any(t, {"aten.type_as.", "aten.atleast_"})) return true;
  if (t.starts_with("aten.sum_to_size.")) return input->tensor().rank() > 0;  // a number is added up
  if (t == "aten.conj_physical.default") return !is_complex(input->tensor().dtype);
  if (starts_with_any(t, {"aten._conj.", "aten.conj.", "aten._neg_view."}))
    return !is_complex(input->tensor().dtype) && t != "aten._neg_view.default";
  return n.op->schema.is_view() && !flag(n, "copy");
}

bool is_view_of_input(const Node& n, sym::ShapeEnv& env) {
  const Node* input = first_tensor(n);
  if (!input) return false;
  if (gives_back_input(n)) return true;
  if (n.target.starts_with("aten.atleast_")) return true;  // its schema does not say so
  if (!n.op->schema.is_view()) return false;
  if (starts_with_any(n.target, {"aten.to.", "aten.contiguous."})) return false;
  if (starts_with_any(n.target, {"aten.reshape.", "aten.reshape_as.", "aten.flatten.", "aten.ravel."}))
    return reshape_is_view(env, input->tensor(), n.tensor());
  return true;
}

bool views_of_list(const Node& n) {
  if (!n.op || n.args.empty() || !n.args[0].is<Values>()) return false;
  const Values& list = n.args[0].as_list();
  const bool tensors =
      std::ranges::all_of(list, [](const Value& v) { return v.is<Node*>() && v.as_node()->is_tensor(); });
  if (!tensors) return false;
  if (starts_with_any(n.target, {"aten.cartesian_prod.", "aten.chain_matmul."})) return list.size() == 1;
  return n.target.ends_with(".Sequence") || starts_with_any(n.target, {"aten.broadcast_tensors.", "aten.meshgrid."});
}

bool repeats_elements(const sym::ShapeEnv& env, const ViewStep& step, const TensorMeta& viewed,
                      const TensorMeta& view) {
  if (starts_with_any(step.target, {"aten.expand.", "aten.expand_as.", "aten.broadcast_to."}))
    return !env.statically_known_equal(view.numel(), viewed.numel());
  if (step.target != "aten.unfold.default") return false;
  const auto size = fx::resolve(step.args[2]).as_int().constant(), by = fx::resolve(step.args[3]).as_int().constant();
  return !size || !by || *by < *size;
}

bool changes_values(const ViewStep& step, const TensorMeta& viewed) {
  if (step.target == "aten._neg_view.default") return true;
  return is_complex(viewed.dtype) &&
         starts_with_any(step.target, {"aten._conj.", "aten.conj.", "aten.mH.", "aten.adjoint.", "aten.matrix_H."});
}

ViewStep view_step(const Node& n, std::optional<std::size_t> piece) {
  ViewStep step{n.target, n.args, piece, {}};
  if (!piece || n.target.starts_with("aten.unbind.")) return step;
  std::size_t dim = static_cast<std::size_t>(piece_dim(n.target, n.args, n.args[0].as_node()->tensor().rank()));
  Expr start = 0;
  for (const Value& v : n.meta.value.as_list()) {
    step.starts.push_back(start);
    start += v.as_tensor().sizes.at(dim);
  }
  return step;
}

Node* apply_view(fx::GraphModule& m, const Node* from, const ViewStep& step, Node* viewed, const TensorMeta& result) {
  if (step.piece)
    return make_call(m, from, plural_piece(step), prepend(viewed, piece_arguments(step, viewed->tensor(), result)));
  Values args = step.args;
  args[0] = viewed;
  try {
    return make_call(m, from, step.target, std::move(args));
  } catch (const Error&) {
    // The new value lies otherwise in memory than the tensor did, so that only a copy has these sizes.
    if (!keeps_order(step.target)) throw;
    return make_call(m, from, "aten.reshape.default", {viewed, result.sizes});
  }
}

namespace {

/// Windows of `unfold` that have no element in common: the elements at each place of all windows lie a step apart.
Node* write_back_windows(fx::GraphModule& m, const Node* from, const ViewStep& step, const TensorMeta& viewed_meta,
                         const std::function<Node*()>& viewed, Node* written) {
  const std::int64_t dim = wrapped(step.args[1], viewed_meta.rank());
  const auto size = fx::resolve(step.args[2]).as_int().constant(), by = fx::resolve(step.args[3]).as_int().constant();
  if (!size || !by || *by < *size)
    throw Error(fmt::format("{} writes through {}, whose windows have elements in common", from->target, step.target),
                from->target, from->where());
  Node* whole = viewed();
  const Expr windows = written->tensor().sizes[static_cast<std::size_t>(dim)];
  for (std::int64_t i = 0; i < *size; ++i) {
    Node* part = make_call(m, from, "aten.select.int", {written, -1, i});
    whole = scatter(m, from, "aten.slice_scatter.default", whole, part, {dim, i, (windows - 1) * *by + i + 1, *by});
  }
  return whole;
}

/// Through views of complex tensors as others or as real ones, and back; null for other views. One part alone is
/// written beside the other, which stays.
Node* write_back_parts(fx::GraphModule& m, const Node* from, std::string_view target, const TensorMeta& viewed_meta,
                       const std::function<Node*()>& viewed, Node* written) {
  auto call = [&](std::string_view op, Values args) { return make_call(m, from, op, std::move(args)); };
  auto part = [&](Node* pairs, std::int64_t i) { return call("aten.select.int", {pairs, -1, i}); };
  auto kept = [&](std::int64_t i) { return part(call("aten.view_as_real.default", {viewed()}), i); };
  if (target == "aten.real.default") return call("aten.complex.default", {written, kept(1)});
  if (target == "aten.imag.default") return call("aten.complex.default", {kept(0), written});
  if (target == "aten.view_as_real.default") return call("aten.complex.default", {part(written, 0), part(written, 1)});
  if (target == "aten.view_as_complex.default") return call("aten.view_as_real.default", {written});
  if (target == "aten._neg_view.default") return call("aten.neg.default", {written});
  if (target == "aten._conj.default" || target == "aten.conj.default")
    return call("aten.conj_physical.default", {written});
  const bool turned = starts_with_any(target, {"aten.mH.", "aten.adjoint.", "aten.matrix_H."});
  if (!turned || viewed_meta.rank() < 2) return nullptr;
  return call("aten.conj_physical.default", {call("aten.transpose.int", {written, -2, -1})});
}

}  // namespace

Node* write_back(fx::GraphModule& m, const Node* from, const ViewStep& step, const TensorMeta& viewed_meta,
                 const std::function<Node*()>& viewed, Node* written) {
  std::string_view t = step.target;
  Values rest(step.args.begin() + 1, step.args.end());
  if (step.piece) {
    Values at = piece_arguments(step, viewed_meta, written->tensor());
    bool select = plural_piece(step) == "aten.select.int";
    return scatter(m, from, select ? "aten.select_scatter.default" : "aten.slice_scatter.default", viewed(), written,
                   at);
  }
  if (keeps_order(t)) return make_call(m, from, "aten.reshape.default", {written, viewed_meta.sizes});
  if (auto order = permutation(step, viewed_meta)) {
    Values inverse(order->size());
    for (std::size_t i = 0; i < order->size(); ++i)
      inverse[static_cast<std::size_t>((*order)[i])] = static_cast<std::int64_t>(i);
    return make_call(m, from, "aten.permute.default", {written, inverse});
  }
  if (t == "aten.select.int") return scatter(m, from, "aten.select_scatter.default", viewed(), written, rest);
  if (t == "aten.slice.Tensor") return scatter(m, from, "aten.slice_scatter.default", viewed(), written, rest);
  if (t == "aten.narrow.default") {
    std::size_t dim = static_cast<std::size_t>(wrapped(rest[0], viewed_meta.rank()));
    Expr start = fx::resolve(rest[1]).as_int();
    if (start.is_constant() && *start.constant() < 0) start += viewed_meta.sizes.at(dim);
    return scatter(m, from, "aten.slice_scatter.default", viewed(), written,
                   {rest[0], start, start + fx::resolve(rest[2]).as_int()});
  }
  if (t == "aten.diagonal.default" || t == "aten.linalg_diagonal.default")
    return scatter(m, from, "aten.diagonal_scatter.default", viewed(), written, rest);
  if (t == "aten.as_strided.default")
    return scatter(m, from, "aten.as_strided_scatter.default", viewed(), written, rest);
  if (t == "aten.view.dtype") return make_call(m, from, "aten.view.dtype", {written, viewed_meta.dtype});
  if (t == "aten.unfold.default") return write_back_windows(m, from, step, viewed_meta, viewed, written);
  if (Node* parts = write_back_parts(m, from, t, viewed_meta, viewed, written)) return parts;
  if (starts_with_any(t, {"aten.expand.", "aten.expand_as.", "aten.broadcast_to."})) {
    if (m.env->statically_known_equal(written->tensor().numel(), viewed_meta.numel()))
      return make_call(m, from, "aten.reshape.default", {written, viewed_meta.sizes});
    throw Error("a write to an expanded tensor, where several elements share one place in memory", from->target,
                from->where());
  }
  throw Error(fmt::format("{} writes through {}, which cannot be undone", from->target, t), from->target,
              from->where());
}

}  // namespace coil::passes
