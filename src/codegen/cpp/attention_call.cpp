#include "codegen/cpp/attention_call.h"

#include "codegen/cpp/attention.h"
#include "codegen/cpp/attention_few.h"
#include "codegen/cpp/attention_gradient.h"
#include "codegen/head_size.h"
#include "library_ops/attention.h"
#include "support/hash.h"

namespace coil::codegen {
namespace {

using sym::Expr;

/// The element type of the pointer that a view's offset moves.
std::string_view element(DType d) {
  switch (size_of(d)) {
    case 1: return "u8";
    case 2: return "u16";
    case 4: return "u32";
    default: return "u64";
  }
}

AttentionSpec spec_of(const library_ops::AttentionCall<const ir::Extern>& given, const ir::BufferView& q,
                      const ir::BufferView& v) {
  AttentionSpec spec{
      .dtype = q.dtype, .head_dim = static_cast<int>(head_size(q)), .value_dim = static_cast<int>(head_size(v))};
  spec.causal = given.causal();
  spec.scale = given.scale();
  if (given.has_mask()) spec.mask = given.mask().dtype;
  return spec;
}

/// A call of what `print` writes for a symbol, over operands of which the first `read` are read, and the scalars that
/// the text has. The template takes pointers to first elements; the views' offsets follow its scalars.
template <class Print>
Kernel call_of_template(std::string_view prefix, std::span<const ir::BufferView* const> views, std::size_t read,
                        sym::Exprs scalars, Print print) {
  Kernel kernel;
  kernel.scalars = std::move(scalars);
  std::string moved;
  for (std::size_t i = 0; i < views.size(); ++i) {
    kernel.buffers.push_back(views[i]->buffer);
    kernel.written.push_back(i >= read);
    moved += fmt::format("{}(void*)(({}*)buffers[{}] + scalars[{}])", i ? ", " : "", element(views[i]->dtype), i,
                         kernel.scalars.size());
    kernel.scalars.push_back(views[i]->offset);
  }
  auto text = [&](const std::string& symbol) {
    return print(symbol + "_at") +
           fmt::format(
               "\nextern \"C\" void {0}(void* const* buffers, const i64* scalars, i64 begin, i64 end) {{\n  void* "
               "const moved[] = {{{1}}};\n  {0}_at(moved, scalars, begin, end);\n}}\n",
               symbol, moved);
  };
  kernel.symbol = std::string(prefix) + to_hex(hash(text(""))).substr(0, 16);
  kernel.text = text(kernel.symbol);
  return kernel;
}

void append(sym::Exprs& to, const sym::Exprs& more) { to.insert(to.end(), more.begin(), more.end()); }

Kernel gradient_call(const ir::Extern& call, const Toolchain& toolchain) {
  const library_ops::AttentionCall given(call);
  const ir::BufferView &q = call.inputs[1], &k = call.inputs[2], &v = call.inputs[3];
  const AttentionSpec spec = spec_of(given, q, v);
  std::vector<const ir::BufferView*> views;
  for (const ir::BufferView& read : call.inputs) views.push_back(&read);
  for (const ir::BufferView& written : call.outputs) views.push_back(&written);
  sym::Exprs scalars{q.sizes[1], k.sizes[1], q.sizes[2], k.sizes[2]};
  for (const ir::BufferView* view : views) {
    append(scalars, view->strides);
    scalars.resize(scalars.size() + 4 - view->strides.size(), 0);
  }
  Kernel kernel =
      call_of_template("coil_attention_gradient_", views, call.inputs.size(), std::move(scalars),
                       [&](std::string_view symbol) { return attention_gradient_kernel(toolchain, spec, symbol); });
  kernel.extent = q.sizes[0] * k.sizes[1];
  return kernel;
}

/// How many queries share a key, where they are so few that the kernel for that takes the call.
std::optional<long> few_rows(const AttentionSpec& spec, std::span<const ir::BufferView* const> views) {
  const ir::BufferView &q = *views[0], &k = *views[1];
  const auto heads = q.sizes[1].constant(), key_heads = k.sizes[1].constant(), queries = q.sizes[2].constant();
  if (spec.causal || spec.log_sums || !heads || !key_heads || !queries || *key_heads == 0 || *queries > kFewQueries)
    return std::nullopt;
  for (const ir::BufferView* view : {views[0], views[1], views[2], views.back()})
    if (!view->strides[3].is_constant(1)) return std::nullopt;
  return *heads / *key_heads * *queries;
}

}  // namespace

Kernel attention_call(const ir::Extern& call, const Toolchain& toolchain) {
  if (call.op == library_ops::attention::kBackward) return gradient_call(call, toolchain);
  const library_ops::AttentionCall given(call);
  const ir::BufferView &q = call.inputs[0], &k = call.inputs[1], &v = call.inputs[2], &out = call.outputs[0];
  AttentionSpec spec = spec_of(given, q, v);
  spec.log_sums = call.outputs.size() > 1;

  std::vector<const ir::BufferView*> views{&q, &k, &v};
  if (spec.mask) views.push_back(&given.mask());
  const std::size_t read = views.size();
  for (const ir::BufferView& result : call.outputs) views.push_back(&result);
  sym::Exprs scalars{q.sizes[0], q.sizes[1], k.sizes[1], q.sizes[2], k.sizes[2]};
  for (const ir::BufferView* view : {&q, &k, &v, &out}) append(scalars, view->strides);
  if (spec.mask) append(scalars, given.mask().strides);
  if (spec.log_sums) append(scalars, call.outputs[1].strides);

  if (const auto rows = few_rows(spec, views)) {
    Kernel kernel = call_of_template("coil_attention_", views, read, std::move(scalars), [&](std::string_view symbol) {
      return attention_few_kernel(toolchain, spec, *rows, symbol);
    });
    kernel.extent = q.sizes[0] * k.sizes[1] * sym::ceil_div(Expr(*rows), attention_few_rows(toolchain, spec, *rows));
    return kernel;
  }
  Kernel kernel = call_of_template("coil_attention_", views, read, std::move(scalars),
                                   [&](std::string_view symbol) { return attention_kernel(toolchain, spec, symbol); });
  kernel.extent = q.sizes[0] * q.sizes[1] * sym::ceil_div(q.sizes[2], attention_block(toolchain));
  return kernel;
}

}  // namespace coil::codegen
