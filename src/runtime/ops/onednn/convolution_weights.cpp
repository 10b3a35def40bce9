// Gradients of convolution weights by oneDNN: in channels-last where it has a fast kernel for that, as forward uses it,
// else in the layout that its kernel wants.
#include "runtime/ops/onednn/onednn.h"
#include "runtime/ops/onednn/primitive.h"

#ifdef COIL_HAVE_ONEDNN
#include <algorithm>

#include "runtime/views/strided_copy.h"
#include "runtime/views/view_layout.h"
#include "support/error.h"

namespace coil::runtime::onednn {
namespace {

using dnnl::memory;
using Gradient = dnnl::convolution_backward_weights;

/// [groups, O/groups, C/groups, ..] where there are groups.
BoundView grouped(const BoundView& w, std::int64_t groups) {
  if (groups == 1) return w;
  BoundView v = w;
  v.sizes[0] /= groups;
  v.sizes.insert(v.sizes.begin(), groups);
  v.strides.insert(v.strides.begin(), v.sizes[1] * w.strides[0]);
  return v;
}

class Builder {
 public:
  Builder(const WeightGradientProblem& p, DType dtype)
      : p_(p),
        dtype_(dtype),
        result_type_(dtype == DType::BF16 && p.dw.dtype == DType::BF16 ? DType::BF16 : DType::F32) {}

  std::unique_ptr<PreparedCall> build() const {
    const Gradient::primitive_desc pd = describe_primitive(describe_exactly(channels_last(dtype_, p_.x.sizes)),
                                                           describe_exactly(channels_last(dtype_, p_.dy.sizes)));
    if (!is_reference(pd.impl_info_str())) return finish(pd);
    const auto any = memory::format_tag::any;
    return finish(describe_primitive({p_.x.sizes, data_type(dtype_), any}, {p_.dy.sizes, data_type(dtype_), any}));
  }

 private:
  Gradient::primitive_desc describe_primitive(const memory::desc& x, const memory::desc& dy) const {
    const memory::desc dw(grouped(p_.dw, p_.groups).sizes, data_type(result_type_), memory::format_tag::any);
    memory::dims dilates, end;
    for (std::size_t d = 0; d < p_.spatial(); ++d) {
      const std::int64_t reach = (p_.dw.sizes[d + 2] - 1) * p_.dilation[d] + 1, in = p_.x.sizes[d + 2],
                         out = p_.dy.sizes[d + 2];
      dilates.push_back(p_.dilation[d] - 1);
      const bool symmetric = (in + 2 * p_.padding[d] - reach) / p_.stride[d] + 1 == out;
      end.push_back(symmetric ? p_.padding[d] : (out - 1) * p_.stride[d] + reach - in - p_.padding[d]);
    }
    const auto direct = dnnl::algorithm::convolution_direct;
    const dnnl::primitive_attr attr = attributes({}, {});
    const dnnl::convolution_forward::primitive_desc forward(
        dnnl::convolution_forward::desc(dnnl::prop_kind::forward_training, direct, x, dw, dy, p_.stride, dilates,
                                        p_.padding, end),
        attr, engine());
    return {Gradient::desc(direct, x, dw, dy, p_.stride, dilates, p_.padding, end), attr, engine(), forward};
  }

  std::unique_ptr<PreparedCall> finish(const Gradient::primitive_desc& pd) const {
    Staging staging;
    const Operand x = operand(staging, 0, p_.x, pd.src_desc()), dy = operand(staging, 1, p_.dy, pd.diff_dst_desc());
    const bool as_computed = p_.dw.dtype == result_type_;
    const BoundView form = as_computed ? p_.dw : dense_view(result_type_, p_.dw.sizes);
    const memory::desc lies = describe_exactly(grouped(form, p_.groups));
    const Staging::Operand given = as_computed ? staging.output(0) : staging.output(0, p_.dw, form, false);
    const bool direct = lies == pd.diff_weights_desc();
    const Staging::Operand computed = direct ? given : staging.scratch(pd.diff_weights_desc().get_size());
    const Staging::Operand scratchpad = staging.scratch(pd.scratchpad_desc().get_size());
    auto call = std::make_unique<PrimitiveCall>(Gradient(pd), std::move(staging));
    add(*call, DNNL_ARG_SRC, x, pd.src_desc());
    add(*call, DNNL_ARG_DIFF_DST, dy, pd.diff_dst_desc());
    if (direct)
      call->add(DNNL_ARG_DIFF_WEIGHTS, lies, given);
    else
      call->add_reordered_result(DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc(), lies, computed, given, false);
    call->add(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc(), scratchpad);
    return call;
  }

  struct Operand {
    Staging::Operand given = 0;
    std::optional<Staging::Operand> scratch;
    memory::desc lies;
  };

  Operand operand(Staging& staging, std::size_t index, const BoundView& given, const memory::desc& wanted) const {
    BoundView form = channels_last(dtype_, given.sizes);
    const bool usable = given.dtype == dtype_ && !has_zero_stride(given);
    if (usable && !same_layout(form.sizes, given.strides, form.strides)) form = given;
    const memory::desc lies = describe_exactly(form);
    const Staging::Operand source = usable ? staging.input(index) : staging.input(index, given, form);
    if (lies == wanted) return {source, std::nullopt, {}};
    return {source, staging.scratch(wanted.get_size()), lies};
  }

  static void add(PrimitiveCall& call, int argument, const Operand& o, const memory::desc& wanted) {
    if (o.scratch)
      call.add_reordered(argument, o.lies, wanted, o.given, *o.scratch);
    else
      call.add(argument, wanted, o.given);
  }

  const WeightGradientProblem& p_;
  DType dtype_, result_type_;
};

}  // namespace

std::unique_ptr<PreparedCall> make_weight_gradient(const WeightGradientProblem& p) {
  if (!is_float16_or_32(p.x.dtype) || !is_float16_or_32(p.dy.dtype) || !is_float16_or_32(p.dw.dtype) ||
      numel(p.x.sizes) == 0 || numel(p.dy.sizes) == 0 || numel(p.dw.sizes) == 0)
    return nullptr;
  return attempt(product_type(p.x.dtype, p.dy.dtype), false, [&](DType d) { return Builder(p, d).build(); });
}

}  // namespace coil::runtime::onednn
#else

namespace coil::runtime::onednn {

std::unique_ptr<PreparedCall> make_weight_gradient(const WeightGradientProblem&) { return nullptr; }

}  // namespace coil::runtime::onednn
#endif
