#include "passes/wrapper/checks.h"

#include "support/error.h"
#include "sym/print.h"

namespace coil::wrapper {
namespace {

constexpr std::int64_t kAlignment = 16;

bool is_call(const Line& l) {
  return std::holds_alternative<CallKernel>(l) || std::holds_alternative<CallExtern>(l) ||
         std::holds_alternative<CallFallback>(l) || std::holds_alternative<CallUserKernel>(l);
}

/// Whether a value of this type is looked at for NaN and infinities.
bool is_checked(DType d) {
  const DType part = real_type(d);
  return part == DType::F16 || part == DType::BF16 || part == DType::F32 || part == DType::F64;
}

}  // namespace

void add_value_checks(Program& p, const Checks& checks) {
  p.check_lifetimes = checks.lifetimes;
  if (checks.alignment) {
    std::vector<Line> lines;
    for (const Input& in : p.inputs)
      if (!in.unused && !p.buffers[in.buffer].sizes.empty())
        lines.emplace_back(CallExtern{"assert_aligned",
                                      {{"bytes", kAlignment}, {"name", fmt::format("input '{}'", in.name)}},
                                      {whole(p, in.buffer)},
                                      {},
                                      {},
                                      {},
                                      ""});
    p.lines.insert(p.lines.begin(), std::make_move_iterator(lines.begin()), std::make_move_iterator(lines.end()));
  }
  if (!checks.nan && !checks.inf) return;
  auto check = [&](const std::string& name, const View& v) {
    if (!is_checked(v.dtype)) return;
    p.lines.emplace_back(
        CallExtern{"assert_finite",
                   {{"inf", std::int64_t{checks.inf}}, {"name", name}, {"nan", std::int64_t{checks.nan}}},
                   {v},
                   {},
                   {},
                   {},
                   ""});
  };
  for (const Output& o : p.outputs)
    if (auto* v = std::get_if<View>(&o.value)) check(fmt::format("output '{}'", o.name), *v);
  for (const Input& in : p.inputs)
    if (in.mutated) check(fmt::format("input '{}', which the program writes to,", in.name), whole(p, in.buffer));
}

void add_input_checks(Program& p, const Checks& checks) {
  if (!checks.sizes) {
    const auto first_call = std::find_if(p.lines.begin(), p.lines.end(), is_call);
    p.lines.erase(
        std::remove_if(p.lines.begin(), first_call, [](const Line& l) { return std::holds_alternative<Assert>(l); }),
        first_call);
  }
  if (!checks.strides) return;
  std::vector<Line> lines;
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    const Buffer& b = p.buffers[p.inputs[i].buffer];
    if (p.inputs[i].unused) continue;
    for (std::size_t d = 0; d < b.sizes.size(); ++d) {
      if (b.sizes[d].is_constant(1)) continue;
      std::string name = fmt::format("stride{}_{}", i, d);
      while (p.env->context().find(name)) name += "_";
      const Expr given = p.env->add_size(name, std::nullopt, {});
      lines.emplace_back(DefineSymbol{given, i, DefineSymbol::From::Stride, d});
      // Where there is one element or none nobody steps.
      lines.emplace_back(Assert{sym::logical_or(sym::eq(given, b.strides[d]), sym::le(b.sizes[d], 1)),
                                fmt::format("the stride of {} in dimension {} must be {}", p.inputs[i].name, d,
                                            sym::to_string(b.strides[d]))});
    }
  }
  // After the symbols that the conditions use.
  auto after = p.lines.begin();
  for (auto l = p.lines.begin(); l != p.lines.end(); ++l)
    if (std::holds_alternative<DefineSymbol>(*l)) after = l + 1;
  p.lines.insert(after, std::make_move_iterator(lines.begin()), std::make_move_iterator(lines.end()));
}

}  // namespace coil::wrapper
