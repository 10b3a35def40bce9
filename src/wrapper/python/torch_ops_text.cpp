#include "wrapper/python/torch_ops_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "device/pieces.h"

namespace coil::wrapper {
namespace {

constexpr const char* kHead =
    "# ---- Library operations in torch, for when the runtime is not there. Sums are added in another order then, so "
    "last "
    "bits\n# may differ ----\n";

constexpr const char* kHeadOnGpu =
    "# ---- Library operations in torch. Sums are added in another order than by Coil's runtime, so last bits may "
    "differ "
    "----\n";

/// The functions that there are for a device, and what they share before them.
std::vector<device::Piece> functions_on(bool host) {
  std::vector<device::Piece> out = device::pieces("python/torch_products.py");
  if (!host) {
    out.resize(1);  // of those only what ends both devices' products
    std::ranges::move(device::pieces("python/torch_products_cuda.py"), std::back_inserter(out));
  }
  std::ranges::move(device::pieces("python/torch_ops.py"), std::back_inserter(out));
  return out;
}

const std::vector<device::Piece>& functions(DeviceType device) {
  static const std::vector<device::Piece> on_cpu = functions_on(true), on_gpu = functions_on(false);
  return device.is_host() ? on_cpu : on_gpu;
}

/// Whether the piece carries out the operation of its name.
bool is_operation(const device::Piece& piece) {
  return piece.text.starts_with(fmt::format("def torch_{}(", piece.names[0]));
}

}  // namespace

bool is_torch_op(DeviceType device, std::string_view op) {
  return std::ranges::any_of(functions(device),
                             [&](const device::Piece& p) { return p.names[0] == op && is_operation(p); });
}

std::string python_torch_ops(DeviceType device, const std::set<std::string>& ops) {
  const std::vector<device::Piece>& all = functions(device);
  std::vector<char> wanted(all.size());
  std::string text, table;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string& name = all[i].names[0];
    if (!is_operation(all[i]) || !ops.contains(name)) continue;
    wanted[i] = 1;
    table += fmt::format("{}\"{}\": torch_{}", table.empty() ? "" : ", ", name, name);
  }
  if (table.empty()) return "\nTORCH_OPS = {}\n";
  device::mark_called(all, wanted);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (wanted[i]) text += "\n\n" + all[i].text;
  return fmt::format("\n\n{}{}\n\nTORCH_OPS = {{{}}}\n", device.is_host() ? kHead : kHeadOnGpu, text, table);
}

}  // namespace coil::wrapper
