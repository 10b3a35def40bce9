// What a program is compiled for, and by what: the target, its backend, and the compiler of CPU kernels.
#pragma once
#include <memory>

#include "codegen/backend.h"
#include "codegen/cpp/toolchain.h"
#include "coil/coil.h"
#include "target/settings.h"

namespace coil {

struct Machine {
  codegen::Toolchain toolchain;               ///< for the CPU, whatever the device: constants are folded there
  std::unique_ptr<codegen::Backend> backend;  ///< of the program's device
  /// The backends of devices that a part of the program may come to lie on beside it: the CPU, where the program's
  /// device is another.
  std::vector<std::unique_ptr<codegen::Backend>> others = {};
  const target::Target& target() const { return backend->target(); }
  /// All of them, that of the program's device first: as wrapper::Program numbers devices.
  std::vector<const codegen::Backend*> backends() const;
  /// The backend of a device of the program; for any other device, that of the program's device.
  const codegen::Backend& backend_of(Device) const;
  /// Whether a device of the program has a form of a library call that takes its operands: the runtime's libraries or a
  /// kernel of Coil's own.
  bool carries_out(const ir::Extern&, Device) const;
};

/// Throws Error where the device, or what compiles for it, is not there.
Machine make_machine(Device, const Settings&);
/// The CPU, with kernels that are compiled in a hurry: for parts of the program that are computed as it is compiled.
Machine make_constants_machine(const Machine&, const Settings&);

/// Compilers side by side; more than these wait for each other's memory.
int jobs_of(const CompileOptions&);

}  // namespace coil
