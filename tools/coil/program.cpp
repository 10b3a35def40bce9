#include "program.h"

#include <chrono>

#include "runtime/plan/package.h"
#include "support/error.h"

namespace coil::cli {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

ReadyProgram make_ready(const ModelOptions& options) {
  runtime::set_threads(options.compile.threads);
  ReadyProgram ready;
  auto start = std::chrono::steady_clock::now();
  bool package = options.model.extension() == ".coil";
  auto load_start = start;
  runtime::StoredProgram program;
  if (package) {
    program = runtime::load_program(options.model);
    if (!options.compile.settings.empty())
      fail("setting {} is one of compiling, and {} is compiled already; compile its archive again with --set",
           options.compile.settings.begin()->first, options.model.string());
    if (options.device_given && parse_device(options.compile.device) != program.plan.device)
      fail("{} was compiled for {}, not for {}; compile it again with --device {}", options.model.string(),
           to_string(program.plan.device), options.compile.device, options.compile.device);
  } else {
    Progress progress("compiling " + options.model.string());
    program = std::move(*coil::compile(options.model, options.compile).program);
    load_start = std::chrono::steady_clock::now();
  }
  ready.sample_inputs = program.sample_inputs;
  ready.model = runtime::Model::load(std::move(program));
  ready.load_seconds = seconds_since(load_start);
  if (!package) ready.compile_seconds = seconds_since(start);
  return ready;
}

std::string type_of(const runtime::Plan& plan, const runtime::Input& input) {
  std::vector<std::string> sizes;
  for (runtime::Slot slot : input.sizes) {
    const runtime::ShapeInstruction& i = plan.shape_program.at(slot);
    sizes.push_back(i.op == runtime::ShapeOp::Constant ? std::to_string(i.a) : "*");
  }
  return fmt::format("{}[{}]", short_name(input.dtype), fmt::join(sizes, ", "));
}

std::string type_of(const Tensor& tensor) {
  return fmt::format("{}[{}]", short_name(tensor.dtype), fmt::join(tensor.sizes, ", "));
}

}  // namespace coil::cli
