// Kernels for Apple's GPUs: Metal Shading Language, which the machine that runs a program compiles when it is loaded.
#include "codegen/cuda/backend.h"
#include "codegen/backends.h"
#include "codegen/cuda/grid_backend.h"
#include "codegen/cuda/sort.h"
#include "codegen/metal/choices.h"
#include "codegen/metal/dialect.h"
#include "codegen/metal/prelude.h"
#include "codegen/metal/products.h"

namespace coil::codegen {
namespace {

class MetalBackend : public GridBackend {
 public:
  explicit MetalBackend(BackendRequest request)
      : GridBackend(metal_dialect(), target::metal(request.device.index), metal_choices(std::move(request.choices)),
                    launch_config_of(request.settings)) {}

  bool has_template(std::string_view op) const override { return is_metal_product(op) || is_sort(op); }
  Kernel template_kernel(ir::Graph& graph, const ir::Extern& call) const override {
    return is_sort(call.op) ? sort_kernel(metal_dialect(), graph, call, target_) : metal_product(graph, call);
  }

  Binaries compile(std::span<const std::string> kernels, const CompileKernels&) const override {
    Binaries out;
    if (kernels.empty()) return out;
    for (const std::string& k : kernels) out.source += k + "\n";
    out.source = metal_head(out.source) + out.source;
    const auto bytes = std::as_bytes(std::span(out.source));
    out.libraries.emplace_back(bytes.begin(), bytes.end());
    return out;
  }
};

const RegisterBackend kMetalBackend({.device = DeviceType::register_kind("metal"),
                                     .emits = {"cpp"},
                                     .make = [](BackendRequest request) -> std::unique_ptr<Backend> {
                                       return std::make_unique<MetalBackend>(std::move(request));
                                     }});

}  // namespace
}  // namespace coil::codegen
