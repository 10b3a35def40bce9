#include "runtime/executor/failure_statuses.h"

#include <algorithm>

#include "support/error.h"

namespace coil::runtime {
namespace {

bool writes_for_caller(const Plan& plan, std::span<const BufferId> memory_of, const Step& step) {
  auto of_caller = [&](BufferId id) {
    const Buffer& b = plan.buffers[memory_of[id]];
    return b.kind == BufferKind::Input || b.kind == BufferKind::Constant;
  };
  if (const auto* k = std::get_if<KernelCall>(&step))
    return std::ranges::any_of(k->written, [&](std::uint32_t i) { return of_caller(k->buffers[i]); });
  if (const auto* e = std::get_if<ExternCall>(&step))
    return std::ranges::any_of(e->outputs, [&](const View& v) { return of_caller(v.buffer); });
  if (const auto* h = std::get_if<HostCall>(&step))
    return std::ranges::any_of(h->outputs, [&](const auto& v) { return v && of_caller(v->buffer); });
  return false;
}

}  // namespace

FailureStatuses::FailureStatuses(const Plan& plan, std::span<const BufferId> memory_of, Queue& queue)
    : plan_(plan), queue_(queue), failures_{{nullptr, nullptr}} {
  for (const Step& step : plan.steps)
    if (const auto* call = std::get_if<KernelCall>(&step); call && !plan.kernels[call->kernel].failure.empty())
      failures_.push_back({nullptr, &plan.kernels[call->kernel].failure});
  const std::span<std::int64_t> words = queue.shared_words(failures_.size());
  for (std::size_t i = 0; i < failures_.size(); ++i) failures_[i].status = &words[i];
  if (!plan.stops_on_failure || failures_.size() < 2) return;
  find_guarded_steps(memory_of);
  copy_to_device();
}

void FailureStatuses::find_guarded_steps(std::span<const BufferId> memory_of) {
  // In a loop a step comes again behind those after it.
  bool may_have_failed =
      std::ranges::any_of(plan_.steps, [](const Step& s) { return std::holds_alternative<Control>(s); });
  for (const Step& step : plan_.steps) {
    guarded_.push_back(may_have_failed && writes_for_caller(plan_, memory_of, step));
    const auto* call = std::get_if<KernelCall>(&step);
    may_have_failed = may_have_failed || (call && !plan_.kernels[call->kernel].failure.empty());
  }
}

void FailureStatuses::copy_to_device() {
  const auto count = static_cast<std::int64_t>(failures_.size());
  clear_statuses_ = Tensor::empty(DType::I64, {4 * count});
  statuses_ = clear_statuses_;
  statuses_.storage = queue_.allocate(failures_.size() * sizeof(FailureStatus));
  auto* const all = reinterpret_cast<FailureStatus*>(statuses_.bytes());
  auto* const clear = reinterpret_cast<FailureStatus*>(clear_statuses_.bytes());
  for (std::size_t i = 0; i < failures_.size(); ++i)
    clear[i] = {.run_failed = 0, .host_word = failures_[i].status, .all = all, .count = count};
  queue_.copy(statuses_, clear_statuses_);
}

void* FailureStatuses::word_of(std::uint32_t failure, std::size_t step, bool on_host) const {
  if (on_host) return failures_[failure].status;
  // The word that the host looks at lies across the bus: only a kernel that fails may touch it.
  if (!plan_.stops_on_failure) return failure ? failures_[failure].status : nullptr;
  return statuses_.storage.data && (failure || guarded_[step]) ? status_of(failure) : nullptr;
}

void FailureStatuses::check() {
  for (std::size_t i = 1; i < failures_.size(); ++i)
    if (*static_cast<volatile std::int64_t*>(failures_[i].status)) fail_run(failures_[i]);
}

void FailureStatuses::fail_run(const Failure& failure) {
  for (Failure& f : failures_) *f.status = 0;
  if (statuses_.storage.data) queue_.copy(statuses_, clear_statuses_);
  fail("{}", *failure.message);
}

}  // namespace coil::runtime
