#include "graph_cache.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>

#include "autotune/cuda_timer.h"
#include "codegen/cuda/nvrtc.h"
#include "compiler/extension.h"
#include "compiler/options.h"
#include "fx/text.h"
#include "runtime/plan/package.h"
#include "support/cpu.h"
#include "support/error.h"
#include "support/file.h"
#include "support/hash.h"
#include "sym/print.h"

namespace coil::python {
namespace {

std::filesystem::path file_of(const std::filesystem::path& cache, const std::string& entry, const char* extension) {
  return cache / "graphs" / (entry + extension);
}

/// The linker's hash of an object's contents, if it left one (`--build-id`, which most systems' compilers ask for).
std::string linkers_id(const dl_phdr_info& object) {
  for (const ElfW(Phdr) & part : std::span(object.dlpi_phdr, object.dlpi_phnum)) {
    if (part.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const std::byte*>(object.dlpi_addr + part.p_vaddr);
    const std::byte* const end = at + part.p_memsz;
    const auto padded = [](std::size_t bytes) { return (bytes + 3) / 4 * 4; };
    for (ElfW(Nhdr) note; at + sizeof note <= end;) {
      std::memcpy(&note, at, sizeof note);
      const std::byte* const name = at + sizeof note;
      const std::byte* const text = name + padded(note.n_namesz);
      if (text + note.n_descsz > end) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
        return to_hex(hash(std::span(text, note.n_descsz)));
      at = text + padded(note.n_descsz);
    }
  }
  return "";
}

/// Of the object that this code lies in.
std::string own_linkers_id() {
  std::string found;
  const auto look = [](dl_phdr_info* object, std::size_t, void* out) {
    const auto here = reinterpret_cast<ElfW(Addr)>(&cache_entry);
    const auto has = [&](const ElfW(Phdr) & part) {
      const ElfW(Addr) first = object->dlpi_addr + part.p_vaddr;
      return part.p_type == PT_LOAD && first <= here && here < first + part.p_memsz;
    };
    if (!std::ranges::any_of(std::span(object->dlpi_phdr, object->dlpi_phnum), has)) return 0;
    *static_cast<std::string*>(out) = linkers_id(*object);
    return 1;
  };
  dl_iterate_phdr(look, &found);
  return found;
}

/// Another build may compile differently: the extension is known by its linker's hash, or by that of its file.
const std::string& build_id() {
  static const std::string id = [] {
    if (std::string own = own_linkers_id(); !own.empty()) return own;
    Dl_info info{};
    if (!dladdr(reinterpret_cast<void*>(&cache_entry), &info) || !info.dli_fname) return std::string("unknown");
    return to_hex(hash(read_file(info.dli_fname)));
  }();
  return id;
}

}  // namespace

std::string build_and_machine() { return build_id() + " " + machine_isa(); }

std::string cache_entry(const fx::GraphModule& module, const CompileOptions& options) {
  Hasher h;
  const Device device = parse_device(options.device);
  const bool is_cuda = device.type == DeviceType::CUDA;
  h.add(build_and_machine())
      .add(libraries_hash())
      .add(options.device)
      .add(is_cuda ? codegen::device_arch(device.index).value_or("") : "")
      .add(static_cast<std::uint64_t>(options.threads));
  for (const auto& [key, value] : options.settings) h.add(key).add(value);
  // What was measured on one device is not another's.
  if (is_cuda && parse_settings(options.settings).max_autotune) h.add(autotune::cuda_identity(device.index));
  for (const sym::Guard& g : module.env->guards()) h.add(sym::to_string(g.condition)).add(g.reason);
  h.add(fx::to_string(module, {.locations = true, .origins = true}));
  for (const auto& [name, tensor] : module.attributes) {
    const Tensor dense = tensor.contiguous();
    h.add(name).add(
        std::span<const std::byte>(dense.bytes(), static_cast<std::size_t>(dense.numel()) * size_of(dense.dtype)));
  }
  return to_hex(h.digest());
}

std::optional<CachedCompile> load_cached(const std::filesystem::path& cache, const std::string& entry) {
  try {
    const auto package = file_of(cache, entry, ".coil");
    if (!std::filesystem::exists(package)) return {};
    return CachedCompile{runtime::load_program(package, runtime::WeightCheck::Hash),
                         read_file(file_of(cache, entry, ".txt"))};
  } catch (const std::exception&) {
    return {};
  }
}

void store_cached(const std::filesystem::path& cache, const std::string& entry, const runtime::StoredProgram& program,
                  const std::string& report) {
  try {
    std::filesystem::create_directories(cache / "graphs");
    write_file(file_of(cache, entry, ".txt"), report);
    runtime::save_package(program, file_of(cache, entry, ".coil"));
  } catch (const std::exception&) {}
}

}  // namespace coil::python
