#include "compiler/torch_package.h"

#include <dlfcn.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>

#include <nlohmann/json.hpp>
#include <set>

#include "runtime/plan/package.h"
#include "support/archive.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/mapped_file.h"
#include "support/temporary_folder.h"

namespace coil {
namespace {

constexpr const char* kLibraryFile = "libcoil_aoti.so";
constexpr const char* kRoot = "model/";  // archives of torch have one folder at the top
constexpr const char* kFolder = "model/data/aotinductor/model/";

/// Beside the program or library that this code is in, or where an installation has its libraries.
std::filesystem::path library_of_packages() {
  Dl_info here{};
  std::error_code error;
  std::filesystem::path own;
  if (dladdr(reinterpret_cast<const void*>(&library_of_packages), &here) != 0 && here.dli_fname)
    own = std::filesystem::canonical(here.dli_fname, error).parent_path();
  for (const char* folder : {".", "../lib", "../../lib", "../lib64"})
    if (const auto file = own / folder / kLibraryFile; std::filesystem::is_regular_file(file, error)) return file;
  fail("{} is not beside the compiler (in {} or ../lib); build the target coil_aoti, or install Coil as a whole",
       kLibraryFile, own.string());
}

void check_host_calls(const runtime::Plan& plan) {
  std::set<std::string> left;
  for (const runtime::Step& step : plan.steps)
    if (const auto* call = std::get_if<runtime::HostCall>(&step)) left.insert(call->op);
  if (!left.empty())
    fail(
        "{} {} left to the process that runs the program, which a package for torch cannot call; give {} a "
        "decomposition, or use torch.compile(backend=\"coil\")",
        fmt::join(left, ", "), left.size() == 1 ? "is" : "are", left.size() == 1 ? "it" : "them");
}

std::string metadata(const runtime::Plan& plan) {
  utsname machine{};
  uname(&machine);
  const nlohmann::ordered_json members = {{"AOTI_DEVICE_KEY", plan.device.type.name()},
                                          {"AOTI_PLATFORM", "linux"},
                                          {"AOTI_MACHINE", machine.machine},
                                          {"COIL_ISA", plan.isa}};
  return members.dump();
}

}  // namespace

runtime::TorchInterface torch_interface(const LoweredProgram& lowered, const runtime::Plan& plan,
                                        const Settings& settings) {
  const frontend::ExportedProgram& source = lowered.source;
  const fx::GraphModule& module = *source.module;
  if (!source.call) fail("the archive does not say how its program is called, which a package for torch tells");
  COIL_CHECK(module.inputs.size() == plan.inputs.size() && module.outputs.size() == plan.outputs.size());
  check_host_calls(plan);
  runtime::TorchInterface out{.in_spec = source.call->in_text,
                              .out_spec = source.call->out_text,
                              .inputs = {},
                              .leaves = source.output_of_leaf,
                              .weights = {},
                              .fixed = !settings.keep_weights};
  for (std::size_t i = 0; i < module.inputs.size(); ++i)
    if (!module.inputs[i].constant) out.inputs.push_back(static_cast<std::int64_t>(i));
  std::set<std::string, std::less<>> constants;
  for (const runtime::Constant& c : plan.constants) constants.insert(c.name);
  for (const auto& [name, kind] : source.attributes) {
    const auto found = module.attributes.find(name);
    if (kind == frontend::AttributeKind::Constant || found == module.attributes.end()) continue;
    const Tensor& t = found->second;
    const std::string as_real = name + ".real_view";  // (passes/graph/split_complex.h)
    out.weights.push_back({name,
                           constants.contains(name)      ? name
                           : constants.contains(as_real) ? as_real
                                                         : "",
                           kind == frontend::AttributeKind::Parameter, t.dtype, t.sizes, t.strides});
  }
  return out;
}

void write_torch_package(const runtime::StoredProgram& program, const runtime::TorchInterface& interface,
                         const std::filesystem::path& path) {
  const auto library = MappedFile::open(library_of_packages());
  const TemporaryFolder folder;
  runtime::save_package(program, folder.path() / runtime::kTorchProgram);
  const auto package = MappedFile::open(folder.path() / runtime::kTorchProgram);

  ArchiveWriter writer(path);
  const auto add = [&](const std::string& name, std::string_view text) { writer.add(name, text); };
  writer.add(std::string(kFolder) + runtime::kTorchLibrary, library->bytes());
  add(std::string(kFolder) + runtime::kTorchSource, "// Coil wrote no source: the program is in model.coil.\n");
  add(std::string(kFolder) + runtime::kTorchMetadata, metadata(program.plan));
  add(std::string(kFolder) + runtime::kTorchInterface, runtime::to_json(interface));
  writer.add(std::string(kFolder) + runtime::kTorchProgram, package->bytes());
  const std::string root = kRoot;
  add(root + "archive_format", "pt2");
  add(root + "archive_version", "0");
  add(root + ".data/version", "6\n");
  add(root + "byteorder", "little");
  add(root + ".data/serialization_id", to_hex(hash(package->bytes())));
  writer.commit();
}

}  // namespace coil
