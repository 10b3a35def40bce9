#include "codegen/triton/template.h"

#include <algorithm>
#include <iterator>

#include "codegen/triton/operations.h"
#include "support/hash.h"

namespace coil::codegen {

std::optional<std::string> reads_as_another_type(const ir::Graph& graph, const ir::Extern& call) {
  std::vector<ir::BufferView> views = call.inputs;
  std::ranges::copy(call.outputs, std::back_inserter(views));
  for (const ir::BufferView& v : views)
    if (const DType d = graph.buffer(v.buffer).layout.dtype; d != v.dtype)
      return fmt::format("a load of {} as {}", short_name(d), short_name(v.dtype));
  return std::nullopt;
}

Kernel TritonTemplate::finish(const std::string& symbol, Exprs grid, int warps,
                              std::vector<std::pair<std::string, int>> constants) {
  TritonParts parts{
      .status = may_fail_, .wide = true, .warps = warps, .constants = std::move(constants), .body = body_};
  for (std::size_t i = 0; i < arguments_.buffers().size(); ++i) {
    const DType d = graph_.buffer(arguments_.buffers()[i]).layout.dtype;
    parts.tensors.push_back({fmt::format("p{}", i), std::string(triton_signature(d))});
  }
  for (std::size_t i = 0; i < arguments_.scalars().size(); ++i) parts.numbers.push_back(fmt::format("s{}", i));
  Kernel k;
  k.symbol = symbol + to_hex(hash(parts.text(""))).substr(0, 16);
  k.text = parts.text(k.symbol);
  k.triton = std::move(parts);
  k.language = "Triton";
  k.may_fail = may_fail_;
  arguments_.give(k);
  for (Expr& size : grid) size = graph_.env().simplify(size);
  k.launch = SymbolicLaunch{.grid = std::move(grid), .block = 32 * warps};
  return k;
}

}  // namespace coil::codegen
