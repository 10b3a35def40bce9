// What a library from outside brings: kinds of devices with their runtime, kernels and library operations, operations
// that any device may have, and languages of programs.
//
//     COIL_EXTENSION(extension) {
//       extension.add(coil::DeviceKind{.name = "abacus", .open = open_abacus, .backend = make_backend});
//     }
//
// `load_library` (coil/coil.h; `--load` of every command) opens the library, compares the version of this interface
// that it was built for, and calls the function. What the function adds is written down first and takes effect when it
// has returned, all or nothing: one that throws, or that adds what is there already, has added nothing.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "codegen/backends.h"
#include "coil/coil.h"
#include "runtime/device/device.h"
#include "support/extension_api.h"
#include "wrapper/emitters.h"

namespace coil {

/// Raised with every change to a header that a library from outside may include.
inline constexpr int kExtensionVersion = 8;

struct DeviceKind {
  std::string name;  ///< small letters, digits and underscores: `--device NAME`, `--device NAME:1`
  runtime::DeviceOpener open;
  codegen::BackendFactory backend;  ///< none: programs are run, but not compiled
  /// The library operations that the device carries out, by name; target::Target::type_limits says of which types.
  /// Others are the CPU's, on copies of their operands, or refused by name where that would not do (exchanges between
  /// processes).
  std::vector<std::pair<std::string, runtime::QueueLibraryFactory>> operations = {};
};

struct LibraryOperation {
  library_ops::Descriptor description;
  runtime::LibraryFactory make;  ///< on the CPU
};

struct Language {
  std::string name;  ///< `--emit NAME`
  wrapper::EmitterFactory make;
};

class Extension {
 public:
  void add(DeviceKind kind) { devices_.push_back(std::move(kind)); }
  void add(LibraryOperation operation) { operations_.push_back(std::move(operation)); }
  void add(Language language) { languages_.push_back(std::move(language)); }

  const std::vector<DeviceKind>& devices() const { return devices_; }
  const std::vector<LibraryOperation>& operations() const { return operations_; }
  const std::vector<Language>& languages() const { return languages_; }

 private:
  std::vector<DeviceKind> devices_;
  std::vector<LibraryOperation> operations_;
  std::vector<Language> languages_;
};

/// What `load_library` finds in a library, as the C symbol `coil_extension`.
struct ExtensionEntry {
  int version = 0;  ///< kExtensionVersion of the headers that the library was built with; stays the first field
  void (*describe)(Extension&) = nullptr;
};

/// Of the files of all libraries that `load_library` has loaded; empty where there are none. What a library brings may
/// compile otherwise after a change of it.
std::string libraries_hash();

}  // namespace coil

/// Defines the library's entry; the body of the function that describes it follows.
#define COIL_EXTENSION(extension)                                                                   \
  static void coil_describe_extension(::coil::Extension&);                                          \
  extern "C" {                                                                                      \
  extern COIL_EXTENSION_API const ::coil::ExtensionEntry coil_extension;                            \
  const ::coil::ExtensionEntry coil_extension{::coil::kExtensionVersion, &coil_describe_extension}; \
  }                                                                                                 \
  static void coil_describe_extension(::coil::Extension& extension)
