// What the library brings: the device, and a language that programs for it are written in.
#include "compiler/extension.h"

#include <sstream>

#include "support/error.h"
#include "toy.h"
#include "wrapper/emitter.h"
#include "wrapper/text.h"

namespace toy {
namespace {

/// A program's kernels as one file of C, behind the lines that call them as comments: for a compiler of one's own.
class Listing : public coil::wrapper::Emitter {
 public:
  std::string emit(const coil::wrapper::Program& program, const coil::wrapper::EmitOptions&) override {
    if (program.device.type != coil::DeviceType::named("toy"))
      coil::fail("--emit=toy-listing writes programs for toy, not for {}", to_string(program.device));
    lines_.assign(program.lines.size(), {});
    std::string out;
    std::istringstream text(coil::wrapper::to_string(program));
    for (std::string line; std::getline(text, line);) out += "// " + line + "\n";
    for (const coil::wrapper::KernelEntry& kernel : program.kernels) out += "\n" + kernel.text;
    return out;
  }
};

}  // namespace
}  // namespace toy

COIL_EXTENSION(extension) {
  extension.add(coil::DeviceKind{
      .name = "toy", .open = toy::open, .backend = toy::make_backend, .operations = toy::operations()});
  extension.add(coil::Language{"toy-listing", [] { return std::make_unique<toy::Listing>(); }});
}
