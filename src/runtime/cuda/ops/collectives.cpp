// Collectives on CUDA, and sums over communication buffers: kernels over memory that the ranks map, or NCCL where they
// map none.
#include "runtime/cuda/groups/peer_sums.h"

#include "library_ops/collectives.h"
#include "runtime/cuda/ops/staging.h"
#include "runtime/device/library.h"
#include "runtime/groups/groups.h"
#include "runtime/ops/collectives.h"
#include "runtime/views/strided_copy.h"
#include "support/error.h"

namespace coil::runtime::cuda {
namespace {

namespace names = library_ops::collectives;

/// Tells of a rank that did not come to a sum, or came to another one, which kernels write to a word that the host
/// sees.
class PeerFailures final : public QueueWatcher {
 public:
  PeerFailures(std::string what, std::string group, const std::int64_t* word)
      : what_(std::move(what)), group_(std::move(group)), word_(word) {}
  void launched(void*) override { check(); }
  void check() override {
    const auto found = PeerFailure::of(static_cast<std::uint64_t>(*static_cast<const volatile std::int64_t*>(word_)));
    if (!found) return;
    const groups::Meeting meeting = groups::meeting(group_);
    if (found->is_at_another)
      fail(
          "a sum of {} elements in process group '{}' failed on rank {}: rank {} is at another sum, of {} elements; "
          "all ranks have to carry out the same sums in the same order",
          found->own_elements, meeting.name, meeting.rank, found->rank, found->its_elements);
    fail("{} in process group '{}' failed on rank {}: rank {} is gone, or more than {} s late", what_, meeting.name,
         meeting.rank, found->rank, std::chrono::duration<double>(meeting.timeout).count());
  }

 private:
  std::string what_, group_;
  const std::int64_t* word_;
};

/// What sums over a communication buffer have in common.
class OverPeers : public LibraryOp {
 public:
  /// `what`: that failures are told of.
  OverPeers(std::string_view op, std::string_view what, const Attributes& a, Queue& queue)
      : op_(op), what_(what), group_(read(a, names::kGroup)), queue_(static_cast<CudaQueue&>(queue)) {}

  /// All of a queue's sums touch the same scratch memory: so none of them is recorded beside another, which would mix
  /// up their signals.
  std::size_t workspace_bytes() const override { return 1; }
  bool runs_when_empty() const override { return false; }

 protected:
  void expect_dense(const BoundView& v) const {
    if (numel(v.sizes) > 0 && !same_layout(v.sizes, v.strides, contiguous_strides(v.sizes)))
      fail("{} takes dense, row-major tensors", op_);
  }

  void take(const BoundView& x) {
    x_ = x;
    if (!PeerSums::has(x.dtype)) fail("{} adds no {}", op_, torch_name(x.dtype));
    operand_ = nullptr;
  }

  /// The memory in which the operand lies, and whether ranks share it. `word`: where kernels tell of failures, null
  /// for the memory's own.
  bool find(const void* operand, const std::int64_t* word) {
    if (operand == operand_) return peers_.has_value();
    const auto place = groups::find_symmetric(operand);
    if (!place) fail("{} takes values in a communication buffer, and was given others", op_);
    if (place->memory->bytes() - place->offset < bytes()) fail("{}: the communication buffer is too small", op_);
    memory_ = place->memory;
    offset_ = place->offset;
    operand_ = operand;
    peers_.reset();
    if (!memory_->is_shared()) return false;
    if (memory_->size() > PeerControl::kRanks)
      fail("{} adds over at most {} ranks; compile with --set distribution.one_shot_bytes=0 and two_shot_bytes=0", op_,
           PeerControl::kRanks);
    if (!word) word = memory_->failure();
    failures_ = std::make_shared<PeerFailures>(fmt::format("{} of {} {}", what_, numel(x_.sizes), torch_name(x_.dtype)),
                                               group_, word);
    const auto timeout = std::chrono::nanoseconds(groups::meeting(group_).timeout);
    peers_.emplace(*memory_, word, static_cast<std::uint64_t>(timeout.count()));
    return true;
  }

  /// Before kernels reach other ranks.
  void watch() {
    failures_->check();
    queue_.watch(failures_);
    queue_.in_flight().clear();
  }

  /// Real numbers, and their type.
  std::int64_t count() const { return numel(x_.sizes) * (is_complex(x_.dtype) ? 2 : 1); }
  DType part() const { return x_.dtype == DType::C64 ? DType::F32 : x_.dtype == DType::C128 ? DType::F64 : x_.dtype; }
  std::size_t bytes() const { return static_cast<std::size_t>(numel(x_.sizes)) * size_of(x_.dtype); }

  /// In place, by the group's library.
  void add_up_by_group(void* y) {
    if (!joined_) joined_ = groups::group(group_, queue_.device());
    if (auto watcher = std::dynamic_pointer_cast<QueueWatcher>(joined_)) queue_.watch(watcher);
    joined_->order_behind(queue_.stream(), queue_.is_recording());
    joined_->all_reduce(y, {x_.dtype, numel(x_.sizes)}, "sum")->wait_on(queue_.stream(), queue_.is_recording());
  }

  std::string op_, what_, group_;
  CudaQueue& queue_;
  BoundView x_;
  std::shared_ptr<groups::SymmetricMemory> memory_;
  std::size_t offset_ = 0;
  std::optional<PeerMemory> peers_;

 private:
  const void* operand_ = nullptr;
  std::shared_ptr<PeerFailures> failures_;
  std::shared_ptr<groups::ProcessGroup> joined_;
};

class PeerSum : public OverPeers {
 public:
  PeerSum(std::string_view op, const Attributes& a, Queue& queue, bool in_shares)
      : OverPeers(op, op, a, queue),
        in_shares_(in_shares),
        by_ranks_(read(a, names::kByRanks)),
        failure_(queue_.shared_words(1).data()) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    if (inputs.size() != 1 || outputs.size() != (in_shares_ ? 2U : 1U)) fail("{} takes a tensor and gives one", op_);
    if (inputs[0].dtype != outputs[0].dtype || inputs[0].sizes != outputs[0].sizes)
      fail("{} gives as many elements as it takes, of the same type", op_);
    expect_dense(inputs[0]);
    expect_dense(outputs[0]);
    y_ = outputs[0];
    take(inputs[0]);
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void*) override {
    if (!find(inputs[0], failure_)) {
      queue_.copy(tensor_at(queue_, outputs[0], y_), tensor_at(queue_, inputs[0], x_));
      return add_up_by_group(outputs[0]);
    }
    watch();
    PeerSums& sums = queue_.peer_sums();
    if (in_shares_ && !(by_ranks_ && bytes() <= PeerSums::one_shot_bytes(memory_->size())))
      sums.two_shot(*peers_, offset_, outputs[0], part(), count(), queue_.stream());
    else
      sums.one_shot(*peers_, offset_, outputs[0], part(), count(), queue_.stream());
  }

 private:
  bool in_shares_, by_ranks_;
  const std::int64_t* failure_;
  BoundView y_;
};

class OneShot final : public PeerSum {
 public:
  OneShot(const Attributes& a, Queue& queue) : PeerSum(names::kOneShot, a, queue, false) {}
};

class TwoShot final : public PeerSum {
 public:
  TwoShot(const Attributes& a, Queue& queue) : PeerSum(names::kTwoShot, a, queue, true) {}
};

/// What kernels add up over ranks: whoever reads the operand sends it, and nothing is queued here. An operand that is
/// too large for that in a group of so many ranks is the sum already when they read it.
class BeginPeerSum final : public OverPeers {
 public:
  BeginPeerSum(const Attributes& a, Queue& queue) : OverPeers(names::kBeginPeerSum, "a sum", a, queue) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    if (inputs.size() != 1 || outputs.size() != 2) fail("{} takes a tensor and gives it and a table", op_);
    expect_dense(inputs[0]);
    take(inputs[0]);
    if (bytes() > PeerControl::kSentBytes)
      fail("{} takes at most {} bytes, not {}", op_, PeerControl::kSentBytes, bytes());
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void*) override {
    const bool is_shared = find(inputs[0], nullptr);
    if (outputs[1] != memory_->data() + peer_table_offset(memory_->bytes())) fail("{}: the table lies elsewhere", op_);
    if (!is_shared) return add_up_by_group(outputs[0]);
    watch();
    if (bytes() <= PeerTable::most_sent(memory_->size())) return;
    queue_.peer_sums().one_shot(*peers_, offset_, outputs[0], part(), count(), queue_.stream());
  }
};

/// The host meets the other ranks when the device has done what is queued.
class Barrier final : public LibraryOp {
 public:
  explicit Barrier(Queue& queue) : queue_(queue) {}
  void prepare(std::span<const BoundView> inputs, std::span<const BoundView>) override {
    if (inputs.size() != 1) fail("{} takes one tensor", names::kBarrier);
  }
  bool runs_on_host() const override { return true; }
  void run(std::span<const void* const> inputs, std::span<void* const>, void*) override {
    const auto place = groups::find_symmetric(inputs[0]);
    if (!place) fail("{} takes a communication buffer, and was given other memory", names::kBarrier);
    queue_.wait();
    if (place->memory->is_shared()) place->memory->barrier({std::string(names::kBarrier)});
  }

 private:
  Queue& queue_;
};

const DefineLibraryOps kPeerSums(DeviceType::CUDA, {{names::kOneShot, call_site_on<OneShot>},
                                                    {names::kTwoShot, call_site_on<TwoShot>},
                                                    {names::kBeginPeerSum, call_site_on<BeginPeerSum>},
                                                    {names::kBarrier, call_site_on<Barrier>}});

[[maybe_unused]] const bool kExchanges = [] {
  for (auto& [op, make] : collectives_on_streams()) define_library_op(DeviceType::CUDA, op, std::move(make));
  return true;
}();

}  // namespace
}  // namespace coil::runtime::cuda
