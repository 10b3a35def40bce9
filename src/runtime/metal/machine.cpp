#include "runtime/metal/machine.h"

#include "runtime/device/shared_library.h"

namespace coil::runtime::metal {

const Functions& functions() {
  static const Functions found = [] {
    constexpr const char* kNames[] = {"libcoil_metal.dylib", "libcoil_metal.so"};
    constexpr const char* kFolders[] = {""};
    const SharedLibrary library("Metal", kNames, kFolders,
                                "programs for metal run on Apple's machines, with the library that a build there has");
    Functions f;
#define COIL_FIND(name) library.find(f.name, "coil_metal_" #name);
    COIL_METAL_FUNCTIONS(COIL_FIND)
#undef COIL_FIND
    return f;
  }();
  return found;
}

}  // namespace coil::runtime::metal
