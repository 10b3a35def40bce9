#include "compiler/pipeline.h"

#include <algorithm>
#include <future>

#include "autotune/cuda_timer.h"
#include "autotune/launches.h"
#include "autotune/own_products.h"
#include "autotune/products.h"
#include "codegen/triton/compile.h"
#include "compiler/library.h"
#include "compiler/options.h"
#include "compiler/pipelines.h"
#include "compiler/resources_text.h"
#include "compiler/run_passes.h"
#include "compiler/sample_sizes.h"
#include "fx/text.h"
#include "library_ops/table.h"
#include "lowering/lowering.h"
#include "runtime/device/library.h"
#include "runtime/device/messages.h"
#include "runtime/host/symm_mem_args.h"
#include "runtime/plan/memory_need.h"
#include "scheduler/split.h"
#include "scheduler/text.h"
#include "scheduler/verify.h"
#include "support/error.h"
#include "wrapper/build.h"
#include "wrapper/fill_constants.h"
#include "wrapper/plan.h"

namespace coil {
namespace {

/// Throws Error for a library call that the device it came to lie on cannot carry out.
void check_library_calls(const ir::Graph& graph, const Machine& machine) {
  for (const ir::Operation& op : graph.operations()) {
    const auto* call = std::get_if<ir::Extern>(&op.node);
    if (!call || library_ops::has(call->op, library_ops::Trait::DeviceCopy)) continue;
    const Device device = machine.backend_of(ir::device_of(graph, op)).device();
    if (machine.carries_out(*call, device)) continue;
    const std::string way_out =
        device.is_host() ? "this build of Coil has no library for it" : "run this program on the cpu";
    throw Error(fmt::format("{} has no implementation on {}; {}", call->op, to_string(device), way_out), call->op,
                op.where);
  }
}

codegen::CompileTritonOptions triton_options(const codegen::Backend& backend, const CompileOptions& options) {
  return {.python = parse_settings(options.settings).cuda_python,
          .arch = backend.isa(),
          .jobs = jobs_of(options),
          .cache_folder = options.cache};
}

/// Launch configs by measurement on the program's device; where that is not there, the heuristics' stay. Returns what
/// was found, as text.
std::string measure_launches(LoweredProgram& lowered, Device device, const CompileOptions& options,
                             const autotune::ToldSizes& told) {
  try {
    autotune::CudaTimer timer(device.index, lowered.machine.backend->isa());
    const codegen::Backend& backend = *lowered.machine.backend;
    return autotune::choose_launches(
        *lowered.graph, lowered.schedule, backend, timer,
        {.jobs = jobs_of(options), .cache = options.cache, .told = told, .compile_triton = [&](auto kernels) {
           return codegen::compile_triton(kernels, triton_options(backend, options));
         }});
  } catch (const Error& e) {
    return fmt::format("nothing was measured: {}\n", e.what());
  }
}

/// Algorithms of matrix products by measurement, as measure_launches has launch configs.
std::string measure_products(LoweredProgram& lowered, Device device, const CompileOptions& options,
                             const autotune::ToldSizes& told) {
  const auto& operations = lowered.graph->operations();
  if (std::none_of(operations.begin(), operations.end(), autotune::is_product)) return {};
  try {
    return autotune::choose_algorithms(*lowered.graph, *autotune::make_cuda_call_timer(device.index),
                                       {.cache = options.cache, .told = told});
  } catch (const Error& e) {
    return fmt::format("no product was measured: {}\n", e.what());
  }
}

/// Products that a kernel computes faster than the library, by measurement, take that form. Returns what was found.
std::string measure_own_products(LoweredProgram& lowered, Device device, const CompileOptions& options,
                                 const autotune::ToldSizes& told) {
  try {
    autotune::CudaTimer timer(device.index, lowered.machine.backend->isa());
    const auto calls = autotune::make_cuda_call_timer(device.index);
    const autotune::OwnProducts found =
        autotune::choose_own_products(*lowered.graph, *lowered.machine.backend, timer, *calls,
                                      {.jobs = jobs_of(options), .cache = options.cache, .told = told});
    take_own_products(*lowered.graph, [&](const ir::Operation& op, const ir::Extern&) {
      const auto parts = found.parts.find(op.id);
      return parts == found.parts.end() ? 0 : parts->second;
    });
    fuse_pre_ops(*lowered.graph, [&](ir::BufferId value) { return found.made.contains(value); });
    return found.text;
  } catch (const Error& e) {
    return fmt::format("no kernel of products was measured: {}\n", e.what());
  }
}

/// The fusion policy's, but for those that were set.
ir::RealizeLimits realize_limits(const codegen::Backend& backend, const Settings& settings) {
  ir::RealizeLimits limits = backend.choices().realize_limits();
  const auto most = [](std::int64_t n) { return static_cast<int>(std::min<std::int64_t>(n, 1 << 20)); };
  if (settings.realize_reads) limits.reads = most(settings.realize_reads);
  if (settings.realize_operations) limits.operations = most(settings.realize_operations);
  if (settings.realize_bytes) limits.read_bytes = settings.realize_bytes;
  return limits;
}

lowering::SortSums sort_sums(const Settings& settings) {
  if (settings.cuda_sort_sums == "always") return lowering::SortSums::Always;
  return settings.cuda_sort_sums == "never" ? lowering::SortSums::Never : lowering::SortSums::WhereItGains;
}

lowering::LowerOptions lower_options(const Machine& machine, const Settings& settings) {
  const codegen::Backend& backend = *machine.backend;
  return {.fallback = settings.fallback,
          .implemented =
              [&machine](const ir::Extern& call, Device device) {
                return library_ops::has(call.op, library_ops::Trait::DeviceCopy) || machine.carries_out(call, device);
              },
          .products_into_rows = settings.cuda_direct_rows,
          .sort_sums = sort_sums(settings),
          .orders_writes = settings.deterministic,
          .batch_invariant = settings.batch_invariant,
          .windows_by_kernels = settings.cuda_windows,
          .realize = realize_limits(backend, settings),
          .one_shot_bytes = settings.one_shot_bytes,
          .two_shot_bytes = settings.two_shot_bytes,
          .chunks_sums = settings.chunks != "auto" && passes::chunks_of(settings),
          .symm_mem_args = runtime::symm_mem_args};
}

/// Whether forms are chosen by measurement on the device.
bool measures(const LoweredProgram& program, const Settings& settings) {
  return settings.max_autotune && program.machine.target().has(target::Feature::MeasuredLaunches);
}

bool is_lowered(std::string_view target) { return lowering::find(target) != nullptr; }

/// With max_autotune: kernels and products are timed on the device at these sizes, and take the forms that were
/// fastest.
void autotune(LoweredProgram& out, const CompileOptions& options, const SampledSizes& sizes, Stages& stages) {
  const Device device = out.machine.target().device;
  const auto& operations = out.graph->operations();
  // Library calls on the CPU are nobody's to time here, unless they are products.
  const bool apart = std::ranges::any_of(operations, [&](const ir::Operation& op) {
    return (op.is_loop() || autotune::is_product(op)) && ir::device_of(*out.graph, op) != device;
  });
  const std::string found = stages(kStageAutotune.name, [&]() -> std::string {
    if (apart) return "nothing was measured: the program lies on several devices\n";
    return sizes.text + measure_launches(out, device, options, sizes.told) +
           measure_products(out, device, options, sizes.told);
  });
  stages.show(kStageAutotune, [&] { return found; });
}

/// From a functional, decomposed graph to wrapper lines. Of `out`, the machine is there already.
void lower_module(fx::GraphModule& module, const Settings& settings, const CompileOptions& options, Stages& stages,
                  LoweredProgram& out) {
  const Machine& machine = out.machine;
  const passes::Context context{machine.target(), settings};
  out.graph = stages(kStageLower.name,
                     [&] { return lowering::lower(module, lower_options(machine, settings), machine.target()); });
  for (const std::string& warning : out.graph->warnings) runtime::warn(warning);
  stages.show(kStageLower, [&] { return print(*out.graph); });
  const bool measured = measures(out, settings);
  SampledSizes sizes;
  if (measured)
    sizes = sizes_on_samples(module, out.source.sample_inputs, is_lowered, run_on(out.machine, settings, options));
  if (measured && settings.cuda_products == "auto" && !out.graph->on_several_devices) {
    const std::string found = stages(
        kStageProducts.name, [&] { return measure_own_products(out, machine.target().device, options, sizes.told); });
    stages.show(kStageProducts, [&] { return found; });
  }
  const auto carries_out = [&](const ir::Extern& call) { return machine.carries_out(call, machine.target().device); };
  run_passes(loop_pipeline(), *out.graph, passes::LoopContext{context, carries_out}, stages);
  stages.show(kStageIr, [&] { return print(*out.graph); });
  check_library_calls(*out.graph, machine);

  out.schedule = stages(kStageSchedule.name, [&] {
    return scheduler::schedule(*out.graph,
                               [&](Device d) -> const scheduler::Choices& { return machine.backend_of(d).choices(); });
  });
  for (PreOpRefusal& kept : refused_pre_ops(*out.graph))
    out.schedule.refusals.push_back({kept.producer, kept.consumer, std::move(kept.reason)});
  stages.show(kStageSchedule, [&] { return scheduler::to_string(*out.graph, out.schedule); });
  if (settings.memory_order) {
    stages(kStageSplit.name, [&] { scheduler::split_for_memory(*out.graph, out.schedule); });
    stages.show(kStageSplit, [&] { return scheduler::to_string(*out.graph, out.schedule); });
  }
  if (settings.verify) scheduler::verify(*out.graph, out.schedule);
  if (measured) autotune(out, options, sizes, stages);

  out.lines =
      stages(kStageWrapper.name, [&] { return wrapper::build(module, *out.graph, out.schedule, machine.backends()); });
  run_passes(wrapper_pipeline(), out.lines, passes::WrapperContext{context, *machine.backend}, stages);
  stages.show(kStageWrapper, [&] { return print(out.lines); });
}

/// Throws Error when a name is none of what is shown: what each pass and each stage made.
void check_stage_names(const std::vector<std::string>& names) {
  std::set<std::string, std::less<>> known = pass_names();
  for (const Stage* stage : kStages) known.emplace(stage->name);
  parse_stages(fmt::format("{}", fmt::join(names, ",")), known);
}

}  // namespace

RunModule run_here(const Machine& machine, const Settings& settings, const CompileOptions& options) {
  return [run = run_on(machine, settings, options)](fx::GraphModule& part) { return run(part, {}); };
}

RunModuleOn run_on(const Machine& machine, const Settings& given, const CompileOptions& options) {
  return [&machine, given, options](fx::GraphModule& part, std::span<const Tensor> inputs) {
    Settings settings = given;
    settings.checks = {.sizes = false};  // those are of the program, as are the conditions on its sizes
    CompileOptions quiet = options;
    quiet.log.clear();
    quiet.debug_dir.reset();
    CompileReport unseen;
    Stages stages(unseen, quiet);
    LoweredProgram lowered;
    lowered.machine = make_constants_machine(machine, settings);
    run_passes(constants_pipeline(), part, graph_context(lowered.machine, settings, {}), stages);
    lower_module(part, settings, quiet, stages, lowered);
    runtime::Context context(runtime::Model::load(assemble(lowered.lines, lowered.machine, quiet, stages)));
    return context.run(inputs).outputs;
  };
}

passes::GraphContext graph_context(const Machine& machine, const Settings& settings, RunModule run) {
  return {{machine.target(), settings}, is_lowered, std::move(run)};
}

LoweredProgram lower_archive(const std::filesystem::path& pt2, const CompileOptions& options, Stages& stages,
                             bool keep_source) {
  parse_settings(options.settings);  // bad settings are refused before an archive is read
  check_stage_names(options.log);
  declare_registered_operators();
  return lower_program(stages("read", [&] { return frontend::read_pt2(pt2); }), options, stages, keep_source);
}

LoweredProgram lower_program(frontend::ExportedProgram source, const CompileOptions& options, Stages& stages,
                             bool keep_source) {
  const Settings settings = parse_settings(options.settings);
  check_stage_names(options.log);
  const Device device = parse_device(options.device);
  LoweredProgram out;
  out.source = std::move(source);
  fx::GraphModule& module = *out.source.module;
  out.source_lines = source_lines(module);
  if (settings.keep_weights)
    for (const auto& [name, kind] : out.source.attributes)
      if (kind != frontend::AttributeKind::Constant) module.exchanged.insert(name);
  std::vector<std::pair<std::string, std::string>> lines;
  if (keep_source) lines = stages("source lines", [&] { return fx::node_lines(module, {.locations = true}); });
  stages.show(kStageGraph, [&] { return print(module); });
  out.machine = stages("machine", [&] { return make_machine(device, settings); });
  if (settings.batch_invariant && (!device.is_host() || settings.emulated_gpu))
    fail("deterministic=batch is there for the cpu; for {} there is deterministic=true",
         settings.emulated_gpu ? "an emulated GPU" : to_string(device));
  if (settings.checks.lifetimes && !out.machine.target().has(target::Feature::WatchedLifetimes))
    fail("assert_lifetimes watches memory of the cpu, not of {}", to_string(device));
  run_passes(graph_pipeline(), module, graph_context(out.machine, settings, run_here(out.machine, settings, options)),
             stages);
  if (module.on_several_devices && settings.checks.lifetimes)
    fail("assert_lifetimes watches programs on the cpu alone, not over several devices");
  stages.show(kStageTransformed, [&] { return print(module); });
  lower_module(module, settings, options, stages, out);
  out.lines.source = std::move(lines);
  return out;
}

codegen::Binaries compile_kernels(const wrapper::Program& lines, const codegen::Backend& backend,
                                  const CompileOptions& options, Stages& stages) {
  const std::size_t place = lines.place_of(backend.device());
  std::vector<std::string> texts;
  for (const wrapper::KernelEntry& k : lines.kernels)
    if (k.place == place) texts.push_back(k.text);
  codegen::Binaries binaries = stages(
      kStageKernels.name, [&] { return backend.compile(texts, {.jobs = jobs_of(options), .cache = options.cache}); });
  stages.show(kStageKernels, [&] { return binaries.source; });
  if (!backend.device().is_host())
    for (const auto& kernel : wrapper::user_kernels(lines)) {
      binaries.libraries.push_back(kernel->binary);
      const auto* ptx = reinterpret_cast<const std::byte*>(kernel->ptx.data());
      if (!kernel->ptx.empty()) binaries.libraries.emplace_back(ptx, ptx + kernel->ptx.size());
    }
  stages.show_any(kStagePtx, [&] { return backend.portable_text(binaries.libraries); });
  stages.show_any(kStageSass, [&] { return backend.machine_text(binaries.libraries); });
  stages.show_any(kStageResources, [&] { return resources_text(lines, backend, binaries.libraries); });
  return binaries;
}

bool launches_early(const Machine& machine, const wrapper::Program& lines) {
  const bool all_wait = std::ranges::all_of(machine.backends(), [](const codegen::Backend* each) {
    return each->device().is_host() || each->dependent_launches();
  });
  return all_wait && !lines.device.is_host() && !wrapper::exchanges(lines);
}

void compile_triton_kernels(wrapper::Program& lines, const codegen::Backend& backend, const CompileOptions& options,
                            Stages& stages) {
  if (lines.device.is_host()) return;  // interpreted from their text
  std::vector<std::shared_ptr<const ops::UserKernel>> missing = wrapper::user_kernels(lines);
  std::erase_if(missing, [](const auto& kernel) { return !codegen::awaits_triton(*kernel); });
  if (missing.empty()) return;
  const auto made =
      stages(kStageKernels.name, [&] { return codegen::compile_triton(missing, triton_options(backend, options)); });
  for (wrapper::Line& line : lines.lines)
    if (auto* call = std::get_if<wrapper::CallUserKernel>(&line))
      if (auto found = std::ranges::find(missing, call->kernel); found != missing.end())
        call->kernel = made[static_cast<std::size_t>(found - missing.begin())];
}

runtime::StoredProgram assemble(wrapper::Program& lines, const Machine& machine, const CompileOptions& options,
                                Stages& stages) {
  runtime::StoredProgram out;
  const codegen::Backend& backend = *machine.backend;
  compile_triton_kernels(lines, backend, options, stages);
  out.plan = stages("plan", [&] { return wrapper::make_plan(lines); });
  out.plan.memory_limit = static_cast<std::uint64_t>(parse_settings(options.settings).memory_limit);
  runtime::check_memory_limit(out.plan);
  out.plan.isa = backend.isa();
  out.plan.dependent_launches = launches_early(machine, lines);
  std::future<void> constants =
      std::async(std::launch::async, [&] { wrapper::fill_constants(lines.constants, jobs_of(options)); });
  codegen::Binaries binaries = compile_kernels(lines, backend, options, stages);
  out.kernel_source = std::move(binaries.source);
  out.libraries = std::move(binaries.libraries);
  for (runtime::OtherDevice& other : out.plan.others) {
    const codegen::Backend& there = machine.backend_of(other.device);
    other.isa = there.isa();
    codegen::Binaries made = compile_kernels(lines, there, options, stages);
    if (!made.source.empty())
      out.kernel_source += fmt::format("\n// On {}:\n\n{}", to_string(other.device), made.source);
    out.other_libraries.push_back(std::move(made.libraries));
  }
  stages("constants", [&] { constants.get(); });
  for (wrapper::Constant& c : lines.constants) out.constants.push_back(std::move(c.value));
  return out;
}

}  // namespace coil
