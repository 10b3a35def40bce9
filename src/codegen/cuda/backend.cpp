#include "codegen/cuda/backend.h"

#include <algorithm>
#include <charconv>

#include "codegen/backends.h"
#include "codegen/cuda/attention.h"
#include "codegen/cuda/cubin.h"
#include "codegen/cuda/fourier.h"
#include "codegen/cuda/grid_backend.h"
#include "codegen/cuda/group_convolutions.h"
#include "codegen/cuda/grouped.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/prelude.h"
#include "codegen/cuda/products.h"
#include "codegen/cuda/sort.h"
#include "codegen/cuda/together.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

/// Threads are many, so a reduction needs more rows before large pointwise work may follow it into its kernel.
class CudaChoices : public scheduler::Choices {
 public:
  explicit CudaChoices(const target::Costs& costs) : costs_(costs) {}

  std::int64_t min_parallel_outer() const override { return 256; }
  std::int64_t short_row() const override { return 1 << 14; }  // a block's threads take sixteen elements each
  bool overwrites() const override { return true; }

  /// A row that is stored across others takes a sector of memory for each element. A kernel of its own turns the values
  /// in tiles, for which they are read once more: the better where they are too many to be put together in the cache.
  std::optional<std::string> refuses_loops(const scheduler::Joint& joint) const override {
    constexpr std::int64_t kMany = 1 << 20;
    if (joint.mixes && joint.scattered >= kMany)
      return "its results lie across the other's rows, and a kernel of its own turns them in tiles";
    if (costs_.holds_rows_in_clusters(joint.rows, joint.row_bytes)) return std::nullopt;
    return Choices::refuses_loops(joint);
  }

 private:
  target::Costs costs_;
};

/// The architecture asked for, or that of the device, or sm_90.
std::string arch_of(const CudaOptions& options) {
  std::string arch = options.arch;
  if (arch.empty()) arch = device_arch(options.device).value_or("sm_90");
  if (!arch.starts_with("sm_") || arch.size() < 5) fail("cuda.arch is {}: it is written like sm_90a", arch);
  // Kernels use nothing that only one member of a family has, and PTX of a family's own kind does not run on later
  // ones.
  while (!std::isdigit(static_cast<unsigned char>(arch.back()))) arch.pop_back();
  return arch;
}

class CudaBackend : public GridBackend {
 public:
  CudaBackend(CudaOptions options, std::unique_ptr<scheduler::Choices> choices, target::Target target)
      : GridBackend(cuda_dialect(), target, choices ? std::move(choices) : std::make_unique<CudaChoices>(target.costs),
                    options.launch_config),
        options_(std::move(options)) {
    alternatives_ = options_.alternatives;
    if (options_.cluster.empty()) return;
    const bool known =
        options_.cluster == "1" || options_.cluster == "2" || options_.cluster == "4" || options_.cluster == "8";
    if (!known || (options_.cluster != "1" && target_.costs.blocks_of_cluster == 1))
      fail("cuda.cluster is {}: it is 1, and from sm_90 on also 2, 4 or 8", options_.cluster);
    request_.cluster = options_.cluster[0] - '0';
  }

  bool dependent_launches() const override { return options_.dependent_launch && target_.generation >= 90; }
  bool has_template(std::string_view op) const override {
    return is_sort(op) || is_cuda_fourier(op) || is_cuda_attention(op) || is_cuda_grouped(op) || is_cuda_product(op) ||
           is_cuda_group_convolution(op);
  }
  Kernel template_kernel(ir::Graph& graph, const ir::Extern& call) const override {
    if (is_cuda_fourier(call.op)) return cuda_fourier(graph, call);
    if (is_cuda_attention(call.op)) return cuda_attention(graph, call, target_.costs);
    if (is_cuda_grouped(call.op)) return cuda_grouped_product(graph, call, target_);
    if (is_cuda_product(call.op)) return cuda_product(graph, call, target_);
    if (is_cuda_group_convolution(call.op)) return cuda_group_convolution(graph, call, target_);
    return sort_kernel(cuda_dialect(), graph, call, target_);
  }

  std::optional<KernelParts> batch(const KernelParts& parts, std::size_t buffers, std::size_t count) const override {
    return batch_cuda_kernel(parts, buffers, count);
  }

  std::optional<SymbolicLaunch> launch_together(std::span<const MemberKernel> members) const override {
    return launch_cuda_kernels_together(members);
  }
  KernelParts together(std::span<const MemberKernel> members, const SymbolicLaunch& launch) const override {
    return put_cuda_kernels_together(members, launch);
  }

  Binaries compile(std::span<const std::string> kernels, const CompileKernels& options) const override {
    Binaries out;
    if (kernels.empty()) return out;
    // A unit costs its prelude, so small ones are put together.
    constexpr std::size_t kKernelsOfUnit = 4;
    const std::size_t units = std::clamp<std::size_t>(kernels.size() / kKernelsOfUnit, 1,
                                                      static_cast<std::size_t>(std::max(1, options.jobs)));
    std::vector<std::string> bodies(units);
    for (const std::string& k : kernels)
      *std::min_element(bodies.begin(), bodies.end(), [](auto& a, auto& b) { return a.size() < b.size(); }) += k + "\n";
    std::vector<CudaSource> sources;
    for (const std::string& body : bodies) {
      const bool own = target_.has(target::Feature::Warpgroups) && has_product_kernel(body);
      using Own = CudaSource::Own;
      sources.push_back({cuda_head(body, dependent_launches()) + body, needs_family(body) ? Own::Needs
                                                                       : own              ? Own::Gains
                                                                                          : Own::None});
      out.source += sources.back().text;
    }
    out.libraries = compile_cuda(options_.nvrtc, sources,
                                 {.arch = target_.arch, .jobs = options.jobs, .cache_folder = options.cache});
    return out;
  }

  std::vector<KernelResources> resources(const Libraries& libraries) const override {
    std::vector<KernelResources> out;
    for (const auto& library : libraries)
      if (is_cubin(library)) std::ranges::move(cubin_resources(library), std::back_inserter(out));
    return out;
  }
  std::string portable_text(const Libraries& libraries) const override {
    std::string out;
    for (const auto& library : libraries)
      if (!is_cubin(library)) out.append(reinterpret_cast<const char*>(library.data()), library.size());
    return out;
  }
  std::string machine_text(const Libraries& libraries) const override {
    std::string out;
    for (const auto& library : libraries)
      if (is_cubin(library)) out += disassembled(library);
    return out;
  }

 private:
  CudaOptions options_;
};

const RegisterBackend kCudaBackend(
    {.device = DeviceType::CUDA, .emits = {"cpp", "python", "fx"}, .make = [](BackendRequest request) {
       return make_cuda_backend({.device = request.device.index,
                                 .arch = request.settings.cuda_arch,
                                 .nvrtc = request.settings.cuda_nvrtc,
                                 .dependent_launch = request.settings.cuda_dependent_launch,
                                 .launch_config = launch_config_of(request.settings),
                                 .cluster = request.settings.cuda_cluster,
                                 .alternatives = alternatives_of(request.settings)},
                                std::move(request.choices));
     }});

}  // namespace

int launch_config_of(const Settings& settings) {
  const std::string& text = settings.cuda_launch_config;
  int number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!text.empty() && (status != std::errc() || end != text.data() + text.size() || number < 0))
    fail("cuda.launch_config is {}: it is a number from 0 on", text);
  return number;
}

Alternatives alternatives_of(const Settings& settings) {
  const std::string& text = settings.cuda_alternatives;
  if (text != "sizes" && text != "vectors" && text != "off")
    fail("cuda.alternatives is {}: it may be vectors, sizes or off", text);
  if (settings.batch_invariant || text == "off") return Alternatives::Off;
  return text == "sizes" ? Alternatives::Sizes : Alternatives::Vectors;
}

std::unique_ptr<Backend> make_cuda_backend(CudaOptions options, std::unique_ptr<scheduler::Choices> choices) {
  target::Target target = target::cuda(options.device, arch_of(options));
  return std::make_unique<CudaBackend>(std::move(options), std::move(choices), std::move(target));
}

}  // namespace coil::codegen
