#include "runtime/cuda/ops/library.h"

#include "runtime/ops/assertions.h"

namespace coil::runtime::cuda {
namespace {

struct BuiltinOp {
  std::string_view name;
  std::unique_ptr<LibraryOp> (*make)(const Attributes&, Queue&);
};

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

[[maybe_unused]] const bool kRegistered = [] {
  for (const BuiltinOp& op : kOps) define_library_op(DeviceType::CUDA, op.name, op.make);
  return true;
}();

}  // namespace
}  // namespace coil::runtime::cuda
