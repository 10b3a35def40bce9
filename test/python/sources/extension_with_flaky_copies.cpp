// A device like the CPU whose third copy fails, and every third after it.
#include "compiler/extension.h"
#include "runtime/device/kernel_library.h"
#include "runtime/views/strided_copy.h"

namespace {

using namespace coil;

class Queue : public runtime::Queue {
 public:
  Device device() const override { return {DeviceType::named("flaky")}; }
  Storage allocate(std::size_t bytes) override {
    Storage out = Storage::allocate(bytes + 1);
    out.device = device();
    return out;
  }
  void copy(const Tensor& to, const Tensor& from) override {
    if (++copies_ % 3 == 0) fail("flaky:0 lost the bus in the middle of a copy");
    runtime::copy_strided(to, from);
  }
  void launch(const runtime::Launch&, void* const*) override { fail("flaky:0 has no kernels"); }

 private:
  int copies_ = 0;
};

class NoKernels : public runtime::LoadedKernels {
  const void* find(const std::string&) const override { return nullptr; }
};

class Runtime : public runtime::DeviceRuntime {
 public:
  Device device() const override { return {DeviceType::named("flaky")}; }
  std::unique_ptr<runtime::LoadedKernels> load(const std::string&, std::span<const std::vector<std::byte>>) override {
    return std::make_unique<NoKernels>();
  }
  std::unique_ptr<runtime::Queue> make_queue() override { return std::make_unique<Queue>(); }
};

/// Leaves the product as it finds it.
class NoProduct : public runtime::LibraryOp {
  void prepare(std::span<const runtime::BoundView>, std::span<const runtime::BoundView>) override {}
  void run(std::span<const void* const>, std::span<void* const>, void*) override {}
};

/// A target without kernels: programs of library calls alone.
class Backend : public codegen::Backend {
 public:
  explicit Backend(Device device) : target_{.device = device, .arch = "flaky1"} {}
  const target::Target& target() const override { return target_; }
  const scheduler::Choices& choices() const override { return choices_; }
  codegen::Kernel group(ir::Graph&, const scheduler::Group&) const override { fail("flaky has no kernels"); }
  codegen::Kernel scatter(ir::Graph&, const ir::Operation&) const override { fail("flaky has no kernels"); }
  bool has_template(std::string_view) const override { return false; }
  codegen::Kernel template_kernel(ir::Graph&, const ir::Extern&) const override { fail("flaky has no kernels"); }
  codegen::Binaries compile(std::span<const std::string>, const codegen::CompileKernels&) const override { return {}; }

 private:
  target::Target target_;
  scheduler::Choices choices_;
};

}  // namespace

COIL_EXTENSION(extension) {
  extension.add(coil::DeviceKind{
      .name = "flaky",
      .open = [](int) { return std::make_shared<Runtime>(); },
      .backend = [](codegen::BackendRequest request) { return std::make_unique<Backend>(request.device); },
      .operations = {{"matmul",
                      [](const runtime::Attributes&, runtime::Queue&) { return std::make_unique<NoProduct>(); }}}});
}
