// A folder that goes with its owner.
#pragma once
#include <filesystem>

namespace coil {

class TemporaryFolder {
 public:
  /// In the system's folder for temporary files. Throws Error where none can be made.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace coil
