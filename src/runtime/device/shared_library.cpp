#include "runtime/device/shared_library.h"

#include <dlfcn.h>

#include "support/error.h"

namespace coil::runtime {

SharedLibrary::SharedLibrary(std::string_view what, std::span<const char* const> names,
                             std::span<const char* const> folders, std::string_view advice)
    : what_(what) {
  for (const char* folder : folders)
    for (const char* name : names)
      if (!handle_) handle_ = dlopen((std::string(folder) + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_) fail("{} is not on this machine: {} cannot be opened; {}", what_, names[0], advice);
}

void* SharedLibrary::address(const char* symbol) const {
  void* found = dlsym(handle_, symbol);
  if (!found) fail("{} is of a version that Coil does not know: it has no {}", what_, symbol);
  return found;
}

}  // namespace coil::runtime
