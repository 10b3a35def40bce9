#include "codegen/cuda/forms.h"

#include <cmath>

#include "support/error.h"

namespace coil::codegen {

using ir::ReductionKind;
using ir::Scalar;
using ir::ScalarOp;

void decode(Body& b, std::span<const LoopDim> dims, const std::string& linear) {
  if (dims.empty()) return;
  const std::string& index = b.index_type();
  if (dims.size() == 1) return b.line("const {} {} = ({})({});", index, dims[0].var.name(), index, linear);
  const std::string t = b.fresh("t"), wide = index == "i32" ? "u32" : "u64";
  b.line("{} {} = ({})({});", wide, t, wide, linear);
  for (std::size_t k = dims.size(); k-- > 1;)
    b.line("const {0} {1} = ({0})({2} % ({3}){4}); {2} /= ({3}){4};", index, dims[k].var.name(), t, wide,
           b.text(dims[k].size));
  b.line("const {0} {1} = ({0}){2};", index, dims[0].var.name(), t);
}

std::string reduction_identity(const Dialect& dialect, ReductionKind kind, DType d) {
  const bool floating = is_floating(d);
  switch (kind) {
    case ReductionKind::Sum:
    case ReductionKind::Xor: return floating ? dialect.number(0, d) : integer_literal(dialect, 0, d);
    case ReductionKind::Prod: return floating ? dialect.number(1, d) : integer_literal(dialect, 1, d);
    case ReductionKind::Any: return "false";
    case ReductionKind::All: return "true";
    case ReductionKind::Max:
    case ReductionKind::ArgMax:
    case ReductionKind::Min:
    case ReductionKind::ArgMin: break;
  }
  const bool low = kind == ReductionKind::Max || kind == ReductionKind::ArgMax;
  if (floating) return dialect.number(low ? -INFINITY : INFINITY, d);
  if (d == DType::Bool) return low ? "false" : "true";
  if (!is_signed(d))
    return low ? integer_literal(dialect, 0, d) : fmt::format("({})~0u{}", cuda_register_type(d), dialect.wide);
  const int bits = static_cast<int>(size_of(d)) * 8;
  const std::int64_t most = bits == 64 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << (bits - 1)) - 1;
  return integer_literal(dialect, low ? -most - 1 : most, d);
}

Accumulator accumulator(Body& b, const Statement& s, std::size_t number) {
  const ReductionKind kind = std::get<ir::Reduction>(s.op->node).kind;
  const DType d = s.body->dtype;
  Accumulator a{&s,   fmt::format("a{}", number), cuda_register_type(d), reduction_identity(b.dialect, kind, d), "",
                false};
  switch (kind) {
    case ReductionKind::Sum: a.op = "c_op_add()"; break;
    case ReductionKind::Prod: a.op = "c_op_mul()"; break;
    case ReductionKind::Max: a.op = "c_op_max()"; break;
    case ReductionKind::Min: a.op = "c_op_min()"; break;
    case ReductionKind::Any: a.op = "c_op_or()"; break;
    case ReductionKind::All: a.op = "c_op_and()"; break;
    case ReductionKind::Xor: a.op = "c_op_xor()"; break;
    case ReductionKind::ArgMax:
      a.op = "c_op_argmax()";
      a.arg = true;
      break;
    case ReductionKind::ArgMin:
      a.op = "c_op_argmin()";
      a.arg = true;
      break;
  }
  if (a.arg) {
    const bool narrow = b.env().bounds(s.position, b.vars()).high < std::numeric_limits<std::int32_t>::max();
    a.identity = narrow ? fmt::format("{{{}, 0x7fffffff}}", a.identity)
                        : fmt::format("{{{}, 0x7fffffffffffffff{}}}", a.identity, b.dialect.wide);
    a.type = fmt::format("c_arg<{}, {}>", a.type, narrow ? "i32" : "i64");
  }
  return a;
}

void accumulate(Body& b, const Accumulator& a, const std::string& at) {
  const std::string x = b.name(a.statement->body), variable = a.name + at;
  if (a.arg)
    b.line("{0} = {1}({0}, {2}{{{3}, (decltype({0}.p)){4}}});", variable, a.op, a.type, x,
           b.text(a.statement->position));
  else
    b.line("{0} = {1}({0}, ({2}){3});", variable, a.op, a.type, x);
}

}  // namespace coil::codegen
