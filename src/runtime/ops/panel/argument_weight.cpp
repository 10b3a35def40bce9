#include "runtime/ops/panel/argument_weight.h"

#include <algorithm>

#include "runtime/ops/panel/convolution_call.h"
#include "runtime/ops/panel/windows.h"
#include "runtime/ops/panel/winograd.h"
#include "runtime/views/view_layout.h"
#include "support/cpu.h"

namespace coil::runtime::panels {
namespace {

using MakeCall = std::function<std::unique_ptr<PreparedCall>(const ConvolutionProblem&)>;

ConvolutionProblem with_packed_weight(ConvolutionProblem p, const WeightForm& form) {
  p.packed_desc = form.desc;
  p.packed_bytes = form.bytes;
  p.weight = dense_view(DType::F32, p.weight.sizes);
  return p;
}

class PackingCall : public PreparedCall {
 public:
  PackingCall(const ConvolutionProblem& p, WeightForm form, std::unique_ptr<PreparedCall> call, MakeCall plain)
      : p_(p),
        form_(std::move(form)),
        weight_bytes_((form_.bytes + kLine - 1) / kLine * kLine),
        call_(std::move(call)),
        make_plain_(std::move(plain)) {}

  std::size_t workspace_bytes() const override { return weight_bytes_ + call_->workspace_bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    auto* packed = static_cast<std::byte*>(workspace);
    if (!form_.pack(reinterpret_cast<float*>(packed), static_cast<const float*>(inputs[1])))
      return run_plain(inputs, outputs);
    std::vector<const void*> given(inputs.begin(), inputs.end());
    given[1] = packed;
    call_->forget_constants();
    call_->run(given, outputs, packed + weight_bytes_);
  }

 private:
  static constexpr std::size_t kLine = 64;

  void run_plain(std::span<const void* const> inputs, std::span<void* const> outputs) {
    if (!plain_) plain_ = make_plain_(p_);
    const Tensor workspace = Tensor::empty(DType::U8, {static_cast<std::int64_t>(plain_->workspace_bytes())});
    plain_->run(inputs, outputs, workspace.bytes());
  }

  ConvolutionProblem p_;
  WeightForm form_;
  std::size_t weight_bytes_;
  std::unique_ptr<PreparedCall> call_, plain_;
  MakeCall make_plain_;
};

/// Results that each element of the weight is read for.
std::int64_t uses_of_weight(const ConvolutionProblem& p) {
  const BoundView& places = p.transposed ? p.x : p.y;
  return numel(places.sizes) / std::max<std::int64_t>(1, places.sizes[1]);
}

}  // namespace

Packed packed_in(const WeightForm& form, const ConvolutionProblem& p, const Tensor& weight) {
  Packed packed;
  packed.attributes["packed_desc"] = form.desc;
  packed.attributes["weight_sizes"] = p.weight.sizes;
  packed.bytes = Tensor::empty(DType::U8, {static_cast<std::int64_t>(form.bytes)});
  form.pack(packed.bytes.data<float>(), weight.data<float>());
  return packed;
}

std::unique_ptr<PreparedCall> make_packing_call(const ConvolutionProblem& p, MakeCall plain) {
  constexpr std::int64_t kLeastUses = 512;
  if (!p.packed_desc.empty() || p.weight.dtype != DType::F32 || !machine_has_kernels()) return nullptr;
  const std::string isa = machine_isa();
  const auto made = [&](WeightForm form, MakeCall make) {
    auto call = make(with_packed_weight(p, form));
    return std::make_unique<PackingCall>(p, std::move(form), std::move(call), plain);
  };
  if (auto form = winograd_form(p, isa)) return made(std::move(*form), make_winograd);
  if (uses_of_weight(p) < kLeastUses || numel(p.y.sizes) == 0) return nullptr;
  if (auto form = windows_form(p, isa)) return made(std::move(*form), make_windows);
  return nullptr;
}

}  // namespace coil::runtime::panels
