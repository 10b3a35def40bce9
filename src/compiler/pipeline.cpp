#include "compiler/pipeline.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <thread>

#include "autotune/cuda_timer.h"
#include "autotune/launches.h"
#include "autotune/products.h"
#include "codegen/cpp/backend.h"
#include "codegen/cuda/backend.h"
#include "compiler/fold_constants.h"
#include "compiler/known_masks.h"
#include "compiler/library.h"
#include "compiler/nan_guards.h"
#include "compiler/pack_weights.h"
#include "compiler/symbolic_masks.h"
#include "compiler/tf32.h"
#include "compiler/winograd.h"
#include "fx/text.h"
#include "ir/fuse_post_ops.h"
#include "ir/layout_choice.h"
#include "ir/part_writes.h"
#include "lowering/lowering.h"
#include "passes/passes.h"
#include "passes/split_complex.h"
#include "runtime/device/library.h"
#include "scheduler/verify.h"
#include "support/cpu.h"
#include "support/error.h"
#include "wrapper/build.h"
#include "wrapper/plan.h"
#include "wrapper/text.h"

namespace coil {
namespace {

void run_pass(std::string_view name, fx::GraphModule& module) {
  const auto& all = passes::all();
  auto pass = std::find_if(all.begin(), all.end(), [&](const passes::Pass& p) { return p.name == name; });
  COIL_CHECK(pass != all.end(), "no pass {}", name);
  pass->run(module);
}

/// Graph-to-graph passes in order: each is named as `coil opt --pass` names it.
constexpr const char* kPasses[] = {"outline-vmap",
                                   "remove-noops",
                                   "correct-records",
                                   "expand-loops",
                                   "expand-lists",
                                   "expand-auto-functionalized",
                                   "functionalize",
                                   "eliminate-dead-code",
                                   "split-complex",
                                   "fold-batch-norm",
                                   "fold-batch-norm-of-inputs",
                                   "fuse-attention",
                                   "fuse-linear",
                                   "decompose",
                                   "eliminate-common-subexpressions",
                                   "eliminate-dead-code",
                                   "propagate"};

/// Compilers side by side; more than these wait for each other's memory.
int jobs_of(const CompileOptions& options) {
  return options.threads > 0 ? options.threads
                             : std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 16);
}

/// With `fuse` off: every operation alone.
class NoFusion : public scheduler::Choices {
 public:
  std::size_t max_members() const override { return 1; }
};

/// The number of a launch shape.
int launch_shape(const std::string& text) {
  int number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!text.empty() && (status != std::errc() || end != text.data() + text.size() || number < 0))
    fail("cuda.launch_shape is {}: it is a number from 0 on", text);
  return number;
}

std::unique_ptr<codegen::Backend> make_backend(Device device, const Settings& settings,
                                               const codegen::Toolchain& toolchain) {
  std::unique_ptr<scheduler::Choices> choices;
  if (!settings.fuse) choices = std::make_unique<NoFusion>();
  switch (device.type) {
    case DeviceType::CPU:
      if (settings.cuda_emulate)
        return codegen::make_emulated_cuda_backend(toolchain, std::move(choices),
                                                   launch_shape(settings.cuda_launch_shape));
      return codegen::make_cpp_backend(toolchain,
                                       choices ? std::move(choices) : std::make_unique<scheduler::Choices>());
    case DeviceType::CUDA:
      return codegen::make_cuda_backend({.device = device.index,
                                         .arch = settings.cuda_arch,
                                         .nvrtc = settings.cuda_nvrtc,
                                         .dependent_launch = settings.cuda_dependent_launch,
                                         .shape = launch_shape(settings.cuda_launch_shape),
                                         .cluster = settings.cuda_cluster},
                                        std::move(choices));
    default: fail("programs compile for cpu and cuda, not for {}", to_string(device));
  }
}

/// Whether a kernel of the backend or the runtime's libraries can carry out a call on the device.
bool is_implemented(const ir::Extern& call, const codegen::Backend& backend) {
  return runtime::has_library_op(call.op, backend.device().type) || backend.has_template(call.op);
}

/// Throws Error for a library call that neither the device nor the host can carry out.
void check_library_calls(const ir::Graph& graph, const codegen::Backend& backend) {
  for (const ir::Operation& op : graph.operations())
    if (const auto* call = std::get_if<ir::Extern>(&op.node);
        call && !is_implemented(*call, backend) && !runtime::leaves_to_host(call->op, backend.device().type))
      throw Error(fmt::format("{} has no implementation on {}; run this program on the cpu", call->op,
                              to_string(backend.device())),
                  call->op, op.where);
}

/// Launch shapes by measurement on the program's device; where that is not there, those of the model stay. Returns what
/// was found, as text.
std::string measure_launches(Lowered& lowered, Device device, const CompileOptions& options) {
  try {
    autotune::CudaTimer timer(device.index, lowered.backend->isa());
    return autotune::choose_launches(*lowered.graph, lowered.schedule, *lowered.backend, timer,
                                     {.jobs = jobs_of(options), .cache = options.cache});
  } catch (const Error& e) {
    return fmt::format("nothing was measured: {}\n", e.what());
  }
}

/// The same for algorithms of matrix products.
std::string measure_products(Lowered& lowered, Device device, const CompileOptions& options) {
  const auto& operations = lowered.graph->operations();
  if (std::none_of(operations.begin(), operations.end(), autotune::is_product)) return {};
  try {
    return autotune::choose_algorithms(*lowered.graph, *autotune::make_cuda_call_timer(device.index),
                                       {.cache = options.cache});
  } catch (const Error& e) {
    return fmt::format("no product was measured: {}\n", e.what());
  }
}

/// From a functional, decomposed module to wrapper lines. Of `out`, toolchain and backend are there already.
/// `scheduled`: what is done between the schedule and the text of its kernels.
void lower_module(fx::GraphModule& module, const Settings& settings, Stages& stage, Lowered& out,
                  const std::function<void()>& scheduled = {}) {
  const bool as_cuda = out.backend->device().type == DeviceType::CUDA || settings.cuda_emulate;
  out.graph = stage("lower", [&] {
    return lowering::lower(module,
                           {.fallback = settings.fallback,
                            .implemented = [&](const ir::Extern& call) { return is_implemented(call, *out.backend); },
                            .product_vector_bytes = out.backend->product_vector_bytes(),
                            .products_into_rows = as_cuda && settings.cuda_direct_rows,
                            .selects_by_kernels = as_cuda,
                            .orders_writes = as_cuda && settings.deterministic,
                            .windows_by_kernels = as_cuda && settings.cuda_windows,
                            .multiplies_integers = !as_cuda});
  });
  ir::Graph& graph = *out.graph;
  stage.show("lower", [&] { return ir::to_string(graph); });
  const bool winograd =
      settings.winograd != "false" && out.backend->device().type == DeviceType::CPU && !settings.cuda_emulate;
  if (winograd)
    choose_winograd(graph, settings.winograd == "true" ? std::nullopt
                                                       : std::optional<std::int64_t>(settings.winograd == "2" ? 2 : 4));
  stage("post-ops", [&] {
    ir::fuse_post_ops(graph);
    ir::eliminate_dead_operations(graph);
  });
  stage("layouts", [&] { ir::choose_layouts(graph); });
  stage("part-writes", [&] { ir::split_part_writes(graph); });
  if (settings.keep_nan && out.backend->device().type == DeviceType::CPU)
    stage("nan-guards", [&] { add_nan_guards(graph); });
  if (winograd) stage("winograd", [&] { expand_winograd(graph); });
  if (out.backend->device().type == DeviceType::CUDA) allow_tf32(graph, settings.cuda_tf32);
  stage.show("ir", [&] { return ir::to_string(graph); });
  if (settings.pack_weights)
    stage("pack", [&] {
      if (out.backend->device().type == DeviceType::CPU) {
        pack_weights(graph, out.backend->isa());
      } else {
        relayout_weights(graph);
        copy_constants(graph);
      }
    });
  check_library_calls(graph, *out.backend);
  out.schedule = stage("schedule", [&] { return scheduler::schedule(graph, out.backend->choices()); });
  stage.show("schedule", [&] { return scheduler::to_string(graph, out.schedule); });
  if (scheduled) scheduled();
  out.lines =
      stage("wrapper", [&] { return wrapper::build(module, graph, out.schedule, *out.backend, settings.checks); });
  stage.show("wrapper", [&] { return wrapper::to_string(out.lines); });
  if (settings.verify) {
    scheduler::verify(graph, out.schedule);
    wrapper::verify(out.lines);
  }
}

/// Compiles and runs a part of the program that has no inputs.
std::vector<Tensor> run_part(fx::GraphModule& part, const Settings& given, const codegen::Toolchain& toolchain,
                             const CompileOptions& options) {
  Settings settings = given;
  settings.checks = {.sizes = false};  // those are of the program, as are the conditions on its sizes
  CompileReport unseen;
  CompileOptions quiet = options;
  quiet.log.clear();
  quiet.debug_dir.reset();
  Stages stage(unseen, quiet);
  Lowered lowered;
  lowered.toolchain = toolchain;
  codegen::optimize_less(lowered.toolchain);
  lowered.backend = make_backend({}, settings, lowered.toolchain);
  passes::move_to_device(part, {});
  run_pass("decompose-for-device", part);
  lower_module(part, settings, stage, lowered);
  runtime::Context context(runtime::Model::load(assemble(lowered.lines, *lowered.backend, quiet, stage)));
  return context.run({}).outputs;
}

/// Values that depend on no input, computed once: attention masks that are then said by name, and constants worth
/// folding.
void compute_what_is_known(fx::GraphModule& module, const RunModule& run) {
  simplify_symbolic_masks(module);
  module.graph.eliminate_dead_code();
  std::vector<fx::Node*> masks = known_masks(module), constants = constants_to_fold(module), all = masks;
  all.insert(all.end(), constants.begin(), constants.end());
  if (all.empty()) return;
  const std::vector<Tensor> values = compute(module, all, run);
  simplify_known_masks(module, masks, std::span(values).first(masks.size()));
  fold_constants(module, constants, std::span(values).subspan(masks.size()));
  module.graph.eliminate_dead_code();
}

/// Throws Error when a name is none of what is shown: the graph after each pass, and the stages below.
void check_stage_names(const std::vector<std::string>& names) {
  std::set<std::string, std::less<>> known = {"graph", "lower", "ir", "schedule", "autotune", "wrapper", "kernels"};
  known.insert(std::begin(kPasses), std::end(kPasses));
  parse_stages(fmt::format("{}", fmt::join(names, ",")), known);
}

}  // namespace

Lowered lower_archive(const std::filesystem::path& pt2, const CompileOptions& options, Stages& stage,
                      bool keep_source) {
  parse_settings(options.settings);  // bad settings are refused before an archive is read
  check_stage_names(options.log);
  declare_registered_operators();
  return lower_program(stage("read", [&] { return frontend::read_pt2(pt2); }), options, stage, keep_source);
}

Lowered lower_program(frontend::ExportedProgram source, const CompileOptions& options, Stages& stage,
                      bool keep_source) {
  const Settings settings = parse_settings(options.settings);
  check_stage_names(options.log);
  const Device device = parse_device(options.device);
  if (settings.checks.lifetimes && device.type != DeviceType::CPU)
    fail("assert_lifetimes watches memory of the cpu, not of {}", to_string(device));
  Lowered out;
  out.source = std::move(source);
  fx::GraphModule& module = *out.source.module;
  out.source_lines = source_lines(module);
  std::vector<std::pair<std::string, std::string>> lines;
  if (keep_source) lines = stage("source lines", [&] { return fx::node_lines(module, {.locations = true}); });
  stage.show_changed("graph", [&] { return fx::to_string(module, {.locations = true}); });
  // The library of a GPU adds up attention's gradient in any order.
  const bool waits = device.type != DeviceType::CPU && !settings.deterministic;
  for (const char* name : kPasses) {
    if (settings.fallback && std::string_view(name) == "split-complex" && !passes::splits_complex(module)) {
      passes::leave_complex_to_host(module);  // all of them
      continue;
    }
    if (device.type == DeviceType::CPU && std::string_view(name) == "fold-batch-norm-of-inputs") continue;
    stage(name,
          [&] { run_pass(!waits && std::string_view(name) == "decompose" ? "decompose-for-device" : name, module); });
    stage.show_changed(name, [&] { return fx::to_string(module, {.locations = true}); });
  }
  out.toolchain = codegen::find_toolchain(settings.cpu_compiler, settings.cpu_isa);
  out.backend = make_backend(device, settings, out.toolchain);
  if (settings.fold_constants) {
    // Constants are computed here, whatever machine the program is for.
    const RunModule run = [&](fx::GraphModule& part) {
      return run_part(part, settings,
                      machine_runs(out.toolchain.isa) ? out.toolchain : codegen::find_toolchain(settings.cpu_compiler),
                      options);
    };
    stage("constants", [&] { compute_what_is_known(module, run); });
  }
  passes::move_to_device(module, device, out.backend->gpu_arch());
  if (device.type != DeviceType::CPU || settings.cuda_emulate)
    stage("recurrences", [&] { run_pass("loop-recurrences", module); });
  if (device.type != DeviceType::CPU)
    stage("decompose for the device", [&] {
      for (const char* name : {"decompose-for-device", "eliminate-common-subexpressions", "eliminate-dead-code"})
        run_pass(name, module);
    });
  lower_module(module, settings, stage, out, [&] {
    if (!settings.max_autotune || device.type != DeviceType::CUDA) return;
    const std::string found = stage(
        "autotune", [&] { return measure_launches(out, device, options) + measure_products(out, device, options); });
    stage.show("autotune", [&] { return found; });
  });
  out.lines.source = std::move(lines);
  return out;
}

codegen::Binaries compile_kernels(const wrapper::Program& lines, const codegen::Backend& backend,
                                  const CompileOptions& options, Stages& stage) {
  std::vector<std::string> texts;
  for (const wrapper::Kernel& k : lines.kernels) texts.push_back(k.text);
  codegen::Binaries binaries =
      stage("kernels", [&] { return backend.compile(texts, {.jobs = jobs_of(options), .cache = options.cache}); });
  stage.show("kernels", [&] { return binaries.source; });
  return binaries;
}

runtime::Program assemble(wrapper::Program& lines, const codegen::Backend& backend, const CompileOptions& options,
                          Stages& stage) {
  runtime::Program out;
  out.plan = stage("plan", [&] { return wrapper::make_plan(lines); });
  out.plan.isa = backend.isa();
  out.plan.launches_early = backend.launches_early();
  codegen::Binaries binaries = compile_kernels(lines, backend, options, stage);
  out.kernel_source = std::move(binaries.source);
  out.libraries = std::move(binaries.libraries);
  for (wrapper::Constant& c : lines.constants) out.constants.push_back(std::move(c.value));
  return out;
}

}  // namespace coil
