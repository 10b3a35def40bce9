// A file mapped into memory, kept alive by whoever holds a part of it.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace coil {

/// Immutable in length; unmapped when the last owner lets go. Pages are read on first touch.
class MappedFile {
 public:
  enum class Mode {
    ReadOnly,     ///< writing to the memory is a fault
    CopyOnWrite,  ///< writes stay in this process and never reach the file
  };

  /// Throws Error when the file cannot be opened, is not a regular file or cannot be mapped.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path&, Mode = Mode::ReadOnly);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::size_t size() const { return size_; }
  /// The memory at `offset`, for tensors, whose interface does not know const. May be written only under CopyOnWrite.
  std::byte* at(std::size_t offset) const { return data_ + offset; }

 private:
  MappedFile(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  std::byte* data_;
  std::size_t size_;
};

}  // namespace coil
