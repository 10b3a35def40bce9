#include "runtime/executor/recorded_parts.h"

#include <algorithm>

#include "runtime/device/messages.h"

namespace coil::runtime {

static_assert(sizeof(void*) == sizeof(std::uint64_t));

namespace {

std::uint64_t number(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

std::uint64_t hash_of(std::span<const std::uint64_t> key) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (std::uint64_t k : key) h = (h ^ k) * 0x9e3779b97f4a7c15, h ^= h >> 29;
  return h;
}

}  // namespace

std::unique_ptr<RecordedWork> try_to_record(Queue& queue, const std::function<void()>& work) {
  if (!queue.begin_recording()) return nullptr;
  std::string why;
  try {
    work();
  } catch (const std::exception& e) {
    why = e.what();
  }
  std::unique_ptr<RecordedWork> made;
  try {
    made = queue.end_recording();  // in any case: the queue must not stay in a recording
  } catch (const std::exception& e) {
    if (why.empty()) why = e.what();
  }
  if (why.empty()) return made;
  tell(MessageLevel::Warning, "work on {} could not be recorded and is queued step by step: {}",
       to_string(queue.device()), why);
  return nullptr;
}

void RecordedParts::begin(std::span<const std::uint64_t> state) {
  drop();
  key_.assign(state.begin(), state.end());
  state_size_ = key_.size();
}

void RecordedParts::launch(const Launch& l, void* const* words, std::int64_t step) {
  const std::uint64_t head[] = {number(l.kernel),
                                l.grid[0],
                                l.grid[1],
                                l.grid[2],
                                (std::uint64_t{l.block} << 32) | l.shared_bytes,
                                static_cast<std::uint64_t>(l.extent),
                                (static_cast<std::uint64_t>(l.chunks) << 32) | l.word_count};
  key_.insert(key_.end(), std::begin(head), std::end(head));
  Item item{.launch = l, .step = step};
  item.launch.words = static_cast<std::uint32_t>(key_.size());
  const auto* given = reinterpret_cast<const std::uint64_t*>(words + l.words);
  key_.insert(key_.end(), given, given + l.word_count);
  items_.push_back(item);
  overfull_ = overfull_ || items_.size() > kMost;
}

void RecordedParts::call(LibraryOp& op, std::span<void* const> operands, std::size_t inputs, void* workspace,
                         std::initializer_list<std::span<const BoundView>> views, std::int64_t step) {
  key_.insert(key_.end(), {number(&op), number(workspace), operands.size()});
  items_.push_back({.op = &op,
                    .operands = key_.size(),
                    .inputs = inputs,
                    .count = operands.size(),
                    .workspace = workspace,
                    .step = step});
  for (void* p : operands) key_.push_back(number(p));
  for (std::span<const BoundView> list : views)
    for (const BoundView& v : list) {
      key_.push_back((static_cast<std::uint64_t>(v.dtype) << 32) | v.sizes.size());
      key_.insert(key_.end(), v.sizes.begin(), v.sizes.end());
      key_.insert(key_.end(), v.strides.begin(), v.strides.end());
    }
  overfull_ = overfull_ || items_.size() > kMost;
}

void RecordedParts::keep(Storage memory) {
  if (items_.empty()) return;
  held_bytes_ += memory.bytes;
  overfull_ = overfull_ || held_bytes_ > kHeldBytes;
  held_.push_back(std::move(memory));
}

void RecordedParts::run(const Item& item) {
  if (!item.op) return queue_.launch(item.launch, words());
  void* const* at = words() + item.operands;
  item.op->run({at, item.inputs}, {at + item.inputs, item.count - item.inputs}, item.workspace);
}

void RecordedParts::run_all() {
  for (const Item& item : items_) run(item);
}

std::unique_ptr<RecordedWork> RecordedParts::record(const TouchesOf& touches) {
  std::vector<std::vector<Touch>> touched;
  for (const Item& item : items_) touched.push_back(touches(item.step));
  const std::vector<StepOrder> orders = order_steps(touched, queue_.lanes());
  return try_to_record(queue_, [&] {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      queue_.begin_step(orders[i]);
      run(items_[i]);
      queue_.end_step(orders[i]);
    }
  });
}

void RecordedParts::flush(const TouchesOf& touches) {
  if (!items_.empty()) {
    const std::uint64_t hash = hash_of(key_);
    auto found =
        std::find_if(kept_.begin(), kept_.end(), [&](const Entry& e) { return e.hash == hash && e.key == key_; });
    if (items_.size() < kFewest || overfull_) {
      run_all();
    } else if (found == kept_.end()) {
      run_all();
      kept_.push_front({hash, key_, nullptr});
      keep_at_most(most_);
    } else {
      kept_.splice(kept_.begin(), kept_, found);
      if (!found->work && !found->refused) {
        found->work = record(touches);
        found->refused = !found->work;
      }
      if (found->work)
        queue_.run_recorded(*found->work);
      else
        run_all();
    }
  }
  drop();
}

void RecordedParts::keep_at_most(std::size_t count) {
  most_ = std::max<std::size_t>(count, 1);
  while (kept_.size() > most_) kept_.pop_back();
}

void RecordedParts::drop() noexcept {
  items_.clear();
  while (!held_.empty())
    held_.pop_back();  // the last first, so that a pool hands the same memory out in the same order
  held_bytes_ = 0;
  overfull_ = false;
  key_.resize(state_size_);
}

}  // namespace coil::runtime
