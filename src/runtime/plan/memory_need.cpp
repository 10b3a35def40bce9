#include "runtime/plan/memory_need.h"

#include <algorithm>
#include <limits>

#include "support/out_of_memory.h"

namespace coil::runtime {
namespace {

constexpr std::size_t kNamed = 10;

/// What a step computes, if it is known, and where in the user's program that stands.
std::string computed_by(const Plan& plan, const Step& step) {
  if (const auto* kernel = std::get_if<KernelCall>(&step)) return plan.kernels[kernel->kernel].description;
  if (const auto* library = std::get_if<ExternCall>(&step))
    return library->description.empty() ? library->op : library->description;
  if (const auto* host = std::get_if<HostCall>(&step)) return host->op;
  return "";
}

bool touches(const Step& step, BufferId buffer) {
  const auto is_view = [&](const View& v) { return v.buffer == buffer; };
  if (const auto* kernel = std::get_if<KernelCall>(&step))
    return std::ranges::find(kernel->buffers, buffer) != kernel->buffers.end();
  if (const auto* library = std::get_if<ExternCall>(&step)) return std::ranges::any_of(library->outputs, is_view);
  if (const auto* host = std::get_if<HostCall>(&step))
    return std::ranges::any_of(host->outputs, [&](const auto& v) { return v && is_view(*v); });
  return false;
}

/// The first step that makes a buffer: what comes before it cannot touch it.
std::string made_by(const Plan& plan, BufferId buffer) {
  for (const Step& step : plan.steps)
    if (touches(step, buffer)) return computed_by(plan, step);
  return "";
}

/// The step at which the most bytes of temporaries are live.
std::uint32_t fullest_step(const Plan& plan, std::span<const std::uint64_t> bytes) {
  std::vector<std::uint64_t> born(plan.steps.size() + 2, 0), gone(plan.steps.size() + 2, 0);
  for (BufferId b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    if (buffer.kind != BufferKind::Temporary || bytes[b] == 0 || buffer.last >= plan.steps.size()) continue;
    born[buffer.first] += bytes[b];
    gone[buffer.last + 1] += bytes[b];
  }
  std::uint64_t live = 0, most = 0;
  std::uint32_t at = 0;
  for (std::uint32_t s = 0; s < plan.steps.size(); ++s) {
    live += born[s] - gone[s];
    if (live > most) most = live, at = s;
  }
  return at;
}

std::uint64_t saturated(std::uint64_t a, std::uint64_t b) {
  return __builtin_add_overflow(a, b, &a) ? std::numeric_limits<std::uint64_t>::max() : a;
}

}  // namespace

std::uint64_t MemoryNeed::total() const {
  return saturated(saturated(temporaries, scratch), saturated(outputs, weights));
}

std::string in_binary_units(std::uint64_t bytes) {
  const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  auto value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024; value /= 1024) ++unit;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string largest_buffers(const Plan& plan, std::span<const std::uint64_t> bytes) {
  const std::uint32_t at = fullest_step(plan, bytes);
  std::vector<BufferId> live;
  for (BufferId b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    const bool lives = buffer.kind == BufferKind::Output || buffer.kind == BufferKind::Constant ||
                       (buffer.kind == BufferKind::Temporary && buffer.first <= at && at <= buffer.last);
    if (lives && bytes[b] > 0) live.push_back(b);
  }
  std::ranges::stable_sort(live, std::greater<>(), [&](BufferId b) { return bytes[b]; });
  if (live.size() > kNamed) live.resize(kNamed);
  std::vector<std::string> named;
  for (BufferId b : live) {
    const Buffer& buffer = plan.buffers[b];
    const std::string by = buffer.kind == BufferKind::Constant ? "a weight" : made_by(plan, b);
    named.push_back(fmt::format("{}, {}{}", buffer.name, in_binary_units(bytes[b]), by.empty() ? "" : ": " + by));
  }
  return fmt::format("{}", fmt::join(named, "; "));
}

std::string needs_and_buffers(const Plan& plan, const MemoryNeed& need, std::span<const std::uint64_t> bytes) {
  return fmt::format(
      "needs {} ({} of temporaries, {} of scratch memory, {} of outputs, {} of weights); the largest that are live at "
      "once: {}",
      in_binary_units(need.total()), in_binary_units(need.temporaries), in_binary_units(need.scratch),
      in_binary_units(need.outputs), in_binary_units(need.weights), largest_buffers(plan, bytes));
}

void check_memory_limit(const Plan& plan, const MemoryNeed& need, std::span<const std::uint64_t> bytes) {
  if (plan.memory_limit == 0 || need.total() <= plan.memory_limit) return;
  throw OutOfMemory(fmt::format("memory.limit allows {} bytes, but the program {}", plan.memory_limit,
                                needs_and_buffers(plan, need, bytes)),
                    need.total());
}

void check_memory_limit(const Plan& plan) {
  if (plan.memory_limit == 0) return;
  MemoryNeed need{.temporaries = plan.static_arena_bytes};
  for (const OtherDevice& other : plan.others) need.temporaries = saturated(need.temporaries, other.static_arena_bytes);
  std::vector<std::uint64_t> bytes(plan.buffers.size(), 0);
  for (const Constant& c : plan.constants) need.weights = saturated(need.weights, c.bytes);
  for (BufferId b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    if (buffer.kind == BufferKind::Constant) bytes[b] = plan.constants[buffer.index].bytes;
    if (buffer.kind != BufferKind::Temporary && buffer.kind != BufferKind::Output) continue;
    const ShapeInstruction& size = plan.shape_program[static_cast<std::size_t>(buffer.bytes)];
    if (size.op != ShapeOp::Constant) return;
    if (buffer.shares < 0) bytes[b] = static_cast<std::uint64_t>(std::max<std::int64_t>(0, size.a));
    if (buffer.kind == BufferKind::Output) need.outputs = saturated(need.outputs, bytes[b]);
  }
  check_memory_limit(plan, need, bytes);
}

}  // namespace coil::runtime
