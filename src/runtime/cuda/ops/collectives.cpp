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

class PeerSum : public LibraryOp {
 public:
  PeerSum(std::string_view op, const Attributes& a, Queue& queue, bool in_shares)
      : op_(op),
        group_(read(a, names::kGroup)),
        in_shares_(in_shares),
        by_ranks_(read(a, names::kByRanks)),
        queue_(static_cast<CudaQueue&>(queue)),
        failure_(queue.shared_words(1).data()) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    if (inputs.size() != 1 || outputs.size() != (in_shares_ ? 2U : 1U)) fail("{} takes a tensor and gives one", op_);
    if (inputs[0].dtype != outputs[0].dtype || inputs[0].sizes != outputs[0].sizes)
      fail("{} gives as many elements as it takes, of the same type", op_);
    for (const BoundView* v : {&inputs[0], &outputs[0]})
      if (numel(v->sizes) > 0 && !same_layout(v->sizes, v->strides, contiguous_strides(v->sizes)))
        fail("{} takes dense, row-major tensors", op_);
    x_ = inputs[0], y_ = outputs[0];
    if (!PeerSums::has(x_.dtype)) fail("{} adds no {}", op_, torch_name(x_.dtype));
    operand_ = nullptr;
  }

  /// All of a queue's sums touch the same scratch memory: so none of them is recorded beside another, which would mix
  /// up their signals.
  std::size_t workspace_bytes() const override { return 1; }
  bool runs_when_empty() const override { return false; }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void*) override {
    if (inputs[0] != operand_) find(inputs[0]);
    if (!peers_) return by_group(inputs[0], outputs[0]);
    failures_->check();
    queue_.watch(failures_);
    queue_.in_flight().clear();
    PeerSums& sums = queue_.peer_sums();
    const std::int64_t count = numel(x_.sizes) * (is_complex(x_.dtype) ? 2 : 1);
    const DType part = x_.dtype == DType::C64 ? DType::F32 : x_.dtype == DType::C128 ? DType::F64 : x_.dtype;
    const std::size_t bytes = static_cast<std::size_t>(numel(x_.sizes)) * size_of(x_.dtype);
    if (in_shares_ && !(by_ranks_ && bytes <= PeerSums::one_shot_bytes(memory_->size())))
      sums.two_shot(*peers_, offset_, outputs[0], part, count, queue_.stream());
    else
      sums.one_shot(*peers_, offset_, outputs[0], part, count, queue_.stream());
  }

 private:
  void find(const void* operand) {
    const auto place = groups::find_symmetric(operand);
    if (!place) fail("{} takes values in a communication buffer, and was given others", op_);
    const auto bytes = static_cast<std::size_t>(numel(x_.sizes)) * size_of(x_.dtype);
    if (place->memory->bytes() - place->offset < bytes) fail("{}: the communication buffer is too small", op_);
    memory_ = place->memory;
    offset_ = place->offset;
    operand_ = operand;
    peers_.reset();
    failures_ = std::make_shared<PeerFailures>(fmt::format("{} of {} {}", op_, numel(x_.sizes), torch_name(x_.dtype)),
                                               group_, failure_);
    if (!memory_->is_shared()) return;
    if (memory_->size() > PeerControl::kRanks)
      fail("{} adds over at most {} ranks; compile with --set distribution.one_shot_bytes=0 and two_shot_bytes=0", op_,
           PeerControl::kRanks);
    const auto timeout = std::chrono::nanoseconds(groups::meeting(group_).timeout);
    peers_.emplace(*memory_, failure_, static_cast<std::uint64_t>(timeout.count()));
  }

  void by_group(const void* x, void* y) {
    if (!joined_) joined_ = groups::group(group_, queue_.device());
    if (auto watcher = std::dynamic_pointer_cast<QueueWatcher>(joined_)) queue_.watch(watcher);
    queue_.copy(tensor_at(queue_, y, y_), tensor_at(queue_, x, x_));
    joined_->order_behind(queue_.stream(), queue_.is_recording());
    joined_->all_reduce(y, {x_.dtype, numel(x_.sizes)}, "sum")->wait_on(queue_.stream(), queue_.is_recording());
  }

  std::string op_, group_;
  bool in_shares_, by_ranks_;
  CudaQueue& queue_;
  std::int64_t* failure_;
  BoundView x_, y_;
  const void* operand_ = nullptr;
  std::shared_ptr<groups::SymmetricMemory> memory_;
  std::size_t offset_ = 0;
  std::optional<PeerMemory> peers_;
  std::shared_ptr<PeerFailures> failures_;
  std::shared_ptr<groups::ProcessGroup> joined_;
};

class OneShot final : public PeerSum {
 public:
  OneShot(const Attributes& a, Queue& queue) : PeerSum(names::kOneShot, a, queue, false) {}
};

class TwoShot final : public PeerSum {
 public:
  TwoShot(const Attributes& a, Queue& queue) : PeerSum(names::kTwoShot, a, queue, true) {}
};

/// What kernels add up over ranks. Where ranks share memory nothing is queued: whoever reads the operand exchanges it.
class BeginPeerSum final : public LibraryOp {
 public:
  BeginPeerSum(const Attributes& a, Queue& queue)
      : group_(read(a, names::kGroup)), queue_(static_cast<CudaQueue&>(queue)) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    if (inputs.size() != 1 || outputs.size() != 2) fail("{} takes a tensor and gives it and a table", kName);
    x_ = inputs[0];
    if (numel(x_.sizes) > 0 && !same_layout(x_.sizes, x_.strides, contiguous_strides(x_.sizes)))
      fail("{} takes a dense, row-major tensor", kName);
    if (bytes() > PeerControl::kSentBytes)
      fail("{} takes at most {} bytes, not {}", kName, PeerControl::kSentBytes, bytes());
    operand_ = nullptr;
  }
  bool runs_when_empty() const override { return false; }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void*) override {
    if (inputs[0] != operand_) find(inputs[0], outputs[1]);
    if (!memory_->is_shared()) return by_group(outputs[0]);
    failures_->check();
    queue_.watch(failures_);
    queue_.in_flight().clear();
  }

 private:
  static constexpr std::string_view kName = names::kBeginPeerSum;
  std::size_t bytes() const { return static_cast<std::size_t>(numel(x_.sizes)) * size_of(x_.dtype); }

  void find(const void* operand, const void* table) {
    const auto place = groups::find_symmetric(operand);
    if (!place) fail("{} takes values in a communication buffer, and was given others", kName);
    memory_ = place->memory;
    if (memory_->bytes() - place->offset < bytes()) fail("{}: the communication buffer is too small", kName);
    if (table != memory_->data() + peer_table_offset(memory_->bytes())) fail("{}: the table lies elsewhere", kName);
    operand_ = operand;
    if (!memory_->is_shared()) return;
    if (memory_->size() > PeerControl::kRanks)
      fail("{} is of at most {} ranks; compile with --set distribution.fuse_sums=false", kName, PeerControl::kRanks);
    failures_ = std::make_shared<PeerFailures>(fmt::format("a sum of {} {}", numel(x_.sizes), torch_name(x_.dtype)),
                                               group_, memory_->failure());
  }

  void by_group(void* x) {
    if (!joined_) joined_ = groups::group(group_, queue_.device());
    if (auto watcher = std::dynamic_pointer_cast<QueueWatcher>(joined_)) queue_.watch(watcher);
    joined_->order_behind(queue_.stream(), queue_.is_recording());
    joined_->all_reduce(x, {x_.dtype, numel(x_.sizes)}, "sum")->wait_on(queue_.stream(), queue_.is_recording());
  }

  std::string group_;
  CudaQueue& queue_;
  BoundView x_;
  const void* operand_ = nullptr;
  std::shared_ptr<groups::SymmetricMemory> memory_;
  std::shared_ptr<PeerFailures> failures_;
  std::shared_ptr<groups::ProcessGroup> joined_;
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
