// `coil bench`: compile time, latency and memory of one model.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "inputs.h"
#include "support/error.h"
#include "support/file.h"

namespace coil::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

double time_call(runtime::Context& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs) {
  auto start = Clock::now();
  context.run_into(inputs, outputs);
  context.wait();
  return Milliseconds(Clock::now() - start).count();
}

/// Calls until the budget is spent, but at least `least` and at most `most` times; milliseconds of each, in order.
std::vector<double> time_calls(runtime::Context& context, std::span<const Tensor> inputs, Milliseconds budget,
                               std::size_t least, std::size_t most) {
  std::vector<double> times;
  std::vector<Tensor> outputs;
  auto end = Clock::now() + budget;
  while (times.size() < least || (Clock::now() < end && times.size() < most))
    times.push_back(time_call(context, inputs, outputs));
  return times;
}

struct BenchCommand {
  ModelOptions model;
  InputOptions inputs;
  std::filesystem::path json;
  double seconds = 3;

  void run() {
    model.finish();
    ReadyProgram program = make_ready(model);
    const runtime::Plan& plan = program.model->plan();
    std::vector<Tensor> given = make_inputs(program, inputs);
    if (inputs.seed_given) program.model->seed(inputs.seed);
    runtime::Context context(program.model);
    context.set_recording(model.record);
    given = to_device(program, std::move(given));
    Progress progress("measuring");
    context.begin_measuring();
    double first = time_calls(context, given, {}, 1, 1).front();
    const std::uint64_t taken = context.measured_bytes();
    Milliseconds budget(seconds * 1000);
    time_calls(context, given, budget * 0.1, 2, 1000);  // warm-up
    std::vector<double> times = time_calls(context, given, budget, 5, 20000);
    std::sort(times.begin(), times.end());
    runtime::MemoryUse memory = context.memory();
    const std::uint64_t beside = memory.output_bytes + memory.workspace_bytes;
    auto is_extern = [](const runtime::Step& step) { return std::holds_alternative<runtime::ExternCall>(step); };
    nlohmann::ordered_json result = {
        {"model", model.model.stem().string()},
        {"device", to_string(plan.device)},
        {"threads", runtime::thread_count()},
        {"compile_s", program.compile_seconds},
        {"load_s", program.load_seconds},
        {"first_call_ms", first},
        {"latency_ms",
         {{"min", times.front()}, {"median", times[times.size() / 2]}, {"p95", times[times.size() * 95 / 100]}}},
        {"peak_bytes", memory.arena_bytes + memory.output_bytes + memory.weight_bytes + memory.workspace_bytes},
        {"planned_peak_bytes", memory.arena_bytes},
        {"measured_peak_bytes", taken - std::min(taken, beside)},
        {"weight_bytes", memory.weight_bytes},
        {"kernels", plan.kernels.size()},
        {"extern_calls", std::count_if(plan.steps.begin(), plan.steps.end(), is_extern)},
    };
    if (!json.empty()) write_file(json, result.dump(2) + "\n");
    print(result, times.size());
  }

  static void print(const nlohmann::ordered_json& r, std::size_t calls) {
    const auto& latency = r["latency_ms"];
    fmt::print("{} on {}, {} threads\n", r["model"].get<std::string>(), r["device"].get<std::string>(),
               r["threads"].get<int>());
    fmt::print("compile     {:.3f} s   load {:.3f} s   first call {:.3f} ms\n", r["compile_s"].get<double>(),
               r["load_s"].get<double>(), r["first_call_ms"].get<double>());
    fmt::print("latency     min {:.4g} ms   median {:.4g} ms   p95 {:.4g} ms   ({} calls)\n",
               latency["min"].get<double>(), latency["median"].get<double>(), latency["p95"].get<double>(), calls);
    fmt::print("memory      peak {:.1f} MiB, of which weights {:.1f} MiB\n", r["peak_bytes"].get<double>() / 1048576,
               r["weight_bytes"].get<double>() / 1048576);
    fmt::print("kernels     {}   library calls {}\n", r["kernels"].get<int>(), r["extern_calls"].get<int>());
  }
};

}  // namespace

void add_bench(CLI::App& app) {
  auto command = std::make_shared<BenchCommand>();
  CLI::App* sub = app.add_subcommand("bench", "Measure compile time, latency and memory");
  add_model_options(*sub, command->model, true);
  add_input_options(*sub, command->inputs);
  sub->add_option("--json", command->json, "Write the figures to a file as well")->type_name("FILE");
  sub->add_option("--seconds", command->seconds, "Time to measure for (default 3)")
      ->type_name("S")
      ->check(CLI::PositiveNumber);
  sub->footer("Example:\n  coil bench bert.pt2 --threads 2 --json bert.json");
  sub->callback([command] { command->run(); });
}

}  // namespace coil::cli
