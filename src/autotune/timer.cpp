#include "autotune/timer.h"

#include <algorithm>

namespace coil::autotune {

std::vector<std::optional<double>> time_in_turns(std::size_t count,
                                                 const std::function<std::optional<double>(std::size_t)>& once) {
  constexpr int kFewest = 3, kMost = 9;  // times of each
  constexpr double kBudget = 20;         // milliseconds of them, if that allows the fewest
  std::vector<std::vector<double>> times(count);
  std::vector<bool> runs(count, true);
  for (int round = -1; round < kMost; ++round)  // the first is not counted
    for (std::size_t k = 0; k < count; ++k) {
      double spent = 0;
      for (double t : times[k]) spent += t;
      if (!runs[k] || (round >= kFewest && spent > kBudget)) continue;
      const auto t = once(k);
      runs[k] = t.has_value();
      if (t && round >= 0) times[k].push_back(*t);
    }
  std::vector<std::optional<double>> medians(count);
  for (std::size_t k = 0; k < count; ++k) {
    if (!runs[k]) continue;
    const auto middle = times[k].begin() + static_cast<std::ptrdiff_t>(times[k].size() / 2);
    std::nth_element(times[k].begin(), middle, times[k].end());
    medians[k] = *middle;
  }
  return medians;
}

}  // namespace coil::autotune
