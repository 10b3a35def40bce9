#include "codegen/cuda/point_function.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_map>

#include "codegen/cuda/kernel_builder.h"

namespace coil::codegen {
namespace {

using ir::Scalar;
using ir::ScalarOp;

std::string function_of(Scalar n) {
  switch (n->op) {
    case ScalarOp::Cast: return fmt::format("c_cast_{}", short_name(n->dtype));
    case ScalarOp::Round: return fmt::format("c_round_{}", short_name(n->rounded));
    case ScalarOp::Bitcast: return fmt::format("c_bitcast_{}", short_name(n->dtype));
    default: return fmt::format("c_{}", ir::name_of(n->op));
  }
}

}  // namespace

PointValue point_value(const Dialect& dialect, Scalar root, std::span<const std::string> operands,
                       std::string_view indent) {
  PointValue out;
  std::unordered_map<Scalar, std::string> names;
  for (Scalar n : ir::topological({&root, 1})) {
    if (n->op == ScalarOp::Constant) {
      names[n] =
          is_floating(n->dtype) ? dialect.number(n->number, n->dtype) : integer_literal(dialect, n->integer, n->dtype);
      continue;
    }
    std::vector<std::string> arguments;
    for (Scalar a : n->args) arguments.push_back(names.at(a));
    const std::string value = n->op == ScalarOp::Load
                                  ? operands[n->buffer]
                                  : fmt::format("{}({})", function_of(n), fmt::join(arguments, ", "));
    std::string name = fmt::format("t{}", names.size());
    out.lines += fmt::format("{}const {} {} = {};\n", indent, cuda_register_type(n->dtype), name, value);
    names[n] = std::move(name);
  }
  out.value = names.at(root);
  return out;
}

}  // namespace coil::codegen
