// How much Metal's kernels put together.
#pragma once
#include <memory>

#include "codegen/metal/dialect.h"
#include "scheduler/schedule.h"

namespace coil::codegen {

/// Buffers are arguments, of which a kernel has few.
class MetalChoices : public scheduler::Choices {
 public:
  std::int64_t min_parallel_outer() const override { return 64; }
  std::int64_t short_row() const override { return 1 << 13; }
  std::size_t max_buffers() const override { return kMetalArguments - 4; }
};

/// Metal's choices where none are given.
inline std::unique_ptr<scheduler::Choices> metal_choices(std::unique_ptr<scheduler::Choices> given) {
  return given ? std::move(given) : std::make_unique<MetalChoices>();
}

}  // namespace coil::codegen
