// y = (w*x + b - mean) / sqrt(var + eps) * gamma + beta is a convolution with other weights. The new weights are
// written as operators over the old ones; constant folding computes them once, at compile time. Weights that are inputs
// are computed in each call, which is worth it on a GPU while they are fewer than the elements that a pass is saved
// over, and not where the library leaves a kernel behind it anyway, which the batch norm is a part of then.
#include <algorithm>

#include "passes/graph/make.h"
#include "passes/graph/passes.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using ops::Value;
using ops::Values;

/// Batch norm in inference, whichever operator it is written as.
struct BatchNorm {
  Node* input;
  Value gamma, beta, mean, variance;
  double epsilon;
  Node* result;  ///< the node that is the normalised tensor
};

bool is_constant(const fx::GraphModule& m, const Value& v) {
  if (v.is_none()) return true;
  auto* n = v.get_if<Node*>();
  return n && (*n)->opcode == fx::Opcode::GetAttr && m.is_constant((*n)->target);
}

bool is_input(const Value& v) {
  auto* n = v.get_if<Node*>();
  return n && (*n)->opcode == fx::Opcode::Placeholder;
}

bool worth_computing_in_each_call(const Node& layer, const Node& weight) {
  const auto made = layer.tensor().numel().constant(), weights = weight.tensor().numel().constant();
  return made && weights && *weights <= *made;
}

std::optional<BatchNorm> match(Node* n) {
  if (!n->op) return {};
  const bool composite = n->target == "aten.batch_norm.default",
             no_training = n->target == "aten._native_batch_norm_legit_no_training.default";
  if (!composite && !no_training && n->target != "aten.native_batch_norm.default" &&
      n->target != "aten._batch_norm_no_update.default")
    return {};
  const bool has_flag = composite || n->target == "aten.native_batch_norm.default";
  if (has_flag && n->arg("training") != Value(false)) return {};
  Node* result = n;
  if (!composite) {
    // Several results: only the first may be used.
    if (n->users().size() != 1 || !n->users()[0]->is_call("_operator.getitem") || n->users()[0]->args[1] != Value(0))
      return {};
    result = n->users()[0];
  }
  if (n->arg("running_mean").is_none() || !n->arg("eps").is<double>()) return {};
  return BatchNorm{n->arg("input").as_node(), n->arg("weight"),          n->arg("bias"), n->arg("running_mean"),
                   n->arg("running_var"),     n->arg("eps").as_double(), result};
}

struct Layer {
  std::string_view target;
  std::size_t channel;  ///< the weight's dimension of output channels
};

std::optional<Layer> layer_of(const Node& n) {
  if (!n.op) return {};
  for (std::string_view t : {"aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default", "aten.conv1d.padding",
                             "aten.conv2d.padding", "aten.conv3d.padding", "aten.linear.default"})
    if (n.target == t) return Layer{t, 0};
  if (n.target == "aten.convolution.default") {
    if (n.arg("transposed") == Value(false)) return Layer{n.target, 0};
    if (n.arg("groups") == Value(1)) return Layer{n.target, 1};
  }
  for (std::string_view t :
       {"aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input"})
    if (n.target == t && n.arg("groups") == Value(1)) return Layer{t, 1};
  return {};
}

/// Whether what a GPU's library does in this layer has a relu or an addition in it: products take them, convolutions
/// that round to 16 bits, and those of few channels, which are products where windows overlap little.
bool takes_activations(const Node& layer, const Node& weight) {
  constexpr std::int64_t kVector = 16;  // bytes
  const auto size = static_cast<std::int64_t>(size_of(weight.tensor().dtype));
  if (size == 2 || layer.target == "aten.linear.default") return true;
  const auto channels = weight.tensor().sizes[1].constant();
  return channels && *channels * size % kVector != 0 && layer.arg("groups") == Value(1);
}

/// Whether a library takes this value as it lies, or the caller does: directly, or through views.
bool is_taken_as_it_lies(const Node& made) {
  return std::ranges::any_of(made.users(), [](const Node* user) {
    if (user->opcode != fx::Opcode::CallFunction || !user->op || layer_of(*user)) return true;
    if (user->op->schema.is_view()) return is_taken_as_it_lies(*user);
    return user->is_call({"aten.mm.default", "aten.bmm.default", "aten.matmul.default", "aten.addmm.default",
                          "aten.baddbmm.default", "aten.scaled_dot_product_attention.default"});
  });
}

/// Whether a kernel stands behind the layer that can do the batch norm as well.
bool has_kernel_behind(const Node& layer, const Node& weight, const Node& result) {
  if (is_taken_as_it_lies(result)) return false;
  const bool fuses = result.users().size() == 1 && result.users()[0]->is_call({"aten.relu.default", "aten.add.Tensor"});
  return !(fuses && takes_activations(layer, weight));
}

void fold(fx::GraphModule& m, Node* n, bool inputs) {
  auto bn = match(n);
  if (!bn) return;
  Node* layer = bn->input;
  auto kind = layer_of(*layer);
  if (!kind || layer->users().size() != 1 || layer->arg("weight").is_none()) return;
  const Value parameters[] = {layer->arg("weight"), layer->arg("bias"), bn->gamma, bn->beta, bn->mean, bn->variance};
  auto every = [&](auto&& holds) { return std::all_of(std::begin(parameters), std::end(parameters), holds); };
  Node* weight = layer->arg("weight").as_node();
  const bool constant = every([&](const Value& v) { return is_constant(m, v); });
  const bool known = constant || (inputs && every([&](const Value& v) { return is_constant(m, v) || is_input(v); }));
  if (!known || !layer->is_tensor()) return;
  if (!constant && (!worth_computing_in_each_call(*layer, *weight) || has_kernel_behind(*layer, *weight, *bn->result)))
    return;
  // Batch norm's channels are dimension 1 of what it takes; without a batch that would be another one.
  if (!bn->result->is_tensor() || layer->tensor() != bn->result->tensor()) return;
  if (layer->tensor().rank() != weight->tensor().rank() || !is_floating(weight->tensor().dtype)) return;

  fx::InsertBefore here(layer);
  auto make = [&](std::string_view target, Values args, std::vector<std::pair<std::string, Value>> named = {}) {
    return make_call(m, n, target, std::move(args), std::move(named));
  };
  // Computed in f32 at least, and rounded once.
  const DType given = weight->tensor().dtype, wide = compute_dtype(given);
  auto in = [&](DType dtype, Node* v) {
    return v->tensor().dtype == dtype ? v : make("aten._to_copy.default", {v}, {{"dtype", dtype}});
  };
  auto widened = [&](const Value& v) { return in(wide, v.as_node()); };

  Node* scale = make("aten.rsqrt.default", {make("aten.add.Scalar", {widened(bn->variance), bn->epsilon})});
  if (!bn->gamma.is_none()) scale = make("aten.mul.Tensor", {scale, widened(bn->gamma)});
  Values shape(weight->tensor().rank(), Value(1));
  shape[kind->channel] = -1;
  Node* new_weight = make("aten.mul.Tensor", {widened(weight), make("aten.view.default", {scale, shape})});
  Node* shift = make("aten.mul.Tensor", {make("aten.neg.default", {widened(bn->mean)}), scale});
  if (!layer->arg("bias").is_none())
    shift = make("aten.add.Tensor", {shift, make("aten.mul.Tensor", {widened(layer->arg("bias")), scale})});
  if (!bn->beta.is_none()) shift = make("aten.add.Tensor", {shift, widened(bn->beta)});

  layer->set_arg(layer->op->schema.index("weight"), in(given, new_weight));
  layer->set_arg(layer->op->schema.index("bias"), in(given, shift));
  layer->meta.origins.insert(layer->meta.origins.end(), n->meta.origins.begin(), n->meta.origins.end());
  bn->result->replace_all_uses_with(layer);
  if (bn->result != n) m.graph.erase(bn->result);
  m.graph.erase(n);
}

void fold_all(fx::GraphModule& m, bool inputs) {
  std::vector<Node*> found;
  for (Node* n = m.graph.first(); n; n = n->next())
    if (match(n)) found.push_back(n);
  for (Node* n : found) fold(m, n, inputs);
  for (auto& [name, sub] : m.subgraphs) fold_all(*sub, inputs);
}

}  // namespace

void fold_batch_norm(fx::GraphModule& m) { fold_all(m, false); }
void fold_batch_norm_of_inputs(fx::GraphModule& m) { fold_all(m, true); }

}  // namespace coil::passes
