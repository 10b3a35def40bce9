#include "runtime/groups/symmetric.h"

#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "runtime/device/messages.h"
#include "runtime/groups/signal_pads.h"
#include "runtime/groups/stores.h"
#include "support/error.h"
#include "support/hash.h"

namespace coil::runtime::groups {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<DeviceType, SegmentBackend> backends;
  std::map<std::string, std::uint64_t> allocations;  ///< made in each group
  std::set<std::string> warned;                      ///< groups
  std::map<const std::byte*, std::weak_ptr<SymmetricMemory>> places;
  std::mutex making;  ///< held while memory by its plan is made
  std::map<std::pair<std::string, std::string>, std::shared_ptr<SymmetricMemory>> by_plan;  ///< by group and plan
};

/// Never destroyed: allocations may go when the process ends.
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

const SegmentBackend& backend_of(Device device) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto found = r.backends.find(device.type);
  if (found == r.backends.end()) fail("this runtime has no symmetric memory on {}", to_string(device));
  return found->second;
}

/// What a rank tells the others of its allocation.
struct Offer {
  std::string plan, bytes;  ///< the plan's hash
  std::string memory, pad;  ///< handles
  std::string refusal;      ///< why there are none
};

std::string text_of(const Offer& o) {
  return fmt::format("{}\n{}\n{}\n{}\n{}", o.plan, o.bytes, o.memory, o.pad, o.refusal);
}

Offer offer_of(const std::string& text) {
  std::vector<std::string> lines(1);
  for (char c : text) {
    if (c == '\n' && lines.size() < 5)
      lines.emplace_back();
    else
      lines.back() += c;
  }
  lines.resize(5);
  return {lines[0], lines[1], lines[2], lines[3], lines[4]};
}

class Allocation final : public SymmetricMemory {
 public:
  Allocation(Meeting meeting, const SymmetricRequest& request, const std::string& number)
      : meeting_(std::move(meeting)),
        request_(request),
        backend_(backend_of(request.device)),
        host_(backend_of({})),
        store_(with_prefix(meeting_.store, fmt::format("coil/{}/symmetric/{}/", meeting_.name, number))) {
    const Offer mine = offer();
    const std::vector<Offer> all = exchange(mine);
    check_plans(all);
    std::string refusal;
    for (int r = 0; r < size() && refusal.empty(); ++r)
      if (const std::string& why = all[static_cast<std::size_t>(r)].refusal; !why.empty())
        refusal = fmt::format("rank {}: {}", r, why);
    if (refusal.empty()) refusal = map(all);
    if (refusal.empty()) return;
    pads_.reset();
    peers_.clear();
    own_ = backend_.allocate_alone(request.bytes, request.device);
    warn(refusal);
  }

  const std::string& group() const override { return meeting_.name; }
  int rank() const override { return meeting_.rank; }
  int size() const override { return meeting_.size(); }
  std::size_t bytes() const override { return request_.bytes; }
  bool is_shared() const override { return pads_ != nullptr; }
  std::byte* at(int rank) const override {
    if (rank == meeting_.rank) return own_->data();
    return pads_ ? peers_.at(static_cast<std::size_t>(rank))->data() : nullptr;
  }
  void barrier(const Doing& doing) override {
    if (!pads_) fail("the memory of process group '{}' is not shared", group());
    pads_->barrier(doing);
  }

  const std::int64_t* failure() const override { return own_->failure(); }

  void abandon() noexcept override {
    if (pads_) pads_->abandon();
  }

 private:
  Offer offer() {
    Offer mine{.plan = to_hex(hash(request_.plan)), .bytes = std::to_string(request_.bytes)};
    if (!meeting_.shares) {
      mine.refusal = "COIL_GROUP_SHARED says that they are not to";
      return mine;
    }
    try {
      own_ = backend_.allocate(request_.bytes, request_.device);
      own_pad_ = host_.allocate(pad_bytes(), {});
      SignalPads::begin(*own_pad_);
      mine.memory = own_->handle(), mine.pad = own_pad_->handle();
    } catch (const std::exception& e) {
      mine.refusal = e.what();
    }
    return mine;
  }

  /// Sets this rank's `WORD/RANK`, and gets those of all.
  std::vector<std::string> tell(const char* word, const std::string& mine) {
    store_->set(fmt::format("{}/{}", word, rank()), mine);
    std::vector<std::string> all;
    for (int r = 0; r < size(); ++r) {
      try {
        all.push_back(r == rank() ? mine : store_->get(fmt::format("{}/{}", word, r), meeting_.timeout));
      } catch (const std::exception& e) {
        fail("rank {} of process group '{}' did not come to make shared memory with rank {}: {}", r, group(), rank(),
             e.what());
      }
    }
    return all;
  }

  std::vector<Offer> exchange(const Offer& mine) {
    std::vector<Offer> offers;
    for (const std::string& text : tell("offer", text_of(mine))) offers.push_back(offer_of(text));
    return offers;
  }

  /// Every rank looks at all, so that all of them fail.
  void check_plans(const std::vector<Offer>& all) const {
    std::vector<int> others;
    for (int r = 1; r < size(); ++r)
      if (const Offer& o = all[static_cast<std::size_t>(r)]; o.plan != all[0].plan || o.bytes != all[0].bytes)
        others.push_back(r);
    if (others.empty()) return;
    const Offer& other = all[static_cast<std::size_t>(others[0])];
    fail(
        "process group '{}': the communication buffers of rank {} are planned otherwise than those of rank 0 "
        "({} bytes, plan {}; rank 0: {} bytes, plan {}); all ranks must run the same program, compiled by the same "
        "Coil",
        group(), fmt::join(others, ", "), other.bytes, other.plan.substr(0, 8), all[0].bytes, all[0].plan.substr(0, 8));
  }

  /// Maps the others' memory. Returns why that is not possible on all ranks; empty where it is.
  std::string map(const std::vector<Offer>& all) {
    std::vector<std::unique_ptr<Segment>> pads;
    std::string mine;
    try {
      for (int r = 0; r < size(); ++r) {
        const Offer& o = all[static_cast<std::size_t>(r)];
        peers_.push_back(r == rank() ? nullptr : backend_.map(o.memory, request_.bytes, request_.device));
        pads.push_back(r == rank() ? nullptr : host_.map(o.pad, pad_bytes(), {}));
      }
      connect();
    } catch (const std::exception& e) {
      mine = fmt::format("rank {}: {}", rank(), e.what());
    }
    for (const std::string& theirs : tell("mapped", mine))
      if (!theirs.empty()) return theirs;
    own_->mapped_by_all();
    own_pad_->mapped_by_all();
    Meeting at_pads = meeting_;
    at_pads.store = store_;
    pads_ = std::make_unique<SignalPads>(std::move(at_pads), std::move(own_pad_), std::move(pads));
    return {};
  }

  void connect() {
    std::vector<std::byte*> all;
    for (int r = 0; r < size(); ++r)
      all.push_back(r == rank() ? own_->data() : peers_[static_cast<std::size_t>(r)]->data());
    own_->connect(all, rank(), std::chrono::duration_cast<std::chrono::nanoseconds>(meeting_.timeout));
  }

  void warn(const std::string& why) {
    {
      Registry& r = registry();
      const std::lock_guard lock(r.mutex);
      if (!r.warned.insert(group()).second) return;
    }
    runtime::warn(
        fmt::format("the ranks of process group '{}' cannot share memory, so that its sums go through the group's own "
                    "collectives ({})",
                    group(), why));
  }

  Meeting meeting_;
  SymmetricRequest request_;
  const SegmentBackend &backend_, &host_;
  std::shared_ptr<Store> store_;
  std::unique_ptr<Segment> own_, own_pad_;
  std::vector<std::unique_ptr<Segment>> peers_;
  std::unique_ptr<SignalPads> pads_;
};

/// `number`: the ranks find one another's by it.
std::shared_ptr<SymmetricMemory> make(Meeting meeting, const SymmetricRequest& request, const std::string& number) {
  Registry& r = registry();
  auto made = std::make_shared<Allocation>(std::move(meeting), request, number);
  const std::lock_guard lock(r.mutex);
  std::erase_if(r.places, [](const auto& place) { return place.second.expired(); });
  r.places.insert_or_assign(made->data(), made);
  return made;
}

std::shared_ptr<SymmetricMemory> allocate(Meeting meeting, const SymmetricRequest& request) {
  Registry& r = registry();
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(r.mutex);
    number = r.allocations[meeting.name]++;
  }
  return make(std::move(meeting), request, std::to_string(number));
}

/// Ranks need not ask equally often: what one compiles anew another may have already.
std::shared_ptr<SymmetricMemory> find_or_allocate(Meeting meeting, const SymmetricRequest& request) {
  Registry& r = registry();
  const std::lock_guard making(r.making);
  const std::string plan = fmt::format("{} {}", request.bytes, request.plan), number = "plan " + to_hex(hash(plan));
  std::shared_ptr<SymmetricMemory>& kept =
      r.by_plan[{meeting.name, fmt::format("{} {}", to_string(request.device), plan)}];
  if (!kept) kept = make(std::move(meeting), request, number);
  return kept;
}

}  // namespace

void define_segments(DeviceType device, SegmentBackend backend) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.backends.insert_or_assign(device, std::move(backend));
}

std::shared_ptr<SymmetricMemory> allocate_symmetric(const SymmetricRequest& request) {
  Meeting found = meeting(request.group);
  return found.by_plan ? find_or_allocate(std::move(found), request) : allocate(std::move(found), request);
}

void forget_symmetric(std::string_view group) {
  Registry& r = registry();
  const std::lock_guard making(r.making);
  std::erase_if(r.by_plan, [&](const auto& one) { return one.first.first == group; });
}

std::optional<SymmetricPlace> find_symmetric(const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  auto found = r.places.upper_bound(at);
  if (found == r.places.begin()) return std::nullopt;
  --found;
  std::shared_ptr<SymmetricMemory> memory = found->second.lock();
  if (!memory || at >= memory->data() + memory->bytes()) return std::nullopt;
  return SymmetricPlace{memory, static_cast<std::size_t>(at - memory->data())};
}

}  // namespace coil::runtime::groups
