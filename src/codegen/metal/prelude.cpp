#include "codegen/metal/prelude.h"

#include <regex>

#include "device/pieces.h"
#include "sym/print.h"

namespace coil::codegen {

namespace {

/// Functions of f64 as functions of f32, their literals as Metal's and C++'s compilers both take them for that.
std::string in_f32(const std::string& text) {
  static const std::regex type(R"(\bf64\b)"),
      literal(R"((^|[^\w.])(\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)(?![\w.]))");
  return std::regex_replace(std::regex_replace(text, type, "f32"), literal, "$1$2f");
}

/// Special functions that the text calls, in f32.
std::string special_functions(std::string_view kernels) {
  static const std::vector<device::Piece> all = [] {
    std::vector<device::Piece> out = device::pieces("metal/special.h");
    for (device::Piece& p : device::pieces("shared/special.h")) out.push_back({std::move(p.names), in_f32(p.text)});
    return out;
  }();
  const std::string text = device::called(all, kernels);
  return text.empty() ? text : all[0].text + text;
}

/// All functions, to stand behind Metal's library or what stands for it.
std::string prelude(std::string_view kernels) {
  static const std::string text = [] {
    std::string out;
    for (const char* file :
         {"metal/machine.h", "metal/values.h", "grid/arithmetic.h", "metal/doubles.h", "grid/activations.h",
          "metal/memory.h", "grid/reductions.h", "grid/indices.h", "metal/scatter.h", "metal/counters.h", "grid/sort.h",
          "grid/products.h", "shared/philox.h", "grid/random.h"})
      out += device::whole(file);
    return out;
  }();
  return text + special_functions(kernels) + sym::code_helpers(sym::Language::Metal) +
         (device::calls(kernels, "c_product") ? device::whole("metal/products.h") : "");
}

}  // namespace

std::string metal_head(std::string_view kernels) { return "#include <metal_stdlib>\n" + prelude(kernels); }

std::string metal_head_on_cpu(std::string_view kernels) {
  return device::whole("grid/fibers.h") + device::whole("metal/shim.h") + prelude(kernels);
}

}  // namespace coil::codegen
