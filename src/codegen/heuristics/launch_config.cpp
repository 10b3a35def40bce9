#include "codegen/heuristics/launch_config.h"

#include <fmt/format.h>

#include <algorithm>

namespace coil::codegen {

std::string to_string(const LaunchConfig& c) {
  const LaunchConfig usual;
  std::string text = fmt::format("{} threads", c.threads);
  auto number = [&](const char* name, auto value, auto otherwise) {
    if (value != otherwise) text += fmt::format(", {} {}", name, value);
  };
  auto flag = [&](const char* name, bool value) {
    if (value) text += fmt::format(", {}", name);
  };
  number("vector", c.vector, usual.vector);
  flag("partial vectors", c.partial_vectors);
  flag("flat", c.flat);
  flag("ragged", c.ragged);
  number("unroll", c.unroll, usual.unroll);
  flag("looped", c.looped);
  number("near", c.near, usual.near);
  number("far", c.far, usual.far);
  number("team", c.team, usual.team);
  number("rows", c.rows, usual.rows);
  number("cluster", c.cluster, usual.cluster);
  number("tile", c.tile, usual.tile);
  number("min blocks", c.min_blocks, usual.min_blocks);
  number("shared bytes", c.shared_bytes, usual.shared_bytes);
  return text;
}

LaunchChoice choose(std::vector<LaunchConfig> candidates, const LaunchRequest& request) {
  const std::size_t last = candidates.size() - 1, asked = static_cast<std::size_t>(std::max(0, request.candidate));
  const LaunchConfig config = candidates[std::min(asked, last)];
  return {config, std::move(candidates)};
}

void add_candidate(std::vector<LaunchConfig>& candidates, const LaunchConfig& c) {
  if (std::find(candidates.begin(), candidates.end(), c) == candidates.end()) candidates.push_back(c);
}

int power_of_two_at_least(std::int64_t n, int most) {
  int p = 1;
  while (p < n && p < most) p *= 2;
  return p;
}

}  // namespace coil::codegen
