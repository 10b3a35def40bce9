// Collectives of programs: each start hands an exchange to its process group, each wait ends one. On a device with
// streams the exchange begins behind what the program's stream has queued, and the wait is the stream's.
#include "runtime/ops/collectives.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "library_ops/collectives.h"
#include "runtime/device/device.h"
#include "runtime/device/library.h"
#include "runtime/groups/groups.h"
#include "runtime/groups/in_flight.h"
#include "runtime/groups/symmetric.h"
#include "runtime/groups/symmetric_sums.h"
#include "support/error.h"
#include "support/hash.h"

namespace coil::runtime {
namespace {

namespace names = library_ops::collectives;
using groups::Elements;
using groups::ProcessGroup;
using groups::Started;

/// Elements from one row of dimension 0 to the next.
std::int64_t row_of(const BoundView& v) {
  return std::accumulate(v.sizes.begin() + (v.sizes.empty() ? 0 : 1), v.sizes.end(), std::int64_t{1},
                         std::multiplies<>());
}

/// Memory that somebody else holds.
Storage lent_storage(void* at, std::size_t bytes, Device device) {
  return {std::shared_ptr<std::byte>(std::shared_ptr<std::byte>(), static_cast<std::byte*>(at)), bytes, device};
}

void require_rows(std::string_view op, const BoundView& v) {
  std::int64_t stride = 1;
  for (std::size_t d = v.sizes.size(); d-- > 0; stride *= v.sizes[d])
    if (v.sizes[d] > 1 && v.strides[d] != stride && numel(v.sizes) > 0) fail("{} takes dense, row-major tensors", op);
}

/// A call site that starts an exchange in its group, which is joined when the call site is made.
class Collective : public LibraryOp {
 public:
  Collective(std::string_view op, const Attributes& attributes, Queue* queue)
      : op_(op),
        group_(groups::group(read(attributes, names::kGroup), queue ? queue->device() : Device{})),
        watcher_(std::dynamic_pointer_cast<QueueWatcher>(group_)),
        queue_(queue) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    if (inputs.empty() || outputs.empty() || (outputs.size() > 1 && outputs.size() != inputs.size()))
      fail("{} takes a tensor and gives one", op_);
    shares_.clear();
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      for (const BoundView* v : {&inputs[k], &outputs[k]}) require_rows(op_, *v);
      if (inputs[k].dtype != outputs[k].dtype || inputs[k].dtype != inputs[0].dtype)
        fail("{} gives what it takes, no other type", op_);
      x_ = inputs[k], y_ = outputs[k];
      check();
      if (outputs.size() > 1) shares_.push_back({nullptr, nullptr, smaller()});
    }
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void*) override {
    if (queue_) {
      group_->order_behind(queue_->current_stream(), queue_->is_recording());
      if (watcher_) queue_->watch(watcher_);
    }
    if (!shares_.empty()) return run_together(inputs, outputs);
    if (std::exchange(first_, false)) group_->agree_to_start(0);
    const Started work = start(inputs, outputs[0]);
    if (numel(y_.sizes) > 0)
      groups::started(outputs[0], work);
    else if (queue_)
      work->wait_on(queue_->current_stream(),
                    queue_->is_recording());  // results without elements may lie where others do
    else
      work->wait();
  }
  bool runs_when_empty() const override { return true; }

 protected:
  virtual void check() = 0;
  virtual Started start(std::span<const void* const> inputs, void* output) = 0;
  /// Starts the exchange of several tensors at once, for collectives that several tensors may share.
  virtual Started start_together(std::span<const groups::Share>, bool /*agreed*/) {
    fail("{} takes a tensor and gives one", op_);
  }

  ProcessGroup& group() const { return *group_; }
  Elements elements(const BoundView& v) const { return {v.dtype, numel(v.sizes)}; }
  void require_same() const {
    if (x_.sizes != y_.sizes) fail("{} gives as many elements as it takes", op_);
  }
  void require_times(const BoundView& many, const BoundView& one) const {
    if (numel(many.sizes) != numel(one.sizes) * group_->size())
      fail("{}: {} elements and {}, in process group '{}' of {} ranks", op_, numel(x_.sizes), numel(y_.sizes),
           group_->name(), group_->size());
  }
  /// Values that are exchanged in place: copied before the exchange is put behind the stream's work.
  void* in_place(const void* x, void* y) const {
    if (x == y || numel(x_.sizes) == 0) return y;
    if (!queue_) {
      std::memcpy(y, x, static_cast<std::size_t>(numel(x_.sizes)) * size_of(x_.dtype));
      return y;
    }
    queue_->copy(lent(y), lent(const_cast<void*>(x)));
    group_->order_behind(queue_->current_stream(), queue_->is_recording());
    return y;
  }
  /// Ranks that exchange messages do not all do so.
  void agrees_with_nobody() { first_ = false; }
  Elements smaller() const { return elements(numel(x_.sizes) < numel(y_.sizes) ? x_ : y_); }
  Queue* queue() const { return queue_; }

  std::string op_;
  BoundView x_, y_;

 private:
  void run_together(std::span<const void* const> inputs, std::span<void* const> outputs) {
    for (std::size_t k = 0; k < shares_.size(); ++k) shares_[k].in = inputs[k], shares_[k].out = outputs[k];
    if (std::exchange(first_, false)) agreed_ = group_->agree_to_start(signature());
    const Started work = start_together(shares_, agreed_);
    bool is_waited_for = false;
    for (const groups::Share& s : shares_) {
      if (s.elements.count == 0) continue;
      groups::started(s.out, work);
      is_waited_for = true;
    }
    if (!is_waited_for && !queue_) work->wait();
  }

  /// A number that identifies what is started together, without sizes: the group is the one to compare those.
  std::uint64_t signature() const {
    return hash(fmt::format("{} {} {}", op_, shares_.size(), torch_name(x_.dtype))).low | 1;
  }

  /// Memory of the queue's device with as many elements as the operand.
  Tensor lent(void* at) const {
    const std::size_t bytes = static_cast<std::size_t>(numel(x_.sizes)) * size_of(x_.dtype);
    return {lent_storage(at, bytes, queue_->device()), x_.dtype, {numel(x_.sizes)}, {1}, 0};
  }

  std::shared_ptr<ProcessGroup> group_;
  std::shared_ptr<QueueWatcher> watcher_;
  Queue* queue_;
  std::vector<groups::Share> shares_;  ///< where several tensors go together
  bool first_ = true, agreed_ = false;
};

class AllReduce final : public Collective {
 public:
  explicit AllReduce(const Attributes& a, Queue* queue = nullptr)
      : Collective(names::kAllReduce, a, queue), reduce_(read(a, names::kReduce)) {}
  void check() override { require_same(); }
  Started start(std::span<const void* const> in, void* out) override {
    return group().all_reduce(in_place(in[0], out), elements(x_), reduce_);
  }
  Started start_together(std::span<const groups::Share> shares, bool agreed) override {
    for (const groups::Share& s : shares)
      if (s.in != s.out && s.elements.count > 0) fail("{} of several tensors changes them where they lie", op_);
    return group().together(groups::SharedKind::AllReduce, shares, reduce_, agreed);
  }

 private:
  std::string reduce_;
};

class Broadcast final : public Collective {
 public:
  explicit Broadcast(const Attributes& a, Queue* queue = nullptr)
      : Collective(names::kBroadcast, a, queue), source_(static_cast<int>(read(a, names::kSource))) {}
  void check() override { require_same(); }
  Started start(std::span<const void* const> in, void* out) override {
    return group().broadcast(in_place(in[0], out), elements(x_), source_);
  }

 private:
  int source_;
};

class Message : public Collective {
 public:
  Message(std::string_view op, const Attributes& a, Queue* queue)
      : Collective(op, a, queue),
        peer_(static_cast<int>(read(a, names::kPeer))),
        tag_(static_cast<std::uint32_t>(read(a, names::kTag))) {
    agrees_with_nobody();
  }
  void check() override {}

 protected:
  int peer_;
  std::uint32_t tag_;
};

class Send final : public Message {
 public:
  explicit Send(const Attributes& a, Queue* queue = nullptr) : Message(names::kSend, a, queue) {}
  Started start(std::span<const void* const> in, void*) override {
    return group().send(in[0], elements(x_), peer_, tag_);
  }
};

class Receive final : public Message {
 public:
  explicit Receive(const Attributes& a, Queue* queue = nullptr) : Message(names::kReceive, a, queue) {}
  Started start(std::span<const void* const>, void* out) override {
    return group().receive(out, elements(y_), peer_, tag_);
  }
};

class AllGather final : public Collective {
 public:
  explicit AllGather(const Attributes& a, Queue* queue = nullptr) : Collective(names::kAllGather, a, queue) {}
  void check() override { require_times(y_, x_); }
  Started start(std::span<const void* const> in, void* out) override {
    return group().all_gather(in[0], out, elements(x_));
  }
  Started start_together(std::span<const groups::Share> shares, bool agreed) override {
    return group().together(groups::SharedKind::AllGather, shares, {}, agreed);
  }
};

class ReduceScatter final : public Collective {
 public:
  explicit ReduceScatter(const Attributes& a, Queue* queue = nullptr)
      : Collective(names::kReduceScatter, a, queue), reduce_(read(a, names::kReduce)) {}
  void check() override { require_times(x_, y_); }
  Started start(std::span<const void* const> in, void* out) override {
    return group().reduce_scatter(in[0], out, elements(y_), reduce_);
  }
  Started start_together(std::span<const groups::Share> shares, bool agreed) override {
    return group().together(groups::SharedKind::ReduceScatter, shares, reduce_, agreed);
  }

 private:
  std::string reduce_;
};

class AllToAll final : public Collective {
 public:
  explicit AllToAll(const Attributes& a, Queue* queue = nullptr)
      : Collective(names::kAllToAll, a, queue),
        told_(read(a, names::kTold)),
        sent_(read(a, names::kInputSplits)),
        received_(read(a, names::kOutputSplits)) {}
  void check() override {
    if (x_.sizes.empty() || y_.sizes.empty()) fail("{} takes tensors of at least one dimension", op_);
  }

  Started start(std::span<const void* const> in, void* out) override {
    if (told_) {
      const auto ranks = static_cast<std::size_t>(group().size());
      const std::vector<std::int64_t> told = read_splits(in[1], 2 * ranks);
      const auto half = told.begin() + static_cast<std::ptrdiff_t>(ranks);
      sent_.assign(told.begin(), half);
      received_.assign(half, told.end());
    }
    return group().all_to_all(in[0], elements_of(sent_, x_), out, elements_of(received_, y_), x_.dtype);
  }
  bool runs_on_host() const override { return queue() && told_; }  // which reads the splits

 private:
  std::vector<std::int64_t> read_splits(const void* at, std::size_t count) const {
    std::vector<std::int64_t> told(count);
    const auto numbers = static_cast<std::int64_t>(count);
    const std::size_t bytes = count * sizeof(std::int64_t);
    if (!queue()) {
      std::memcpy(told.data(), at, bytes);
      return told;
    }
    const Tensor there{lent_storage(const_cast<void*>(at), bytes, queue()->device()), DType::I64, {numbers}, {1}, 0};
    queue()->copy({lent_storage(told.data(), bytes, {}), DType::I64, {numbers}, {1}, 0}, there);
    queue()->wait();
    return told;
  }

  std::vector<std::int64_t> elements_of(const std::vector<std::int64_t>& rows, const BoundView& v) const {
    const auto ranks = static_cast<std::size_t>(group().size());
    std::vector<std::int64_t> out = rows;
    if (rows.empty()) {
      if (v.sizes[0] % group().size() != 0)
        fail("{}: {} rows cannot be shared by {} ranks equally", op_, v.sizes[0], group().size());
      out.assign(ranks, v.sizes[0] / group().size());
    }
    if (out.size() != ranks || std::accumulate(out.begin(), out.end(), std::int64_t{0}) != v.sizes[0] ||
        std::ranges::any_of(out, [](std::int64_t n) { return n < 0; }))
      fail("{}: split sizes {} of {} rows, among {} ranks", op_, fmt::join(out, ", "), v.sizes[0], ranks);
    for (std::int64_t& n : out) n *= row_of(v);
    return out;
  }

  bool told_;
  std::vector<std::int64_t> sent_, received_;
};

/// A sum over memory that all ranks reach. Where they cannot share any, the group's own collective gives it.
class SharedSum : public LibraryOp {
 public:
  SharedSum(std::string_view op, const Attributes& a, bool in_shares)
      : op_(op), group_(read(a, names::kGroup)), in_shares_(in_shares) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    if (inputs.size() != 1 || outputs.size() != (in_shares_ ? 2U : 1U)) fail("{} takes a tensor and gives one", op_);
    for (const BoundView* v : {&inputs[0], &outputs[0]}) require_rows(op_, *v);
    if (inputs[0].dtype != outputs[0].dtype || inputs[0].sizes != outputs[0].sizes)
      fail("{} gives as many elements as it takes, of the same type", op_);
    if (!groups::has_symmetric_sum(inputs[0].dtype)) fail("{} adds no {}", op_, torch_name(inputs[0].dtype));
    elements_ = {inputs[0].dtype, numel(inputs[0].sizes)};
    operand_ = nullptr;
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void*) override {
    if (inputs[0] != operand_) find(inputs[0]);
    groups::SymmetricMemory& memory = *place_.memory;
    if (!memory.is_shared()) return by_group(inputs[0], outputs[0]);
    (in_shares_ ? groups::two_shot_sum : groups::one_shot_sum)(memory, place_.offset, outputs[0], elements_, doing_);
  }
  bool runs_when_empty() const override { return true; }  // other ranks may have elements, and are to be told

 private:
  void find(const void* operand) {
    const auto place = groups::find_symmetric(operand);
    if (!place) fail("{} takes values in a communication buffer, and was given others", op_);
    const auto bytes = static_cast<std::size_t>(elements_.count) * size_of(elements_.dtype);
    if (place->memory->bytes() - place->offset < bytes) fail("{}: the communication buffer is too small", op_);
    place_ = *place;
    operand_ = operand;
    doing_.what = fmt::format("{} of {} {} at {}", op_, elements_.count, torch_name(elements_.dtype), place->offset);
  }

  void by_group(const void* x, void* y) {
    if (!joined_) joined_ = groups::group(group_);
    if (elements_.count > 0) std::memcpy(y, x, static_cast<std::size_t>(elements_.count) * size_of(elements_.dtype));
    joined_->all_reduce(y, elements_, "sum")->wait();
  }

  std::string op_, group_;
  bool in_shares_;
  Elements elements_;
  groups::Doing doing_;
  const void* operand_ = nullptr;
  groups::SymmetricPlace place_;
  std::shared_ptr<ProcessGroup> joined_;
};

class OneShot final : public SharedSum {
 public:
  explicit OneShot(const Attributes& a) : SharedSum(names::kOneShot, a, false) {}
};

class TwoShot final : public SharedSum {
 public:
  explicit TwoShot(const Attributes& a) : SharedSum(names::kTwoShot, a, true) {}
};

class Barrier final : public LibraryOp {
 public:
  explicit Barrier(const Attributes& a) : group_(read(a, names::kGroup)) {}
  void prepare(std::span<const BoundView> inputs, std::span<const BoundView>) override {
    if (inputs.size() != 1) fail("{} takes one tensor", names::kBarrier);
  }
  void run(std::span<const void* const> inputs, std::span<void* const>, void*) override {
    const auto place = groups::find_symmetric(inputs[0]);
    if (!place) fail("{} takes a communication buffer, and was given other memory", names::kBarrier);
    if (place->memory->is_shared()) return place->memory->barrier({std::string(names::kBarrier)});
    groups::group(group_)->barrier()->wait();
  }

 private:
  std::string group_;
};

class Wait final : public LibraryOp {
 public:
  explicit Wait(const Attributes&, Queue* queue = nullptr) : queue_(queue) {}
  void prepare(std::span<const BoundView>, std::span<const BoundView> outputs) override {
    if (outputs.size() != 1) fail("{} waits for one tensor", names::kWait);
  }
  void run(std::span<const void* const>, std::span<void* const> outputs, void*) override {
    if (queue_)
      groups::wait_for(outputs[0], queue_->current_stream(), queue_->is_recording());
    else
      groups::wait_for(outputs[0]);
  }

 private:
  Queue* queue_;
};

template <class Op>
std::unique_ptr<LibraryOp> on_streams(const Attributes& attributes, Queue& queue) {
  return std::make_unique<Op>(attributes, &queue);
}

const DefineLibraryOps kCollectives({{names::kAllReduce, call_site<AllReduce>},
                                     {names::kAllGather, call_site<AllGather>},
                                     {names::kReduceScatter, call_site<ReduceScatter>},
                                     {names::kAllToAll, call_site<AllToAll>},
                                     {names::kBroadcast, call_site<Broadcast>},
                                     {names::kSend, call_site<Send>},
                                     {names::kReceive, call_site<Receive>},
                                     {names::kOneShot, call_site<OneShot>},
                                     {names::kTwoShot, call_site<TwoShot>},
                                     {names::kBarrier, call_site<Barrier>},
                                     {names::kWait, call_site<Wait>}});

}  // namespace

std::vector<std::pair<std::string_view, QueueLibraryFactory>> collectives_on_streams() {
  return {{names::kAllReduce, on_streams<AllReduce>},
          {names::kAllGather, on_streams<AllGather>},
          {names::kReduceScatter, on_streams<ReduceScatter>},
          {names::kAllToAll, on_streams<AllToAll>},
          {names::kBroadcast, on_streams<Broadcast>},
          {names::kSend, on_streams<Send>},
          {names::kReceive, on_streams<Receive>},
          {names::kWait, on_streams<Wait>}};
}

}  // namespace coil::runtime
