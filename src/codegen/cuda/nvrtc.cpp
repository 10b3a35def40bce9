#include "codegen/cuda/nvrtc.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "codegen/binary_cache.h"
#include "support/complaint.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/parallel.h"

namespace coil::codegen {

namespace fs = std::filesystem;

struct Nvrtc::Functions {
  using Program = void*;
  int (*version)(int*, int*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, std::size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*ptx_size)(Program, std::size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
};

namespace {

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
/// Where a toolkit, or one of PyPI's packages below a given folder, keeps it.
constexpr const char* kFolders[] = {"", "lib64", "lib", "nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"};
constexpr const char* kToolkit = "/usr/local/cuda";

std::vector<std::string> candidates(const std::string& path) {
  std::vector<std::string> out;
  auto folder = [&](const fs::path& base) {
    for (const char* below : kFolders)
      for (const char* name : kNames) out.push_back((base / below / name).string());
  };
  if (!path.empty()) {
    std::error_code error;
    if (fs::is_directory(path, error))
      folder(path);
    else
      out.push_back(path);
    return out;
  }
  for (const char* name : kNames) out.emplace_back(name);
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(variable)) folder(home);
  folder(kToolkit);
  return out;
}

/// NVRTC opens a second library by its bare name, which the loader finds outside its path only where it is open
/// already.
void open_builtins(const fs::path& nvrtc) {
  if (!nvrtc.has_parent_path()) return;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(nvrtc.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("libnvrtc-builtins.so") || name.starts_with("libnvrtc-builtins-"))
      ::dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
  }
}

}  // namespace

Nvrtc::Nvrtc(const std::string& path) : functions_(std::make_unique<Functions>()) {
  for (const std::string& name : candidates(path))
    if ((library_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))) {
      open_builtins(name);
      break;
    }
  if (!library_)
    fail(
        "no NVRTC (libnvrtc.so), which compiles kernels for cuda, {}; set cuda.nvrtc to the library or to a folder "
        "that holds it (a toolkit, or the site-packages of Python's nvidia-cuda-nvrtc)",
        path.empty() ? std::string("in the loader's path or ") + kToolkit : "at " + path);
  auto find = [&](auto& f, const char* symbol) {
    f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(::dlsym(library_, symbol));
    if (!f) fail("NVRTC has no function {}: it is older than CUDA 11.1", symbol);
  };
  Functions& f = *functions_;
  find(f.version, "nvrtcVersion");
  find(f.error_string, "nvrtcGetErrorString");
  find(f.create, "nvrtcCreateProgram");
  find(f.destroy, "nvrtcDestroyProgram");
  find(f.compile, "nvrtcCompileProgram");
  find(f.log_size, "nvrtcGetProgramLogSize");
  find(f.log, "nvrtcGetProgramLog");
  find(f.cubin_size, "nvrtcGetCUBINSize");
  find(f.cubin, "nvrtcGetCUBIN");
  find(f.ptx_size, "nvrtcGetPTXSize");
  find(f.ptx, "nvrtcGetPTX");
  int major = 0, minor = 0;
  f.version(&major, &minor);
  version_ = fmt::format("{}.{}", major, minor);
}

// The library stays open: it keeps threads of its own.
Nvrtc::~Nvrtc() = default;

Nvrtc::Code Nvrtc::compile(const std::string& source, const std::string& arch) const {
  const Functions& f = *functions_;
  auto check = [&](int status, const char* what) {
    if (status != 0) fail("NVRTC cannot {}: {}", what, f.error_string(status));
  };
  Functions::Program program = nullptr;
  check(f.create(&program, source.c_str(), "kernels.cu", 0, nullptr, nullptr), "take the kernels");
  struct Guard {
    const Functions& f;
    Functions::Program& program;
    ~Guard() { f.destroy(&program); }
  } guard{f, program};
  const std::string target = "-arch=" + arch;
  std::vector<const char*> options = {target.c_str()};
  options.insert(options.end(), std::begin(kNvrtcFlags), std::end(kNvrtcFlags));
  if (const int status = f.compile(program, static_cast<int>(options.size()), options.data()); status != 0) {
    std::size_t size = 0;
    f.log_size(program, &size);
    std::string log(size, '\0');
    if (size > 0) f.log(program, log.data());
    fail("NVRTC refused kernels for {}: {}", arch, log.size() > 1 ? first_complaint(log) : f.error_string(status));
  }
  Code out;
  std::size_t size = 0;
  check(f.cubin_size(program, &size), "give a cubin");
  out.cubin.resize(size);
  check(f.cubin(program, reinterpret_cast<char*>(out.cubin.data())), "give a cubin");
  check(f.ptx_size(program, &size), "give PTX");
  out.ptx.resize(size);
  check(f.ptx(program, out.ptx.data()), "give PTX");
  while (!out.ptx.empty() && out.ptx.back() == '\0') out.ptx.pop_back();
  return out;
}

std::vector<std::vector<std::byte>> compile_cuda(const std::string& path, std::span<const CudaSource> sources,
                                                 const CompileCudaOptions& options) {
  std::vector<std::vector<std::byte>> out(2 * sources.size());
  std::vector<std::size_t> missing;
  std::vector<fs::path> entries(sources.size());
  const Nvrtc nvrtc(path);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (options.cache_folder) {
      Hasher hasher;
      constexpr std::string_view kOwn[] = {"", "own", "own alone"};
      hasher.add(nvrtc.version()).add(options.arch).add(kOwn[static_cast<std::size_t>(sources[i].own)]);
      for (const char* flag : kNvrtcFlags) hasher.add(flag);
      entries[i] = *options.cache_folder / to_hex(hasher.add(sources[i].text).digest());
      auto cubin = read_binary(entries[i].string() + ".cubin"), ptx = read_binary(entries[i].string() + ".ptx");
      if (cubin && ptx) {
        out[2 * i] = std::move(*cubin);
        out[2 * i + 1] = std::move(*ptx);
        continue;
      }
    }
    missing.push_back(i);
  }
  in_parallel(missing.size(), options.jobs, [&](std::size_t at) {
    const std::size_t i = missing[at];
    const bool alone = sources[i].own == CudaSource::Own::Needs;
    Nvrtc::Code code = nvrtc.compile(sources[i].text, options.arch + (alone ? "a" : ""));
    if (sources[i].own == CudaSource::Own::Gains) code.cubin = nvrtc.compile(sources[i].text, options.arch + "a").cubin;
    const auto text = std::as_bytes(std::span(code.ptx));
    out[2 * i] = std::move(code.cubin);
    out[2 * i + 1].assign(text.begin(), text.end());
    if (!options.cache_folder) return;
    write_binary(entries[i].string() + ".cubin", out[2 * i]);
    write_binary(entries[i].string() + ".ptx", out[2 * i + 1]);
  });
  return out;
}

std::optional<std::string> device_arch(int device) {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) return std::nullopt;
  auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  auto attribute = reinterpret_cast<int (*)(int*, int, int)>(::dlsym(driver, "cuDeviceGetAttribute"));
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
  int major = 0, minor = 0;
  if (!init || !attribute || init(0) != 0 || attribute(&major, kMajor, device) != 0 ||
      attribute(&minor, kMinor, device) != 0)
    return std::nullopt;
  return fmt::format("sm_{}{}", major, minor);
}

}  // namespace coil::codegen
