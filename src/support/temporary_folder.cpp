#include "support/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "support/error.h"

namespace coil {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::error_code error;
  fs::path base = fs::temp_directory_path(error);
  std::string pattern = ((error ? fs::path("/tmp") : base) / "coil-kernels-XXXXXX").string();
  if (!::mkdtemp(pattern.data()))
    fail("cannot make a folder for kernels in {}: {}", base.string(), std::strerror(errno));
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace coil
