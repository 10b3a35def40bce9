#include "coil/coil.h"
#include "support/error.h"

namespace coil {

std::string emit(const std::filesystem::path&, const std::string& language, const CompileOptions&) { fail("there is no emitter for '{}'", language); }

}  // namespace coil
