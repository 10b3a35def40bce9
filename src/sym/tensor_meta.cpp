#include "sym/tensor_meta.h"

#include "sym/print.h"

namespace coil::sym {

Exprs contiguous_strides(std::span<const Expr> sizes) {
  Exprs strides(sizes.size(), Expr(1));
  for (std::size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * max(sizes[i], 1);
  return strides;
}

TensorMeta contiguous(DType dtype, Device device, Exprs sizes) {
  TensorMeta meta{.dtype = dtype, .device = device, .sizes = std::move(sizes)};
  meta.strides = contiguous_strides(meta.sizes);
  return meta;
}

std::string to_string(const TensorMeta& meta) {
  auto list = [](const Exprs& all) {
    std::string text;
    for (const Expr& e : all) {
      if (!text.empty()) text += ", ";
      text += to_string(e);
    }
    return text;
  };
  std::string text = fmt::format("{}[{}]", short_name(meta.dtype), list(meta.sizes));
  bool dense = meta.strides == contiguous_strides(meta.sizes);
  if (!dense || !meta.offset.is_constant(0)) text += fmt::format("{{{}}}", list(meta.strides));
  if (!meta.offset.is_constant(0)) text += fmt::format("+{}", to_string(meta.offset));
  if (!meta.device.is_host()) text += fmt::format("@{}", to_string(meta.device));
  return text;
}

}  // namespace coil::sym
