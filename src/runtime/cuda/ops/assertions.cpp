// Where memory lies is told by its address, on any device: `assert_aligned` as the CPU has it.
#include "library_ops/checks.h"
#include "runtime/device/library.h"

namespace coil::runtime::cuda {
namespace {

using library_ops::checks::kAligned;

const DefineLibraryOps kAssertions(DeviceType::CUDA, {{kAligned, [](const Attributes& attributes, Queue&) {
                                                         return make_library_op(kAligned, attributes);
                                                       }}});

}  // namespace
}  // namespace coil::runtime::cuda
