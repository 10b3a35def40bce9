#include "runtime/cuda/driver/shared_library.h"

namespace coil::runtime::cuda {

namespace {
constexpr const char* kFolders[] = {"", "/usr/local/cuda/lib64/"};
}

SharedLibrary::SharedLibrary(std::string_view what, std::span<const char* const> names)
    : runtime::SharedLibrary(what, names, kFolders, "install it, or add its folder to LD_LIBRARY_PATH") {}

}  // namespace coil::runtime::cuda
