#include "runtime/ops/post_ops.h"

#include <charconv>
#include <cmath>
#include <numbers>

#include "runtime/plan/attributes.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

struct Spelling {
  std::string_view name;
  PostOp::Kind kind;
  int numbers;
};

constexpr Spelling kSpellings[] = {
    {"relu", PostOp::Kind::Relu, 0},
    {"gelu_erf", PostOp::Kind::GeluErf, 0},
    {"gelu_tanh", PostOp::Kind::GeluTanh, 0},
    {"silu", PostOp::Kind::Silu, 0},
    {"sigmoid", PostOp::Kind::Sigmoid, 0},
    {"tanh", PostOp::Kind::Tanh, 0},
    {"clip", PostOp::Kind::Clip, 2},
    {"hardswish", PostOp::Kind::HardSwish, 0},
    {"hardsigmoid", PostOp::Kind::HardSigmoid, 0},
    {"elu", PostOp::Kind::Elu, 1},
    {"leaky_relu", PostOp::Kind::LeakyRelu, 1},
    {"scale", PostOp::Kind::Scale, 2},
    {"add", PostOp::Kind::Add, 0},
    {"mul", PostOp::Kind::Mul, 0},
    {"sum", PostOp::Kind::Sum, 0},
};

double parse_number(std::string_view text, std::string_view whole) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size())
    fail("post-operation '{}': '{}' is no number", whole, text);
  return value;
}

PostOp parse(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::string_view rest = text;;) {
    const auto colon = rest.find(':');
    parts.push_back(rest.substr(0, colon));
    if (colon == rest.npos) break;
    rest.remove_prefix(colon + 1);
  }
  for (const Spelling& s : kSpellings) {
    if (s.name != parts[0]) continue;
    if (parts.size() != static_cast<std::size_t>(s.numbers) + 1)
      fail("post-operation '{}' takes {} numbers", text, s.numbers);
    return {s.kind, s.numbers > 0 ? parse_number(parts[1], text) : 0, s.numbers > 1 ? parse_number(parts[2], text) : 0};
  }
  fail("unknown post-operation '{}'", text);
}

}  // namespace

std::vector<PostOp> parse_post_ops(const Attributes& attributes) {
  std::vector<PostOp> ops;
  for (const std::string& text : strings_attribute(attributes, "post")) ops.push_back(parse(text));
  return ops;
}

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
