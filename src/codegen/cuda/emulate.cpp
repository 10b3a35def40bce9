// CUDA kernels on the CPU.
#include "codegen/backends.h"
#include "codegen/cuda/attention.h"
#include "codegen/cuda/backend.h"
#include "codegen/cuda/emulated_backend.h"
#include "codegen/cuda/fourier.h"
#include "codegen/cuda/group_convolutions.h"
#include "codegen/cuda/grouped.h"
#include "codegen/cuda/prelude.h"
#include "codegen/cuda/products.h"
#include "codegen/cuda/sort.h"
#include "device/pieces.h"
#include "library_ops/attention.h"
#include "sym/print.h"

namespace coil::codegen {
namespace {

class EmulatedCudaBackend : public EmulatedBackend {
 public:
  EmulatedCudaBackend(Toolchain toolchain, std::unique_ptr<scheduler::Choices> choices, int launch_config,
                      Alternatives alternatives)
      : EmulatedBackend(cuda_dialect(), std::move(toolchain), std::move(choices), launch_config) {
    alternatives_ = alternatives;
  }

  bool has_template(std::string_view op) const override {
    return is_sort(op) || is_cuda_fourier(op) || is_cuda_grouped(op) || is_cuda_product(op) ||
           is_cuda_group_convolution(op) || EmulatedBackend::has_template(op);
  }
  Kernel template_kernel(ir::Graph& graph, const ir::Extern& call) const override {
    if (is_sort(call.op)) return written(sort_kernel(cuda_dialect(), graph, call, target()));
    if (is_cuda_fourier(call.op)) return written(cuda_fourier(graph, call));
    if (is_cuda_grouped(call.op)) return written(cuda_grouped_product(graph, call, target()));
    if (is_cuda_product(call.op)) return written(cuda_product(graph, call, target()));
    if (is_cuda_group_convolution(call.op)) return written(cuda_group_convolution(graph, call, target()));
    if (call.op != library_ops::attention::kName || call.inputs[0].dtype != DType::F32)
      return EmulatedBackend::template_kernel(graph, call);
    ir::Extern blocked = call;
    blocked.op = library_ops::attention::kBlocked;
    return written(cuda_attention(graph, blocked, target().costs));
  }

 private:
  std::string_view mark() const override { return "__global__"; }
  std::string unit(const std::string& kernels) const override {
    return device::whole("grid/fibers.h") + device::whole("cuda/emulated.h") + cuda_prelude() +
           special_functions_on_cuda(kernels) + sym::code_helpers(sym::Language::Cuda) + written_on_cuda(kernels) +
           kernels;
  }
};

const RegisterBackend kEmulatedBackend(
    {.device = DeviceType::CPU, .emulates = "cuda", .make = [](BackendRequest request) {
       return make_emulated_cuda_backend(request.toolchain, std::move(request.choices),
                                         launch_config_of(request.settings), alternatives_of(request.settings));
     }});

}  // namespace

std::unique_ptr<Backend> make_emulated_cuda_backend(Toolchain toolchain, std::unique_ptr<scheduler::Choices> choices,
                                                    int launch_config, Alternatives alternatives) {
  return std::make_unique<EmulatedCudaBackend>(std::move(toolchain), std::move(choices), launch_config, alternatives);
}

}  // namespace coil::codegen
