// Work that does not depend on each other, on several threads.
#pragma once
#include <cstddef>
#include <functional>

namespace coil {

/// Calls `work` with each number below `count`, on the calling thread and at most `threads - 1` others, fewer where the
/// system gives no more. When all have ended it throws the first exception of one; no further one begins after that.
void in_parallel(std::size_t count, int threads, const std::function<void(std::size_t)>& work);

}  // namespace coil
