#include "support/error.h"

#include <string_view>

#include "support/checked_vector.h"

namespace coil {

BeyondEnd::BeyondEnd(std::size_t index, std::size_t size)
    : Error(fmt::format("internal error: item {} of a list of {}", static_cast<std::ptrdiff_t>(index), size)) {}

void fail_beyond(std::size_t index, std::size_t size) { throw BeyondEnd(index, size); }

}  // namespace coil

namespace coil::detail {

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  std::string_view path = file;
  if (auto at = path.rfind("src/"); at != path.npos) path.remove_prefix(at);  // no build path in messages
  throw Error(fmt::format("internal error: {}:{}: {} does not hold{}{}", path, line, condition,
                          message.empty() ? "" : ": ", message));
}

}  // namespace coil::detail
