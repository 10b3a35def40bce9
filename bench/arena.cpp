// How close arenas come to the least, and how long that takes, on files of buffers: lines `first,end,bytes` or
// `name,first,end,bytes`, the step `end` not included, a heading allowed. That is the form of published instances.
// Without files, on generated ones.
//   ninja -C build arena_bench && build/bin/arena_bench [FILE.csv ...]
#include <fmt/format.h>

#include <charconv>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "arena_instances.h"
#include "runtime/plan/arena_planner.h"
#include "support/error.h"

namespace {

using coil::runtime::Interval;

/// The last three numbers of each line. Steps are numbered by their order: instances count cycles of a clock.
std::vector<Interval> read(const char* path) {
  std::ifstream file(path);
  if (!file) coil::fail("cannot read {}", path);
  std::vector<std::array<std::uint64_t, 3>> rows;
  std::map<std::uint64_t, std::uint32_t> steps;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::uint64_t> numbers;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) {
      std::uint64_t number = 0;
      const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
      if (error == std::errc()) numbers.push_back(number);
    }
    if (numbers.size() < 3) continue;
    rows.push_back({numbers.end()[-3], numbers.end()[-2], numbers.end()[-1]});
    if (rows.back()[1] <= rows.back()[0]) coil::fail("{}: a buffer ends before it begins: {}", path, line);
    steps[rows.back()[0]] = steps[rows.back()[1]] = 0;
  }
  std::uint32_t count = 0;
  for (auto& [time, step] : steps) step = count++;
  std::vector<Interval> intervals;
  for (const auto& [first, end, bytes] : rows) intervals.push_back({bytes, steps.at(first), steps.at(end) - 1});
  return intervals;
}

void row(const std::string& name, const std::vector<Interval>& intervals) {
  const auto call = coil::runtime::plan_arena(intervals, coil::runtime::ArenaEffort::Call);
  const std::clock_t start = std::clock();
  const auto plan = coil::runtime::plan_arena(intervals);
  const double ms = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  auto gap = [&](std::uint64_t peak) {
    return 100 * (static_cast<double>(peak) / static_cast<double>(plan.least) - 1);
  };
  fmt::print("| {} | {} | {} | {:.2f} % | {:.2f} % | {:.1f} |\n", name, intervals.size(), plan.least, gap(call.peak),
             gap(plan.peak), ms);
}

void generated() {
  using namespace coil::instances;
  for (unsigned seed : {1u, 2u}) {
    std::mt19937 random(seed);
    for (std::uint32_t count : {450u, 2000u, 10'000u}) {
      row("inference", inference(count, random));
      row("training", training(count / 3, random));
      row("tiles", tiles(count, random));
      row("scattered, short", scattered(count, 20, random));
      row("scattered, long", scattered(count, count / 20, random));
      row("scattered, very long", scattered(count, count / 2, random));
    }
    for (std::uint32_t count : {100u, 170u, 300u, 450u}) {
      row("cut up", cut_up(count, count, 4096, random));
      row("cut up, coarse", cut_up(count, 1024, 1024, random));
      row("sections", sections(count, random));
    }
  }
}

}  // namespace

int main(int count, char** paths) {
  fmt::print("| instance | buffers | least, bytes | one pass, above the least | with search | CPU ms |\n");
  fmt::print("| --- | --- | --- | --- | --- | --- |\n");
  try {
    if (count == 1) generated();
    for (int k = 1; k < count; ++k) row(std::filesystem::path(paths[k]).filename().string(), read(paths[k]));
  } catch (const coil::Error& e) {
    fmt::print(stderr, "arena_bench: error: {}\n", e.what());
    return 1;
  }
}
