#include "passes/graph/autocast.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

#include "passes/graph/inline_subgraph.h"
#include "passes/graph/make.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using ops::Value;
using ops::Values;

enum class Policy : std::uint8_t {
  Lower,    ///< in autocast's type
  Full,     ///< in f32
  FullSum,  ///< a `dtype` argument of f32 where none was given
  Widest,   ///< in the widest type among the operands
};

/// Operators by their names without overload, the same list for every overload.
using Table = std::map<std::string, Policy, std::less<>>;

Table make_table(std::initializer_list<std::pair<Policy, const char*>> lists) {
  Table table;
  for (auto [policy, names] : lists) {
    std::istringstream words(names);
    for (std::string word; words >> word;) table.emplace(word, policy);
  }
  return table;
}

const Table& cpu_table() {
  static const Table table = make_table({
      {Policy::Lower, R"(
conv1d conv2d conv3d bmm mm linalg_vecdot baddbmm addmm addbmm linear _convolution matmul conv_tbc mkldnn_rnn_layer
conv_transpose1d conv_transpose2d conv_transpose3d prelu scaled_dot_product_attention _native_multi_head_attention
)"},
      {Policy::Full, R"(
avg_pool3d binary_cross_entropy grid_sampler polar prod quantile nanquantile stft cdist trace view_as_complex cholesky
cholesky_inverse cholesky_solve inverse lu_solve orgqr ormqr pinverse max_pool3d max_unpool2d max_unpool3d
adaptive_avg_pool3d reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d replication_pad3d mse_loss
cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss poisson_nll_loss smooth_l1_loss cross_entropy_loss
l1_loss huber_loss margin_ranking_loss soft_margin_loss triplet_margin_loss multi_margin_loss ctc_loss kl_div
multilabel_margin_loss binary_cross_entropy_with_logits fft_fft fft_ifft fft_fft2 fft_ifft2 fft_fftn fft_ifftn fft_rfft
fft_irfft fft_rfft2 fft_irfft2 fft_rfftn fft_irfftn fft_hfft fft_ihfft linalg_cond linalg_matrix_rank linalg_solve
linalg_cholesky linalg_svdvals linalg_eigvals linalg_eigvalsh linalg_inv linalg_householder_product linalg_tensorinv
linalg_tensorsolve fake_quantize_per_tensor_affine geqrf _lu_with_info qr svd triangular_solve fractional_max_pool2d
fractional_max_pool3d adaptive_max_pool3d multilabel_margin_loss_forward linalg_qr linalg_cholesky_ex linalg_svd
linalg_eig linalg_eigh linalg_lstsq linalg_inv_ex
)"},
      {Policy::Widest, "stack cat index_copy"},
  });
  return table;
}

const Table& cuda_table() {
  static const Table table = make_table({
      {Policy::Lower, R"(
_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution prelu addmm
addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot lstm_cell gru_cell
rnn_tanh_cell rnn_relu_cell _scaled_dot_product_flash_attention scaled_dot_product_attention
)"},
      {Policy::Full, R"(
acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus layer_norm native_layer_norm
rms_norm group_norm frobenius_norm nuclear_norm norm cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss
nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist
pdist cdist renorm logsumexp upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d
upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa
upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa
)"},
      {Policy::FullSum, "prod softmax log_softmax cumprod cumsum linalg_vector_norm linalg_matrix_norm sum"},
      {Policy::Widest,
       "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add stack cat"},
  });
  return table;
}

/// What one wrapper sets: (device type, dtype, enabled, cache enabled, graph, operands…).
struct Mode {
  DType dtype;
  const Table* table;
};

DType default_dtype(std::string_view device) { return device == "cpu" ? DType::BF16 : DType::F16; }

/// The mode that a call of wrap_with_autocast sets; nothing when it turns autocast off.
std::optional<Mode> mode_of(const Node& n) {
  if (n.args.size() < 4 || n.args[2] == Value(false)) return {};
  const std::string device = n.args[0].is<Device>() ? to_string(*n.args[0].get_if<Device>()) : n.args[0].as_string();
  const bool cpu = device == "cpu", cuda = device.starts_with("cuda");
  if (!cpu && !cuda) throw Error(fmt::format("autocast on the device {} is not known", device), n.target, n.where());
  return Mode{n.args[1].is_none() ? default_dtype(device) : n.args[1].as_dtype(), cpu ? &cpu_table() : &cuda_table()};
}

bool is_eligible(const Node& n) {
  return n.is_tensor() && is_floating(n.tensor().dtype) && n.tensor().dtype != DType::F64;
}

DType widest(const Node& n, DType lower) {
  DType type = lower;
  for (const Value& v : n.args)
    ops::for_each_node(v, [&](const Node* a) {
      if (is_eligible(*a)) type = promote_types(type, a->tensor().dtype);
    });
  return type;
}

/// The position of `dtype` among the arguments where it was left out.
std::optional<std::size_t> free_dtype(const Node& n) {
  for (std::size_t i = 0; i < n.args.size(); ++i)
    if (n.op->schema.parameters[i].name == "dtype" && n.args[i].is_none()) return i;
  return {};
}

void cast_operands(fx::GraphModule& m, Node* n, const Mode& mode) {
  if (!n->op || !n->target.starts_with("aten.")) return;
  std::string_view name = std::string_view(n->target).substr(5);
  auto policy = mode.table->find(name.substr(0, name.rfind('.')));
  if (policy == mode.table->end()) return;
  DType type = DType::F32;
  if (policy->second == Policy::Lower) type = mode.dtype;
  if (policy->second == Policy::Widest) type = widest(*n, mode.dtype);
  if (policy->second == Policy::FullSum) {
    const Node* first = n->args[0].is<Node*>() ? n->args[0].as_node() : nullptr;
    auto at = free_dtype(*n);
    if (!at || !first || !is_eligible(*first)) return;
    n->set_arg(*at, DType::F32);
    return;
  }
  fx::InsertBefore here(n);
  Values args = n->args;
  for (Value& v : args)
    ops::for_each_node(v, [&](Node*& a) {
      if (is_eligible(*a) && a->tensor().dtype != type)
        a = make_call(m, n, "aten._to_copy.default", {a}, {{"dtype", type}});
    });
  n->set_args(std::move(args));
}

void visit(fx::GraphModule& m, const std::optional<Mode>& mode) {
  for (Node* n : m.graph.nodes()) {
    if (n->opcode != fx::Opcode::CallFunction) continue;
    const std::string_view wrapper = higher_order(*n);
    const std::optional<Mode> inner = wrapper == "wrap_with_autocast" ? mode_of(*n) : mode;
    for (const Value& v : n->args)
      if (fx::GraphModule* sub = subgraph_of(m, v)) visit(*sub, inner);
    if (mode && wrapper.empty()) cast_operands(m, n, *mode);
  }
}

}  // namespace

std::string_view higher_order(const Node& n) {
  std::string_view t = n.target;
  if (t.starts_with("torch.ops.")) t.remove_prefix(10);
  if (!t.starts_with("higher_order.")) return {};
  return t.substr(13);
}

void write_out_autocast(fx::GraphModule& m) {
  const bool any = [&] {
    for (const Node* n = m.graph.first(); n; n = n->next())
      if (!higher_order(*n).empty()) return true;
    return false;
  }();
  if (any) visit(m, std::nullopt);
}

}  // namespace coil::passes
