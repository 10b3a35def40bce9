// The C functions that torch calls in the library of a package (torch/csrc/inductor/aoti_runtime/interface.h of torch
// 2.13): 0 is success, and AOTInductorGetLastError tells of the calling thread's last failure. Where libtorch itself is
// the caller, failures are thrown instead: it would throw then too, but asks for the message after runs only.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "runtime/aoti/container.h"
#include "support/error.h"

#define COIL_AOTI_API __attribute__((visibility("default")))

using coil::fail;
using coil::runtime::TorchWeight;
using coil::runtime::aoti::Container;
using coil::runtime::aoti::NewWeight;
using coil::runtime::aoti::torch;
using coil::runtime::aoti::UpdateOptions;
using coil::runtime::aoti::Weights;

using AOTIRuntimeError = std::int32_t;

struct AOTInductorConstantMapEntry {
  const char* name;
  AtenTensorHandle handle;
};

struct AOTInductorModelContainerOpaque {
  Container container;
  std::vector<std::string> flat_names;  ///< of weights
  std::vector<NewWeight> looked_at;
  std::vector<AOTInductorConstantMapEntry> entries;

  AOTInductorModelContainerOpaque(std::size_t runners, const std::string& device, const std::filesystem::path& folder)
      : container(runners, device, folder) {
    for (const TorchWeight& w : container.interface().weights)
      flat_names.push_back(coil::runtime::aoti::flat_name(w.name));
  }
  const TorchWeight& weight(std::size_t index) const {
    if (index >= flat_names.size()) fail("the program has no weight {}", index);
    return container.interface().weights[index];
  }
};
/// A model without a container is one with a single runner.
using Handle = AOTInductorModelContainerOpaque*;
/// What hosts pass as AOTInductorConstantMapHandle.
using ConstantMap = std::unordered_map<std::string, AtenTensorHandle>;

namespace {

/// No string: an object with a destructor would keep the library loaded as long as the thread lives.
thread_local char last_error[4096] = "";

void keep_error(std::string_view message) {
  const std::size_t kept = std::min(message.size(), sizeof last_error - 1);
  std::memcpy(last_error, message.data(), kept);
  last_error[kept] = 0;
}

/// Whether the code at this address is libtorch's, which is C++ that knows exceptions.
bool is_torchs(const void* code) {
  Dl_info there{};
  if (!code || dladdr(code, &there) == 0 || !there.dli_fname) return false;
  return std::filesystem::path(there.dli_fname).filename().string().starts_with("libtorch");
}

/// Runs `f`. `caller`: where the function that is being called returns to.
template <class F>
AOTIRuntimeError guarded(F&& f, const void* caller = __builtin_return_address(0)) {
  last_error[0] = 0;
  try {
    f();
    return 0;
  } catch (const std::exception& e) {
    keep_error(e.what());
  } catch (...) {
    keep_error("an unknown error");
  }
  if (is_torchs(caller)) throw std::runtime_error(last_error);
  return 1;
}

/// `f(container)` of a handle that is one.
template <class F>
AOTIRuntimeError with(Handle handle, F&& f, const void* caller = __builtin_return_address(0)) {
  return guarded(
      [&] {
        if (!handle) fail("no container was given");
        f(*handle);
      },
      caller);
}

/// The folder that this library lies in.
std::filesystem::path own_folder() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &here) == 0 || !here.dli_fname)
    fail("the library of the package cannot tell where it lies");
  return std::filesystem::path(here.dli_fname).parent_path();
}

/// Torch names the folder of a package that it has unpacked; other hosts may not.
std::filesystem::path folder_of(const char* given) {
  if (given && std::filesystem::exists(std::filesystem::path(given) / coil::runtime::kTorchInterface)) return given;
  return own_folder();
}

AOTIRuntimeError create(const void* caller, Handle* made, std::size_t runners, const char* device, const char* folder) {
  return guarded(
      [&] {
        if (!made || !device) fail("no place for the container, or no device, was given");
        *made = new AOTInductorModelContainerOpaque(runners, device, folder_of(folder));
      },
      caller);
}

std::vector<NewWeight> weights_in(const ConstantMap* map) {
  if (!map) fail("no weights were given");
  return {map->begin(), map->end()};
}

std::vector<NewWeight> weights_in(const AOTInductorConstantMapEntry* entries, std::size_t count) {
  if (!entries && count > 0) fail("no weights were given");
  std::vector<NewWeight> weights;
  for (std::size_t i = 0; i < count; ++i) {
    if (!entries[i].name) fail("weight {} has no name", i);
    weights.emplace_back(entries[i].name, entries[i].handle);
  }
  return weights;
}

/// `given` is a map, or entries and their number.
template <class... Given>
AOTIRuntimeError update(const void* caller, Handle handle, const UpdateOptions& options, const Given&... given) {
  return with(
      handle,
      [&](auto& h) {
        const std::vector<NewWeight> weights = weights_in(given...);
        h.looked_at.clear();
        h.container.change_weights([&](Weights& all) { all.update(weights, options); });
      },
      caller);
}
#define COIL_CALLER __builtin_return_address(0)

/// A model that did not get its weights goes.
AOTIRuntimeError or_delete(Handle* made, AOTIRuntimeError error) {
  if (error != 0) delete std::exchange(*made, nullptr);
  return error;
}

void look(AOTInductorModelContainerOpaque& h, bool inactive) {
  h.looked_at = h.container.change_weights([&](Weights& all) { return all.look(inactive); });
}

}  // namespace

extern "C" {

COIL_AOTI_API AOTIRuntimeError AOTInductorGetLastError(const char** message) {
  if (!message) return 1;
  *message = last_error;
  return 0;
}

// ---- Containers

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerCreateWithDevice(Handle* made, std::size_t runners,
                                                                         const char* device, const char* folder) {
  return create(COIL_CALLER, made, runners, device, folder);
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerCreate(Handle* made, std::size_t runners, bool is_cpu,
                                                               const char* folder) {
  return create(COIL_CALLER, made, runners, is_cpu ? "cpu" : "cuda", folder);
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerDelete(Handle handle) {
  return guarded([&] { delete handle; });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerRun(Handle handle, AtenTensorHandle* inputs,
                                                            std::size_t input_count, AtenTensorHandle* outputs,
                                                            std::size_t output_count, void* stream, void*) {
  return with(handle,
              [&](auto& h) { h.container.run(inputs, input_count, outputs, output_count, stream, /*alone=*/false); });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerRunSingleThreaded(Handle handle, AtenTensorHandle* inputs,
                                                                          std::size_t input_count,
                                                                          AtenTensorHandle* outputs,
                                                                          std::size_t output_count, void* stream,
                                                                          void*) {
  return with(handle,
              [&](auto& h) { h.container.run(inputs, input_count, outputs, output_count, stream, /*alone=*/true); });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerGetNumInputs(Handle handle, std::size_t* count) {
  return with(handle, [&](auto& h) { *count = h.container.input_count(); });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerGetInputName(Handle handle, std::size_t index,
                                                                     const char** name) {
  return with(handle, [&](auto& h) {
    if (index >= h.container.input_count()) fail("the program has no input {}", index);
    *name = h.container.input_name(index).c_str();
  });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerGetNumOutputs(Handle handle, std::size_t* count) {
  return with(handle, [&](auto& h) { *count = h.container.output_count(); });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerGetOutputName(Handle handle, std::size_t index,
                                                                      const char** name) {
  return with(handle, [&](auto& h) {
    if (index >= h.container.output_count()) fail("the program has no output {}", index);
    *name = h.container.output_name(index).c_str();
  });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerGetCallSpec(Handle handle, const char** in_spec,
                                                                    const char** out_spec) {
  return with(handle, [&](auto& h) {
    *in_spec = h.container.interface().in_spec.c_str();
    *out_spec = h.container.interface().out_spec.c_str();
  });
}

// ---- Weights: what they are

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerGetNumConstants(Handle handle, std::size_t* count) {
  return with(handle, [&](auto& h) { *count = h.flat_names.size(); });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerGetConstantName(Handle handle, std::size_t index,
                                                                        const char** name) {
  return with(handle, [&](auto& h) {
    h.weight(index);
    *name = h.flat_names[index].c_str();
  });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerGetConstantOriginalFQN(Handle handle, std::size_t index,
                                                                               const char** name) {
  return with(handle, [&](auto& h) { *name = h.weight(index).name.c_str(); });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerGetConstantFromFolded(Handle handle, std::size_t index,
                                                                              bool* folded) {
  return with(handle, [&](auto& h) {
    h.weight(index);
    *folded = false;
  });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerGetConstantType(Handle handle, std::size_t index,
                                                                        std::int32_t* type) {
  constexpr std::int32_t kParameter = 1, kBuffer = 2;  // of torch's enumeration ConstantType
  return with(handle, [&](auto& h) { *type = h.weight(index).is_parameter ? kParameter : kBuffer; });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerGetConstantDtype(Handle handle, std::size_t index,
                                                                         std::int32_t* dtype) {
  return with(handle, [&](auto& h) { *dtype = torch().number(h.weight(index).dtype); });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerGetConstantDataSize(Handle handle, std::size_t index,
                                                                            std::size_t* bytes) {
  return with(handle, [&](auto& h) {
    const TorchWeight& w = h.weight(index);
    *bytes = static_cast<std::size_t>(coil::numel(w.sizes)) * coil::size_of(w.dtype);
  });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerExtractConstantsMap(Handle handle, void* map, bool inactive) {
  return with(handle, [&](auto& h) {
    if (!map) fail("no place for the weights was given");
    look(h, inactive);
    for (const auto& [name, tensor] : h.looked_at) static_cast<ConstantMap*>(map)->emplace(name, tensor);
  });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerExtractConstantsMapEntries(
    Handle handle, const AOTInductorConstantMapEntry** entries, std::size_t* count, bool inactive) {
  return with(handle, [&](auto& h) {
    look(h, inactive);
    h.entries.clear();
    for (const auto& [name, tensor] : h.looked_at) h.entries.push_back({name.c_str(), tensor});
    *entries = h.entries.data();
    *count = h.entries.size();
  });
}

// ---- Weights: new values

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerUpdateConstantBuffer(Handle handle, void* map, bool inactive,
                                                                             bool full) {
  return update(COIL_CALLER, handle, {.inactive = inactive, .full = full}, static_cast<const ConstantMap*>(map));
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerUpdateConstantBufferPairs(
    Handle handle, const AOTInductorConstantMapEntry* pairs, std::size_t count, bool inactive, bool full) {
  return update(COIL_CALLER, handle, {.inactive = inactive, .full = full}, pairs, count);
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerUpdateConstantBufferFromCpu(Handle handle, void* map,
                                                                                    bool inactive, bool full) {
  return update(COIL_CALLER, handle, {.inactive = inactive, .full = full, .from_host = true},
                static_cast<const ConstantMap*>(map));
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerUpdateConstantBufferFromCpuPairs(
    Handle handle, const AOTInductorConstantMapEntry* pairs, std::size_t count, bool inactive, bool full) {
  return update(COIL_CALLER, handle, {.inactive = inactive, .full = full, .from_host = true}, pairs, count);
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerUpdateUserManagedConstantBuffer(Handle handle, void* map,
                                                                                        bool inactive, bool full) {
  return update(COIL_CALLER, handle, {.inactive = inactive, .full = full, .borrowed = true},
                static_cast<const ConstantMap*>(map));
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerUpdateUserManagedConstantBufferPairs(
    Handle handle, const AOTInductorConstantMapEntry* pairs, std::size_t count, bool inactive, bool full) {
  return update(COIL_CALLER, handle, {.inactive = inactive, .full = full, .borrowed = true}, pairs, count);
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerUpdateInactiveConstantBuffer(Handle handle, void* map) {
  return AOTInductorModelContainerUpdateConstantBuffer(handle, map, true, true);
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerUpdateInactiveConstantBufferPairs(
    Handle handle, const AOTInductorConstantMapEntry* pairs, std::size_t count) {
  return AOTInductorModelContainerUpdateConstantBufferPairs(handle, pairs, count, true, true);
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerFreeInactiveConstantBuffer(Handle handle) {
  return with(handle, [&](auto& h) { h.container.change_weights([](Weights& all) { all.free_inactive(); }); });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerSwapConstantBuffer(Handle handle) {
  return with(handle, [&](auto& h) { h.container.change_weights([](Weights& all) { all.swap(); }); });
}

// Nothing is folded where weights can be exchanged, and nothing depends on a call where they cannot.
COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerRunConstantFolding(Handle handle, bool, void*, void*) {
  return with(handle, [](auto&) {});
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelContainerGetConstantsBlobSize(Handle handle, std::uint64_t* bytes) {
  return with(handle, [&](auto& h) { *bytes = h.container.weights().blob_bytes(); });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelUpdateConstantsFromBlob(Handle handle, const std::uint8_t* blob) {
  return with(handle, [&](auto& h) {
    if (!blob) fail("no weights were given");
    h.container.change_weights([&](Weights& all) { all.update_from_blob(blob); });
  });
}

// ---- Models without a container: one call at a time

COIL_AOTI_API AOTIRuntimeError AOTInductorModelCreateV2(Handle* made, const AOTInductorConstantMapEntry* pairs,
                                                        std::size_t count) {
  AOTIRuntimeError error = create(COIL_CALLER, made, 1, "cpu", nullptr);
  if (error == 0 && pairs && count > 0)
    error = or_delete(made, update(nullptr, *made, {.borrowed = true}, pairs, count));
  return error;
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelCreate(Handle* made, void* map) {
  AOTIRuntimeError error = create(COIL_CALLER, made, 1, "cpu", nullptr);
  if (error == 0 && map)
    error = or_delete(made, update(nullptr, *made, {.borrowed = true}, static_cast<const ConstantMap*>(map)));
  return error;
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelRun(Handle handle, AtenTensorHandle* inputs, AtenTensorHandle* outputs) {
  return with(handle, [&](auto& h) {
    h.container.run(inputs, h.container.input_count(), outputs, h.container.output_count(), nullptr, /*alone=*/true);
  });
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelUpdateConstantsMap(Handle handle, void* map) {
  return AOTInductorModelContainerUpdateUserManagedConstantBuffer(handle, map, false, false);
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelUpdateConstantsMapV2(Handle handle,
                                                                    const AOTInductorConstantMapEntry* pairs,
                                                                    std::int32_t count) {
  return AOTInductorModelContainerUpdateUserManagedConstantBufferPairs(handle, pairs, static_cast<std::size_t>(count),
                                                                       false, false);
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelDelete(Handle handle) { return AOTInductorModelContainerDelete(handle); }

COIL_AOTI_API AOTIRuntimeError AOTInductorModelGetNumOutputs(Handle handle, std::size_t* count) {
  return AOTInductorModelContainerGetNumOutputs(handle, count);
}

COIL_AOTI_API AOTIRuntimeError AOTInductorModelRunMinimalArrayrefInterfaceV2(Handle, std::int32_t, const void*,
                                                                             std::int32_t, void*) {
  return guarded([] {
    fail("a package of Coil is called with tensors (AOTInductorModelRun), not with arrays of the minimal interface");
  });
}

}  // extern "C"
