// The backend `gloo`: process groups on the CPU, over TCP. Its library lies beside the runtime, and is opened when a
// program asks for a group.
#include <dlfcn.h>

#include <filesystem>
#include <mutex>

#include "runtime/device/shared_library.h"
#include "runtime/groups/host_group.h"

namespace coil::runtime::groups {
namespace {

/// The folder of the library or program that this code is in, with a slash.
std::string own_folder() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &here) == 0 || !here.dli_fname) return {};
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(here.dli_fname, error);
  return error ? std::string() : file.parent_path().string() + "/";
}

OpenTransport open_library() {
  static std::mutex mutex;
  static OpenTransport open = nullptr;
  const std::lock_guard lock(mutex);
  if (open) return open;
  // Beside the Python extension; beside programs, in bin and lib, and the extension as it is built.
  const std::string here = own_folder(), beside = here + "../lib/", above = here + "../../lib/";
  const char* const names[] = {"libcoil_gloo.so"};
  const char* const folders[] = {here.c_str(), beside.c_str(), above.c_str(), ""};
  const SharedLibrary library("The part of Coil that exchanges values over Gloo", names, folders,
                              "install Gloo (Debian: libgloo-dev) and build Coil again, or put that file beside the "
                              "runtime");
  library.find(open, "coil_open_transport");
  return open;
}

const DefineBackend kGloo(
    "gloo", [] { open_library(); },
    [](const GroupOptions& options) { return join_host_group(options, open_library()); });

}  // namespace
}  // namespace coil::runtime::groups
