#include "codegen/cuda/emulated_backend.h"

#include <algorithm>

#include "codegen/cpp/backend.h"

namespace coil::codegen {
namespace {

/// What a kernel whose threads wait for each other calls, by how it begins.
constexpr std::string_view kWaiting[] = {"c_sync",    "c_reduce_warp", "c_scan_warp",       "c_lane_",     "c_sort<",
                                         "c_merge<",  "c_digit_",      "c_radix_",          "c_attention", "c_product(",
                                         "c_grouped", "c_convolution", "c_blocked_product", "c_thin_"};

}  // namespace

EmulatedBackend::EmulatedBackend(const Dialect& dialect, Toolchain toolchain,
                                 std::unique_ptr<scheduler::Choices> choices, int launch_config)
    : GridBackend(dialect, dialect.emulated(toolchain.isa), std::move(choices), launch_config),
      cpp_(make_cpp_backend(toolchain)),
      toolchain_(std::move(toolchain)) {
  // Headers, and the whole standard library behind them.
  std::erase(toolchain_.flags, "-nostdlib");
  std::erase_if(toolchain_.flags, [](const std::string& f) {
    return f.starts_with("-march=") || f == "-fno-exceptions" || f == "-fno-rtti";
  });
  optimize_less(toolchain_);
  std::replace(toolchain_.flags.begin(), toolchain_.flags.end(), std::string("-ffp-contract=fast"),
               std::string("-ffp-contract=off"));
}

Binaries EmulatedBackend::compile(std::span<const std::string> kernels, const CompileKernels& options) const {
  std::vector<std::string> plain;
  std::vector<std::string> units(static_cast<std::size_t>(std::max(1, options.jobs)));
  for (const std::string& k : kernels) {
    if (k.find(mark()) == std::string::npos)
      plain.push_back(k);
    else
      *std::min_element(units.begin(), units.end(), [](auto& a, auto& b) { return a.size() < b.size(); }) += k + "\n";
  }
  Binaries out = plain.empty() ? Binaries{} : cpp_->compile(plain, options);
  std::erase(units, "");
  for (std::string& u : units) {
    u = unit(u);
    out.source += u;
  }
  for (auto& library : compile_shared(toolchain_, units, {.jobs = options.jobs, .cache_folder = options.cache}))
    out.libraries.push_back(std::move(library));
  return out;
}

Kernel EmulatedBackend::written(Kernel k) const {
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

}  // namespace coil::codegen
