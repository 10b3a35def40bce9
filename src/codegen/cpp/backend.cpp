#include "codegen/cpp/backend.h"

#include <algorithm>

#include "codegen/backends.h"
#include "codegen/cpp/attention_call.h"
#include "codegen/cpp/kernel.h"
#include "codegen/cpp/prelude.h"
#include "library_ops/attention.h"

namespace coil::codegen {
namespace {

class CppBackend : public Backend {
 public:
  CppBackend(Toolchain toolchain, std::unique_ptr<scheduler::Choices> choices)
      : toolchain_(std::move(toolchain)),
        choices_(std::move(choices)),
        options_{.lanes = toolchain_.lanes},
        target_(target::cpu(toolchain_.isa)) {}

  const target::Target& target() const override { return target_; }
  const scheduler::Choices& choices() const override { return *choices_; }
  Kernel group(ir::Graph& graph, const scheduler::Group& group) const override {
    return print_kernel(graph, group, options_);
  }
  Kernel scatter(ir::Graph& graph, const ir::Operation& op) const override {
    return print_scatter(graph, op, options_);
  }

  std::optional<LoopNest> nest(ir::Graph& graph, const scheduler::Group& group) const override {
    return make_loop_nest(graph, group, options_.lanes);
  }
  std::optional<LoopNest> nest(ir::Graph& graph, const ir::Operation& op) const override {
    return make_threaded_scatter_nest(graph, op, options_.lanes);
  }
  Kernel kernel(ir::Graph& graph, LoopNest nest) const override { return print_nest(graph, std::move(nest), options_); }

  bool has_template(std::string_view op) const override {
    return op == library_ops::attention::kName || op == library_ops::attention::kBackward;
  }
  Kernel template_kernel(ir::Graph&, const ir::Extern& call) const override { return attention_call(call, toolchain_); }

  /// Kernels as translation units of about equal size, one for each compiler that may run at once.
  Binaries compile(std::span<const std::string> kernels, const CompileKernels& options) const override {
    std::vector<std::string> bodies(static_cast<std::size_t>(std::max(1, options.jobs)));
    for (const std::string& k : kernels)
      *std::min_element(bodies.begin(), bodies.end(), [](auto& a, auto& b) { return a.size() < b.size(); }) += k + "\n";
    std::vector<std::string> units;
    Binaries out;
    for (const std::string& body : bodies) {
      if (body.empty()) continue;
      units.push_back(prelude(toolchain_.lanes, prelude_names(body)) + kernel_support() + body);
      out.source += units.back();
    }
    out.libraries = compile_shared(toolchain_, units, {.jobs = options.jobs, .cache_folder = options.cache});
    return out;
  }

 private:
  Toolchain toolchain_;
  std::unique_ptr<scheduler::Choices> choices_;
  KernelOptions options_;
  target::Target target_;
};

const RegisterBackend kCppBackend(
    {.device = DeviceType::CPU, .emits = {"cpp", "python", "fx"}, .make = [](BackendRequest request) {
       return request.choices ? make_cpp_backend(request.toolchain, std::move(request.choices))
                              : make_cpp_backend(request.toolchain);
     }});

}  // namespace

std::unique_ptr<Backend> make_cpp_backend(Toolchain toolchain, std::unique_ptr<scheduler::Choices> choices) {
  return std::make_unique<CppBackend>(std::move(toolchain), std::move(choices));
}

}  // namespace coil::codegen
