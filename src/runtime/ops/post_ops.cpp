#include "runtime/ops/post_ops.h"

#include <cmath>
#include <numbers>

#include "support/error.h"

namespace coil::runtime {

double apply_post_op(const PostOp& op, double x) {
  switch (op.kind) {
    case PostOp::Kind::Relu: return x <= 0 ? 0 : x;  // NaN stays
    case PostOp::Kind::GeluErf: return 0.5 * x * (1 + std::erf(x * std::numbers::sqrt2 / 2));
    case PostOp::Kind::GeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case PostOp::Kind::Silu: return x / (1 + std::exp(-x));
    case PostOp::Kind::Sigmoid: return 1 / (1 + std::exp(-x));
    case PostOp::Kind::Tanh: return std::tanh(x);
    case PostOp::Kind::Clip: return x < op.a ? op.a : x > op.b ? op.b : x;
    case PostOp::Kind::HardSwish: return x * std::fmin(std::fmax(x + 3, 0), 6) / 6;
    case PostOp::Kind::HardSigmoid: return (x + 3 < 0 ? 0 : x + 3 > 6 ? 6 : x + 3) / 6;  // NaN stays
    case PostOp::Kind::Elu: return x > 0 ? x : op.a * std::expm1(x);
    case PostOp::Kind::LeakyRelu: return x > 0 ? x : op.a * x;
    case PostOp::Kind::Scale: return op.a * x + op.b;
    case PostOp::Kind::Add:
    case PostOp::Kind::Mul:
    case PostOp::Kind::Sum: break;
  }
  COIL_CHECK(false, "a post-operation with an operand");
}

}  // namespace coil::runtime
