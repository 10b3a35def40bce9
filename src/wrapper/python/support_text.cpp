#include "wrapper/python/support_text.h"

#include <fmt/format.h>

#include <cctype>

#include "device/pieces.h"
#include "ops/wrapper_schemas.h"
#include "support/error.h"
#include "tensor/dtype.h"
#include "wrapper/python/cuda_text.h"
#include "wrapper/python/graph_text.h"
#include "wrapper/python/torch_ops_text.h"

namespace coil::wrapper {
namespace {

/// One of the files in device/python, two lines below what stands before it.
std::string part(const char* name) { return "\n\n" + device::whole(fmt::format("python/{}.py", name)); }

/// The table of element types, by the numbers that the C interface has for them.
std::string dtype_numbers() {
  std::string out = "DTYPE_NUMBERS = {";
  const char* separator = "";
#define X(e, short_name, torch, bytes, number, ...) \
  out += fmt::format("{}torch.{}: {}", separator, torch, number), separator = ", ";
  COIL_DTYPES(X)
#undef X
  return out + "}\n";
}

}  // namespace

std::string python_support(Device device, const std::set<std::string>& library_ops, bool over_host) {
  if (device.is_host())
    return device::whole("python/imports.py") + dtype_numbers() + part("runtime") +
           python_torch_ops(device.type, library_ops) + part("kernels") + part("tensors");
  return fmt::format("{}\nDEVICE = torch.device(\"{}\")\n", device::whole("python/imports.py"), to_string(device)) +
         python_torch_library() + python_torch_ops(device.type, library_ops) + python_cuda_kernels() +
         (over_host ? "\n" + dtype_numbers() + part("runtime") + part("kernels") + part("landing") : "") +
         part("tensors");
}

void require_torch_ops(Device device, const std::set<std::string>& library_ops) {
  for (const std::string& op : library_ops)
    if (!is_torch_op(device.type, op))
      fail(
          "the library operation '{}' has no form in torch, which programs in Python call on {}; write a package "
          "instead",
          op, to_string(device));
}

std::string python_fx_support(Device device) {
  std::string schemas = "\n\nSCHEMAS = {\n";
  for (std::string_view schema : ops::kWrapperSchemas)
    schemas += fmt::format("    \"{}\": \"{}\",\n", schema.substr(0, schema.find('(')), schema);
  return schemas + "}\n" + (device.is_host() ? python_failures() : "") + part("fx");
}

std::string python_parts() { return part("parts"); }

std::set<std::string> python_support_names() {
  std::set<std::string> names;
  const std::string text = python_support({}, {}, false) + part("landing") + python_torch_library() +
                           python_cuda_kernels() + python_fx_support({}) + python_graph_text() + python_parts();
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {  // what a line at the margin defines
    for (std::string_view lead : {"def ", "class ", "import ", ""}) {
      if (text.compare(at, lead.size(), lead) != 0) continue;
      std::size_t from = at + lead.size(), end = from;
      while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
      if (end > from) names.insert(text.substr(from, end - from));
      break;
    }
    if (text.find('\n', at) == std::string::npos) break;
  }
  names.insert({"UserKernel", "interpreted_library", "finish", "POST_OPS", "SYMBOLS", "KERNELS", "HOST_KERNELS",
                "WEIGHTS", "KERNEL_SOURCE", "KERNEL_HEAD", "KERNEL_TEXTS", "DEVICE", "args", "given", "graph", "root",
                "node", "program"});
  return names;
}

}  // namespace coil::wrapper
