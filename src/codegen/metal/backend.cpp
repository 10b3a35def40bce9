// Kernels for Apple's GPUs: Metal Shading Language, which the machine that runs a program compiles when it is loaded.
#include "codegen/cuda/backend.h"
#include "codegen/backends.h"
#include "codegen/cuda/kernel.h"
#include "codegen/grid_nest.h"
#include "codegen/metal/choices.h"
#include "codegen/metal/dialect.h"
#include "codegen/metal/prelude.h"
#include "codegen/metal/products.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

class MetalBackend : public Backend {
 public:
  explicit MetalBackend(BackendRequest request)
      : choices_(metal_choices(std::move(request.choices))), target_(target::metal(request.device.index)) {
    request_.candidate = launch_config_of(request.settings);
  }

  const target::Target& target() const override { return target_; }
  const scheduler::Choices& choices() const override { return *choices_; }
  Kernel group(ir::Graph& graph, const scheduler::Group& group) const override {
    LaunchRequest request = request_;
    if (group.launch_config > 0) request.candidate = group.launch_config;
    return print_cuda_nest(graph, make_grid_nest(graph, group), target_, request, metal_dialect());
  }
  Kernel scatter(ir::Graph& graph, const ir::Operation& op) const override {
    return kernel(graph, make_scatter_nest(graph, op));
  }
  std::optional<LoopNest> nest(ir::Graph& graph, const scheduler::Group& group) const override {
    return make_grid_nest(graph, group);
  }
  std::optional<LoopNest> nest(ir::Graph& graph, const ir::Operation& op) const override {
    return make_scatter_nest(graph, op);
  }
  Kernel kernel(ir::Graph& graph, LoopNest nest) const override {
    return print_cuda_nest(graph, std::move(nest), target_, request_, metal_dialect());
  }
  bool has_template(std::string_view op) const override { return is_metal_product(op); }
  Kernel template_kernel(ir::Graph& graph, const ir::Extern& call) const override { return metal_product(graph, call); }

  Binaries compile(std::span<const std::string> kernels, const CompileKernels&) const override {
    Binaries out;
    if (kernels.empty()) return out;
    for (const std::string& k : kernels) out.source += k + "\n";
    out.source = metal_head(out.source) + out.source;
    const auto bytes = std::as_bytes(std::span(out.source));
    out.libraries.emplace_back(bytes.begin(), bytes.end());
    return out;
  }

 private:
  std::unique_ptr<scheduler::Choices> choices_;
  target::Target target_;
  LaunchRequest request_;
};

const RegisterBackend kMetalBackend({.device = DeviceType::register_kind("metal"),
                                     .emits = {"cpp"},
                                     .make = [](BackendRequest request) -> std::unique_ptr<Backend> {
                                       return std::make_unique<MetalBackend>(std::move(request));
                                     }});

}  // namespace
}  // namespace coil::codegen
