#include "library_ops/post_ops.h"

#include <charconv>
#include <map>

#include "support/error.h"

namespace coil::library_ops {
namespace {

using Kind = PostOpKind;

constexpr PostOpInfo kTable[] = {
    {.kind = Kind::Relu, .name = "relu", .formula = "max(x, 0)", .loses_nan = true, .algorithms = {"relu"}},
    {.kind = Kind::GeluErf, .name = "gelu_erf", .formula = "x (1 + erf(x / √2)) / 2"},
    {.kind = Kind::GeluTanh, .name = "gelu_tanh", .formula = "x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2"},
    {.kind = Kind::Silu, .name = "silu", .formula = "x sigmoid(x)"},
    {.kind = Kind::Sigmoid, .name = "sigmoid", .formula = "1 / (1 + exp(-x))"},
    {.kind = Kind::Tanh, .name = "tanh", .formula = "tanh(x)"},
    {.kind = Kind::Clip,
     .name = "clip",
     .formula = "min(max(x, low), high)",
     .numbers = {"low", "high"},
     .loses_nan = true,
     .algorithms = {"clip"}},
    {.kind = Kind::HardSwish, .name = "hardswish", .formula = "x min(max(x + 3, 0), 6) / 6"},
    {.kind = Kind::HardSigmoid,
     .name = "hardsigmoid",
     .formula = "min(max(x + 3, 0), 6) / 6",
     .loses_nan = true,
     .algorithms = {"linear", "clip"}},
    {.kind = Kind::Elu,
     .name = "elu",
     .formula = "x where x > 0, else alpha (exp(x) - 1)",
     .numbers = {"alpha"},
     .algorithms = {"elu"}},
    {.kind = Kind::LeakyRelu,
     .name = "leaky_relu",
     .formula = "x where x > 0, else slope x",
     .numbers = {"slope"},
     .algorithms = {"relu"}},
    {.kind = Kind::Scale, .name = "scale", .formula = "a x + b", .numbers = {"a", "b"}, .algorithms = {"linear"}},
    {.kind = Kind::Add, .name = "add", .formula = "x + operand", .reads_operand = true},
    {.kind = Kind::Mul, .name = "mul", .formula = "x operand", .reads_operand = true},
    {.kind = Kind::Sum, .name = "sum", .formula = "x + what the result held", .reads_result = true},
};

constexpr bool is_in_order() {
  for (std::size_t k = 0; k < std::size(kTable); ++k)
    if (static_cast<std::size_t>(kTable[k].kind) != k) return false;
  return std::size(kTable) == static_cast<std::size_t>(Kind::Sum) + 1;
}
static_assert(is_in_order());

double parse_number(std::string_view text, std::string_view whole) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size())
    fail("post-operation '{}': '{}' is no number", whole, text);
  return value;
}

}  // namespace

std::span<const PostOpInfo> post_op_table() { return kTable; }

const PostOpInfo& info(PostOpKind kind) { return kTable[static_cast<std::size_t>(kind)]; }

std::string to_string(const PostOp& op) {
  const PostOpInfo& row = info(op.kind);
  switch (row.count()) {
    case 0: return std::string(row.name);
    case 1: return fmt::format("{}:{}", row.name, op.a);
    default: return fmt::format("{}:{}:{}", row.name, op.a, op.b);
  }
}

PostOp parse_post_op(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::string_view rest = text;;) {
    const auto colon = rest.find(':');
    parts.push_back(rest.substr(0, colon));
    if (colon == rest.npos) break;
    rest.remove_prefix(colon + 1);
  }
  for (const PostOpInfo& row : kTable) {
    if (row.name != parts[0]) continue;
    if (parts.size() != row.count() + 1) fail("post-operation '{}' takes {} numbers", text, row.count());
    return {row.kind, row.count() > 0 ? parse_number(parts[1], text) : 0,
            row.count() > 1 ? parse_number(parts[2], text) : 0};
  }
  fail("unknown post-operation '{}'", text);
}

std::vector<PostOp> parse_post_ops(std::span<const std::string> texts) {
  std::vector<PostOp> ops;
  for (const std::string& text : texts) ops.push_back(parse_post_op(text));
  return ops;
}

bool may_stand_together(std::span<const PostOp> post) {
  std::map<std::string_view, PostOp> seen;
  for (const PostOp& op : post)
    for (std::string_view algorithm : info(op.kind).algorithms)
      if (!algorithm.empty() && seen.emplace(algorithm, op).first->second != op) return false;
  return true;
}

std::size_t operands_of(std::span<const PostOp> post) {
  return static_cast<std::size_t>(std::ranges::count_if(post, &PostOp::takes_operand));
}

}  // namespace coil::library_ops
