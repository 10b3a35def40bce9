// A shared object of generated kernels, loaded from memory without a file.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "support/extension_api.h"

namespace coil::runtime {

class COIL_EXTENSION_API KernelLibrary {
 public:
  /// Loads an ELF shared object. Throws Error with the loader's reason.
  explicit KernelLibrary(std::span<const std::byte> binary);
  ~KernelLibrary();
  KernelLibrary(KernelLibrary&& other) noexcept;
  KernelLibrary& operator=(KernelLibrary&&) = delete;

  /// Address of a C symbol; null when the library has none of that name.
  void* find(const std::string& symbol) const;

 private:
  int file_ = -1;  // stays open: the loader tells libraries apart by path, and the path holds this number
  void* handle_ = nullptr;
};

/// A program's kernels where the host carries them out: functions of shared objects. Throws Error as KernelLibrary
/// does.
class HostKernels : public LoadedKernels {
 public:
  explicit HostKernels(std::span<const std::vector<std::byte>> libraries) {
    for (const auto& binary : libraries) libraries_.emplace_back(binary);
  }
  const void* find(const std::string& symbol) const override {
    for (const KernelLibrary& library : libraries_)
      if (void* address = library.find(symbol)) return address;
    return nullptr;
  }

 private:
  std::vector<KernelLibrary> libraries_;
};

/// Throws Error when this machine lacks the instruction set that `isa` names (`Plan::isa`; feature names joined by `+`,
/// such as `avx512+avx512bf16`).
void require_isa(const std::string& isa);

}  // namespace coil::runtime
