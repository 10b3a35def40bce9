#include "wrapper/python/graph_text.h"

#include <fmt/format.h>

#include "device/pieces.h"
#include "tensor/dtype.h"

namespace coil::wrapper {

std::string python_graph_text() {
  std::string names = "\n\nDTYPE_NAMES = {";
  const char* separator = "";
#define X(e, short_name, torch, ...) \
  names += fmt::format("{}torch.{}: \"{}\"", separator, torch, short_name), separator = ", ";
  COIL_DTYPES(X)
#undef X
  return names + "}\n\n\n" + device::whole("python/graph_text.py");
}

}  // namespace coil::wrapper
