#include "runtime/ops/panel/convolution_call.h"

#include <algorithm>

#include "runtime/device/threads.h"
#include "runtime/ops/panel/gemm.h"
#include "runtime/views/strided_copy.h"
#include "runtime/views/view_layout.h"
#include "support/error.h"

namespace coil::runtime::panels {

bool is_worth_packing(const ConvolutionProblem& p) {
  constexpr std::int64_t kLeastPlaces = 64;
  return p.packed_desc.empty() && machine_has_kernels() && p.weight.dtype == DType::F32 &&
         numel(p.y.sizes) >= kLeastPlaces * p.y.sizes[1];
}

Packed pack_whole(const ConvolutionProblem& p, const Tensor& weight, std::string_view desc, const Sizes& strides) {
  Tensor given = weight, made = Tensor::empty(DType::F32, p.weight.sizes);
  given.sizes = p.weight.sizes;
  given.strides = p.weight.strides;
  made.strides = strides;
  copy_strided(made, given);
  Packed packed;
  packed.attributes["packed_desc"] = std::string(desc);
  packed.attributes["weight_sizes"] = p.weight.sizes;
  const std::size_t bytes = static_cast<std::size_t>(numel(p.weight.sizes)) * sizeof(float);
  packed.bytes = Tensor::empty(DType::U8, {static_cast<std::int64_t>(bytes)});
  std::copy_n(made.bytes(), bytes, packed.bytes.bytes());
  return packed;
}

void check_packed_whole(const ConvolutionProblem& p) {
  if (p.packed_bytes < static_cast<std::size_t>(numel(p.weight.sizes)) * sizeof(float))
    fail("a packed weight does not have the form that its description says");
}

ConvolutionCall::ConvolutionCall(const ConvolutionProblem& p, const BoundView& form, const BoundView& weight)
    : from_(spatial_sizes(p.x)), to_(spatial_sizes(p.y)) {
  x_ = input(0, p.x, channels_last(DType::F32, p.x.sizes));
  weight_ = p.packed_desc.empty() ? input(1, p.weight, weight) : staging_.input(1);
  const bool old = std::ranges::any_of(p.post, [](const PostOp& op) { return op.kind == PostOp::Kind::Sum; });
  y_ = same_layout(p.y.sizes, p.y.strides, form.strides) ? staging_.output(0) : staging_.output(0, p.y, form, old);
  if (p.bias) bias_ = input(2, *p.bias, dense_view(DType::F32, p.bias->sizes));
}

void ConvolutionCall::describe_post(const ConvolutionProblem& p, std::int64_t y_step) {
  std::size_t next = 0;
  for (const PostOp& op : p.post) {
    Post made{.kind = op.kind, .a = static_cast<float>(op.a), .b = static_cast<float>(op.b)};
    std::optional<Staging::Operand> operand;
    if (op.kind == PostOp::Kind::Sum) {
      operand = y_;
      made.operand_step = y_step;
    } else if (op.takes_operand()) {
      operand = post_operand(p.operands.at(next), p.first_operand + next, made);
      ++next;
    }
    post_.push_back(made);
    post_operands_.push_back(operand);
  }
}

void ConvolutionCall::divide_among_threads(std::int64_t parts, std::int64_t multiplications,
                                           std::int64_t scratch_floats) {
  parts_ = parts;
  scratch_floats_ = scratch_floats;
  threads_ = static_cast<int>(std::clamp<std::int64_t>(parts, 1, threads_worth(multiplications)));
  scratch_ = staging_.scratch(static_cast<std::size_t>(scratch_floats_ * threads_) * sizeof(float));
  pointers_.resize(staging_.operands());
}

Staging::Operand ConvolutionCall::operand_by_rows(const BoundView& given, std::size_t index, Post& made,
                                                  std::int64_t y_step) {
  if (!is_of_channels(given)) {
    made.operand_step = y_step;
    return input(index, given, channels_last(DType::F32, given.sizes));
  }
  made.one_column = given.strides[1] == 0;
  if (made.one_column || given.strides[1] == 1 || given.sizes[1] == 1) return staging_.input(index);
  return staging_.input(index, {DType::F32, {given.sizes[1]}, {given.strides[1]}},
                        dense_view(DType::F32, {given.sizes[1]}));
}

Staging::Operand ConvolutionCall::input(std::size_t index, const BoundView& given, const BoundView& form) {
  if (same_layout(form.sizes, given.strides, form.strides)) return staging_.input(index);
  return staging_.input(index, given, form);
}

void ConvolutionCall::run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) {
  staging_.load(inputs, outputs, workspace, pointers_);
  for (std::size_t i = 0; i < post_.size(); ++i)
    if (post_operands_[i]) post_[i].operand = pointers_[*post_operands_[i]];
  parallel_ranges(threads_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t thread = begin; thread < end; ++thread)
      run_parts(parts_ * thread / threads_, parts_ * (thread + 1) / threads_,
                pointer<float>(scratch_) + thread * scratch_floats_);
  });
  staging_.store(outputs, pointers_);
}

}  // namespace coil::runtime::panels
