#include "codegen/cuda/together.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "codegen/cuda/dialect.h"

namespace coil::codegen {
namespace {

constexpr int kMostThreads = 1024;             // of a block
constexpr std::int64_t kMostBeside = 1 << 14;  // threads of a kernel beside others: more fill the machine alone
constexpr std::int64_t kMostTurns = 2;         // of a block over the threads of one of its kernels
constexpr std::int64_t kFewThreads = 128;      // of a block that may take more turns, most of which have nothing to do
constexpr std::int64_t kMostTurnsOfFew = 8;
constexpr std::size_t kMostMembers = 16;
constexpr std::size_t kMostPointers = 480;  // of a launch: what fits into 4 KiB of arguments

/// What a kernel's text asks of the threads that run it.
enum class Team {
  Warps,      ///< whole warps, of whatever block
  Block,      ///< as many threads as its own block has, which wait for one another where its text says so
  WholeBlock  ///< the same, but functions of the device's library wait for all threads of the block
};

// What says more of a kernel's place than its block's number and its threads': functions of the device's library that
// ask for it themselves, other dimensions of the grid, blocks that count or wait for others.
constexpr std::string_view kPlaced[] = {"blockIdx.y", "blockIdx.z",  "gridDim",       "c_blocks",        "c_count(",
                                        "c_sum_turn", "c_attention", "c_product(",    "c_grouped",       "c_thin_",
                                        "c_streamed", "c_blocked_",  "c_convolution", "c_fourier",       "c_radix_",
                                        "c_digit_",   "c_merge<",    "c_cluster",     "C_DYNAMIC_SHARED"};

constexpr std::int64_t kMostShared = 24 << 10;  // bytes that kernels in one text declare as shared, each for itself
constexpr std::int64_t kUnknownBytes = 32;      // of an element, at most

std::int64_t bytes_of_element(std::string_view type) {
  for (const auto& [name, bytes] : {std::pair{"8", 1}, {"16", 2}, {"32", 4}, {"64", 8}})
    if (type.size() > 1 && type.substr(1) == name) return bytes;
  return kUnknownBytes;
}

/// How many elements the rest of one declaration has, as of `name[2][8 * 256], other`.
std::int64_t elements_of(std::string_view declared) {
  std::int64_t all = 0, one = 1, number = 0;
  bool inside = false;
  for (const char c : declared) {
    if (c == ',' && !inside) all += std::exchange(one, 1);
    if (c == '[') inside = true;
    if (inside && c >= '0' && c <= '9') number = number * 10 + (c - '0');
    if (inside && (c == '*' || c == ']') && number > 0) one *= std::exchange(number, 0);
    if (c == ']') inside = false;
  }
  return all + one;
}

/// Bytes of shared memory that a kernel's text declares, or somewhat more.
std::int64_t shared_bytes(std::string_view body) {
  const std::string_view word = cuda_dialect().shared;
  std::int64_t all = 0;
  for (std::size_t at = body.find(word); at != std::string_view::npos; at = body.find(word, at + 1)) {
    const std::string_view rest = body.substr(at + word.size() + 1), declared = rest.substr(0, rest.find(';'));
    const std::size_t name = declared.find(' ');
    all += bytes_of_element(declared.substr(0, name)) * elements_of(declared.substr(std::min(name, declared.size())));
  }
  return all;
}

bool says(const KernelParts& k, std::string_view word) { return k.body.find(word) != std::string::npos; }

/// Nothing of a kernel that only its own launch can run.
std::optional<Team> team_of(const MemberKernel& k) {
  const SymbolicLaunch& l = *k.launch;
  const bool plain = l.grid.size() == 3 && l.grid[0].is_constant() && l.grid[1].is_constant(1) &&
                     l.grid[2].is_constant(1) && l.cluster == 1 && l.maps.empty() && l.shared_bytes.is_constant(0);
  if (!plain || *l.grid[0].constant() < 1 || l.block % 32 != 0) return std::nullopt;
  if (std::ranges::any_of(kPlaced, [&](std::string_view word) { return says(*k.parts, word); })) return std::nullopt;
  if (k.parts->parameters.size() <= k.buffers) return std::nullopt;  // its pointers come as a table
  if (says(*k.parts, "c_sort<")) return Team::WholeBlock;
  return says(*k.parts, "c_sync(") || says(*k.parts, cuda_dialect().shared) ? Team::Block : Team::Warps;
}

std::int64_t blocks_of(const MemberKernel& k) { return *k.launch->grid[0].constant(); }
std::int64_t threads_of(const MemberKernel& k) { return blocks_of(k) * k.launch->block; }

/// Each has blocks of its own, as large as the largest.
std::optional<SymbolicLaunch> beside(std::span<const MemberKernel> members) {
  SymbolicLaunch launch{.grid = {0, 1, 1}, .block = 0};
  std::int64_t blocks = 0;
  for (const MemberKernel& k : members) {
    if (threads_of(k) > kMostBeside) return std::nullopt;
    launch.block = std::max(launch.block, k.launch->block);
    blocks += blocks_of(k);
  }
  launch.grid[0] = blocks;
  for (const MemberKernel& k : members)
    if (team_of(k) == Team::WholeBlock && k.launch->block != launch.block) return std::nullopt;
  return launch;
}

/// The threads of the one block that runs all in turn.
int threads_in_turn(std::span<const MemberKernel> members) {
  std::int64_t needed = 0;
  for (const MemberKernel& k : members) {
    if (team_of(k) == Team::WholeBlock) return k.launch->block;
    needed = std::max<std::int64_t>(needed, team_of(k) == Team::Block ? k.launch->block : threads_of(k));
  }
  return static_cast<int>(std::min<std::int64_t>(needed, kMostThreads));
}

std::optional<SymbolicLaunch> in_turn(std::span<const MemberKernel> members) {
  const int threads = threads_in_turn(members);
  const std::int64_t turns = threads <= kFewThreads ? kMostTurnsOfFew : kMostTurns;
  for (const MemberKernel& k : members) {
    const Team team = *team_of(k);
    if (team == Team::Warps ? threads_of(k) > turns * threads : blocks_of(k) > 1) return std::nullopt;
    if (team == Team::Block && k.launch->block > threads) return std::nullopt;
    if (team == Team::WholeBlock && k.launch->block != threads) return std::nullopt;
  }
  return SymbolicLaunch{.grid = {1, 1, 1}, .block = threads};
}

bool any_waits(std::span<const MemberKernel> members) { return std::ranges::any_of(members, &MemberKernel::waits); }

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

/// Writes the body of the kernel that does what its members do.
class Writer {
 public:
  Writer(std::span<const MemberKernel> members, const SymbolicLaunch& launch) : members_(members), launch_(launch) {}

  KernelParts write() {
    KernelParts out{.qualifiers = fmt::format("__global__ void __launch_bounds__({})", launch_.block)};
    std::size_t pointers = 0;
    for (const MemberKernel& k : members_) pointers += k.buffers;
    out.parameters.push_back({fmt::format("const __grid_constant__ c_table<{}>", pointers), "table"});
    for (const MemberKernel& k : members_)
      for (std::size_t n = k.buffers; n + 1 < k.parts->parameters.size(); ++n)
        out.parameters.push_back({k.parts->parameters[n].type, fmt::format("m{}", out.parameters.size() - 1)});
    out.parameters.push_back({"i64*", "status"});
    for (const MemberKernel& k : members_) body_ += any_waits(members_) ? turn_of(k) : blocks_of_its_own(k);
    out.body = std::move(body_);
    return out;
  }

 private:
  /// The member as a function `run` of the places of a block and of a thread in it.
  std::string function_of(const MemberKernel& k) {
    std::string out = "    const auto run = [&](const u32 block_at, const u32 thread_at) {\n";
    for (std::size_t n = 0; n + 1 < k.parts->parameters.size(); ++n) {
      const Parameter& p = k.parts->parameters[n];
      if (n < k.buffers)
        out += fmt::format("  {0} const {1} = ({0})table.p[{2}];\n", p.type, p.name, pointer_++);
      else
        out += fmt::format("  const {} {} = m{};\n", p.type, p.name, scalar_++);
    }
    std::string body = k.parts->body;
    replace_all(body, cuda_dialect().block, "block_at");
    replace_all(body, cuda_dialect().thread, "thread_at");
    if (team_of(k) == Team::Block && k.launch->block < launch_.block)
      replace_all(body, "c_sync()", fmt::format("c_sync_first<{}>()", k.launch->block));
    return out + body + "    };\n";
  }

  std::string blocks_of_its_own(const MemberKernel& k) {
    const std::int64_t first = std::exchange(next_block_, next_block_ + blocks_of(k));
    return fmt::format(
        "  if (blockIdx.x >= {} && blockIdx.x < {}) {{\n{}    if (threadIdx.x < {}) run(blockIdx.x - {}, "
        "threadIdx.x);\n    return;\n  }}\n",
        first, next_block_, function_of(k), k.launch->block, first);
  }

  std::string turn_of(const MemberKernel& k) {
    std::string out = k.waits ? "  c_sync();\n  {\n" : "  {\n";
    out += function_of(k);
    if (team_of(k) == Team::Warps)
      out += fmt::format("    for (u32 n = threadIdx.x; n < {}; n += {}) run(n / {}, n % {});\n", threads_of(k),
                         launch_.block, k.launch->block, k.launch->block);
    else
      out += fmt::format("    if (threadIdx.x < {}) run(0, threadIdx.x);\n", k.launch->block);
    return out + "  }\n";
  }

  std::span<const MemberKernel> members_;
  const SymbolicLaunch& launch_;
  std::string body_;
  std::size_t pointer_ = 0, scalar_ = 0;
  std::int64_t next_block_ = 0;
};

}  // namespace

std::optional<SymbolicLaunch> launch_cuda_kernels_together(std::span<const MemberKernel> members) {
  if (members.size() > kMostMembers) return std::nullopt;
  std::size_t pointers = 0;
  std::int64_t shared = 0;
  for (const MemberKernel& k : members) {
    if (!team_of(k)) return std::nullopt;
    pointers += k.buffers + k.parts->parameters.size();
    shared += shared_bytes(k.parts->body);
  }
  if (pointers > kMostPointers || shared > kMostShared) return std::nullopt;
  return any_waits(members) ? in_turn(members) : beside(members);
}

KernelParts put_cuda_kernels_together(std::span<const MemberKernel> members, const SymbolicLaunch& launch) {
  return Writer(members, launch).write();
}

}  // namespace coil::codegen
