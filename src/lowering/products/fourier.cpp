// Fourier transforms along one dimension: the library calls `fourier` and `fourier_to_real`.
#include "library_ops/fourier.h"

#include "lowering/common.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;

std::vector<BufferView> parts(Context& ctx) {
  std::vector<BufferView> views{library_operand(ctx.tensor(ctx.node->arg("re")))};
  if (const auto im = ctx.optional_tensor(ctx.node->arg("im"))) views.push_back(library_operand(*im));
  return views;
}

std::int64_t dim(const Context& ctx) { return *ctx.node->arg("dim").as_int().constant(); }

Lowered fourier(Context& ctx, const Values&) {
  std::vector<TensorBox> boxes;
  std::vector<BufferView> outputs;
  for (std::size_t i = 0; i < 2; ++i) {
    auto [box, view] = library_result(ctx, ctx.result(i).dtype, ctx.result(i).sizes);
    boxes.push_back(box);
    outputs.push_back(view);
  }
  const std::int64_t backwards{ctx.node->arg("backwards").as_bool()};
  add_library_call(ctx, std::string(library_ops::fourier::kName), {{"dim", dim(ctx)}, {"backwards", backwards}},
                   parts(ctx), std::move(outputs));
  return boxes;
}

Lowered fourier_to_real(Context& ctx, const Values&) {
  auto [box, view] = library_result(ctx, ctx.result().dtype, ctx.result().sizes);
  add_library_call(ctx, std::string(library_ops::fourier::kToRealName), {{"dim", dim(ctx)}}, parts(ctx), {view});
  return box;
}

}  // namespace

void add_fourier(Table& t) {
  t["coil.fourier.default"] = fourier;
  t["coil.fourier_to_real.default"] = fourier_to_real;
}

}  // namespace coil::lowering
