#include "compiler/extension.h"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <set>

#include "library_ops/table.h"
#include "runtime/device/library.h"
#include "support/error.h"
#include "support/file.h"
#include "support/hash.h"

namespace coil {
namespace {

/// Libraries that are loaded, and which of them brought a device.
struct Loaded {
  std::mutex mutex;
  std::set<void*> handles;
  std::map<std::string, std::string> libraries;  ///< by device
  std::set<std::string> hashes;                  ///< of their files
};

Loaded& loaded() {
  static Loaded l;
  return l;
}

class Handle {
 public:
  explicit Handle(void* handle) : handle_(handle) {}
  ~Handle() {
    if (handle_) ::dlclose(handle_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  void* get() const { return handle_; }
  void keep() { handle_ = nullptr; }

 private:
  void* handle_;
};

/// Of two additions under one name, or one under a name that is taken, throws Error.
void check_devices(const Extension& extension, const Loaded& before) {
  std::set<std::string> names;
  for (const DeviceKind& kind : extension.devices()) {
    DeviceType::check_name(kind.name);
    if (!kind.open) fail("the device '{}' has no function that opens it", kind.name);
    if (!names.insert(kind.name).second) fail("it brings the device '{}' twice", kind.name);
    if (const auto found = before.libraries.find(kind.name); found != before.libraries.end())
      fail("there is a device '{}' already, which {} brought", kind.name, found->second);
    if (const auto type = DeviceType::find(kind.name); type && (type->is_meta() || runtime::has_device(*type)))
      fail("there is a device '{}' already", kind.name);
    for (const auto& [op, make] : kind.operations)
      if (!make) fail("the device '{}' has nothing that carries out '{}'", kind.name, op);
  }
}

void check_operations(const Extension& extension) {
  std::set<std::string> names;
  for (const LibraryOperation& op : extension.operations())
    if (library_ops::find(op.description.name) || !names.insert(op.description.name).second)
      fail("there is a library operation '{}' already", op.description.name);
}

void check_languages(const Extension& extension) {
  std::set<std::string> names{"package"};
  for (const std::string& name : wrapper::emitter_names()) names.insert(name);
  for (const Language& language : extension.languages())
    if (!names.insert(language.name).second) fail("there is an emitter for '{}' already", language.name);
}

/// After the checks. What may still fail, a kind of device too many, comes before what is registered for good.
void take(const Extension& extension) {
  std::vector<DeviceType> types;
  for (const DeviceKind& kind : extension.devices()) types.push_back(DeviceType::register_kind(kind.name));
  for (const LibraryOperation& op : extension.operations()) runtime::define_library_op(op.description, op.make);
  for (std::size_t k = 0; k < types.size(); ++k) {
    const DeviceKind& kind = extension.devices()[k];
    const DeviceType type = types[k];
    for (const auto& [op, make] : kind.operations) runtime::define_library_op(type, op, make);
    if (kind.backend) codegen::register_backend({.device = type, .make = kind.backend});
    runtime::register_device(type, kind.open);
  }
  for (const Language& language : extension.languages()) wrapper::register_emitter(language.name, language.make);
}

void enter(const ExtensionEntry& entry, const std::string& library, Loaded& all) {
  if (entry.version != kExtensionVersion)
    fail(
        "it was built for version {} of the interface for libraries from outside, and this is version {}; build it "
        "again",
        entry.version, kExtensionVersion);
  Extension extension;
  try {
    entry.describe(extension);
  } catch (const std::exception& e) {
    fail("it failed as it registered what it brings: {}", e.what());
  } catch (...) {
    fail("it failed as it registered what it brings");
  }
  check_devices(extension, all);
  check_operations(extension);
  check_languages(extension);
  take(extension);
  for (const DeviceKind& kind : extension.devices()) all.libraries.emplace(kind.name, library);
}

/// The symbols that libraries from outside call are there for them also where this code was itself loaded, as a part of
/// Python's extension, for one caller.
void show_own_symbols() {
  Dl_info here{};
  if (!::dladdr(reinterpret_cast<const void*>(&show_own_symbols), &here) || !here.dli_fname) return;
  ::dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

}  // namespace

void load_library(const std::filesystem::path& library) {
  Loaded& all = loaded();
  std::lock_guard lock(all.mutex);
  show_own_symbols();
  // A file, never one that the loader searches for.
  const std::string path = library.has_parent_path() ? library.string() : "./" + library.string();
  Handle handle(::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL));
  if (!handle.get()) fail("cannot load {}: {}", library.string(), ::dlerror());
  if (all.handles.contains(handle.get())) return;
  const auto* entry = static_cast<const ExtensionEntry*>(::dlsym(handle.get(), "coil_extension"));
  try {
    if (entry) enter(*entry, library.string(), all);
  } catch (const Error& e) {
    fail("cannot load {}: {}", library.string(), e.what());
  }
  all.handles.insert(handle.get());
  all.hashes.insert(to_hex(hash(read_file(path))));
  handle.keep();
}

std::string libraries_hash() {
  Loaded& all = loaded();
  std::lock_guard lock(all.mutex);
  Hasher hasher;
  for (const std::string& one : all.hashes) hasher.add(one);
  return all.hashes.empty() ? "" : to_hex(hasher.digest());
}

}  // namespace coil
