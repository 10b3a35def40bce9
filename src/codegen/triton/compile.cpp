#include "codegen/triton/compile.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "codegen/binary_cache.h"
#include "codegen/triton/program.h"
#include "device/pieces.h"
#include "support/error.h"
#include "support/file.h"
#include "support/hash.h"
#include "support/parallel.h"
#include "support/subprocess.h"
#include "support/temporary_folder.h"

namespace coil::codegen {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Kernels = std::vector<std::shared_ptr<const ops::UserKernel>>;

std::string python_of(const CompileTritonOptions& options) {
  if (!options.python.empty()) {
    if (auto found = find_program(options.python)) return found->string();
    fail("no Python {}: set cuda.python to one that has Triton", options.python);
  }
  for (const char* name : {"python3", "python"})
    if (auto found = find_program(name)) return found->string();
  fail("cuda.kernels=triton needs a Python that has Triton: there is none in PATH; set cuda.python");
}

std::string triton_version(const std::string& python) {
  const ProcessResult result =
      run_process({python, "-c", "import importlib.metadata as m; print(m.version('triton'))"});
  if (!result.ok())
    fail("cuda.kernels=triton: {} has no Triton; pip install triton, or set cuda.python to a Python that has it",
         python);
  return result.out.substr(0, result.out.find('\n'));
}

/// What is compiled, as the script takes it.
Json request(const ops::UserKernel& k) {
  Json j = Json::parse(k.program);
  Json constants = Json::object();
  for (const auto& [name, text] : j.at("constants").items()) constants[name] = std::stoi(text.get<std::string>());
  return {{"symbol", k.symbol},
          {"source", j.at("source")},
          {"types", j.at("types")},
          {"constants", constants},
          {"options", j.at("options")}};
}

std::shared_ptr<const ops::UserKernel> with_code(ops::UserKernel k, const Json& made) {
  if (made.contains("error")) fail("Triton refuses the kernel {}: {}", k.symbol, made.at("error").get<std::string>());
  Json definition = {{"symbol", k.symbol},
                     {"name", k.name},
                     {"arch", made.at("arch")},
                     {"binary", made.at("binary")},
                     {"ptx", made.at("ptx")},
                     {"block", made.at("block")},
                     {"shared_bytes", made.at("shared_bytes")},
                     {"parameters", Json::array()}};
  const auto code = ops::parse_user_kernel(definition.dump());
  k.arch = code->arch, k.binary = code->binary, k.ptx = code->ptx, k.block = code->block;
  k.shared_bytes = code->shared_bytes;
  for (const Json& bytes : made.at("scratch"))
    k.parameters.push_back({"scratch", ops::UserKernel::Kind::Constant, bytes.get<std::uint32_t>()});
  return std::make_shared<const ops::UserKernel>(std::move(k));
}

/// What a process makes of some kernels.
Json run_triton(const std::string& python, const std::string& arch, const std::vector<Json>& kernels) {
  TemporaryFolder folder;
  const fs::path script = folder.path() / "compile.py", given = folder.path() / "given.json",
                 made = folder.path() / "made.json";
  write_file(script, device::whole("triton/compile.py"));
  write_file(given, Json{{"capability", std::stoi(arch.substr(3))}, {"kernels", kernels}}.dump());
  const ProcessResult result = run_process(std::vector{python, script.string(), given.string(), made.string()});
  if (!result.ok() || !fs::exists(made)) {
    std::string last = result.err.substr(0, result.err.find_last_not_of('\n') + 1);
    last = last.substr(last.rfind('\n') + 1);
    fail("Triton could not be run by {}: {}", python, last);
  }
  return Json::parse(read_file(made));
}

/// What several processes make of all kernels; the results in the kernels' order.
std::vector<Json> run_all(const std::string& python, const CompileTritonOptions& options,
                          const std::vector<Json>& kernels) {
  constexpr std::size_t kKernelsOfProcess = 4;  // a process costs about a second before it compiles
  std::vector<Json> out(kernels.size());
  if (kernels.empty()) return out;
  const std::size_t processes = std::clamp<std::size_t>(kernels.size() / kKernelsOfProcess, 1,
                                                        static_cast<std::size_t>(std::max(1, options.jobs)));
  in_parallel(processes, static_cast<int>(processes), [&](std::size_t p) {
    std::vector<Json> share;
    for (std::size_t k = p; k < kernels.size(); k += processes) share.push_back(kernels[k]);
    const Json made = run_triton(python, options.arch, share);
    for (std::size_t k = p; k < kernels.size(); k += processes)
      out[k] = made.at(kernels[k].at("symbol").get<std::string>());
  });
  return out;
}

fs::path entry_of(const fs::path& folder, const std::string& version, const std::string& arch, const Json& request) {
  Hasher hasher;
  hasher.add(version).add(arch).add(device::whole("triton/compile.py"));
  return folder / "triton" / (to_hex(hasher.add(request.dump()).digest()) + ".bin");
}

}  // namespace

std::shared_ptr<const ops::UserKernel> define_triton_kernel(const std::string& symbol, const TritonParts& parts) {
  ops::UserKernel k{.symbol = symbol, .name = symbol, .where = "Triton text of Coil's"};
  Json types = Json::object(), tensors = Json::array(), constants = Json::object();
  for (const auto& t : parts.tensors) {
    k.parameters.push_back({t.name, ops::UserKernel::Kind::Tensor, 8, true});
    types[t.name] = "*" + t.type;
    tensors.push_back(t.name);
  }
  for (const std::string& n : parts.numbers) {
    k.parameters.push_back({n, ops::UserKernel::Kind::Number, parts.wide ? 8U : 4U});
    types[n] = parts.wide ? "i64" : "i32";
  }
  if (parts.status) {
    k.parameters.push_back({"status", ops::UserKernel::Kind::Status});
    types["status"] = "*i64";
  }
  for (const auto& [name, number] : parts.constants) {
    types[name] = "constexpr";
    constants[name] = std::to_string(number);
  }
  k.program = Json{
      {"name", symbol},
      {"where", k.where},
      {"options", {{"num_warps", parts.warps}}},
      {"tensors", tensors},
      {"numbers", parts.numbers},
      {"status", parts.status ? "status" : ""},
      {"source", triton_program(parts.text(symbol))},
      {"constants", constants},
      {"types",
       types}}.dump();
  return std::make_shared<const ops::UserKernel>(std::move(k));
}

bool is_triton_text(const ops::UserKernel& k) { return !k.program.empty() && Json::parse(k.program).contains("types"); }

bool awaits_triton(const ops::UserKernel& k) { return k.binary.empty() && is_triton_text(k); }

std::vector<std::shared_ptr<const ops::UserKernel>> compile_triton(
    std::span<const std::shared_ptr<const ops::UserKernel>> kernels, const CompileTritonOptions& options) {
  Kernels out(kernels.begin(), kernels.end());
  if (kernels.empty()) return out;
  const std::string python = python_of(options), version = triton_version(python);
  std::vector<fs::path> entries(kernels.size());
  std::vector<std::size_t> missing;
  std::vector<Json> asked;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const Json j = request(*kernels[i]);
    if (options.cache_folder) {
      entries[i] = entry_of(*options.cache_folder, version, options.arch, j);
      if (const auto bytes = read_binary(entries[i])) {
        const std::string text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
        out[i] = with_code(*kernels[i], Json::parse(text));
        continue;
      }
    }
    missing.push_back(i);
    asked.push_back(j);
  }
  const std::vector<Json> made = run_all(python, options, asked);
  for (std::size_t k = 0; k < missing.size(); ++k) {
    const std::size_t i = missing[k];
    out[i] = with_code(*kernels[i], made[k]);
    const std::string text = made[k].dump();
    if (options.cache_folder) write_binary(entries[i], std::as_bytes(std::span(text)));
  }
  return out;
}

}  // namespace coil::codegen
