// The files in the folders of src/device: text of other programs (kernels and what stands in front of them, programs
// written as C++ and Python, a page), which the build embeds (cmake/embed.cmake).
#pragma once
#include <string_view>

namespace coil::device {

struct EmbeddedFile {
  std::string_view name, text;
};
extern const EmbeddedFile embedded_files[];
extern const int embedded_file_count;

/// A file by its path: `cuda/machine.cuh`. A file that is not there is an invariant error.
std::string_view file_text(std::string_view name);

}  // namespace coil::device
