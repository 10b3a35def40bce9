// Which steps of a run need not wait for each other: those that touch different memory, or only read the same.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace coil::runtime {

/// Bytes that a step reads, or writes to.
struct Touch {
  std::uintptr_t begin = 0, end = 0;
  bool writes = false;
};

/// Where a step stands: the steps of one lane run one after another, in program order.
struct StepOrder {
  std::uint32_t lane = 0;
  std::vector<std::uint32_t>
      after;             ///< steps of other lanes that must be done before; those that follow from these are left out
  bool awaited = false;  ///< a step of another lane waits for this one
};

/// An order, over at most `lanes` lanes, in which every two steps that touch the same bytes, one of them writing, run
/// one after the other as the program has them. Steps in a chain stay on one lane. Takes n log n for n touches, apart
/// from how often they cut each other into pieces.
std::vector<StepOrder> order_steps(std::span<const std::vector<Touch>> steps, std::uint32_t lanes);

}  // namespace coil::runtime
