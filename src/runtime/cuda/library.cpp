#include "runtime/cuda/library.h"

#include "runtime/assertions.h"

namespace coil::runtime::cuda {
namespace {

constexpr BuiltinOp kOps[] = {
    {"linear", make_linear},
    {"matmul", make_matmul},
    {"convolution", make_convolution},
    {"convolution_weights", make_convolution_weights},
    {"complex_parts", make_complex_parts},
    {"grouped_matmul", make_grouped_matmul},
    {"attention", make_attention},
    {"attention_backward", make_attention_backward},
    {"assert_aligned", [](const Attributes& a, Queue&) { return make_assert_aligned(a); }},
};

}  // namespace

std::span<const BuiltinOp> builtin_ops() { return kOps; }

}  // namespace coil::runtime::cuda
