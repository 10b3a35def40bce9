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
  constexpr std::pair<std::string_view, const char*> kFiles[] = {{" c_attention", "cuda/attention.cuh"},
                                                                 {" c_peer_sum", "cuda/peer_sums.cuh"},
                                                                 {" c_grouped", "cuda/grouped.cuh"},
                                                                 {" c_convolution", "cuda/convolutions.cuh"}};
  std::string out;
  for (const auto& [call, file] : kFiles)
    if (kernels.find(call) != std::string_view::npos) out += device::whole(file);
  return out;
}

std::string cuda_head(std::string_view kernels, bool launches_early) {
  return std::string(launches_early ? "#define C_DEPENDENT\n" : "") + cuda_machine() + cuda_prelude() +
         special_functions_on_cuda(kernels) + sym::code_helpers(sym::Language::Cuda) + written_on_cuda(kernels);
}

}  // namespace coil::codegen
