// What the checks of a call's inputs cost: thirty inputs of free sizes with ranges, multiples and equal dimensions, and
// a program that does nothing else.
//
//   ninja -C build guard_bench && build/bin/guard_bench
#include <benchmark/benchmark.h>

#include <fmt/format.h>

#include "runtime/executor/executor.h"
#include "runtime/executor/model.h"
#include "wrapper/plan.h"
#include "wrapper/program.h"

namespace coil {
namespace {

constexpr int kInputs = 30;

/// Inputs [batch, 8*n_i, 64] of one batch; 1 <= batch <= 32, 2 <= n_i <= 512, every second n_i at least the one before
/// it. It gives their sum.
wrapper::Program program() {
  using wrapper::DefineSymbol;
  wrapper::Program p;
  p.env = std::make_shared<sym::ShapeEnv>();
  const sym::Expr batch = p.env->add_size("batch", 4, {1, 32});
  p.lines.push_back(DefineSymbol{batch, 0, DefineSymbol::From::Size, 0});
  auto check = [&](sym::Expr condition, std::string message) {
    p.lines.push_back(wrapper::Assert{condition, std::move(message)});
  };
  check(sym::ge(batch, 1), "the size of x0 in dimension 0 must be at least 1");
  check(sym::le(batch, 32), "the size of x0 in dimension 0 must be at most 32");
  sym::Expr total = 0, last = 0;
  for (int i = 0; i < kInputs; ++i) {
    const sym::Expr n = p.env->add_size(fmt::format("n{}", i), 16, {2, 512}), rows = 8 * n;
    const std::string name = fmt::format("x{}", i);
    const auto at = static_cast<std::size_t>(i);
    p.buffers.push_back({name,
                         wrapper::BufferKind::Input,
                         DType::F32,
                         {},
                         {batch, rows, 64},
                         {rows * 64, 64, 1},
                         batch * rows * 256,
                         at});
    p.inputs.push_back({name, static_cast<ir::BufferId>(i)});
    p.lines.push_back(DefineSymbol{n, at, DefineSymbol::From::Size, 1, 0, 8});
    check(sym::ge(n, 2), fmt::format("the size of {} in dimension 1 must be at least 16", name));
    check(sym::le(n, 512), fmt::format("the size of {} in dimension 1 must be at most 4096", name));
    if (i % 2) check(sym::le(last, n), fmt::format("{} must have as many rows as the input before it", name));
    total += n;
    last = n;
  }
  p.outputs.push_back({"sum", total});
  return p;
}

std::vector<Tensor> inputs(std::int64_t batch, std::int64_t n) {
  std::vector<Tensor> out;
  for (int i = 0; i < kInputs; ++i) {
    Tensor t;
    t.sizes = {batch, 8 * (n + i), 64};
    t.strides = contiguous_strides(t.sizes);
    out.push_back(std::move(t));
  }
  return out;
}

void call(benchmark::State& state, std::span<const std::vector<Tensor>> turns) {
  runtime::Context context(runtime::Model::load({.plan = wrapper::make_plan(program())}));
  std::vector<Tensor> results;
  std::size_t turn = 0;
  for (auto _ : state) {
    context.run_into(turns[turn++ % turns.size()], results);
    benchmark::DoNotOptimize(results.data());
  }
  state.counters["ns_an_input"] = benchmark::Counter(static_cast<double>(state.iterations()) * kInputs,
                                                     benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void same_sizes(benchmark::State& state) {
  const std::vector<Tensor> turns[] = {inputs(4, 16)};
  call(state, turns);
}
void other_sizes(benchmark::State& state) {
  std::vector<std::vector<Tensor>> turns;
  for (std::int64_t n = 2; n < 50; ++n) turns.push_back(inputs(1 + n % 32, n));
  call(state, turns);
}

BENCHMARK(same_sizes);
BENCHMARK(other_sizes);

}  // namespace
}  // namespace coil

BENCHMARK_MAIN();
