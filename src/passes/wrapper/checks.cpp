#include "passes/wrapper/checks.h"

#include "library_ops/checks.h"
#include "library_ops/copies.h"
#include "runtime/device/library.h"
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

/// Looks at values where something can: on their device, or on copies of them on the CPU.
class ValueChecks {
 public:
  ValueChecks(Program& p, const Checks& checks) : p_(p), checks_(checks) {}

  void add(const std::string& name, View v) {
    if (!is_checked(v.dtype)) return;
    const Device there = p_.device_of(p_.place_of(v.buffer));
    if (!runtime::has_library_op(library_ops::checks::kFinite, there.type)) v.buffer = copy_of(v.buffer);
    call(library_ops::checks::kFinite,
         {{"inf", std::int64_t{checks_.inf}}, {"name", name}, {"nan", std::int64_t{checks_.nan}}}, {std::move(v)}, {});
  }

 private:
  void call(std::string_view op, library_ops::Attributes attributes, std::vector<View> inputs,
            std::vector<View> outputs) {
    p_.lines.emplace_back(
        CallExtern{std::string(op), std::move(attributes), std::move(inputs), std::move(outputs), {}, {}, ""});
  }

  BufferId copy_of(BufferId from) {
    auto [known, added] = copies_.try_emplace(from, p_.buffers.size());
    if (!added) return known->second;
    add_host();
    Buffer b = p_.buffers[from];
    while (std::ranges::find(p_.buffers, b.name, &Buffer::name) != p_.buffers.end()) b.name += "_";
    b.kind = BufferKind::Temporary;
    b.device = Device{};
    b.comm.reset();
    p_.buffers.push_back(std::move(b));
    call(library_ops::copies::kDeviceCopy, {}, {whole(p_, from)}, {whole(p_, known->second)});
    return known->second;
  }

  /// Adds the host to a program on one device, where nobody asked on which device buffers lie.
  void add_host() {
    if (!p_.others.empty()) return;
    for (Buffer& b : p_.buffers) b.device = p_.device;
    p_.others.push_back(Device{});
  }

  Program& p_;
  const Checks& checks_;
  std::map<BufferId, BufferId> copies_;
};

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
  ValueChecks values(p, checks);
  for (const Output& o : p.outputs)
    if (auto* v = std::get_if<View>(&o.value)) values.add(fmt::format("output '{}'", o.name), *v);
  for (const Input& in : p.inputs)
    if (in.mutated) values.add(fmt::format("input '{}', which the program writes to,", in.name), whole(p, in.buffer));
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
