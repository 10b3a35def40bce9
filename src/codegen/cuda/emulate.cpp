// CUDA kernels on the CPU. A block's threads are fibers that take turns; at a barrier or an exchange between lanes each
// waits for the others of its block or warp.
#include <algorithm>

#include "codegen/backends.h"
#include "codegen/cpp/backend.h"
#include "codegen/cuda/attention.h"
#include "codegen/cuda/backend.h"
#include "codegen/cuda/grouped.h"
#include "codegen/cuda/kernel.h"
#include "codegen/cuda/prelude.h"
#include "codegen/cuda/sort.h"
#include "device/pieces.h"
#include "library_ops/attention.h"
#include "support/error.h"
#include "sym/print.h"

namespace coil::codegen {
namespace {

/// What a kernel whose threads wait for each other calls, by how it begins.
constexpr std::string_view kWaiting[] = {"c_sync",   "c_reduce_warp", "c_scan_warp", "c_lane_",     "c_sort<",
                                         "c_merge<", "c_digit_",      "c_radix_",    "c_attention", "c_grouped"};

class EmulatedBackend : public Backend {
 public:
  EmulatedBackend(Toolchain toolchain, std::unique_ptr<scheduler::Choices> choices, int launch_config)
      : cpp_(make_cpp_backend(toolchain)),
        toolchain_(std::move(toolchain)),
        choices_(std::move(choices)),
        target_(target::emulated_cuda(cpp_->isa())) {
    request_.candidate = launch_config;
    // Headers, and the whole standard library behind them.
    std::erase(toolchain_.flags, "-nostdlib");
    std::erase_if(toolchain_.flags, [](const std::string& f) {
      return f.starts_with("-march=") || f == "-fno-exceptions" || f == "-fno-rtti";
    });
    optimize_less(toolchain_);
    std::replace(toolchain_.flags.begin(), toolchain_.flags.end(), std::string("-ffp-contract=fast"),
                 std::string("-ffp-contract=off"));
  }

  const target::Target& target() const override { return target_; }
  const scheduler::Choices& choices() const override { return choices_ ? *choices_ : cpp_->choices(); }
  Kernel group(ir::Graph& graph, const scheduler::Group& group) const override {
    return on_cpu(print_cuda_kernel(graph, group, target_, request_));
  }
  Kernel scatter(ir::Graph& graph, const ir::Operation& op) const override {
    return on_cpu(print_cuda_scatter(graph, op, target_, request_));
  }
  bool has_template(std::string_view op) const override {
    return is_cuda_sort(op) || is_cuda_grouped(op) || cpp_->has_template(op);
  }
  Kernel template_kernel(ir::Graph& graph, const ir::Extern& call) const override {
    if (is_cuda_sort(call.op)) return on_cpu(cuda_sort(graph, call));
    if (is_cuda_grouped(call.op)) return on_cpu(cuda_grouped_product(graph, call, target_));
    if (call.op != library_ops::attention::kName || call.inputs[0].dtype != DType::F32)
      return cpp_->template_kernel(graph, call);
    ir::Extern blocked = call;
    blocked.op = library_ops::attention::kBlocked;
    return on_cpu(cuda_attention(graph, blocked, target_.costs));
  }

  Binaries compile(std::span<const std::string> kernels, const CompileKernels& options) const override {
    std::vector<std::string> plain;
    std::vector<std::string> units(static_cast<std::size_t>(std::max(1, options.jobs)));
    for (const std::string& k : kernels) {
      if (k.find("__global__") == std::string::npos)
        plain.push_back(k);
      else
        *std::min_element(units.begin(), units.end(), [](auto& a, auto& b) { return a.size() < b.size(); }) += k + "\n";
    }
    Binaries out = plain.empty() ? Binaries{} : cpp_->compile(plain, options);
    std::erase(units, "");
    for (std::string& u : units) {
      u = device::whole("cuda/emulated.h") + cuda_prelude() + special_functions_on_cuda(u) +
          sym::code_helpers(sym::Language::Cuda) + attention_on_cuda(u) + grouped_on_cuda(u) + u;
      out.source += u;
    }
    for (auto& library : compile_shared(toolchain_, units, {.jobs = options.jobs, .cache_folder = options.cache}))
      out.libraries.push_back(std::move(library));
    return out;
  }

 private:
  /// Called as CPU kernels are: once, with the launch's grid behind the scalars.
  static Kernel on_cpu(Kernel k) {
    const std::string inner = k.symbol + "_threads";
    std::string text = k.parts->text(inner, "");
    const bool waits =
        std::ranges::any_of(kWaiting, [&](std::string_view call) { return text.find(call) != std::string::npos; });
    text += fmt::format(
        "extern \"C\" void {}(void* const* buffers, const long* scalars, long, long) {{ c_call({}, buffers, scalars, "
        "{}, {}, {}, {}, {}); }}\n",
        k.symbol, inner, k.buffers.size(), k.scalars.size(), k.launch->block, k.launch->cluster, waits);
    k.text = text;
    k.scalars.insert(k.scalars.end(), k.launch->grid.begin(), k.launch->grid.end());
    k.extent = 1;
    k.grain = 1;
    k.launch.reset();
    k.parts.reset();
    return k;
  }

  std::unique_ptr<Backend> cpp_;
  Toolchain toolchain_;
  std::unique_ptr<scheduler::Choices> choices_;
  target::Target target_;
  LaunchRequest request_;
};

const RegisterBackend kEmulatedBackend(
    {.device = DeviceType::CPU, .emulated = true, .make = [](BackendRequest request) {
       return make_emulated_cuda_backend(request.toolchain, std::move(request.choices),
                                         launch_config_of(request.settings));
     }});

}  // namespace

std::unique_ptr<Backend> make_emulated_cuda_backend(Toolchain toolchain, std::unique_ptr<scheduler::Choices> choices,
                                                    int launch_config) {
  return std::make_unique<EmulatedBackend>(std::move(toolchain), std::move(choices), launch_config);
}

}  // namespace coil::codegen
