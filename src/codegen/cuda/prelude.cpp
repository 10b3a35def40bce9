#include "codegen/cuda/prelude.h"

#include <vector>

#include "device/pieces.h"
#include "sym/print.h"

namespace coil::codegen {

const std::string& cuda_machine() {
  static const std::string text = device::whole("cuda/machine.cuh");
  return text;
}

const std::string& cuda_prelude() {
  static const std::string text = [] {
    std::string out;
    for (const char* file :
         {"cuda/values.cuh", "grid/arithmetic.h", "cuda/math.cuh", "grid/activations.h", "cuda/memory.cuh",
          "cuda/reductions.cuh", "grid/reductions.h", "cuda/scatter.cuh", "grid/indices.h", "grid/sort.h",
          "cuda/radix.cuh", "grid/products.h", "shared/philox.h", "grid/random.h"})
      out += device::whole(file);
    return out;
  }();
  return text;
}

std::string special_functions_on_cuda(std::string_view kernels) {
  static const std::vector<device::Piece> pieces = device::pieces("shared/special.h");
  const std::string out = device::called(pieces, kernels);
  return out.empty() ? "" : device::whole("cuda/special.cuh") + out;
}

std::string written_on_cuda(std::string_view kernels) {
  const auto calls = [&](std::string_view function) { return kernels.find(function) != std::string_view::npos; };
  const bool streamed = calls(" c_streamed_"), streamed_groups = calls(" c_streamed_groups"),
             thin_groups = calls(" c_thin_groups"), grouped = calls(" c_grouped") || streamed_groups || thin_groups,
             thin = calls(" c_thin_product") || thin_groups;
  std::string out;
  if (calls(" c_attention")) out += device::whole("cuda/attention.cuh");
  if (calls(" c_fourier")) out += device::whole("cuda/fourier.cuh");
  if (calls(" c_peer_sum")) out += device::whole("cuda/peer_sums.cuh");
  if (grouped || streamed || thin || calls(" c_blocked_product")) out += device::whole("cuda/products.cuh");
  if (grouped) out += device::whole("cuda/grouped.cuh");
  if (streamed) out += device::whole("cuda/streamed_products.cuh");
  if (thin) out += device::whole("cuda/thin_products.cuh");
  if (thin_groups) out += device::whole("cuda/thin_groups.cuh");
  if (streamed_groups) out += device::whole("cuda/streamed_groups.cuh");
  if (calls(" c_convolution")) out += device::whole("cuda/convolutions.cuh");
  return out;
}

std::string cuda_head(std::string_view kernels, bool dependent_launches) {
  return std::string(dependent_launches ? "#define C_DEPENDENT\n" : "") + cuda_machine() + cuda_prelude() +
         special_functions_on_cuda(kernels) + sym::code_helpers(sym::Language::Cuda) + written_on_cuda(kernels);
}

}  // namespace coil::codegen
