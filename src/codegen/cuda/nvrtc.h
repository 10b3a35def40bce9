// NVRTC, opened when needed: CUDA text to device code in this process, with no toolkit at build time.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace coil::codegen {

/// What kernels are compiled with, beside the architecture.
inline constexpr const char* kNvrtcFlags[] = {"-std=c++17", "-default-device", "-w"};

class Nvrtc {
 public:
  /// `path` (setting `cuda.nvrtc`): the library or a folder that holds it; empty for the loader's own search and the
  /// usual places of a toolkit or of PyPI's packages. Throws Error that says where it looked.
  explicit Nvrtc(const std::string& path = "");
  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

  /// `13.0`.
  const std::string& version() const { return version_; }

  struct Code {
    std::vector<std::byte> cubin;
    std::string ptx;  ///< for later architectures
  };
  /// `arch`: `sm_90a`. Throws Error with the compiler's first complaint.
  Code compile(const std::string& source, const std::string& arch) const;

 private:
  struct Functions;
  std::unique_ptr<Functions> functions_;
  void* library_ = nullptr;
  std::string version_;
};

struct CompileCudaOptions {
  std::string arch = "sm_90a";
  int jobs = 2;
  std::optional<std::filesystem::path> cache_folder;
};

struct CudaSource {
  std::string text;
  /// How the source uses instructions that no later architecture has (those of `sm_90a`): where it gains by them the
  /// cubin is for them and the PTX is not, so that it runs on later ones; where it needs them, neither runs elsewhere.
  enum class Own : std::uint8_t { None, Gains, Needs } own = Own::None;
};

/// The cubin and the PTX of each source, in order (two entries a source). What the cache holds is not compiled.
std::vector<std::vector<std::byte>> compile_cuda(const std::string& nvrtc_path, std::span<const CudaSource> sources,
                                                 const CompileCudaOptions&);

/// The architecture of a GPU, as its driver says; nothing where there is none of that number.
std::optional<std::string> device_arch(int device);

}  // namespace coil::codegen
