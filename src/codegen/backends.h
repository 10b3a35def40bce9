// The backends that there are, by the kind of device they make kernels for.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "codegen/backend.h"
#include "codegen/cpp/toolchain.h"
#include "target/settings.h"

namespace coil::codegen {

/// What a backend is made for.
struct BackendRequest {
  Device device;
  const Settings& settings;
  const Toolchain& toolchain;                   ///< of the machine that compiles
  std::unique_ptr<scheduler::Choices> choices;  ///< the fusion policy; none: the backend's own
};

using BackendFactory = std::function<std::unique_ptr<Backend>(BackendRequest)>;

struct BackendKind {
  DeviceType device;
  /// For the settings cuda.emulate and metal.emulate: another device's kernels (`cuda`), run by this one. Else empty.
  std::string emulates = {};
  std::vector<std::string> emits = {};  ///< what `--emit` writes of its programs, beside packages: `cpp`
  BackendFactory make;
};

/// Programs compile for devices of this kind from now on. The files that implement the built-in backends call it when
/// the process starts, libraries from outside through Extension (compiler/extension.h). Throws Error where the kind of
/// device has a backend already.
void register_backend(BackendKind);
/// Registers a backend when the process starts: a constant of this type in the backend's file.
struct RegisterBackend {
  explicit RegisterBackend(BackendKind kind) { register_backend(std::move(kind)); }
};
/// Throws Error, with the kinds of devices that have one, where this one has none.
std::unique_ptr<Backend> make_backend(BackendRequest);
/// Whether programs for such devices are written in this language: `cpp`, `python`, `fx`.
bool emits(DeviceType, std::string_view language);

}  // namespace coil::codegen
