#include "wrapper/cpp/support_text.h"

#include <fmt/format.h>

#include "device/pieces.h"
#include "sym/print.h"
#include "tensor/dtype.h"

namespace coil::wrapper {
namespace {

/// One of the files in device/wrapper_cpp; those of two kinds have the device's behind their name.
std::string part(const char* name) { return "\n" + device::whole(fmt::format("wrapper_cpp/{}.h", name)); }
std::string part(const char* name, Device d) {
  return part(fmt::format("{}_{}", name, d.is_host() ? "cpu" : "gpu").c_str());
}

std::string dtypes() {
  std::string table = "constexpr Dtype dtypes[] = {\n";
#define X(e, short_name, torch, bytes, number, ...) \
  table += fmt::format("    {{static_cast<coil_dtype>({}), {}, \"{}\", \"{}\"}},\n", number, bytes, short_name, torch);
  COIL_DTYPES(X)
#undef X
  return table + "};\n";
}

}  // namespace

std::string cpp_support(Device device, bool over_host) {
  return device::whole("wrapper_cpp/head.h") + "\nnamespace {\n\n" + sym::cpp_helpers() + "\n" + dtypes() +
         "\n}  // namespace\n" + part("primitives", device) + part("helpers") + part("exchanges") +
         (device.is_host() ? part("calls_cpu") : "") + part("memory", device) +
         (over_host ? "\n" + device::piece("wrapper_cpp/calls_cpu.h", "kernel_calls") + part("landing") : "") +
         part("weights");
}

std::string cpp_entry(Device device) { return part("runs", device) + part("entry"); }
std::string cpp_main() { return part("main"); }

}  // namespace coil::wrapper
