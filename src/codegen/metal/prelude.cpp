#include "codegen/metal/prelude.h"

#include "device/pieces.h"
#include "sym/print.h"

namespace coil::codegen {

namespace {

/// All functions, to stand behind Metal's library or what stands for it.
std::string prelude(std::string_view kernels) {
  static const std::string text = [] {
    std::string out;
    for (const char* file : {"metal/machine.h", "metal/values.h", "grid/arithmetic.h", "grid/activations.h",
                             "metal/memory.h", "grid/reductions.h", "grid/indices.h", "metal/scatter.h",
                             "grid/products.h", "shared/philox.h", "grid/random.h"})
      out += device::whole(file);
    return out + sym::code_helpers(sym::Language::Metal);
  }();
  return device::calls(kernels, "c_product") ? text + device::whole("metal/products.h") : text;
}

}  // namespace

std::string metal_head(std::string_view kernels) { return "#include <metal_stdlib>\n" + prelude(kernels); }

std::string metal_head_on_cpu(std::string_view kernels) {
  return device::whole("grid/fibers.h") + device::whole("metal/shim.h") + prelude(kernels);
}

}  // namespace coil::codegen
