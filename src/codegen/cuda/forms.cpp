#include "codegen/cuda/forms.h"

#include <cmath>

#include "ir/combining.h"
#include "support/error.h"

namespace coil::codegen {

using ir::ReductionKind;
using ir::Scalar;
using ir::ScalarOp;

void decode(KernelBuilder& b, std::span<const LoopDim> dims, const std::string& linear) {
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
  const ir::NeutralValue v = ir::neutral_value(kind, d);
  return is_floating(d) ? dialect.number(v.real, d) : integer_literal(dialect, v.integer, d);
}

Accumulator accumulator(KernelBuilder& b, const Statement& s, std::size_t number) {
  const ReductionKind kind = std::get<ir::Reduction>(s.op->node).kind;
  const DType d = s.body->dtype;
  const bool arg = kind == ReductionKind::ArgMax || kind == ReductionKind::ArgMin;
  Accumulator a{&s,
                fmt::format("a{}", number),
                cuda_register_type(d),
                reduction_identity(b.dialect, kind, d),
                fmt::format("c_op_{}{}()", arg ? "arg" : "", ir::name_of(ir::combining_op(kind))),
                arg};
  if (a.arg) {
    const bool narrow = b.env().bounds(s.position, b.vars()).high < std::numeric_limits<std::int32_t>::max();
    a.identity = narrow ? fmt::format("{{{}, 0x7fffffff}}", a.identity)
                        : fmt::format("{{{}, 0x7fffffffffffffff{}}}", a.identity, b.dialect.wide);
    a.type = fmt::format("c_arg<{}, {}>", a.type, narrow ? "i32" : "i64");
  }
  return a;
}

void accumulate(KernelBuilder& b, const Accumulator& a, const std::string& at) {
  const std::string x = b.name(a.statement->body), variable = a.name + at;
  if (a.arg)
    b.line("{0} = {1}({0}, {2}{{{3}, (decltype({0}.p)){4}}});", variable, a.op, a.type, x,
           b.text(a.statement->position));
  else
    b.line("{0} = {1}({0}, ({2}){3});", variable, a.op, a.type, x);
}

}  // namespace coil::codegen
