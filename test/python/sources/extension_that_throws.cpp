// A library that fails when it has told of a device and a language, of which neither may stay.
#include <stdexcept>

#include "compiler/extension.h"

COIL_EXTENSION(extension) {
  extension.add(coil::DeviceKind{.name = "half", .open = [](int) -> std::shared_ptr<coil::runtime::DeviceRuntime> {
                                   coil::fail("nobody opens it");
                                 }});
  extension.add(coil::Language{"half-language", [] { return std::unique_ptr<coil::wrapper::Emitter>(); }});
  throw std::runtime_error("the licence server is asleep");
}
