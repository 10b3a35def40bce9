#include "codegen/triton/backend.h"

#include "codegen/cuda/backend.h"
#include "codegen/cuda/sort.h"
#include "codegen/grid_nest.h"
#include "codegen/triton/attention.h"
#include "codegen/triton/grouped.h"
#include "codegen/triton/kernel.h"
#include "codegen/triton/sort.h"
#include "library_ops/products.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

class TritonBackend : public Backend {
 public:
  TritonBackend(std::shared_ptr<const Backend> others, int launch_config, bool measured)
      : others_(std::move(others)), measured_(measured) {
    request_.candidate = launch_config;
  }

  const target::Target& target() const override { return others_->target(); }
  bool dependent_launches() const override { return others_->dependent_launches(); }
  const scheduler::Choices& choices() const override { return others_->choices(); }
  Kernel group(ir::Graph& graph, const scheduler::Group& group) const override {
    if (measured_) return of_both(graph, group);
    LaunchRequest request = request_;
    if (group.launch_config > 0) request.candidate = group.launch_config;
    return either(print_triton_nest(graph, make_grid_nest(graph, group), target(), request),
                  [&] { return others_->group(graph, group); });
  }
  Kernel scatter(ir::Graph& graph, const ir::Operation& op) const override {
    if (measured_) return others_->scatter(graph, op);
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
    if (measured_) return others_->kernel(graph, std::move(nest));
    return either(print_triton_nest(graph, nest, target(), request_),
                  [&] { return others_->kernel(graph, std::move(nest)); });
  }
  bool has_template(std::string_view op) const override { return others_->has_template(op); }
  Kernel template_kernel(ir::Graph& graph, const ir::Extern& call) const override {
    if (measured_) return others_->template_kernel(graph, call);
    return either(triton_template(graph, call), [&] { return others_->template_kernel(graph, call); });
  }
  std::optional<KernelParts> batch(const KernelParts& parts, std::size_t buffers, std::size_t count) const override {
    return others_->batch(parts, buffers, count);
  }
  std::optional<SymbolicLaunch> launch_together(std::span<const MemberKernel> members) const override {
    return others_->launch_together(members);
  }
  KernelParts together(std::span<const MemberKernel> members, const SymbolicLaunch& launch) const override {
    return others_->together(members, launch);
  }
  Binaries compile(std::span<const std::string> kernels, const CompileKernels& options) const override {
    return others_->compile(kernels, options);
  }
  std::vector<KernelResources> resources(const Libraries& libraries) const override {
    return others_->resources(libraries);
  }
  std::string portable_text(const Libraries& libraries) const override { return others_->portable_text(libraries); }
  std::string machine_text(const Libraries& libraries) const override { return others_->machine_text(libraries); }

 private:
  /// The kernel in the group's config, which counts those in Triton behind those of the other backend.
  Kernel of_both(ir::Graph& graph, const scheduler::Group& group) const {
    scheduler::Group usual = group;
    usual.launch_config = 0;
    Kernel out = others_->group(graph, usual);
    std::vector<LaunchConfig> candidates = out.candidates;
    if (candidates.empty()) candidates.emplace_back();
    const int own = static_cast<int>(candidates.size());
    LaunchRequest request = request_;
    if (group.launch_config > own) request.candidate = group.launch_config - own;
    auto triton = print_triton_nest(graph, make_grid_nest(graph, group), target(), request);
    auto* made = std::get_if<Kernel>(&triton);
    if (made) {
      if (made->candidates.empty()) made->candidates.emplace_back();
      candidates.insert(candidates.end(), made->candidates.begin(), made->candidates.end());
    }
    if (made && group.launch_config >= own)
      out = std::move(*made);
    else if (group.launch_config > 0)
      out = others_->group(graph, group);
    out.candidates = std::move(candidates);
    return out;
  }

  std::variant<Kernel, std::string> triton_template(ir::Graph& graph, const ir::Extern& call) const {
    if (is_blocked_attention(call.op)) return triton_attention(graph, call, target().costs);
    if (call.op == library_ops::grouped_matmul::kBlocked) return triton_grouped_product(graph, call);
    return is_sort(call.op) ? triton_sort(graph, call) : "a kernel written by hand";
  }

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
  bool measured_;
};

}  // namespace

std::unique_ptr<Backend> make_triton_backend(std::shared_ptr<const Backend> others, int launch_config, bool measured) {
  return std::make_unique<TritonBackend>(std::move(others), launch_config, measured);
}

std::unique_ptr<Backend> with_triton(std::unique_ptr<Backend> native, const Settings& settings) {
  if (settings.cuda_kernels == "cuda") return native;
  const bool measured = settings.cuda_kernels == "auto";
  if (!measured && settings.cuda_kernels != "triton")
    fail("cuda.kernels is {}: it may be cuda, triton or auto", settings.cuda_kernels);
  if (!native->target().has(target::Feature::ThreadGrids)) return native;
  return make_triton_backend(std::move(native), launch_config_of(settings), measured);
}

}  // namespace coil::codegen
