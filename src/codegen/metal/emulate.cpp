// Metal kernels on the CPU.
#include "codegen/backends.h"
#include "codegen/cuda/backend.h"
#include "codegen/cuda/emulated_backend.h"
#include "codegen/cuda/sort.h"
#include "codegen/metal/choices.h"
#include "codegen/metal/dialect.h"
#include "codegen/metal/prelude.h"
#include "codegen/metal/products.h"

namespace coil::codegen {
namespace {

class EmulatedMetalBackend : public EmulatedBackend {
 public:
  explicit EmulatedMetalBackend(BackendRequest request)
      : EmulatedBackend(metal_dialect(), request.toolchain, metal_choices(std::move(request.choices)),
                        launch_config_of(request.settings)) {}

  bool has_template(std::string_view op) const override {
    return is_metal_product(op) || is_sort(op) || EmulatedBackend::has_template(op);
  }
  Kernel template_kernel(ir::Graph& graph, const ir::Extern& call) const override {
    if (is_sort(call.op)) return written(sort_kernel(metal_dialect(), graph, call, target()));
    return is_metal_product(call.op) ? written(metal_product(graph, call))
                                     : EmulatedBackend::template_kernel(graph, call);
  }

 private:
  std::string_view mark() const override { return "kernel void"; }
  std::string unit(const std::string& kernels) const override { return metal_head_on_cpu(kernels) + kernels; }
};

const RegisterBackend kEmulatedBackend({.device = DeviceType::CPU,
                                        .emulates = "metal",
                                        .make = [](BackendRequest request) {
                                          return std::make_unique<EmulatedMetalBackend>(std::move(request));
                                        }});

}  // namespace
}  // namespace coil::codegen
