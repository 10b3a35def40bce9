#include "frontend/values.h"

#include "frontend/sympy.h"
#include "fx/text.h"
#include "support/error.h"
#include "sym/print.h"

namespace coil::frontend {

using ops::Value;
using sym::Expr;
using sym::Range;

DType read_dtype(const Json& j) {
  const std::int64_t number = j.as_int();
  const auto dtype =
      number == static_cast<int>(number) ? dtype_from_export_number(static_cast<int>(number)) : std::nullopt;
  if (!dtype) j.fail(fmt::format("element type {} is not supported", number));
  return *dtype;
}

Device read_device(const Json& j) {
  const std::string& type = j["type"].as_string();
  const Json* index = j.find("index");
  try {
    return parse_device(index && type != "cpu" && type != "meta" ? fmt::format("{}:{}", type, index->as_int()) : type);
  } catch (const Error& e) {
    j.fail(e.what());
  }
}

ops::MemoryFormat read_memory_format(const Json& j) {
  switch (j.as_int()) {
    case 1: return ops::MemoryFormat::Contiguous;
    case 2: return ops::MemoryFormat::ChannelsLast;
    case 3: return ops::MemoryFormat::ChannelsLast3d;
    case 4: return ops::MemoryFormat::Preserve;
    default: j.fail("unknown memory format");
  }
}

ops::TensorLayout read_layout(const Json& j) {
  constexpr std::int64_t kStrided = 7;
  return j.as_int() == kStrided ? ops::TensorLayout::Strided : ops::TensorLayout::Sparse;
}

void Symbols::note_ranges(const Json& range_constraints) {
  for (const auto& [name, bounds] : range_constraints.members()) {
    Range range;
    if (const Json* low = bounds->find("min_val")) range.low = low->as_int();
    if (const Json* high = bounds->find("max_val")) range.high = high->as_int();
    // torch.export writes "no bound" as a number next to the largest in some versions.
    if (range.high >= Range::kMax - 1) range.high = Range::kMax;
    if (range.low <= Range::kMin + 1) range.low = Range::kMin;
    if (range.low > range.high) bounds->fail("the range is empty");
    ranges_[name] = range;
  }
}

void Symbols::note_hints(const Json& graph) {
  auto note = [this](const Json& sym_int) {
    const auto& [kind, value] = sym_int.only_member();
    if (kind != "as_expr") return;
    const Json* hint = value->find("hint");
    if (!hint) return;
    const auto& [type, number] = hint->only_member();
    if (type != "as_int") return;
    const std::string& text = (*value)["expr_str"].as_string();
    const auto symbol = srepr_symbol(text);
    if (symbol.empty())
      expression_hints_.emplace(text, number->as_int());
    else
      hints_.emplace(symbol, number->as_int());
  };
  for (const auto& [name, meta] : graph["tensor_values"].members())
    for (const char* key : {"sizes", "strides"})
      for (const Json* size : (*meta)[key].items()) note(*size);
  for (const auto& [name, value] : graph["sym_int_values"].members()) note(*value);
  solve_hints();
}

/// Where a symbol occurs only inside expressions (a dimension declared as `2*n`), its hint follows from theirs.
void Symbols::solve_hints() {
  sym::Context scratch;
  for (const auto& [text, value] : expression_hints_) {
    const Expr e =
        parse_srepr(text, [&](std::string_view name) { return scratch.symbol(name, sym::SymbolKind::Size); });
    std::vector<Expr> unknown;
    for (const Expr s : sym::free_symbols(e))
      if (!hints_.contains(s.name())) unknown.push_back(s);
    if (unknown.size() != 1) continue;
    const auto linear = sym::linear_in(e, unknown[0]);
    if (!linear) continue;
    auto lookup = [this](Expr s) { return hints_.find(s.name())->second; };
    const std::int64_t step = sym::evaluate(linear->coefficient, lookup), rest = sym::evaluate(linear->rest, lookup);
    std::int64_t distance = 0;
    if (step > 0 && !__builtin_sub_overflow(value, rest, &distance) && distance % step == 0)
      hints_.emplace(unknown[0].name(), distance / step);
  }
}

void Symbols::learn_ranges_of_expressions() {
  for (const auto& [name, range] : ranges_) {
    if (env_.context().find(name)) continue;
    Expr e;
    try {
      e = sym::parse(name, [this](std::string_view symbol) {
        const auto known = env_.context().find(symbol);
        if (!known) fail("no value has the symbol {}", symbol);
        return *known;
      });
    } catch (const Error&) {
      continue;  // a range of symbols that no value of the program has
    }
    if (range.low != Range::kMin) env_.learn(sym::le(range.low, e));
    if (range.high != Range::kMax) env_.learn(sym::le(e, range.high));
  }
}

Expr Symbols::define(std::string_view name) {
  if (const auto known = env_.context().find(name)) return *known;
  if (fx::is_reserved(name)) fail("`{}` cannot name a size", name);
  const auto range_at = ranges_.find(name);
  std::optional<Range> range;
  if (range_at != ranges_.end()) range = range_at->second;
  if (name.starts_with('u')) return env_.add_unbacked(name, range.value_or(Range{}));
  if (name.starts_with("zuf")) return env_.add_unbacked(name);  // the bits of a float that data tell
  if (name.starts_with('z')) fail("the symbol {} is a float; only sizes may be symbolic", name);
  Range sizes = range.value_or(Range{});
  sizes.low = std::max<std::int64_t>(sizes.low, 0);
  // torch.export traces dimensions as at least 2 and says so, but its programs take 1 as well (torch/_export/utils.py
  // checks lower bounds above 2 only).
  if (sizes.low == 2) sizes.low = 1;
  const auto hint = hints_.find(name);
  return env_.add_size(name, hint == hints_.end() ? std::nullopt : std::optional(hint->second), sizes);
}

Expr Symbols::parse(const Json& expression) {
  const std::string& text = expression["expr_str"].as_string();
  if (const auto it = parsed_.find(text); it != parsed_.end()) return it->second;
  try {
    const Expr e = parse_srepr(text, [this](std::string_view name) { return define(name); });
    parsed_.emplace(text, e);
    return e;
  } catch (const Error& e) {
    expression.fail(e.what());
  }
}

Expr Symbols::read_int(const Json& sym_int) {
  const auto& [kind, value] = sym_int.only_member();
  if (kind == "as_int") return value->as_int();
  if (kind == "as_expr") return parse(*value);
  sym_int.fail(fmt::format("unknown kind of size '{}'", kind));
}

Value Symbols::read_bool(const Json& sym_bool) {
  const auto& [kind, value] = sym_bool.only_member();
  if (kind == "as_bool") return value->as_bool();
  if (kind == "as_expr") return ops::Bool{parse(*value)};
  sym_bool.fail(fmt::format("unknown kind of bool '{}'", kind));
}

Value Symbols::read_float(const Json& sym_float, std::string_view node) {
  const auto& [kind, value] = sym_float.only_member();
  if (kind == "as_float") return value->as_double();
  if (kind == "as_expr") {
    ops::SymFloat f{std::string(node)};
    try {
      f.value =
          parse_float_srepr((*value)["expr_str"].as_string(), [this](std::string_view name) { return define(name); });
    } catch (const Error&) {
      // It is made of more than sizes: the program computes it in memory.
    }
    return f;
  }
  sym_float.fail(fmt::format("unknown kind of float '{}'", kind));
}

sym::TensorMeta Symbols::read_tensor(const Json& j) {
  sym::TensorMeta meta;
  meta.dtype = read_dtype(j["dtype"]);
  meta.device = read_device(j["device"]);
  if (read_layout(j["layout"]) != ops::TensorLayout::Strided) j.fail("sparse tensors are not supported");
  for (const Json* s : j["sizes"].items()) meta.sizes.push_back(read_int(*s));
  for (const Json* s : j["strides"].items()) meta.strides.push_back(read_int(*s));
  if (meta.sizes.size() != meta.strides.size())
    j.fail(fmt::format("{} sizes and {} strides", meta.sizes.size(), meta.strides.size()));
  for (const Expr s : meta.sizes)
    if (s.is_constant() && *s.constant() < 0) j["sizes"].fail("a size is negative");
  meta.offset = read_int(j["storage_offset"]);
  return meta;
}

}  // namespace coil::frontend
