// Losses, and distances that reduce one dimension.
#include <algorithm>

#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

constexpr std::string_view kElementwiseLosses = R"(
aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor
aten::l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor
aten::smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.0) -> Tensor
aten::huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.0) -> Tensor
aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor
aten::soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor
)";
// Composed so that the layout of the target comes first.
constexpr std::string_view kTargetFirst = R"(
aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None,
    int reduction=1) -> Tensor
aten::kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor
)";
constexpr std::string_view kClassLosses = R"(
aten::nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor
aten::nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor
aten::nll_loss2d(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor
aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100,
    float label_smoothing=0.0) -> Tensor
)";
constexpr std::string_view kClassLossesWithWeight = R"(
aten::nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index)
    -> (Tensor output, Tensor total_weight)
aten::nll_loss2d_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index)
    -> (Tensor output, Tensor total_weight)
)";

/// at::Reduction.
enum Reduction : std::int64_t { kNone = 0, kMean = 1, kSum = 2 };

TensorMeta scalar(const Call& call, DType dtype) { return dense(call.env, dtype, call.tensor(0).device, {}); }

Value elementwise_loss(const Call& call) {
  TensorMeta each = same_type(call).as_tensor();
  return number(call, "reduction") == kNone ? each : scalar(call, each.dtype);
}

/// Takes an exponential or a logarithm, so that integers give floats.
Value poisson_loss(const Call& call) {
  TensorMeta each = float_type(call).as_tensor();
  if (flag(call, "full") && call.tensor(1).dtype == DType::Bool)
    refuse(call, "with `full` `target` takes numbers, not {}", torch_name(DType::Bool));
  return number(call, "reduction") == kNone ? each : scalar(call, each.dtype);
}

/// In the type of the input, whatever the target's; integers are summed as int64 and have no mean.
Value hinge_loss(const Call& call) {
  const TensorMeta* operands[] = {&call.tensor(1), &call.tensor(0)};
  TensorMeta each = elementwise(call, operands, call.tensor(0).dtype);
  const std::int64_t reduction = number(call, "reduction");
  if (reduction == kNone) return each;
  if (reduction == kMean && is_integral(each.dtype)) refuse(call, "has no mean of {}", torch_name(each.dtype));
  return scalar(call, reduction == kSum && is_integral(each.dtype) ? DType::I64 : each.dtype);
}

Value target_first_loss(const Call& call) {
  const TensorMeta* operands[] = {&call.tensor(1), &call.tensor(0)};
  TensorMeta each = elementwise(call, operands, result_type({&call[0], &call[1]}));
  return number(call, "reduction") == kNone ? each : scalar(call, each.dtype);
}

/// Classes are dimension 1, or 0 when there is no batch.
TensorMeta class_loss(const Call& call) {
  const TensorMeta &self = call.tensor(0), &target = call.tensor(1);
  if (self.rank() == 0) refuse(call, "takes a tensor with dimensions");
  if (number(call, "reduction") != kNone) return scalar(call, self.dtype);
  Exprs sizes = self.sizes;
  sizes.erase(sizes.begin() + (self.rank() > 1 ? 1 : 0));
  if (target.rank() == sizes.size())
    for (std::size_t i = 0; i < sizes.size(); ++i) require_equal(call, target.sizes[i], sizes[i], "size of the target");
  return dense(call.env, self, std::move(sizes));
}

Value class_loss_with_weight(const Call& call) { return Values{class_loss(call), scalar(call, call.tensor(0).dtype)}; }

Value cosine_similarity(const Call& call) {
  TensorMeta made = float_type(call).as_tensor();
  Exprs sizes = made.sizes;
  if (!sizes.empty()) sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dim_argument(call, sizes.size())));
  return dense(call.env, made, std::move(sizes));
}

Value pairwise_distances(const Call& call) {
  const TensorMeta &a = call.tensor(0), &b = call.tensor(1);
  if (a.rank() < 2 || b.rank() < 2) refuse(call, "takes at least two dimensions");
  Exprs batches[] = {{a.sizes.begin(), a.sizes.end() - 2}, {b.sizes.begin(), b.sizes.end() - 2}};
  Exprs sizes = broadcast(call, batches);
  sizes.push_back(a.sizes[a.rank() - 2]);
  sizes.push_back(b.sizes[b.rank() - 2]);
  return dense(call.env, promote_types(a.dtype, b.dtype), a.device, std::move(sizes));
}

}  // namespace

void register_losses() {
  define_each(kElementwiseLosses, elementwise_loss);
  define_each(kTargetFirst, target_first_loss);
  define(
      "aten::poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> "
      "Tensor",
      poisson_loss);
  define("aten::hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=1) -> Tensor",
         hinge_loss);
  define_each(kClassLosses, class_loss);
  define_each(kClassLossesWithWeight, class_loss_with_weight);
  define("aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", cosine_similarity);
  define_each(R"(
aten::cdist(Tensor x1, Tensor x2, float p=2.0, int? compute_mode=None) -> Tensor
aten::_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor
)",
              pairwise_distances);
}

}  // namespace coil::ops::shapes
