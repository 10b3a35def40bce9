#include "ops/shapes/common.h"

#include <algorithm>

#include "ops/shapes/elementwise.h"
#include "sym/print.h"

namespace coil::ops::shapes {

const Value* given(const Call& call, std::string_view name) {
  const auto& parameters = call.op.schema.parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name == name) return call[i].is_none() ? nullptr : &call[i];
  return nullptr;
}

bool flag(const Call& call, std::string_view name, bool fallback) {
  const Value* value = given(call, name);
  return value ? value->as_bool() : fallback;
}

std::optional<DType> given_dtype(const Call& call) {
  const Value* value = given(call, "dtype");
  return value ? std::optional(value->as_dtype()) : std::nullopt;
}

std::optional<MemoryFormat> given_format(const Call& call) {
  const Value* value = given(call, "memory_format");
  if (!value) return std::nullopt;
  const auto* format = value->get_if<MemoryFormat>();
  if (!format) refuse(call, "`memory_format` is not a memory format");
  return *format;
}

std::vector<const TensorMeta*> tensors(const Call& call) {
  std::vector<const TensorMeta*> found;
  for (const Value& value : call.args) {
    if (const auto* t = value.get_if<TensorMeta>()) found.push_back(t);
    if (const auto* list = value.get_if<Values>())
      for (const Value& item : *list)
        if (const auto* t = item.get_if<TensorMeta>()) found.push_back(t);
  }
  return found;
}

std::int64_t number(const Call& call, std::string_view name) {
  auto value = call[name].as_int().constant();
  if (!value) refuse(call, "`{}` must be a plain number", name);
  return *value;
}

std::size_t wrap_dim(const Call& call, std::int64_t dim, std::size_t rank) {
  auto n = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  if (dim < -n || dim >= n) refuse(call, "dimension {} is not in [{}, {}]", dim, -n, n - 1);
  return static_cast<std::size_t>(dim < 0 ? dim + n : dim);
}

std::size_t dim_argument(const Call& call, std::size_t rank, std::string_view name) {
  return wrap_dim(call, number(call, name), rank);
}

std::vector<std::size_t> dims_argument(const Call& call, std::size_t rank, std::string_view name) {
  std::vector<std::size_t> dims;
  const Value* list = given(call, name);
  if (!list) return dims;
  for (Expr e : list->as_ints()) {
    auto dim = e.constant();
    if (!dim) refuse(call, "`{}` must be plain numbers", name);
    std::size_t d = wrap_dim(call, *dim, rank);
    if (std::find(dims.begin(), dims.end(), d) != dims.end()) refuse(call, "dimension {} appears twice", d);
    dims.push_back(d);
  }
  return dims;
}

Exprs spread(const Call& call, const Value& value, std::size_t n, Expr fallback) {
  Exprs list = value.is_none() ? Exprs{} : value.as_ints();
  if (list.empty()) return Exprs(n, fallback);
  if (list.size() == 1) return Exprs(n, list[0]);
  if (list.size() != n) refuse(call, "expected {} values, got {}", n, list.size());
  return list;
}

Value apply(Env& env, std::string_view target, Values args) {
  const Operator* op = find(target);
  COIL_CHECK(op, "{}", target);
  Values normal = normalize(*op, std::move(args), {});
  return op->shape(Call{*op, normal, env});
}

bool equal(Env& env, Expr a, Expr b) {
  if (a == b) return true;
  if (a.is_constant() && b.is_constant()) return false;
  Expr same = sym::eq(a, b);
  if (env.statically_known_true(same)) return true;
  if (env.statically_known_true(sym::ne(a, b))) return false;
  if (sym::has_symbol_of(same, sym::SymbolKind::Unbacked)) return false;
  if (auto x = env.hint(a), y = env.hint(b); !x || !y || *x != *y) return false;
  return env.decide(same, "sizes are equal");
}

bool is_one(Env& env, Expr size) {
  if (auto n = size.constant()) return *n == 1;
  Expr one = sym::eq(size, 1);
  if (env.statically_known_true(one)) return true;
  if (env.statically_known_true(sym::ne(size, 1)) || sym::has_symbol_of(size, sym::SymbolKind::Unbacked)) return false;
  return env.decide(one, "a size is 1");
}

bool is_zero(Env& env, Expr size) {
  if (auto n = size.constant()) return *n == 0;
  return env.statically_known_equal(size, 0);
}

void require_equal(const Call& call, Expr a, Expr b, std::string_view what) {
  if (a == b || equal(call.env, a, b)) return;
  bool unknown = sym::has_symbol_of(a, sym::SymbolKind::Unbacked) || sym::has_symbol_of(b, sym::SymbolKind::Unbacked);
  if (unknown && !call.env.statically_known_true(sym::ne(a, b))) return;
  refuse(call, "{}: {} is not {}", what, sym::to_string(a), sym::to_string(b));
}

bool all_equal(Env& env, std::span<const Expr> a, std::span<const Expr> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](Expr x, Expr y) { return equal(env, x, y); });
}

bool is_negative(Env& env, Expr value) {
  if (auto n = value.constant()) return *n < 0;
  if (env.statically_known_le(0, value)) return false;
  Expr negative = sym::lt(value, 0);
  if (env.statically_known_true(negative)) return true;
  if (sym::has_symbol_of(value, sym::SymbolKind::Unbacked)) return false;
  return env.decide(negative, "an index is negative");
}

std::string show(std::span<const Expr> sizes) {
  std::string text = "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + sym::to_string(sizes[i]);
  return text + "]";
}

Expr numel(Env& env, const TensorMeta& t) { return env.simplify(sym::product(t.sizes)); }

namespace {
/// The schemas of a table, one a line; a line that begins with a blank goes on with the schema before it.
template <class F>
void for_each_schema(std::string_view table, F&& f) {
  std::string schema;
  const auto finish = [&] {
    if (!schema.empty()) f(std::string_view(schema));
    schema.clear();
  };
  while (!table.empty()) {
    const std::size_t end = std::min(table.find('\n'), table.size());
    std::string_view line = table.substr(0, end);
    table.remove_prefix(std::min(end + 1, table.size()));
    if (line.starts_with(' '))
      line.remove_prefix(line.find_first_not_of(' ') - 1);  // one blank stays between the parts
    else
      finish();
    schema += line;
  }
  finish();
}

/// `aten::mul.Tensor(Tensor self, …) -> Tensor` as `aten::mul_.Tensor(Tensor(a!) self, …) -> Tensor(a!)`.
std::string twin(std::string_view schema) {
  auto name_end = schema.find_first_of(".(");
  auto self = schema.find("(Tensor self");
  COIL_CHECK(self != std::string_view::npos && schema.ends_with("-> Tensor"), "{}", schema);
  std::string text(schema.substr(0, name_end));
  text += "_";
  text += schema.substr(name_end, self - name_end);
  text += "(Tensor(a!) self";
  text += schema.substr(self + std::string_view("(Tensor self").size());
  return text + "(a!)";
}
}  // namespace

void define_each(std::string_view schemas, const ShapeFunction& shape, Traits traits) {
  for_each_schema(schemas, [&](std::string_view s) { define(s, shape, traits.random, traits.side_effect); });
}

void define_with_twins(std::string_view schemas, const ShapeFunction& shape, Traits traits) {
  define_each(schemas, shape, traits);
  ShapeFunction twins = in_place(shape);
  for_each_schema(schemas, [&](std::string_view s) { define(twin(s), twins, traits.random, traits.side_effect); });
}

ShapeFunction in_place(ShapeFunction functional) {
  return [functional = std::move(functional)](const Call& call) -> Value {
    const TensorMeta& self = call.tensor(0);
    Value made = functional(call);
    const TensorMeta& result = made.as_tensor();
    if (!all_equal(call.env, self.sizes, result.sizes))
      refuse(call, "a result of sizes {} does not fit in place into {}", show(result.sizes), show(self.sizes));
    if (!can_cast(result.dtype, self.dtype))
      refuse(call, "a result of type {} can't be stored to {}", torch_name(result.dtype), torch_name(self.dtype));
    return self;
  };
}

}  // namespace coil::ops::shapes
