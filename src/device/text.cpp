#include "device/text.h"

#include <algorithm>
#include <span>

#include "support/error.h"

namespace coil::device {

std::string_view file_text(std::string_view name) {
  const std::span files(embedded_files, static_cast<std::size_t>(embedded_file_count));
  const auto found = std::ranges::find(files, name, &EmbeddedFile::name);
  COIL_CHECK(found != files.end(), "src/device has no {}", name);
  return found->text;
}

}  // namespace coil::device
