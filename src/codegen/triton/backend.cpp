#include "codegen/triton/backend.h"

#include "codegen/cuda/backend.h"
#include "codegen/grid_nest.h"
#include "codegen/triton/kernel.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

class TritonBackend : public Backend {
 public:
  TritonBackend(std::shared_ptr<const Backend> others, int launch_config) : others_(std::move(others)) {
    request_.candidate = launch_config;
  }

  const target::Target& target() const override { return others_->target(); }
  bool launches_early() const override { return others_->launches_early(); }
  const scheduler::Choices& choices() const override { return others_->choices(); }
  Kernel group(ir::Graph& graph, const scheduler::Group& group) const override {
    LaunchRequest request = request_;
    if (group.launch_config > 0) request.candidate = group.launch_config;
    return either(print_triton_nest(graph, make_grid_nest(graph, group), target(), request),
                  [&] { return others_->group(graph, group); });
  }
  Kernel scatter(ir::Graph& graph, const ir::Operation& op) const override {
    return either(print_triton_nest(graph, make_scatter_nest(graph, op), target(), request_),
                  [&] { return others_->scatter(graph, op); });
  }
  std::optional<LoopNest> nest(ir::Graph& graph, const scheduler::Group& group) const override {
    return make_grid_nest(graph, group);
  }
  std::optional<LoopNest> nest(ir::Graph& graph, const ir::Operation& op) const override {
    return make_scatter_nest(graph, op);
  }
  Kernel kernel(ir::Graph& graph, LoopNest nest) const override {
    return either(print_triton_nest(graph, nest, target(), request_),
                  [&] { return others_->kernel(graph, std::move(nest)); });
  }
  bool has_template(std::string_view op) const override { return others_->has_template(op); }
  Kernel template_kernel(ir::Graph& graph, const ir::Extern& call) const override {
    return named(others_->template_kernel(graph, call), "a kernel written by hand");
  }
  std::optional<KernelParts> batch(const KernelParts& parts, std::size_t buffers, std::size_t count) const override {
    return others_->batch(parts, buffers, count);
  }
  Binaries compile(std::span<const std::string> kernels, const CompileKernels& options) const override {
    return others_->compile(kernels, options);
  }

 private:
  static Kernel named(Kernel kernel, const std::string& why) {
    kernel.language = "CUDA C++: " + why;
    return kernel;
  }

  template <class F>
  static Kernel either(std::variant<Kernel, std::string> triton, F&& other) {
    if (auto* kernel = std::get_if<Kernel>(&triton)) return std::move(*kernel);
    return named(other(), std::get<std::string>(triton));
  }

  std::shared_ptr<const Backend> others_;
  LaunchRequest request_;
};

}  // namespace

std::unique_ptr<Backend> make_triton_backend(std::shared_ptr<const Backend> others, int launch_config) {
  return std::make_unique<TritonBackend>(std::move(others), launch_config);
}

std::unique_ptr<Backend> with_triton(std::unique_ptr<Backend> native, const Settings& settings) {
  if (settings.cuda_kernels == "cuda") return native;
  if (settings.cuda_kernels != "triton") fail("cuda.kernels is {}: it may be cuda or triton", settings.cuda_kernels);
  if (!native->target().has(target::Feature::ThreadGrids)) return native;
  return make_triton_backend(std::move(native), launch_config_of(settings));
}

}  // namespace coil::codegen
