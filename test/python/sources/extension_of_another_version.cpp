// A library that was built for another version of the interface: what it brings must not be asked for.
#include <cstdlib>

#include "compiler/extension.h"

namespace {
void describe(coil::Extension&) { std::abort(); }
}  // namespace

extern "C" {
extern COIL_EXTENSION_API const coil::ExtensionEntry coil_extension;
const coil::ExtensionEntry coil_extension{coil::kExtensionVersion + 1, &describe};
}
