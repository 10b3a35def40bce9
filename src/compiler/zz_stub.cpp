// Removed when packages land.
#include "runtime/executor.h"
#include "support/error.h"
namespace coil::runtime {
__attribute__((weak)) void save_package(const Program&, const std::filesystem::path&) { fail("packages cannot be written yet"); }
__attribute__((weak)) Program load_program(const std::filesystem::path&) { fail("packages cannot be read yet"); }
__attribute__((weak)) std::shared_ptr<const Model> Model::load_package(const std::filesystem::path&) { fail("packages cannot be read yet"); }
}  // namespace coil::runtime
