#include "codegen/cpp/attention_call.h"

#include "codegen/cpp/attention.h"
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

}  // namespace

Kernel attention_call(const ir::Extern& call, const Toolchain& toolchain) {
  const library_ops::AttentionCall given(call);
  const bool masked = given.has_mask();
  const ir::BufferView &q = call.inputs[0], &k = call.inputs[1], &v = call.inputs[2], &out = call.outputs[0];
  AttentionSpec spec{
      .dtype = q.dtype, .head_dim = static_cast<int>(head_size(q)), .value_dim = static_cast<int>(head_size(v))};
  spec.causal = given.causal();
  spec.scale = given.scale();
  if (masked) spec.mask = given.mask().dtype;
  spec.log_sums = call.outputs.size() > 1;

  Kernel kernel;
  std::vector<const ir::BufferView*> views{&q, &k, &v};
  if (masked) views.push_back(&given.mask());
  const std::size_t read = views.size();
  for (const ir::BufferView& result : call.outputs) views.push_back(&result);
  kernel.scalars = {q.sizes[0], q.sizes[1], k.sizes[1], q.sizes[2], k.sizes[2]};
  for (const ir::BufferView* view : {&q, &k, &v, &out})
    kernel.scalars.insert(kernel.scalars.end(), view->strides.begin(), view->strides.end());
  if (masked) kernel.scalars.insert(kernel.scalars.end(), given.mask().strides.begin(), given.mask().strides.end());
  if (spec.log_sums)
    kernel.scalars.insert(kernel.scalars.end(), call.outputs[1].strides.begin(), call.outputs[1].strides.end());

  // The template takes pointers to first elements; the views' offsets follow its scalars.
  std::string moved;
  for (std::size_t i = 0; i < views.size(); ++i) {
    kernel.buffers.push_back(views[i]->buffer);
    kernel.written.push_back(i >= read);
    moved += fmt::format("{}(void*)(({}*)buffers[{}] + scalars[{}])", i ? ", " : "", element(views[i]->dtype), i,
                         kernel.scalars.size());
    kernel.scalars.push_back(views[i]->offset);
  }
  auto text = [&](const std::string& symbol) {
    return attention_kernel(toolchain, spec, symbol + "_at") +
           fmt::format(
               "\nextern \"C\" void {0}(void* const* buffers, const i64* scalars, i64 begin, i64 end) {{\n  void* "
               "const moved[] = {{{1}}};\n  {0}_at(moved, scalars, begin, end);\n}}\n",
               symbol, moved);
  };
  kernel.symbol = "coil_attention_" + to_hex(hash(text(""))).substr(0, 16);
  kernel.text = text(kernel.symbol);
  kernel.extent = q.sizes[0] * q.sizes[1] * sym::ceil_div(q.sizes[2], attention_block(toolchain));
  return kernel;
}

}  // namespace coil::codegen
