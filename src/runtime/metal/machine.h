// What Coil asks of Metal, as a few functions of C. Libraries implement it: `libcoil_metal` over Apple's framework
// (apple.mm), and one whose machine is this process, for tests (test/fake_metal). It is opened when a program needs it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace coil::runtime::metal {

/// Handles are the library's own objects. Functions that can fail give null or a number other than 0, and
/// `coil_metal_error` says why, to the thread that called. One thread at a time uses a queue; all else may be shared.
struct Functions {
  const char* (*error)();
  /// A GPU by its number among the machine's.
  void* (*open)(int index);
  void (*close)(void* gpu);
  /// Memory that the GPU and the host both see, and where the host does.
  void* (*allocate)(void* gpu, std::size_t bytes, void** contents);
  void (*release)(void* buffer);
  /// Metal source, compiled with its floats as IEEE has them (no fast math).
  void* (*compile)(void* gpu, const char* source, std::size_t bytes);
  void (*free_library)(void* library);
  /// A kernel by name, which lives as long as the library; null where it cannot be made ready.
  void* (*find)(void* library, const char* name);
  void* (*make_queue)(void* gpu);
  void (*free_queue)(void* queue);
  /// What follows is encoded into one command buffer until `finish`: the kernel, its arguments by index, the launch.
  void (*use)(void* queue, void* kernel);
  void (*set_buffer)(void* queue, std::uint32_t index, void* buffer, std::size_t offset);
  void (*set_bytes)(void* queue, std::uint32_t index, const void* data, std::size_t bytes);
  int (*dispatch)(void* queue, const std::uint32_t* grid, std::uint32_t threads);
  /// Runs what was encoded, and waits.
  int (*finish)(void* queue);
};

// clang-format off
#define COIL_METAL_FUNCTIONS(X)                                                                                   \
  X(error) X(open) X(close) X(allocate) X(release) X(compile) X(free_library) X(find) X(make_queue) X(free_queue) \
  X(use) X(set_buffer) X(set_bytes) X(dispatch) X(finish)
// clang-format on

/// The library, opened once. Throws Error where the machine has none.
const Functions& functions();

/// Arguments that a kernel takes at most. Numbers behind its buffers are one argument each, or all of them one array
/// where they would be too many.
inline constexpr std::size_t kArguments = 31;
/// Behind buffers and numbers: the word that tells which call failed, and the number of this call in it.
inline constexpr std::size_t kOwnArguments = 2;
inline bool packs_numbers(std::size_t buffers, std::size_t numbers) {
  return buffers + numbers + kOwnArguments > kArguments;
}
/// Set in the word beside the call's number.
inline constexpr std::int64_t kFailed = std::int64_t{1} << 62;

}  // namespace coil::runtime::metal
