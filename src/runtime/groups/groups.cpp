#include "runtime/groups/groups.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>

#include "runtime/groups/stores.h"
#include "runtime/groups/symmetric.h"
#include "support/error.h"

namespace coil::runtime::groups {
namespace {

constexpr std::string_view kAll = "default";

std::string canonical(std::string_view name) {
  return std::string(name == "0" || name == "default_pg" || name.empty() ? kAll : name);
}

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::int64_t number_of(const char* name, std::int64_t least, std::int64_t most) {
  const auto text = variable(name);
  if (!text)
    fail(
        "the environment has no {}; start the program with coil run --ranks N or torchrun, or set RANK, WORLD_SIZE "
        "and MASTER_ADDR with MASTER_PORT (or COIL_GROUP_STORE)",
        name);
  const auto value = integer(*text);
  if (!value || *value < least || *value > most)
    fail("the environment's {} is '{}', which is no number from {} to {}", name, *text, least, most);
  return *value;
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.emplace_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::shared_ptr<Store> open_store(const World& world) {
  if (world.store.starts_with("file:")) return open_file_store(world.store.substr(5));
  const std::size_t colon = world.store.rfind(':');
  if (world.store.starts_with("tcp:") && colon > 4) {
    constexpr std::int64_t kMaxPort = 65535;
    const auto port = integer(std::string_view(world.store).substr(colon + 1));
    const std::string host = world.store.substr(4, colon - 4);
    if (port && *port > 0 && *port <= kMaxPort)
      return world.serves ? open_tcp_store(host, static_cast<int>(*port), world.rank == 0, world.timeout)
                          : open_held_store(host, static_cast<int>(*port), "attempt " + world.attempt, world.rank,
                                            world.timeout);
  }
  fail("a store is written tcp:HOST:PORT or file:FOLDER, not '{}'", world.store);
}

/// Where the environment says nothing of a world, there is no group.
class Registry {
 public:
  void set_world(World world) {
    const std::lock_guard lock(mutex_);
    if (store_) fail("process groups are in use already");
    check(world);
    world_ = std::move(world);
  }

  void define(const std::string& name, std::vector<int> ranks) {
    const std::lock_guard lock(mutex_);
    add(canonical(name), std::move(ranks));
  }

  /// The members of a group that this process is a member of.
  std::vector<int> require(std::string_view asked, std::int64_t wanted, std::optional<Device> joins) {
    const std::lock_guard lock(mutex_);
    return find(asked, wanted, joins);
  }

  std::shared_ptr<ProcessGroup> get(std::string_view asked, Device device) {
    const std::lock_guard lock(mutex_);
    const std::string name = canonical(asked);
    const std::pair key(name, to_string(device));
    if (const auto found = joined_.find(key); found != joined_.end()) return found->second;
    GroupOptions options = is_outside(name) ? options_of(outside(name)) : options_in_world(find(asked, 0, device));
    if (is_outside(name)) options.calls = calls_.find(name)->second;
    options.name = name;
    options.backend = backend_for(name, device);
    options.device = device;
    return joined_[key] = join(options);
  }

  std::vector<std::shared_ptr<ProcessGroup>> joined(std::string_view asked) {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<ProcessGroup>> found;
    for (const auto& [key, group] : joined_)
      if (key.first == canonical(asked)) found.push_back(group);
    return found;
  }

  Meeting meet(std::string_view asked) {
    const std::lock_guard lock(mutex_);
    if (is_outside(asked)) {
      const OutsideGroup& g = outside(asked);
      return {std::string(asked), g.rank, g.ranks, g.store, g.timeout, g.shares, true, calls_.find(asked)->second};
    }
    const std::vector<int> ranks = find(asked, 0, std::nullopt);
    reach_store();
    const auto place = std::ranges::find(ranks, world().rank) - ranks.begin();
    return {canonical(asked), static_cast<int>(place), ranks, store_, world().timeout, world().shares};
  }

  void define(const std::string& name, OutsideGroup group) {
    std::vector<std::shared_ptr<ProcessGroup>> before;  // ends when the lock is let go of
    const std::lock_guard lock(mutex_);
    std::erase_if(joined_, [&](auto& one) {
      if (one.first.first != name) return false;
      before.push_back(std::move(one.second));
      return true;
    });
    outside_.insert_or_assign(name, std::move(group));
    calls_.insert_or_assign(name, std::make_shared<std::atomic<std::uint64_t>>(0));
  }

  CallCount calls(std::string_view name) {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(name);
    return found == calls_.end() ? nullptr : found->second;
  }

  void abandon() {
    static std::vector<std::shared_ptr<ProcessGroup>>& left = *new std::vector<std::shared_ptr<ProcessGroup>>;
    const std::lock_guard lock(mutex_);
    std::erase_if(joined_, [&](auto& one) {
      if (!is_outside(one.first.first)) return false;
      left.push_back(std::move(one.second));
      return true;
    });
    outside_.clear();
    calls_.clear();
  }

 private:
  const OutsideGroup& outside(std::string_view name) const {
    const auto found = outside_.find(name);
    if (found == outside_.end()) fail("process group '{}': nobody has made it in this process", name);
    return found->second;
  }

  static GroupOptions options_of(const OutsideGroup& g) {
    GroupOptions options;
    options.rank = g.rank;
    options.ranks = g.ranks;
    options.store = g.store;
    options.address = g.address;
    options.timeout = g.timeout;
    options.agreed = true;
    return options;
  }

  GroupOptions options_in_world(std::vector<int> ranks) {
    const World& w = world();
    reach_store();
    GroupOptions options;
    options.rank = static_cast<int>(std::ranges::find(ranks, w.rank) - ranks.begin());
    options.ranks = std::move(ranks);
    options.store = store_;
    options.address = !w.address.empty() ? w.address : store_->local_address();
    if (options.address.empty()) options.address = "127.0.0.1";
    options.timeout = w.timeout;
    return options;
  }

  void reach_store() {
    if (!store_) store_ = open_store(world());
  }

  std::string backend_for(std::string_view name, Device device) {
    if (!device.is_host()) return backend_of(device.type);
    return is_outside(name) ? "gloo" : world().backend;
  }

  static void check(const World& world) {
    if (world.size < 1 || world.rank < 0 || world.rank >= world.size)
      fail("rank {} of {} processes", world.rank, world.size);
  }

  const World& world() {
    if (!world_) world_ = world_of_environment();
    return *world_;
  }

  void add(const std::string& name, std::vector<int> ranks) {
    if (name == kAll) fail("the process group '{}' is that of all processes", name);
    for (int r : ranks)
      if (r < 0 || r >= world().size) fail("process group '{}' has rank {}, of {} processes", name, r, world().size);
    std::vector<int> sorted = ranks;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end() || ranks.empty())
      fail("process group '{}' has {}", name, ranks.empty() ? "no members" : "a member twice");
    const auto [found, added] = members_.try_emplace(name, ranks);
    if (!added && found->second != ranks) fail("process group '{}' is there already, with other members", name);
  }

  /// `1=0,2;2=1,3`
  void read_environment() {
    if (std::exchange(has_read_, true)) return;
    const auto text = variable("COIL_GROUPS");
    if (!text) return;
    for (const std::string& group : split(*text, ';')) {
      const std::size_t equals = group.find('=');
      if (equals == group.npos)
        fail("the environment's COIL_GROUPS has '{}', which is not written NAME=RANK,RANK", group);
      std::vector<int> ranks;
      for (const std::string& rank : split(std::string_view(group).substr(equals + 1), ',')) {
        const auto value = integer(rank);
        if (!value) fail("the environment's COIL_GROUPS has '{}' for a rank", rank);
        ranks.push_back(static_cast<int>(*value));
      }
      add(canonical(group.substr(0, equals)), std::move(ranks));
    }
  }

  /// `joins`: the group's backend for this device is needed.
  std::vector<int> find(std::string_view asked, std::int64_t wanted, std::optional<Device> joins) try {
    const std::string name = canonical(asked);
    const World& w = world();
    read_environment();
    std::vector<int> ranks(static_cast<std::size_t>(w.size));
    std::iota(ranks.begin(), ranks.end(), 0);
    if (name != kAll) {
      const auto found = members_.find(name);
      if (found == members_.end())
        fail("there is none of this name; name its members in COIL_GROUPS, or by coil_group_define");
      ranks = found->second;
    }
    if (std::ranges::find(ranks, w.rank) == ranks.end())
      fail("this process, rank {}, is none of its members (ranks {})", w.rank, fmt::join(ranks, ", "));
    if (wanted > 0 && static_cast<std::size_t>(wanted) != ranks.size())
      fail("the program was exported for {} ranks, but there are {}", wanted, ranks.size());
    if (joins) check_backend(backend_for(name, *joins));
    return ranks;
  } catch (const Error& e) {
    fail("process group '{}': {}", asked, e.what());
  }

  std::mutex mutex_;
  std::optional<World> world_;
  std::map<std::string, std::vector<int>, std::less<>> members_;
  std::map<std::string, OutsideGroup, std::less<>> outside_;
  std::map<std::string, CallCount, std::less<>> calls_;                                  ///< of the same
  std::map<std::pair<std::string, std::string>, std::shared_ptr<ProcessGroup>> joined_;  ///< by name and device
  std::shared_ptr<Store> store_;
  bool has_read_ = false;
};

/// Never destroyed: at the end of the process other ranks may still be reading what this one has sent.
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

}  // namespace

World world_of_environment() {
  constexpr std::int64_t kMany = 1 << 20, kMaxPort = 65535, kLong = 1'000'000;
  World world;
  world.size = static_cast<int>(number_of("WORLD_SIZE", 1, kMany));
  world.rank = static_cast<int>(number_of("RANK", 0, world.size - 1));
  if (const auto store = variable("COIL_GROUP_STORE")) {
    world.store = *store;
  } else {
    const auto host = variable("MASTER_ADDR");
    if (!host) fail("the environment has neither MASTER_ADDR nor COIL_GROUP_STORE, which tell where processes meet");
    world.store = fmt::format("tcp:{}:{}", *host, number_of("MASTER_PORT", 1, kMaxPort));
    world.serves = variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") != "True";
    world.attempt = variable("TORCHELASTIC_RESTART_COUNT").value_or("0");
  }
  if (const auto backend = variable("COIL_GROUP_BACKEND")) world.backend = *backend;
  world.shares = variable("COIL_GROUP_SHARED").value_or("1") != "0";
  if (const auto address = variable("COIL_GROUP_ADDRESS")) world.address = *address;
  if (variable("COIL_GROUP_TIMEOUT")) world.timeout = std::chrono::seconds(number_of("COIL_GROUP_TIMEOUT", 1, kLong));
  return world;
}

void set_world(World world) { registry().set_world(std::move(world)); }
void define_group(const std::string& name, std::vector<int> ranks) { registry().define(name, std::move(ranks)); }
bool is_outside(std::string_view name) { return name.starts_with(kOutside); }
void define_outside(const std::string& name, OutsideGroup group) {
  forget_symmetric(name);
  registry().define(name, std::move(group));
}
void abandon_outside_groups() { registry().abandon(); }
CallCount calls_of(std::string_view name) { return registry().calls(name); }
void require_group(std::string_view name, std::int64_t ranks, Device device) {
  registry().require(name, ranks, device);
}
void require_member(std::string_view name) { registry().require(name, 0, std::nullopt); }
std::shared_ptr<ProcessGroup> group(std::string_view name, Device device) { return registry().get(name, device); }

void abandon(std::string_view name) noexcept try {
  for (const auto& group : registry().joined(name)) group->abandon();
} catch (const std::exception&) {
  // The store is gone, and so the other ranks will not come either.
}

Device device_of_rank(Device device) {
  constexpr std::int64_t kMany = 1 << 20;
  if (device.is_host() || device.index != 0 || !variable("LOCAL_RANK")) return device;
  // A process that sees one device has been given its own.
  if (const auto seen = variable("CUDA_VISIBLE_DEVICES"); seen && seen->find(',') == seen->npos) return device;
  device.index = static_cast<int>(number_of("LOCAL_RANK", 0, kMany));
  return device;
}

Meeting meeting(std::string_view name) { return registry().meet(name); }

}  // namespace coil::runtime::groups
